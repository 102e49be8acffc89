//! Requirements on clients: which one is used, and how it authenticates.

use std::sync::Arc;

use mainstay_oauth::{
    AuthMethod, ConfiguredClient, LoginError, LoginGrant, LoginOptions, Registration, RegistrationError,
    SecretText, SigningKey,
};
use ring::rand::SystemRandom;
use serde_json::{Value, json};

use crate::support::{
    ISSUER, ISSUER_OAUTH, REDIRECT, REGISTER, RESOURCE_PATH, Script, TOKEN, but, options, resource_metadata,
    server_metadata,
};

const DOCUMENT: &str = "https://app.example.com/client.json";

pub(crate) fn metadata(changes: Value) -> Script {
    Script::usual().json(ISSUER_OAUTH, &but(server_metadata(ISSUER), changes))
}

pub(crate) fn configured(secret: Option<&str>) -> LoginOptions {
    let mut options = options();
    options.client.configured = Some(ConfiguredClient {
        id: "mine".to_owned(),
        secret: secret.map(SecretText::new),
        issuer: None,
    });
    options
}

pub(crate) fn key() -> Arc<SigningKey> {
    let pem = include_str!("../../src/signing/test-p256.pem");
    Arc::new(SigningKey::from_pem(pem, None, &SystemRandom::new()).unwrap())
}

fn stored() -> Registration {
    Script::usual().run(options()).unwrap().registration.unwrap()
}

#[test]
fn a_configured_client_comes_first() {
    let mut script = metadata(json!({"client_id_metadata_document_supported": true}));
    let mut options = configured(None);
    options.client.metadata_url = Some(DOCUMENT.to_owned());
    options.registrations = vec![stored()];
    let completed = script.run(options).unwrap();
    assert_eq!(script.browsed("client_id"), Some("mine"));
    assert_eq!(completed.record.client_id.as_deref(), Some("mine"));
    assert!(completed.registration.is_none());
    assert!(script.sent_to(REGISTER).is_empty());
}

#[test]
fn a_metadata_document_comes_second_and_only_where_the_server_supports_it() {
    let mut options = options();
    options.client.metadata_url = Some(DOCUMENT.to_owned());
    options.registrations = vec![stored()];
    let mut script = metadata(json!({"client_id_metadata_document_supported": true}));
    script.run(options.clone()).unwrap();
    assert_eq!(script.browsed("client_id"), Some(DOCUMENT));
    assert_eq!(script.only(TOKEN).form()["client_id"], DOCUMENT);
    for changes in [json!({}), json!({"client_id_metadata_document_supported": false})] {
        let mut script = metadata(changes);
        script.run(options.clone()).unwrap();
        assert_eq!(script.browsed("client_id"), Some("registered"));
    }
}

#[test]
fn the_client_of_a_metadata_document_is_public_where_the_server_takes_no_key() {
    let mut options = options();
    options.client.metadata_url = Some(DOCUMENT.to_owned());
    options.client.signing_key = Some(key());
    for (methods, signed) in [
        (json!(["client_secret_basic"]), false),
        (json!(["private_key_jwt"]), true),
    ] {
        let mut script = metadata(json!({
            "client_id_metadata_document_supported": true,
            "token_endpoint_auth_methods_supported": methods,
        }));
        script.run(options.clone()).unwrap();
        let form = script.only(TOKEN).form();
        assert_eq!(form["client_id"], DOCUMENT);
        assert_eq!(form.contains_key("client_assertion"), signed);
    }
}

#[test]
fn an_address_that_cannot_be_a_client_id_is_refused() {
    for address in [
        "http://app.example.com/c",
        "https://app.example.com",
        "https://app.example.com/",
        "c.json",
        "https://a.example/c#x",
        "https://u@a.example/c",
    ] {
        let mut options = options();
        options.client.metadata_url = Some(address.to_owned());
        let error = metadata(json!({"client_id_metadata_document_supported": true}))
            .run(options)
            .unwrap_err();
        assert_eq!(error, LoginError::MetadataUrl, "{address}");
    }
}

