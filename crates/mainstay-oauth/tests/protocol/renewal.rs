//! Requirements on refreshing, revoking and storing logins.

use std::sync::Arc;
use std::time::Duration;

use mainstay_oauth::{
    AuthMethod, ClientAuthentication, ClientError, ClientSettings, ConfiguredClient, Context, HttpRequest,
    HttpResponse, LoginRecord, OAuthClient, Registration, Renewal, RenewalError, SecretText, SigningKey,
    TokenError, revocation_requests,
};
use ring::rand::SystemRandom;
use serde_json::{Value, json};

use crate::support::{ISSUER, SERVER, Script, Sent, TOKEN, challenge, now, options, url, with_context};

fn login() -> (LoginRecord, Registration) {
    let mut options = options();
    options.challenge = challenge("Bearer scope=\"a b\"");
    let mut script = Script::usual().json(
        TOKEN,
        &json!({"access_token": "at1", "refresh_token": "rt1", "expires_in": 60, "scope": "a c"}),
    );
    let completed = script.run(options).unwrap();
    (completed.record, completed.registration.unwrap())
}

fn start(record: &LoginRecord, client: &OAuthClient) -> Result<(Renewal, HttpRequest), RenewalError> {
    with_context(|context| Renewal::start(record.clone(), Some(client), context))
}

fn renew(
    record: &LoginRecord,
    client: &OAuthClient,
    status: u16,
    answer: &Value,
) -> Result<LoginRecord, RenewalError> {
    let (renewal, _) = start(record, client)?;
    let response = HttpResponse::json(status, answer.to_string());
    let later = now() + Duration::from_secs(100);
    renewal.handle_response(&response, &Context::new(later, &SystemRandom::new()))
}

#[test]
fn a_refresh_asks_for_the_resource_and_exactly_the_granted_scopes() {
    let (record, registration) = login();
    let (_, request) = start(&record, &registration.client().unwrap()).unwrap();
    let form = Sent::of(&request).form();
    assert_eq!(request.url.as_str(), TOKEN);
    assert_eq!(form["grant_type"], "refresh_token");
    assert_eq!(form["refresh_token"], "rt1");
    assert_eq!(form["resource"], SERVER);
    assert_eq!(form["scope"], "a c");
    assert_eq!(form["client_id"], "registered");
    assert_eq!(form.len(), 5);
}

#[test]
fn a_refresh_of_a_login_without_scopes_names_none() {
    let completed = Script::usual().run(options()).unwrap();
    let client = completed.registration.unwrap().client().unwrap();
    let (_, request) = start(&completed.record, &client).unwrap();
    assert_eq!(Sent::of(&request).form().get("scope"), None);
}

#[test]
fn a_rotated_refresh_token_replaces_the_old_one_and_a_missing_one_keeps_it() {
    let (record, registration) = login();
    let client = registration.client().unwrap();
    let renewed = renew(
        &record,
        &client,
        200,
        &json!({"access_token": "at2", "refresh_token": "rt2", "expires_in": 60}),
    )
    .unwrap();
    assert_eq!(renewed.access_token.expose(), "at2");
    assert_eq!(renewed.refresh_token.as_ref().unwrap().expose(), "rt2");
    // The answer took 100 s. The token was issued at some time meanwhile, and its life counts from the request.
    assert_eq!(renewed.expires_at(), Some(now() + Duration::from_secs(60)));
    assert_eq!(renewed.granted_scopes, ["a", "c"]);
    assert_eq!(renewed.requested_scopes, ["a", "b"]);
    let renewed = renew(
        &record,
        &client,
        200,
        &json!({"access_token": "at2", "scope": "a"}),
    )
    .unwrap();
    assert_eq!(renewed.refresh_token.as_ref().unwrap().expose(), "rt1");
    assert_eq!(renewed.granted_scopes, ["a"]);
    assert_eq!(
        renewed.expires_at, None,
        "the old expiry says nothing about the new token"
    );
}

#[test]
fn the_error_of_a_refresh_tells_what_ends_the_login() {
    let (record, registration) = login();
    let client = registration.client().unwrap();
    let error = |status, answer| match renew(&record, &client, status, &answer).unwrap_err() {
        RenewalError::Token(error) => error,
        other => panic!("{other}"),
    };
    assert!(matches!(
        error(400, json!({"error": "invalid_grant"})),
        TokenError::InvalidGrant { .. }
    ));
    assert!(matches!(
        error(401, json!({"error": "invalid_client"})),
        TokenError::InvalidClient { .. }
    ));
    assert!(error(503, json!({})).is_temporary());
    assert!(error(429, json!({"error": "invalid_grant"})).is_temporary());
    assert!(matches!(
        error(400, json!({"error": "invalid_scope"})),
        TokenError::Rejected { .. }
    ));
}

#[test]
fn a_refresh_token_is_sent_by_the_client_and_to_the_issuer_it_was_issued_by() {
    let (record, registration) = login();
    let mut other = registration.client().unwrap();
    other.issuer = "https://new.example.com".to_owned();
    assert!(matches!(start(&record, &other), Err(RenewalError::OtherClient { issuer }) if issuer == ISSUER));
    let mut other = registration.client().unwrap();
    other.id = "another".to_owned();
    assert!(matches!(
        start(&record, &other),
        Err(RenewalError::OtherClient { .. })
    ));
    let none = with_context(|context| Renewal::start(record.clone(), None, context));
    assert!(matches!(none, Err(RenewalError::OtherClient { .. })));
}

