//! Requirements on how a client authenticates at the token endpoint.

use mainstay_oauth::{
    ClientError, LoginError, LoginGrant, LoginRecord, Renewal, TokenError, revocation_requests,
};
use serde_json::json;

use crate::registration::{configured, key, metadata};
use crate::support::{ISSUER, REGISTER, Script, Sent, TOKEN, options, with_context};

const DEVICE: &str = "https://auth.example.com/device";

#[test]
fn a_configured_secret_goes_where_the_server_accepts_it() {
    for (accepted, basic, post) in [
        (json!(null), true, false),
        (json!(["client_secret_basic", "client_secret_post"]), false, true),
        (json!(["client_secret_basic"]), true, false),
        (json!(["client_secret_post"]), false, true),
        (json!(["none"]), false, false),
    ] {
        let mut script = metadata(json!({"token_endpoint_auth_methods_supported": accepted}));
        script.run(configured(Some("s p+"))).unwrap();
        let request = script.only(TOKEN);
        let form = request.form();
        let header = "Basic bWluZTpzK3AlMkI=";
        assert_eq!(
            request.authorization.as_deref(),
            basic.then_some(header),
            "{accepted}"
        );
        assert_eq!(
            !form.contains_key("client_id"),
            basic,
            "Basic names the client in the header alone"
        );
        assert_eq!(
            form.get("client_secret").map(String::as_str),
            post.then_some("s p+")
        );
    }
    let mut script = metadata(json!({"token_endpoint_auth_methods_supported": ["tls_client_auth"]}));
    let error = script.run(configured(Some("s"))).unwrap_err();
    assert!(
        matches!(error, LoginError::Client(ClientError::NoCommonMethod { .. })),
        "{error}"
    );
}

/// How a request authenticates its client: header, ID in the body, secret in the body.
fn authentication(request: &Sent) -> (bool, bool, bool) {
    let form = request.form();
    let has = |name: &str| form.contains_key(name);
    (
        request.authorization.is_some(),
        has("client_id"),
        has("client_secret"),
    )
}

const BASIC: (bool, bool, bool) = (true, false, false);
const BASIC_WITH_ID: (bool, bool, bool) = (true, true, false);
const POST: (bool, bool, bool) = (false, true, true);

#[test]
fn a_client_that_is_refused_authenticates_once_in_each_other_way_that_the_server_accepts() {
    let both = json!(["client_secret_basic", "client_secret_post"]);
    for (accepted, tried) in [
        (json!(null), vec![BASIC, BASIC_WITH_ID, POST]),
        (both, vec![POST, BASIC, BASIC_WITH_ID]),
        (json!(["client_secret_basic"]), vec![BASIC, BASIC_WITH_ID]),
        (json!(["client_secret_post"]), vec![POST]),
        (json!(["none"]), vec![(false, true, false)]),
    ] {
        for (status, code) in [
            (401, "invalid_client"),
            (400, "invalid_request"),
            (401, "unauthorized_client"),
            (401, "x"),
        ] {
            let mut script = metadata(json!({"token_endpoint_auth_methods_supported": accepted}))
                .answer(
                    TOKEN,
                    status,
                    &json!({"error": code, "error_description": "first"}),
                )
                .then(
                    TOKEN,
                    401,
                    &json!({"error": "invalid_client", "error_description": "later"}),
                );
            let error = script.run(configured(Some("s"))).unwrap_err().to_string();
            let requests = script.sent_to(TOKEN);
            let seen: Vec<_> = requests.iter().map(|sent| authentication(sent)).collect();
            assert_eq!(seen, tried, "{accepted} {code}");
            assert!(
                requests.iter().all(|sent| sent.form()["code"] == "c1"),
                "the same code"
            );
            assert!(error.contains("first"), "{error}");
        }
    }
}

#[test]
fn a_refused_code_is_not_sent_again() {
    for (status, code) in [(400, "invalid_grant"), (400, "invalid_target"), (503, "x")] {
        let mut script = metadata(json!({"token_endpoint_auth_methods_supported": null})).answer(
            TOKEN,
            status,
            &json!({"error": code}),
        );
        script.run(configured(Some("s"))).unwrap_err();
        script.only(TOKEN);
    }
    // The client was accepted at last, so its refused code is what counts.
    let mut script = metadata(json!({"token_endpoint_auth_methods_supported": null}))
        .answer(TOKEN, 401, &json!({"error": "invalid_client"}))
        .then(TOKEN, 400, &json!({"error": "invalid_grant"}));
    let error = script.run(configured(Some("s"))).unwrap_err();
    assert!(
        matches!(error, LoginError::Token(TokenError::InvalidGrant { .. })),
        "{error}"
    );
}