#[test]
fn a_stored_registration_is_used_again() {
    let mut options = options();
    options.registrations = vec![stored()];
    let mut script = Script::usual();
    let completed = script.run(options).unwrap();
    assert_eq!(script.listened, Some(Some(4321)), "its port is asked for");
    assert!(script.sent_to(REGISTER).is_empty());
    assert_eq!(script.browsed("client_id"), Some("registered"));
    assert!(completed.registration.is_none(), "nothing new to store");
}

#[test]
fn a_client_registers_anew_if_its_port_is_taken() {
    let mut options = options();
    options.registrations = vec![stored()];
    let mut script = Script::usual().answer(REGISTER, 201, &json!({"client_id": "anew"}));
    script.bound = Some(5555);
    let registration = script.run(options.clone()).unwrap().registration.unwrap();
    assert_eq!(registration.redirect_port, Some(5555));
    assert_eq!(script.browsed("client_id"), Some("anew"));
    let mut script = metadata(json!({"registration_endpoint": null}));
    script.bound = Some(5555);
    let error = script.run(options).unwrap_err();
    assert_eq!(error, LoginError::RedirectTaken { port: Some(4321) });
}

#[test]
fn a_registration_for_one_grant_is_not_used_for_another() {
    let device = "https://auth.example.com/device";
    let prompt =
        json!({"device_code": "d", "user_code": "u", "verification_uri": "https://auth.example.com/"});
    let mut by_device = options();
    by_device.grant = LoginGrant::Device;
    by_device.registrations = vec![stored()];
    let mut script = Script::usual().json(device, &prompt);
    let registration = script.run(by_device.clone()).unwrap().registration.unwrap();
    assert_eq!(script.sent_to(REGISTER).len(), 1, "a client of the code grant");
    by_device.registrations = vec![registration.clone()];
    let mut script = Script::usual().json(device, &prompt);
    script.run(by_device).unwrap();
    assert!(script.sent_to(REGISTER).is_empty());
    let mut by_code = options();
    by_code.registrations = vec![registration];
    let mut script = Script::usual();
    script.run(by_code.clone()).unwrap();
    assert_eq!(script.sent_to(REGISTER).len(), 1, "a client of the device grant");
    let mut script = metadata(json!({"registration_endpoint": null}));
    let error = script.run(by_code).unwrap_err();
    assert!(matches!(error, LoginError::NoClient { .. }), "{error}");
}

#[test]
fn a_registration_of_another_issuer_version_or_time_is_not_used() {
    let mut other_issuer = stored();
    other_issuer.issuer = "https://auth.example.com/".to_owned();
    let mut other_version = stored();
    other_version.version = 2;
    let mut expired = stored();
    expired.secret_expires_at = Some(1_800_000_000);
    for registration in [other_issuer, other_version, expired] {
        let mut options = options();
        options.registrations = vec![registration];
        let mut script = Script::usual().answer(REGISTER, 201, &json!({"client_id": "anew"}));
        script.run(options).unwrap();
        assert_eq!(script.browsed("client_id"), Some("anew"));
    }
    let mut valid = stored();
    valid.secret_expires_at = Some(1_800_000_001);
    let mut options = options();
    options.registrations = vec![valid];
    let mut script = Script::usual();
    script.run(options).unwrap();
    assert!(script.sent_to(REGISTER).is_empty());
}

#[test]
fn a_registration_asks_for_a_native_client_with_refresh_tokens() {
    let mut script = Script::usual();
    let registration = script.run(options()).unwrap().registration.unwrap();
    let request = script.only(REGISTER);
    assert_eq!(request.method, "POST");
    assert_eq!(
        request.json(),
        json!({
            "client_name": "Mainstay",
            "redirect_uris": [REDIRECT],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "application_type": "native",
        })
    );
    assert_eq!(registration.issuer, ISSUER);
    assert_eq!(registration.client_id, "registered");
    assert_eq!(registration.method, AuthMethod::None);
    assert_eq!(registration.redirect_port, Some(4321));
    assert_eq!(registration.redirect_uri.as_deref(), Some(REDIRECT));
}