#[test]
fn a_login_without_refresh_token_cannot_be_refreshed_and_stays_good() {
    let (mut record, registration) = login();
    record.refresh_token = None;
    let error = start(&record, &registration.client().unwrap()).unwrap_err();
    assert_eq!(error, RenewalError::NoRefreshToken);
}

#[test]
fn a_logout_revokes_the_refresh_token_and_then_the_access_token() {
    let (mut record, registration) = login();
    let client = registration.client().unwrap();
    let requests = with_context(|context| revocation_requests(&record, Some(&client), context)).unwrap();
    let forms: Vec<_> = requests.iter().map(|request| Sent::of(request).form()).collect();
    assert!(
        requests
            .iter()
            .all(|request| request.url.as_str() == "https://auth.example.com/revoke")
    );
    assert_eq!(
        (forms[0]["token"].as_str(), forms[0]["token_type_hint"].as_str()),
        ("rt1", "refresh_token")
    );
    assert_eq!(
        (forms[1]["token"].as_str(), forms[1]["token_type_hint"].as_str()),
        ("at1", "access_token")
    );
    assert_eq!(forms[1]["client_id"], "registered");
    assert_eq!(forms.len(), 2);
    record.revocation_endpoint = None;
    let none = with_context(|context| revocation_requests(&record, Some(&client), context)).unwrap();
    assert!(none.is_empty());
    let mut other = client;
    other.issuer = "https://evil.example".to_owned();
    assert!(with_context(|context| revocation_requests(&record, Some(&other), context)).is_err());
}

#[test]
fn stored_forms_survive_a_round_trip_and_carry_their_version() {
    let (record, registration) = login();
    let text = serde_json::to_string(&record).unwrap();
    assert_eq!(serde_json::from_str::<LoginRecord>(&text).unwrap(), record);
    assert!(text.contains("\"version\":1"));
    let text = serde_json::to_string(&registration).unwrap();
    assert_eq!(serde_json::from_str::<Registration>(&text).unwrap(), registration);
    let stored: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(stored["method"], "none");
    assert_eq!(stored["version"], 1);
    assert!(serde_json::from_str::<Registration>("{}").is_err());
}

#[test]
fn a_record_belongs_to_one_server_address_and_one_version() {
    let (mut record, _) = login();
    assert!(record.is_for(&url(SERVER)));
    assert!(!record.is_for(&url("https://mcp.example.com/mcp2")));
    assert!(!record.is_for(&url("https://evil.example/mcp")));
    record.version = 2;
    assert!(!record.is_for(&url(SERVER)));
}

#[test]
fn the_client_of_a_record_is_found_again_after_a_restart() {
    let (mut record, registration) = login();
    let mut settings = ClientSettings::default();
    let found = record
        .client(&settings, std::slice::from_ref(&registration))
        .unwrap()
        .unwrap();
    assert_eq!((found.id.as_str(), found.issuer.as_str()), ("registered", ISSUER));
    record.method = AuthMethod::ClientSecretPost;
    let error = record
        .client(&settings, std::slice::from_ref(&registration))
        .unwrap_err();
    assert!(matches!(error, ClientError::NoSecret { .. }), "{error}");
    let mut with_secret = registration;
    with_secret.client_secret = Some(SecretText::new("s"));
    let found = record
        .client(&settings, std::slice::from_ref(&with_secret))
        .unwrap()
        .unwrap();
    assert!(matches!(
        found.authentication,
        ClientAuthentication::SecretPost(_)
    ));
    with_secret.issuer = "https://new.example.com".to_owned();
    assert!(
        record.client(&settings, &[with_secret]).is_err(),
        "a secret of another issuer"
    );
    let configured = |issuer: Option<&str>| ConfiguredClient {
        id: "registered".to_owned(),
        secret: Some(SecretText::new("t")),
        issuer: issuer.map(str::to_owned),
    };
    settings.configured = Some(configured(Some(ISSUER)));
    assert!(record.client(&settings, &[]).unwrap().is_some());
    settings.configured = Some(configured(Some("https://new.example.com")));
    assert!(record.client(&settings, &[]).is_err());
    record.client_id = None;
    assert!(record.client(&settings, &[]).unwrap().is_none());
}

#[test]
fn the_key_of_a_record_signs_with_the_algorithm_the_server_accepted() {
    let (mut record, _) = login();
    record.method = AuthMethod::PrivateKeyJwt;
    record.assertion_algorithm = Some("PS256".to_owned());
    let mut settings = ClientSettings::default();
    assert!(matches!(
        record.client(&settings, &[]),
        Err(ClientError::NoSecret { .. })
    ));
    let pem = include_str!("../../src/signing/test-rsa.pem");
    settings.signing_key = Some(Arc::new(
        SigningKey::from_pem(pem, None, &SystemRandom::new()).unwrap(),
    ));
    let client = record.client(&settings, &[]).unwrap().unwrap();
    let ClientAuthentication::PrivateKeyJwt { algorithm, .. } = &client.authentication else {
        panic!("{client:?}");
    };
    assert_eq!((algorithm.as_str(), client.issuer.as_str()), ("PS256", ISSUER));
    let (_, request) = start(&record, &client).unwrap();
    assert!(Sent::of(&request).form().contains_key("client_assertion"));
}
