//! No secret shows in `Debug`, `Display` or errors, whatever happens during a login.

use mainstay_oauth::{ConfiguredClient, HttpResponse, LoginGrant, SecretText};
use serde_json::json;

use crate::support::{ISSUER, ISSUER_OAUTH, REGISTER, Script, TOKEN, but, options, server_metadata};

/// Everything secret in these runs holds this word.
const WORD: &str = "hunter2";

fn tokens() -> serde_json::Value {
    json!({"access_token": "at-hunter2", "refresh_token": "rt-hunter2", "expires_in": 60})
}

fn script() -> Script {
    Script::usual()
        .json(
            ISSUER_OAUTH,
            &but(
                server_metadata(ISSUER),
                json!({"token_endpoint_auth_methods_supported": ["client_secret_post"]}),
            ),
        )
        .answer(
            REGISTER,
            201,
            &json!({"client_id": "c", "client_secret": "cs-hunter2"}),
        )
        .json(TOKEN, &tokens())
        .person(|asked| format!("code=code-hunter2&state={}", asked["state"]))
}

#[test]
fn a_completed_login_shows_no_secret() {
    let mut script = script();
    script.run(options()).unwrap();
    assert!(!script.shown.contains(WORD), "{}", script.shown);
    let verifier = &script.only(TOKEN).form()["code_verifier"];
    assert!(!script.shown.contains(verifier.as_str()));
    let state = script.browsed("state").unwrap();
    assert!(!script.shown.contains(state));
    assert!(
        script
            .shown
            .contains("AuthorizationAddress(https://auth.example.com…)")
    );
    let sent = script.only(TOKEN);
    assert!(sent.body.contains(WORD), "the secrets were there");
}

#[test]
fn a_failed_login_shows_no_secret() {
    let unreadable = HttpResponse::json(200, r#"{"access_token":"at-hunter2","expires_in":60,"#);
    let malformed = HttpResponse::json(200, r#"{"access_token":["at-hunter2"]}"#);
    let unusable = HttpResponse::json(200, r#"{"access_token":"at hunter2"}"#);
    let refused = HttpResponse::json(400, r#"{"error":"invalid_grant"}"#);
    for response in [unreadable, malformed, unusable, refused] {
        let mut script = script().raw(TOKEN, response);
        script.run(options()).unwrap_err();
        assert!(!script.shown.contains(WORD), "{}", script.shown);
    }
    let mut script = script().person(|_| "code=code-hunter2&state=hunter2".to_owned());
    script.run(options()).unwrap_err();
    assert!(!script.shown.contains(WORD), "{}", script.shown);
    let odd = json!({"client_id": "c", "client_secret": "a\u{0}hunter2"});
    let mut script = Script::usual().answer(REGISTER, 201, &odd);
    script.run(options()).unwrap_err();
    assert!(!script.shown.contains(WORD), "{}", script.shown);
}

#[test]
fn a_device_code_is_not_shown() {
    let prompt = json!({
        "device_code": "d-hunter2",
        "user_code": "u-hunter2",
        "verification_uri": "https://auth.example.com/activate",
        "verification_uri_complete": "https://auth.example.com/activate?code=u-hunter2",
    });
    let mut options = options();
    options.grant = LoginGrant::Device;
    let mut script = script().json("https://auth.example.com/device", &prompt);
    script.run(options).unwrap();
    assert!(!script.shown.contains(WORD), "{}", script.shown);
    assert!(script.shown.contains("https://auth.example.com/activate"));
}

#[test]
fn configured_secrets_are_not_shown() {
    let mut options = options();
    options.grant = LoginGrant::Workload {
        assertion: SecretText::new("w-hunter2"),
    };
    options.client.configured = Some(ConfiguredClient {
        id: "c".to_owned(),
        secret: Some(SecretText::new("cs-hunter2")),
        issuer: None,
    });
    assert!(!format!("{options:?}").contains(WORD));
    let mut script = script();
    script.run(options).unwrap();
    assert!(!script.shown.contains(WORD), "{}", script.shown);
}