#[test]
fn a_registration_asks_for_the_best_method_that_the_server_accepts() {
    for (accepted, method) in [
        (
            json!(["client_secret_post", "client_secret_basic", "none"]),
            "none",
        ),
        (
            json!(["client_secret_basic", "client_secret_post"]),
            "client_secret_post",
        ),
        (json!(["client_secret_basic"]), "client_secret_basic"),
        (
            json!(["private_key_jwt", "client_secret_post"]),
            "client_secret_post",
        ),
        (json!(null), "client_secret_basic"),
    ] {
        let mut script = metadata(json!({"token_endpoint_auth_methods_supported": accepted})).answer(
            REGISTER,
            201,
            &json!({"client_id": "c", "client_secret": "s"}),
        );
        let completed = script.run(options()).unwrap();
        assert_eq!(script.only(REGISTER).json()["token_endpoint_auth_method"], method);
        assert_eq!(completed.record.method.as_str(), method);
    }
    let mut script = metadata(json!({"token_endpoint_auth_methods_supported": ["tls_client_auth"]}));
    let error = script.run(options()).unwrap_err();
    assert!(
        matches!(
            error,
            LoginError::Registration(RegistrationError::NoCommonMethod { .. })
        ),
        "{error}"
    );
}

#[test]
fn the_registered_method_counts_if_the_server_names_another() {
    let both = json!({"token_endpoint_auth_methods_supported": ["none", "client_secret_post"]});
    let mut script = metadata(both.clone()).answer(
        REGISTER,
        201,
        &json!({"client_id": "c", "client_secret": "s", "token_endpoint_auth_method": "client_secret_post"}),
    );
    script.run(options()).unwrap();
    assert_eq!(script.only(TOKEN).form()["client_secret"], "s");
    // A secret that comes with a public client is neither used nor kept.
    let mut script = metadata(both).answer(REGISTER, 201, &json!({"client_id": "c", "client_secret": "s"}));
    let completed = script.run(options()).unwrap();
    assert_eq!(completed.registration.unwrap().client_secret, None);
    assert_eq!(script.only(TOKEN).form().get("client_secret"), None);
}

#[test]
fn odd_registrations_are_refused() {
    for (answer, status) in [
        (json!({}), 201),
        (json!({"client_id": ""}), 201),
        (json!({"client_id": null}), 200),
        (json!({"client_id": 7}), 201),
        (json!({"client_id": "a\nb"}), 201),
        (json!({"client_id": "x".repeat(3000)}), 201),
        (json!({"client_id": "c", "client_secret": "a\u{0}b"}), 201),
        (
            json!({"client_id": "c", "token_endpoint_auth_method": "client_secret_basic"}),
            201,
        ),
        (
            json!({"client_id": "c", "token_endpoint_auth_method": "tls_client_auth"}),
            201,
        ),
        (
            json!({"client_id": "c", "token_endpoint_auth_method": "private_key_jwt"}),
            201,
        ),
        (
            json!({"client_id": "c", "redirect_uris": ["https://evil.example/callback"]}),
            201,
        ),
        (json!(["client_id"]), 201),
        (json!({"error": "invalid_redirect_uri"}), 400),
        (json!({"client_id": "c"}), 302),
    ] {
        let mut script = Script::usual().answer(REGISTER, status, &answer);
        let error = script.run(options()).unwrap_err();
        assert!(matches!(error, LoginError::Registration(_)), "{answer}: {error}");
        assert!(script.browsed.is_none());
    }
    for answer in [
        json!({"client_id": "c", "redirect_uris": [], "client_secret_expires_at": "never", "extra": {}}),
        json!({"client_id": "c", "redirect_uris": ["https://x.example", REDIRECT], "client_secret": null}),
    ] {
        Script::usual()
            .answer(REGISTER, 200, &answer)
            .run(options())
            .unwrap();
    }
}

