//! Requirements on the grants: code, device, client credentials, workload, token exchange, enterprise.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mainstay_oauth::{
    CallbackError, ClientAuthentication, ConfiguredClient, Context, DeviceError, HttpResponse,
    IdentityProvider, Login, LoginError, LoginGrant, LoginOptions, LoginStep, OAuthClient, Revision,
    SecretText, SigningKey, SubjectKind, SubjectToken, TokenError,
};
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use serde_json::{Value, json};

use crate::support::{
    ISSUER, ISSUER_OAUTH, REDIRECT, REGISTER, SERVER, Script, Sent, TOKEN, but, challenge, now, options,
    options_at, resource_metadata, server_metadata, url, with_context,
};

const DEVICE: &str = "https://auth.example.com/device";
const IDP: &str = "https://idp.example.com/token";

/// The claims of a JWT, unverified.
pub(crate) fn claims(jwt: &str) -> Value {
    let claims = jwt.split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap()
}

fn metadata(changes: Value) -> Script {
    Script::usual().json(ISSUER_OAUTH, &but(server_metadata(ISSUER), changes))
}

fn granted(grant: LoginGrant) -> LoginOptions {
    let mut options = options();
    options.grant = grant;
    options
}

fn with_client(mut options: LoginOptions) -> LoginOptions {
    options.client.configured = Some(ConfiguredClient {
        id: "mine".to_owned(),
        secret: Some(SecretText::new("s3cret")),
        issuer: None,
    });
    options
}

/// A login whose browser is open, and the `state` it sent.
fn browsing() -> (Login, String) {
    let (mut login, _) = Login::start(options()).unwrap();
    let mut step = None;
    for document in [resource_metadata(), server_metadata(ISSUER)] {
        let response = HttpResponse::json(200, document.to_string());
        step = Some(with_context(|context| login.handle_response(&response, context)).unwrap());
    }
    assert!(matches!(step, Some(LoginStep::Listen { port: None })));
    let _registering = with_context(|context| login.handle_listening(url(REDIRECT), context)).unwrap();
    let response = HttpResponse::json(201, r#"{"client_id":"registered"}"#);
    let step = with_context(|context| login.handle_response(&response, context)).unwrap();
    let LoginStep::Browse(address) = step else {
        panic!("{step:?}")
    };
    let state = crate::support::parameters(address.url().query().unwrap())["state"].clone();
    (login, state)
}

#[test]
fn the_code_grant_uses_s256_state_and_resource_and_redeems_the_code_with_the_verifier() {
    let mut script = Script::usual();
    let record = script.run(options()).unwrap().record;
    assert_eq!(script.browsed("response_type"), Some("code"));
    assert_eq!(script.browsed("code_challenge_method"), Some("S256"));
    assert_eq!(script.browsed("redirect_uri"), Some(REDIRECT));
    assert_eq!(script.browsed("client_id"), Some("registered"));
    assert_eq!(script.browsed("scope"), None);
    assert!(script.browsed("state").unwrap().len() >= 43);
    let request = script.only(TOKEN);
    let form = request.form();
    assert_eq!(form["grant_type"], "authorization_code");
    assert_eq!(form["code"], "c1");
    assert_eq!(form["redirect_uri"], REDIRECT);
    assert_eq!(form["client_id"], "registered");
    assert_eq!(form["resource"], SERVER);
    let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, form["code_verifier"].as_bytes()));
    assert_eq!(script.browsed("code_challenge"), Some(challenge.as_str()));
    assert_eq!(record.server.as_str(), SERVER);
    assert_eq!(record.issuer, ISSUER);
    assert_eq!(record.access_token.expose(), "at1");
    assert_eq!(record.refresh_token.as_ref().unwrap().expose(), "rt1");
    assert_eq!(record.expires_at(), Some(now() + Duration::from_secs(60)));
    assert_eq!(record.authorization().expose(), "Bearer at1");
    assert_eq!(
        record.revocation_endpoint.unwrap().as_str(),
        "https://auth.example.com/revoke"
    );
}