#[test]
fn the_way_that_the_server_took_is_that_of_every_later_request() {
    let tokens = json!({"access_token": "at1", "refresh_token": "rt1"});
    let refused = json!({"error": "invalid_client", "error_description": "Missing client_id"});
    let mut script = metadata(json!({"token_endpoint_auth_methods_supported": ["client_secret_basic"]}))
        .answer(REGISTER, 201, &json!({"client_id": "c", "client_secret": "s"}))
        .answer(TOKEN, 401, &refused)
        .then(TOKEN, 200, &tokens);
    let completed = script.run(options()).unwrap();
    // As it is stored and read again.
    let text = serde_json::to_string(&completed.record).unwrap();
    let record: LoginRecord = serde_json::from_str(&text).unwrap();
    let registrations = [completed.registration.unwrap()];
    let client = record.client(&options().client, &registrations).unwrap();
    let renewal = with_context(|context| Renewal::start(record.clone(), client.as_ref(), context));
    assert_eq!(authentication(&Sent::of(&renewal.unwrap().1)), BASIC_WITH_ID);
    let revocations = with_context(|context| revocation_requests(&record, client.as_ref(), context));
    for request in revocations.unwrap() {
        assert_eq!(authentication(&Sent::of(&request)), BASIC_WITH_ID);
    }
    // Records without the member are those of before.
    let before = serde_json::to_value(stored_login()).unwrap();
    assert_eq!(before.get("id_in_body"), None);
}

fn stored_login() -> LoginRecord {
    Script::usual().run(options()).unwrap().record
}

#[test]
fn a_device_that_is_refused_authenticates_in_the_other_ways_too() {
    let prompt =
        json!({"device_code": "d", "user_code": "u", "verification_uri": "https://auth.example.com/d"});
    let refused = json!({"error": "invalid_client"});
    let mut options = configured(Some("s"));
    options.grant = LoginGrant::Device;
    let mut script = metadata(json!({"token_endpoint_auth_methods_supported": null}))
        .answer(DEVICE, 401, &refused)
        .then(DEVICE, 200, &prompt)
        .answer(TOKEN, 401, &refused)
        .then(TOKEN, 200, &json!({"access_token": "at1"}));
    script.run(options).unwrap();
    let seen = |place| -> Vec<_> { script.sent_to(place).into_iter().map(authentication).collect() };
    assert_eq!(seen(DEVICE), [BASIC, BASIC_WITH_ID]);
    assert_eq!(seen(TOKEN), [BASIC_WITH_ID, POST]);
    assert_eq!(script.waits.len(), 1, "the poll is repeated at once");
}

#[test]
fn a_configured_client_without_secret_is_public_whatever_the_server_lists() {
    let mut script = metadata(json!({"token_endpoint_auth_methods_supported": ["client_secret_basic"]}));
    script.run(configured(None)).unwrap();
    assert_eq!(script.only(TOKEN).form()["client_id"], "mine");
    assert_eq!(script.only(TOKEN).authorization, None);
}

#[test]
fn a_key_comes_before_a_secret_and_signs_for_the_issuer() {
    let accepted = json!({
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "private_key_jwt"],
        "token_endpoint_auth_signing_alg_values_supported": ["ES256"],
    });
    let mut options = configured(Some("s"));
    options.client.signing_key = Some(key());
    let mut script = metadata(accepted);
    script.run(options.clone()).unwrap();
    let form = script.only(TOKEN).form();
    assert_eq!(
        form["client_assertion_type"],
        "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    );
    let claims = crate::grants::claims(&form["client_assertion"]);
    assert_eq!(claims["aud"], ISSUER);
    assert_eq!(claims["iss"], "mine");
    assert_eq!(script.only(TOKEN).authorization, None);
    assert_eq!(form.get("client_secret"), None);
    let mut script = metadata(json!({"token_endpoint_auth_methods_supported": ["client_secret_post"]}));
    script.run(options).unwrap();
    assert_eq!(script.only(TOKEN).form()["client_secret"], "s");
}

#[test]
fn a_key_that_the_server_cannot_verify_is_refused_before_the_browser_opens() {
    let mut options = configured(None);
    options.client.signing_key = Some(key());
    let mut script = metadata(json!({
        "token_endpoint_auth_methods_supported": ["private_key_jwt"],
        "token_endpoint_auth_signing_alg_values_supported": ["RS256"],
    }));
    let error = script.run(options).unwrap_err();
    assert!(
        matches!(error, LoginError::Client(ClientError::Key(_))),
        "{error}"
    );
    assert!(script.browsed.is_none());
}