#[test]
fn a_refused_registration_says_what_the_server_said_and_what_to_do() {
    let answer = json!({"error": "invalid_redirect_uri", "error_description": "no loopback"});
    let error = Script::usual()
        .answer(REGISTER, 400, &answer)
        .run(options())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("invalid_redirect_uri, no loopback") && error.contains("`client_id`"),
        "{error}"
    );
    let error = Script::usual()
        .answer(REGISTER, 503, &json!({}))
        .run(options())
        .unwrap_err();
    assert!(error.is_temporary());
}

#[test]
fn a_secret_that_expires_is_stored_with_its_time() {
    for (at, expected) in [
        (json!(0), None),
        (json!(2_000_000_000), Some(2_000_000_000)),
        (json!("x"), None),
        (json!(-5), None),
    ] {
        let answer = json!({"client_id": "c", "client_secret": "s", "client_secret_expires_at": at});
        let mut script =
            metadata(json!({"token_endpoint_auth_methods_supported": null})).answer(REGISTER, 201, &answer);
        assert_eq!(
            script
                .run(options())
                .unwrap()
                .registration
                .unwrap()
                .secret_expires_at,
            expected
        );
    }
}

#[test]
fn without_any_client_the_refusal_says_what_to_configure() {
    let error = metadata(json!({"registration_endpoint": null}))
        .run(options())
        .unwrap_err();
    assert!(
        matches!(&error, LoginError::NoClient { issuer } if issuer == ISSUER),
        "{error}"
    );
    assert!(error.to_string().contains("`client_id`"));
}

#[test]
fn a_configured_client_is_not_used_at_another_issuer() {
    let mut options = configured(Some("hunter2"));
    options.client.configured.as_mut().unwrap().issuer = Some("https://old.example.com".to_owned());
    let mut script = Script::usual();
    let error = script.run(options).unwrap_err();
    assert!(matches!(error, LoginError::ClientOfOtherIssuer { .. }), "{error}");
    assert!(
        script.sent.iter().all(|sent| sent.method == "GET"),
        "nothing of the client was sent"
    );
}

#[test]
fn after_a_move_to_another_issuer_nothing_of_the_old_registration_is_used() {
    let new = "https://new.example.com";
    let mut options = options();
    options.registrations = vec![stored()];
    let mut script = Script::usual()
        .json(
            RESOURCE_PATH,
            &but(resource_metadata(), json!({"authorization_servers": [new]})),
        )
        .json(
            "https://new.example.com/.well-known/oauth-authorization-server",
            &server_metadata(new),
        )
        .answer(
            "https://new.example.com/register",
            201,
            &json!({"client_id": "second"}),
        )
        .json("https://new.example.com/token", &json!({"access_token": "at2"}));
    let completed = script.run(options).unwrap();
    assert_eq!(script.listened, Some(None), "not even its port");
    assert_eq!(script.browsed("client_id"), Some("second"));
    assert!(script.sent.iter().all(|sent| !sent.body.contains("registered")));
    assert_eq!(completed.record.issuer, new);
    assert_eq!(completed.registration.unwrap().issuer, new);
}

#[test]
fn grants_without_a_person_register_no_client() {
    let mut options = options();
    options.grant = LoginGrant::ClientCredentials;
    let mut script = Script::usual();
    let error = script.run(options).unwrap_err();
    assert!(matches!(error, LoginError::NoClient { .. }), "{error}");
    assert!(script.sent_to(REGISTER).is_empty());
}

#[test]
fn redirects_on_a_public_host_register_a_web_client() {
    use mainstay_oauth::{Login, LoginStep};
    let (mut login, mut step) = Login::start(options()).unwrap();
    let documents = [resource_metadata(), server_metadata(ISSUER)];
    for document in documents {
        let LoginStep::Send(_) = step else {
            panic!("{step:?}")
        };
        let response = mainstay_oauth::HttpResponse::json(200, document.to_string());
        step = crate::support::with_context(|context| login.handle_response(&response, context)).unwrap();
    }
    let uri = crate::support::url("https://gateway.example.com/callback");
    let step = crate::support::with_context(|context| login.handle_listening(uri, context)).unwrap();
    let LoginStep::Send(request) = step else {
        panic!("{step:?}")
    };
    assert_eq!(
        crate::support::Sent::of(&request).json()["application_type"],
        "web"
    );
}