#[test]
fn the_life_of_a_token_counts_from_its_request() {
    let (mut login, state) = browsing();
    let callback = format!("code=c&state={state}");
    let step = with_context(|context| login.handle_callback(&callback, context)).unwrap();
    assert!(matches!(step, LoginStep::Send(_)), "{step:?}");
    // The answer takes 100 s. The server may have issued the token at their beginning.
    let response = HttpResponse::json(200, r#"{"access_token":"at","expires_in":600}"#);
    let random = SystemRandom::new();
    let later = Context::new(now() + Duration::from_secs(100), &random);
    let step = login.handle_response(&response, &later).unwrap();
    let LoginStep::Done(completed) = step else {
        panic!("{step:?}")
    };
    assert_eq!(
        completed.record.expires_at(),
        Some(now() + Duration::from_secs(600))
    );
}

#[test]
fn a_server_without_s256_is_refused_and_an_unadvertised_one_since_2025_11_25() {
    for revision in Revision::ALL {
        for (methods, accepted) in [
            (json!(["S256"]), true),
            (json!(["plain", "S256"]), true),
            (json!(["plain"]), false),
            (json!([]), false),
            (json!(["s256"]), false),
            (json!(null), revision < Revision::V2025_11_25),
        ] {
            let mut script = metadata(json!({"code_challenge_methods_supported": methods}));
            match script.run(options_at(revision)) {
                Ok(_) => assert!(accepted, "{revision} {methods}"),
                Err(error) => {
                    assert!(!accepted, "{revision} {methods}: {error}");
                    assert!(matches!(error, LoginError::NoPkce { .. }), "{error}");
                    assert!(script.sent_to(REGISTER).is_empty());
                }
            }
        }
    }
}

#[test]
fn two_logins_share_neither_state_nor_challenge() {
    let [mut one, mut other] = [Script::usual(), Script::usual()];
    one.run(options()).unwrap();
    other.run(options()).unwrap();
    assert_ne!(one.browsed("state"), other.browsed("state"));
    assert_ne!(one.browsed("code_challenge"), other.browsed("code_challenge"));
}

#[test]
fn refused_callbacks_leave_the_login_waiting_however_many_there_are() {
    let (mut login, state) = browsing();
    for n in 0..2000 {
        let query = format!("code=evil{n}&state=guess{n}");
        let error = with_context(|context| login.handle_callback(&query, context)).unwrap_err();
        assert_eq!(error, LoginError::Callback(CallbackError::WrongState));
    }
    let step =
        with_context(|context| login.handle_callback(&format!("code=good&state={state}"), context)).unwrap();
    let LoginStep::Send(request) = step else {
        panic!("{step:?}")
    };
    assert_eq!(Sent::of(&request).form()["code"], "good");
}

#[test]
fn a_second_callback_is_refused_and_disturbs_nothing() {
    let (mut login, state) = browsing();
    let query = format!("code=good&state={state}");
    let _sent = with_context(|context| login.handle_callback(&query, context)).unwrap();
    let error = with_context(|context| login.handle_callback(&query, context)).unwrap_err();
    assert_eq!(error, LoginError::Callback(CallbackError::NotExpected));
    let response = HttpResponse::json(200, r#"{"access_token":"at"}"#);
    let step = with_context(|context| login.handle_response(&response, context)).unwrap();
    assert!(matches!(step, LoginStep::Done(_)));
}

#[test]
fn a_denial_ends_the_login() {
    let (mut login, state) = browsing();
    let query = format!("error=access_denied&state={state}");
    let error = with_context(|context| login.handle_callback(&query, context)).unwrap_err();
    assert!(matches!(&error, LoginError::Callback(error) if error.ends_login()));
    let query = format!("code=late&state={state}");
    let error = with_context(|context| login.handle_callback(&query, context)).unwrap_err();
    assert_eq!(error, LoginError::Callback(CallbackError::NotExpected));
}

#[test]
fn the_registration_can_be_saved_before_the_person_agrees() {
    let (login, _) = browsing();
    assert_eq!(login.registration().unwrap().client_id, "registered");
}

#[test]
fn input_out_of_turn_changes_nothing() {
    let (mut login, state) = browsing();
    let response = HttpResponse::json(200, r#"{"access_token":"evil"}"#);
    let out_of_turn =
        |step: Result<LoginStep, LoginError>| assert_eq!(step.unwrap_err(), LoginError::OutOfTurn);
    out_of_turn(with_context(|context| login.handle_response(&response, context)));
    out_of_turn(with_context(|context| {
        login.handle_listening(url(REDIRECT), context)
    }));
    out_of_turn(with_context(|context| login.resume(context)));
    let query = format!("code=good&state={state}");
    assert!(with_context(|context| login.handle_callback(&query, context)).is_ok());
}

#[test]
fn a_redirect_that_is_neither_loopback_nor_https_is_refused() {
    let (mut login, _) = Login::start(options()).unwrap();
    for document in [resource_metadata(), server_metadata(ISSUER)] {
        let response = HttpResponse::json(200, document.to_string());
        let _step = with_context(|context| login.handle_response(&response, context)).unwrap();
    }
    let uri = url("http://gateway.example.com/callback");
    let error = with_context(|context| login.handle_listening(uri, context)).unwrap_err();
    assert!(matches!(error, LoginError::Address(_)), "{error}");
    assert!(
        with_context(|context| login.handle_listening(url(REDIRECT), context)).is_ok(),
        "it can be corrected"
    );
}

#[test]
fn granted_scopes_are_those_of_the_response_or_those_asked_for() {
    let mut asking = options();
    asking.challenge = challenge("Bearer scope=\"a b\"");
    let record = Script::usual().run(asking.clone()).unwrap().record;
    assert_eq!(record.granted_scopes, ["a", "b"]);
    let mut script = Script::usual().json(TOKEN, &json!({"access_token": "at", "scope": "a"}));
    let record = script.run(asking).unwrap().record;
    assert_eq!(record.granted_scopes, ["a"]);
    assert_eq!(record.requested_scopes, ["a", "b"]);
}

#[test]
fn offline_access_asks_for_consent_because_openid_providers_ignore_it_otherwise() {
    let mut asking = options();
    asking.challenge = challenge("Bearer scope=a");
    let mut script = metadata(json!({"scopes_supported": ["a", "offline_access"]}));
    script.run(asking.clone()).unwrap();
    assert_eq!(script.browsed("scope"), Some("a offline_access"));
    assert_eq!(script.browsed("prompt"), Some("consent"));
    let mut script = Script::usual();
    script.run(asking).unwrap();
    assert_eq!(script.browsed("scope"), Some("a"));
    assert_eq!(script.browsed("prompt"), None);
}

fn device_answer() -> Value {
    json!({"device_code": "dc1", "user_code": "ABCD-EFGH", "verification_uri": "https://auth.example.com/activate", "expires_in": 600, "interval": 2})
}

fn pending(code: &str) -> Value {
    json!({"error": code})
}

#[test]
fn the_device_grant_polls_at_the_pace_of_the_server_until_the_person_agrees() {
    let mut script = Script::usual()
        .json(DEVICE, &device_answer())
        .answer(TOKEN, 400, &pending("authorization_pending"))
        .then(TOKEN, 400, &pending("slow_down"))
        .then(TOKEN, 400, &pending("authorization_pending"))
        .then(TOKEN, 503, &json!({}))
        .then(TOKEN, 200, &json!({"access_token": "at1"}));
    let mut options = granted(LoginGrant::Device);
    options.challenge = challenge("Bearer scope=a");
    let completed = script.run(options).unwrap();
    let seconds: Vec<u64> = script.waits.iter().map(Duration::as_secs).collect();
    assert_eq!(seconds, [2, 2, 7, 7, 12]);
    let registration = script.only(REGISTER).json();
    assert_eq!(
        registration["grant_types"][0],
        "urn:ietf:params:oauth:grant-type:device_code"
    );
    assert_eq!(registration.get("redirect_uris"), None);
    let start = script.only(DEVICE).form();
    assert_eq!(
        (start["client_id"].as_str(), start["scope"].as_str()),
        ("registered", "a")
    );
    assert_eq!(start["resource"], SERVER);
    for poll in script.sent_to(TOKEN) {
        let form = poll.form();
        assert_eq!(form["grant_type"], "urn:ietf:params:oauth:grant-type:device_code");
        assert_eq!(
            (form["device_code"].as_str(), form["client_id"].as_str()),
            ("dc1", "registered")
        );
        assert_eq!(form["resource"], SERVER);
    }
    assert_eq!(completed.record.access_token.expose(), "at1");
    assert_eq!(completed.registration.unwrap().redirect_port, None);
}

#[test]
fn the_device_grant_waits_as_long_as_a_busy_server_asks_within_bounds() {
    for (asked, expected) in [(1, 7), (30, 30), (9999, 60)] {
        let mut busy = HttpResponse::json(429, "");
        busy.retry_after = Some(Duration::from_secs(asked));
        let mut script = Script::usual()
            .json(DEVICE, &device_answer())
            .raw(TOKEN, busy)
            .then(TOKEN, 200, &json!({"access_token": "at"}));
        script.run(granted(LoginGrant::Device)).unwrap();
        assert_eq!(script.waits[1], Duration::from_secs(expected));
    }
}

#[test]
fn the_old_name_of_the_verification_address_is_understood() {
    let old = json!({"verification_uri": null, "verification_url": "https://auth.example.com/old"});
    let mut script = Script::usual().json(DEVICE, &but(device_answer(), old));
    script.run(granted(LoginGrant::Device)).unwrap();
}

#[test]
fn the_device_grant_ends_with_the_code_a_denial_or_another_error() {
    for (code, expected) in [
        ("expired_token", DeviceError::Expired),
        ("access_denied", DeviceError::Denied),
        (
            "invalid_grant",
            DeviceError::Token(TokenError::InvalidGrant { description: None }),
        ),
    ] {
        let mut script = Script::usual()
            .json(DEVICE, &device_answer())
            .answer(TOKEN, 400, &pending(code));
        let error = script.run(granted(LoginGrant::Device)).unwrap_err();
        assert_eq!(error, LoginError::Device(expected));
        assert_eq!(script.sent_to(TOKEN).len(), 1);
    }
    let brief = but(device_answer(), json!({"expires_in": 5}));
    let mut script =
        Script::usual()
            .json(DEVICE, &brief)
            .answer(TOKEN, 400, &pending("authorization_pending"));
    let error = script.run(granted(LoginGrant::Device)).unwrap_err();
    assert_eq!(error, LoginError::Device(DeviceError::Expired));
    assert_eq!(script.sent_to(TOKEN).len(), 2, "at 2 s and at 4 s, not at 6 s");
}

#[test]
fn the_device_prompt_is_shown_and_odd_numbers_are_bounded() {
    for (changes, wait, lifetime) in [
        (json!({}), 2, 600),
        (json!({"interval": null, "expires_in": null}), 5, 3600),
        (json!({"interval": 0, "expires_in": -1}), 5, 3600),
        (json!({"interval": 1e300, "expires_in": 1e300}), 60, 3600),
        (json!({"interval": 0.001}), 1, 600),
    ] {
        let (mut login, _) = Login::start(with_client(granted(LoginGrant::Device))).unwrap();
        let mut step = None;
        let documents = [
            resource_metadata(),
            but(
                server_metadata(ISSUER),
                json!({"token_endpoint_auth_methods_supported": null}),
            ),
            but(device_answer(), changes),
        ];
        for document in documents {
            let response = HttpResponse::json(200, document.to_string());
            step = Some(with_context(|context| login.handle_response(&response, context)).unwrap());
        }
        let Some(LoginStep::ShowCode { prompt, until }) = step else {
            panic!("{step:?}")
        };
        assert_eq!(prompt.user_code, "ABCD-EFGH");
        assert_eq!(
            prompt.verification_uri.as_str(),
            "https://auth.example.com/activate"
        );
        assert_eq!(prompt.expires_at, now() + Duration::from_secs(lifetime));
        assert_eq!(until, now() + Duration::from_secs(wait));
    }
}

#[test]
fn odd_device_answers_are_refused() {
    for changes in [
        json!({"device_code": null}),
        json!({"user_code": ""}),
        json!({"verification_uri": null}),
        json!({"verification_uri": "javascript:alert(1)"}),
        json!({"verification_uri": "http://auth.example.com/"}),
        json!({"verification_uri": "https://169.254.169.254/"}),
        json!({"verification_uri_complete": "file:///etc/passwd"}),
        json!({"expires_in": "soon"}),
    ] {
        let mut script = Script::usual().json(DEVICE, &but(device_answer(), changes.clone()));
        let error = script.run(granted(LoginGrant::Device)).unwrap_err();
        assert!(matches!(error, LoginError::Device(_)), "{changes}: {error}");
    }
    let error = metadata(json!({"device_authorization_endpoint": null}))
        .run(granted(LoginGrant::Device))
        .unwrap_err();
    assert!(
        matches!(error, LoginError::Device(DeviceError::NotOffered { .. })),
        "{error}"
    );
}

#[test]
fn client_credentials_authenticate_by_secret_and_need_neither_pkce_nor_a_browser() {
    let changes = json!({"code_challenge_methods_supported": null, "authorization_endpoint": null, "token_endpoint_auth_methods_supported": ["client_secret_basic"], "scopes_supported": ["a", "offline_access"]});
    let mut options = with_client(granted(LoginGrant::ClientCredentials));
    options.challenge = challenge("Bearer scope=a");
    let mut script = metadata(changes);
    script.run(options).unwrap();
    let request = script.only(TOKEN);
    let form = request.form();
    assert_eq!(request.authorization.as_deref(), Some("Basic bWluZTpzM2NyZXQ="));
    assert_eq!(form["grant_type"], "client_credentials");
    assert_eq!(form["resource"], SERVER);
    assert_eq!(form["scope"], "a", "no refresh token is wanted");
    assert!(script.browsed.is_none());
}

#[test]
fn client_credentials_authenticate_by_key_with_the_issuer_as_audience() {
    let mut options = with_client(granted(LoginGrant::ClientCredentials));
    options.client.configured.as_mut().unwrap().secret = None;
    let pem = include_str!("../../src/signing/test-p256.pem");
    options.client.signing_key = Some(Arc::new(
        SigningKey::from_pem(pem, None, &SystemRandom::new()).unwrap(),
    ));
    let mut script = metadata(json!({"token_endpoint_auth_methods_supported": ["private_key_jwt"]}));
    let record = script.run(options).unwrap().record;
    let claims = claims(&script.only(TOKEN).form()["client_assertion"]);
    assert_eq!(
        (claims["aud"].as_str(), claims["sub"].as_str()),
        (Some(ISSUER), Some("mine"))
    );
    assert_eq!(record.assertion_algorithm.as_deref(), Some("ES256"));
}

fn workload() -> LoginOptions {
    granted(LoginGrant::Workload {
        assertion: SecretText::new("w.o.rk"),
    })
}

#[test]
fn a_workload_presents_its_token_and_needs_no_client() {
    let mut script = metadata(json!({"registration_endpoint": null, "authorization_endpoint": null}));
    let record = script.run(workload()).unwrap().record;
    let form = script.only(TOKEN).form();
    assert_eq!(form["grant_type"], "urn:ietf:params:oauth:grant-type:jwt-bearer");
    assert_eq!(form["assertion"], "w.o.rk");
    assert_eq!(form["resource"], SERVER);
    assert_eq!(form.get("client_id"), None);
    assert_eq!(record.client_id, None);
    let mut script = Script::usual();
    let mut named = with_client(workload());
    named.client.configured.as_mut().unwrap().secret = None;
    script.run(named).unwrap();
    assert_eq!(script.only(TOKEN).form()["client_id"], "mine");
}

#[test]
fn a_refused_workload_is_never_retried_and_tries_no_other_grant() {
    for (status, code) in [
        (400, "invalid_grant"),
        (400, "invalid_scope"),
        (400, "unauthorized_client"),
        (503, "x"),
        (429, "x"),
    ] {
        let mut script = Script::usual().answer(TOKEN, status, &json!({"error": code}));
        let error = script.run(workload()).unwrap_err();
        assert!(matches!(error, LoginError::Workload(_)), "{error}");
        assert!(!error.is_temporary());
        assert_eq!(error.retry_after(), None);
        assert_eq!(script.sent_to(TOKEN).len(), 1);
    }
    // Not even by a client that could authenticate in another way.
    let mut script = metadata(json!({"token_endpoint_auth_methods_supported": null})).answer(
        TOKEN,
        401,
        &json!({"error": "invalid_client"}),
    );
    script.run(with_client(workload())).unwrap_err();
    script.only(TOKEN);
}

#[test]
fn after_its_end_a_login_sends_nothing() {
    let (mut login, _) = Login::start(workload()).unwrap();
    for document in [
        resource_metadata(),
        server_metadata(ISSUER),
        json!({"error": "invalid_grant"}),
    ] {
        let response = HttpResponse::json(200, document.to_string());
        let _step = with_context(|context| login.handle_response(&response, context));
    }
    let response = HttpResponse::json(200, r#"{"access_token":"at"}"#);
    let error = with_context(|context| login.handle_response(&response, context)).unwrap_err();
    assert_eq!(error, LoginError::OutOfTurn);
}

#[test]
fn a_token_is_exchanged() {
    let subject = SubjectToken {
        token: SecretText::new("subject1"),
        kind: SubjectKind::AccessToken,
    };
    let mut script = metadata(json!({"token_endpoint_auth_methods_supported": ["client_secret_basic"]}));
    script
        .run(with_client(granted(LoginGrant::TokenExchange { subject })))
        .unwrap();
    let form = script.only(TOKEN).form();
    assert_eq!(
        form["grant_type"],
        "urn:ietf:params:oauth:grant-type:token-exchange"
    );
    assert_eq!(form["subject_token"], "subject1");
    assert_eq!(
        form["subject_token_type"],
        "urn:ietf:params:oauth:token-type:access_token"
    );
    assert_eq!(form["resource"], SERVER);
    assert_eq!(form.get("requested_token_type"), None);
}

fn enterprise(endpoint: &str) -> LoginOptions {
    let authentication = ClientAuthentication::SecretBasic(SecretText::new("idp-secret"));
    let provider = IdentityProvider {
        token_endpoint: url(endpoint),
        client: OAuthClient::new("https://idp.example.com", "idp-client", authentication),
        subject: SubjectToken {
            token: SecretText::new("id-token"),
            kind: SubjectKind::IdToken,
        },
    };
    let mut options = with_client(granted(LoginGrant::Enterprise(Box::new(provider))));
    options.challenge = challenge("Bearer scope=a");
    options
}

fn id_jag() -> Value {
    json!({"access_token": "jag", "token_type": "N_A", "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag"})
}

#[test]
fn an_enterprise_exchanges_the_id_token_at_its_provider_and_the_id_jag_at_the_authorization_server() {
    let mut script = metadata(json!({"token_endpoint_auth_methods_supported": ["client_secret_basic"]}))
        .json(IDP, &id_jag());
    script.run(enterprise(IDP)).unwrap();
    let exchange = script.only(IDP);
    let form = exchange.form();
    assert_eq!(
        exchange.authorization.as_deref(),
        Some("Basic aWRwLWNsaWVudDppZHAtc2VjcmV0")
    );
    assert_eq!(
        form["grant_type"],
        "urn:ietf:params:oauth:grant-type:token-exchange"
    );
    assert_eq!(
        form["requested_token_type"],
        "urn:ietf:params:oauth:token-type:id-jag"
    );
    assert_eq!(form["audience"], ISSUER);
    assert_eq!(form["resource"], SERVER);
    assert_eq!(form["scope"], "a");
    assert_eq!(form["subject_token"], "id-token");
    assert_eq!(
        form["subject_token_type"],
        "urn:ietf:params:oauth:token-type:id_token"
    );
    let grant = script.only(TOKEN);
    assert_eq!(grant.authorization.as_deref(), Some("Basic bWluZTpzM2NyZXQ="));
    assert_eq!(
        grant.form()["grant_type"],
        "urn:ietf:params:oauth:grant-type:jwt-bearer"
    );
    assert_eq!(grant.form()["assertion"], "jag");
    assert!(
        !grant.body.contains("id-token"),
        "the ID token stays with the provider"
    );
}

#[test]
fn an_identity_provider_that_refuses_or_issues_something_else_ends_the_login() {
    for (status, answer) in [
        (400, json!({"error": "invalid_grant"})),
        (200, json!({"access_token": "at", "token_type": "Bearer"})),
    ] {
        let mut script = Script::usual().answer(IDP, status, &answer);
        let error = script.run(enterprise(IDP)).unwrap_err();
        assert!(matches!(error, LoginError::IdentityProvider(_)), "{error}");
        assert!(script.sent_to(TOKEN).is_empty());
    }
    let error = Script::usual()
        .run(enterprise("http://idp.example.com/token"))
        .unwrap_err();
    assert!(matches!(error, LoginError::Address(_)), "{error}");
}

#[test]
fn support_for_id_jags_is_read_from_the_metadata() {
    let rules = mainstay_oauth::AddressRules::for_server(&url(SERVER), false);
    let profiles =
        json!({"authorization_grant_profiles_supported": ["urn:ietf:params:oauth:grant-profile:id-jag"]});
    for (document, expected) in [
        (but(server_metadata(ISSUER), profiles), true),
        (server_metadata(ISSUER), false),
    ] {
        let response = HttpResponse::json(200, document.to_string());
        let metadata = mainstay_oauth::AuthorizationServerMetadata::parse(&response, &rules).unwrap();
        assert_eq!(metadata.supports_id_jag(), expected);
    }
}

/// Metadata of [`ISSUER`] that claims to be another authorization server, which revisions before 2026-07-28 accept.
fn impostor(changes: Value) -> Script {
    let claims = json!({"issuer": "https://honest.example.com"});
    Script::usual().json(ISSUER_OAUTH, &but(but(server_metadata(ISSUER), claims), changes))
}

#[test]
fn nothing_is_addressed_to_an_issuer_that_the_metadata_merely_claims_to_be() {
    for revision in [
        Revision::V2025_03_26,
        Revision::V2025_06_18,
        Revision::V2025_11_25,
    ] {
        let mut options = with_client(granted(LoginGrant::ClientCredentials));
        options.revision = revision;
        options.client.configured.as_mut().unwrap().secret = None;
        let pem = include_str!("../../src/signing/test-p256.pem");
        options.client.signing_key = Some(Arc::new(
            SigningKey::from_pem(pem, None, &SystemRandom::new()).unwrap(),
        ));
        let mut script = impostor(json!({"token_endpoint_auth_methods_supported": ["private_key_jwt"]}));
        script.run(options).unwrap();
        let assertion = &script.only(TOKEN).form()["client_assertion"];
        assert_eq!(
            claims(assertion)["aud"],
            ISSUER,
            "the impostor cannot use it elsewhere"
        );
        let mut options = enterprise(IDP);
        options.revision = revision;
        let mut script =
            impostor(json!({"token_endpoint_auth_methods_supported": null})).json(IDP, &id_jag());
        script.run(options).unwrap();
        assert_eq!(script.only(IDP).form()["audience"], ISSUER);
    }
}

#[test]
fn a_code_of_the_honest_server_is_not_sent_to_one_that_claims_to_be_it() {
    for revision in [Revision::V2025_06_18, Revision::V2025_11_25] {
        let mut script =
            impostor(json!({"authorization_response_iss_parameter_supported": true})).person(|asked| {
                format!(
                    "code=c&state={}&iss=https%3A%2F%2Fhonest.example.com",
                    asked["state"]
                )
            });
        let error = script.run(options_at(revision)).unwrap_err();
        assert!(
            matches!(error, LoginError::Callback(CallbackError::IssuerMismatch { .. })),
            "{error}"
        );
        assert!(script.sent_to(TOKEN).is_empty());
    }
}

#[test]
fn a_server_of_2025_03_26_may_repeat_the_metadata_of_its_authorization_server() {
    let origin = "https://mcp.example.com/.well-known/oauth-authorization-server";
    let iss = json!({"authorization_response_iss_parameter_supported": true});
    let mut script = Script::usual()
        .answer(crate::support::RESOURCE_PATH, 404, &json!({}))
        .json(origin, &but(server_metadata(ISSUER), iss.clone()))
        .person(|asked| {
            format!(
                "code=c&state={}&iss=https%3A%2F%2Fauth.example.com",
                asked["state"]
            )
        });
    assert_eq!(
        script.run(options()).unwrap().record.issuer,
        "https://mcp.example.com"
    );
    let own = but(server_metadata(ISSUER), iss);
    let mut script = Script::usual()
        .answer(crate::support::RESOURCE_PATH, 404, &json!({}))
        .json(origin, &but(own, json!({"issuer": "https://mcp.example.com"})));
    let error = script.run(options()).unwrap_err();
    assert_eq!(
        error,
        LoginError::Callback(CallbackError::IssuerMissing),
        "its own promise counts"
    );
}

#[test]
fn a_failed_token_request_is_classified_for_the_caller() {
    let run = |status, answer: Value| {
        Script::usual()
            .answer(TOKEN, status, &answer)
            .run(options())
            .unwrap_err()
    };
    let error = run(503, json!({}));
    assert!(error.is_temporary(), "{error}");
    let error = run(401, json!({"error": "invalid_client"}));
    assert!(
        matches!(error, LoginError::Token(TokenError::InvalidClient { .. })),
        "{error}"
    );
    assert!(!error.is_temporary());
}
