//! The authorization scenarios of the MCP conformance suite as sequences of documents, each named as the suite names it.

use mainstay_oauth::{
    AuthChallenge, CallbackError, ConfiguredClient, DiscoveryError, LoginError, LoginOptions, Revision,
    SecretText, StepUp,
};
use serde_json::{Value, json};
use url::Url;

use crate::support::{Script, but, challenge, server_metadata, url};

const MCP: &str = "http://localhost:3000/mcp";
const AS: &str = "http://localhost:4000";
const PATH_FORM: &str = "http://localhost:3000/.well-known/oauth-protected-resource/mcp";
const ROOT_FORM: &str = "http://localhost:3000/.well-known/oauth-protected-resource";
const AS_OAUTH: &str = "http://localhost:4000/.well-known/oauth-authorization-server";
const AS_OPENID: &str = "http://localhost:4000/.well-known/openid-configuration";
const BOTH: [Revision; 2] = [Revision::V2025_11_25, Revision::V2026_07_28];

fn options(revision: Revision, header: &str) -> LoginOptions {
    let mut options = LoginOptions::new(url(MCP));
    options.revision = revision;
    options.challenge = challenge(header);
    options
}

fn metadata_of(issuer: &str, changes: Value) -> Value {
    but(server_metadata(issuer), changes)
}

/// The suite's servers: metadata at two places, a registration that answers with an unrequested secret.
fn suite(prm: &str, resource: &str, issuer: &str, metadata: &str, changes: Value) -> Script {
    Script::empty()
        .json(prm, &json!({"resource": resource, "authorization_servers": [issuer]}))
        .json(metadata, &metadata_of(issuer, changes))
        .answer(
            &format!("{issuer}/register"),
            201,
            &json!({"client_id": "test-client-id", "client_secret": "test-client-secret", "redirect_uris": []}),
        )
        .json(
            &format!("{issuer}/token"),
            &json!({"access_token": "test-token", "token_type": "Bearer", "expires_in": 3600}),
        )
}

fn usual(changes: Value) -> Script {
    suite(PATH_FORM, MCP, AS, AS_OAUTH, changes)
}

fn named(prm: &str) -> String {
    format!("Bearer error=\"invalid_token\", resource_metadata=\"{prm}\"")
}

/// What every scenario checks.
fn check(script: &Script, resource: &str, issuer: &str) {
    assert_eq!(script.browsed("code_challenge_method"), Some("S256"));
    assert_eq!(script.browsed("resource"), Some(resource));
    assert_eq!(
        script.only(&format!("{issuer}/token")).form()["resource"],
        resource
    );
    for registration in script.sent_to(&format!("{issuer}/register")) {
        let document = registration.json();
        assert_eq!(document["application_type"], "native");
        assert!(
            document["grant_types"]
                .as_array()
                .unwrap()
                .contains(&json!("refresh_token"))
        );
    }
}

#[test]
fn metadata_default() {
    for revision in BOTH {
        let mut script = usual(json!({}));
        script.run(options(revision, &named(PATH_FORM))).unwrap();
        check(&script, MCP, AS);
        assert!(script.sent_to(ROOT_FORM).is_empty(), "a trap");
        let form = script.only("http://localhost:4000/token").form();
        assert_eq!(form.get("client_secret"), None, "the server takes no secret");
    }
}

#[test]
fn metadata_var1() {
    for revision in BOTH {
        let mut script = suite(PATH_FORM, MCP, AS, AS_OPENID, json!({}));
        script
            .run(options(revision, "Bearer error=\"invalid_token\""))
            .unwrap();
        check(&script, MCP, AS);
        assert!(script.sent_to(ROOT_FORM).is_empty());
    }
}

#[test]
fn metadata_var2() {
    for revision in BOTH {
        let tenant = "http://localhost:4000/tenant1";
        let place = "http://localhost:4000/.well-known/oauth-authorization-server/tenant1";
        let mut script = suite(ROOT_FORM, "http://localhost:3000", tenant, place, json!({}));
        script.run(options(revision, "Bearer")).unwrap();
        check(&script, "http://localhost:3000", tenant);
        assert!(script.sent_to(AS_OAUTH).is_empty(), "a trap");
    }
}

#[test]
fn metadata_var3() {
    for revision in BOTH {
        let tenant = "http://localhost:4000/tenant1";
        let place = "http://localhost:4000/tenant1/.well-known/openid-configuration";
        let custom = "http://localhost:3000/custom/metadata/location.json";
        let mut script = suite(custom, MCP, tenant, place, json!({}));
        script.run(options(revision, &named(custom))).unwrap();
        check(&script, MCP, tenant);
        assert!(script.sent_to(AS_OAUTH).is_empty() && script.sent_to(AS_OPENID).is_empty());
    }
}

#[test]
fn basic_cimd() {
    let client = "https://conformance-test.local/client-metadata.json";
    for revision in BOTH {
        let mut script = usual(json!({"client_id_metadata_document_supported": true}));
        let mut options = options(revision, &named(PATH_FORM));
        options.client.metadata_url = Some(client.to_owned());
        script.run(options).unwrap();
        check(&script, MCP, AS);
        assert_eq!(script.browsed("client_id"), Some(client));
        assert!(script.sent_to("http://localhost:4000/register").is_empty());
    }
}

#[test]
fn scope_from_www_authenticate_from_scopes_supported_and_omitted_when_undefined() {
    let published = json!({"resource": MCP, "authorization_servers": [AS], "scopes_supported": ["mcp:basic", "mcp:read"]});
    for revision in BOTH {
        let header = format!("{}, scope=\"mcp:basic\"", named(PATH_FORM));
        let mut script = usual(json!({})).json(PATH_FORM, &published);
        script.run(options(revision, &header)).unwrap();
        assert_eq!(script.browsed("scope"), Some("mcp:basic"));
        let mut script = usual(json!({})).json(PATH_FORM, &published);
        script.run(options(revision, &named(PATH_FORM))).unwrap();
        assert_eq!(script.browsed("scope"), Some("mcp:basic mcp:read"));
        let mut script = usual(json!({"scopes_supported": ["other", "offline_access"]}));
        script.run(options(revision, &named(PATH_FORM))).unwrap();
        assert_eq!(script.browsed("scope"), None);
    }
}

#[test]
fn scope_step_up() {
    let decoy = json!({"resource": MCP, "authorization_servers": [AS], "scopes_supported": ["mcp:basic", "mcp:write", "decoy"]});
    for revision in BOTH {
        let mut script = usual(json!({})).json(PATH_FORM, &decoy);
        let first = script
            .run(options(
                revision,
                &format!("{}, scope=\"mcp:basic\"", named(PATH_FORM)),
            ))
            .unwrap();
        let header = format!(
            "Bearer error=\"insufficient_scope\", scope=\"mcp:write\", resource_metadata=\"{PATH_FORM}\""
        );
        let mut more = options(revision, &header);
        more.asked_before = first.record.requested_scopes;
        more.registrations = first.registration.into_iter().collect();
        assert_eq!(StepUp::default().check(&more.challenge), Ok(()));
        let mut script = usual(json!({})).json(PATH_FORM, &decoy);
        script.run(more).unwrap();
        let expected = if revision == Revision::V2026_07_28 {
            "mcp:basic mcp:write"
        } else {
            "mcp:write"
        };
        assert_eq!(script.browsed("scope"), Some(expected));
    }
}

#[test]
fn scope_retry_limit() {
    let refused = challenge("Bearer error=\"insufficient_scope\", scope=\"mcp:admin\"");
    for revision in BOTH {
        let mut step_up = StepUp::default();
        let mut authorizations = 0;
        let mut next = options(revision, &named(PATH_FORM));
        loop {
            usual(json!({})).run(next.clone()).unwrap();
            authorizations += 1;
            step_up.note_authorization();
            if step_up.check(&refused).is_err() {
                break;
            }
            next.challenge = refused.clone();
        }
        assert_eq!(authorizations, 3);
    }
}

#[test]
fn token_endpoint_auth_basic_post_and_none() {
    for revision in BOTH {
        for method in ["client_secret_basic", "client_secret_post", "none"] {
            let mut script = usual(json!({"token_endpoint_auth_methods_supported": [method]}));
            script.run(options(revision, &named(PATH_FORM))).unwrap();
            check(&script, MCP, AS);
            let request = script.only("http://localhost:4000/token");
            let form = request.form();
            assert_eq!(request.authorization.is_some(), method == "client_secret_basic");
            assert_eq!(form.contains_key("client_secret"), method == "client_secret_post");
            assert_eq!(form.contains_key("client_id"), method != "client_secret_basic");
        }
    }
}

#[test]
fn pre_registration() {
    for revision in BOTH {
        let mut script = usual(
            json!({"registration_endpoint": null, "token_endpoint_auth_methods_supported": ["client_secret_basic"]}),
        );
        let mut options = options(revision, &named(PATH_FORM));
        options.client.configured = Some(ConfiguredClient {
            id: "pre-registered-client".to_owned(),
            secret: Some(SecretText::new("pre-registered-secret")),
            issuer: None,
        });
        script.run(options).unwrap();
        check(&script, MCP, AS);
        let header = script
            .only("http://localhost:4000/token")
            .authorization
            .as_deref()
            .unwrap();
        assert_eq!(
            header,
            "Basic cHJlLXJlZ2lzdGVyZWQtY2xpZW50OnByZS1yZWdpc3RlcmVkLXNlY3JldA=="
        );
    }
}

#[test]
fn resource_mismatch() {
    let other = json!({"resource": "https://evil.example.com/mcp", "authorization_servers": [AS]});
    let mut script = usual(json!({})).json(PATH_FORM, &other);
    let error = script
        .run(options(Revision::V2026_07_28, &named(PATH_FORM)))
        .unwrap_err();
    assert!(
        matches!(
            error,
            LoginError::Discovery(DiscoveryError::ResourceMismatch { .. })
        ),
        "{error}"
    );
    assert_eq!(script.addresses(), [PATH_FORM]);
}

#[test]
fn metadata_issuer_mismatch() {
    let mut script = usual(json!({"issuer": "https://evil.example.com"}));
    let error = script
        .run(options(Revision::V2026_07_28, &named(PATH_FORM)))
        .unwrap_err();
    assert!(
        matches!(
            error,
            LoginError::Discovery(DiscoveryError::IssuerMismatch { .. })
        ),
        "{error}"
    );
    assert_eq!(script.addresses(), [PATH_FORM, AS_OAUTH]);
}

#[test]
fn offline_access_scope_and_offline_access_not_supported() {
    let published =
        json!({"resource": MCP, "authorization_servers": [AS], "scopes_supported": ["mcp:basic"]});
    for (listed, expected) in [
        (json!(["mcp:basic", "offline_access"]), "mcp:basic offline_access"),
        (json!(["mcp:basic"]), "mcp:basic"),
    ] {
        let mut script = usual(json!({"scopes_supported": listed})).json(PATH_FORM, &published);
        script
            .run(options(Revision::V2026_07_28, &named(PATH_FORM)))
            .unwrap();
        check(&script, MCP, AS);
        assert_eq!(script.browsed("scope"), Some(expected));
    }
}

#[test]
fn authorization_server_migration() {
    let first = usual(json!({}))
        .run(options(Revision::V2026_07_28, &named(PATH_FORM)))
        .unwrap();
    let moved = "http://localhost:5000";
    let place = "http://localhost:5000/.well-known/oauth-authorization-server";
    let mut script = suite(PATH_FORM, MCP, moved, place, json!({})).answer(
        "http://localhost:5000/register",
        201,
        &json!({"client_id": "new-client"}),
    );
    let mut again = options(Revision::V2026_07_28, &named(PATH_FORM));
    again.registrations = first.registration.into_iter().collect();
    again.asked_before = first.record.requested_scopes;
    script.run(again).unwrap();
    check(&script, MCP, moved);
    assert_eq!(script.sent_to("http://localhost:5000/register").len(), 1);
    assert_eq!(script.browsed("client_id"), Some("new-client"));
    assert!(
        script
            .sent
            .iter()
            .all(|sent| !sent.body.contains("test-client-id"))
    );
}

/// One `iss` scenario: what the metadata says, what the callback carries, and whether the code may be redeemed.
fn iss(advertised: Option<bool>, carried: Option<&str>, accepted: bool) {
    let changes = json!({"authorization_response_iss_parameter_supported": advertised});
    let carried = carried.map(str::to_owned);
    let mut script = usual(changes).person(move |asked| {
        let mut callback: Url = asked["redirect_uri"].parse().unwrap();
        callback
            .query_pairs_mut()
            .append_pair("code", "test-auth-code")
            .append_pair("state", &asked["state"]);
        if let Some(iss) = &carried {
            callback.query_pairs_mut().append_pair("iss", iss);
        }
        callback.query().unwrap().to_owned()
    });
    let result = script.run(options(Revision::V2026_07_28, &named(PATH_FORM)));
    assert!(script.browsed.is_some(), "the redirect is reached");
    assert_eq!(
        script.sent_to("http://localhost:4000/token").len(),
        usize::from(accepted),
        "the code"
    );
    match result {
        Ok(_) => assert!(accepted),
        Err(LoginError::Callback(CallbackError::IssuerMissing | CallbackError::IssuerMismatch { .. })) => {
            assert!(!accepted);
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn iss_supported() {
    iss(Some(true), Some(AS), true);
}

#[test]
fn iss_not_advertised() {
    iss(None, None, true);
    iss(Some(false), None, true);
    iss(None, Some(AS), true);
}

#[test]
fn iss_supported_missing() {
    iss(Some(true), None, false);
}

#[test]
fn iss_wrong_issuer() {
    iss(Some(true), Some("https://evil.example.com"), false);
}

#[test]
fn iss_unexpected() {
    iss(None, Some("https://evil.example.com"), false);
    iss(Some(false), Some("https://evil.example.com"), false);
}

#[test]
fn iss_normalized() {
    iss(Some(true), Some("http://localhost:4000/"), false);
    iss(Some(true), Some("http://LOCALHOST:4000"), false);
}

#[test]
fn backcompat_2025_03_26_oauth_metadata() {
    let place = "http://localhost:3000/.well-known/oauth-authorization-server";
    let base = "http://localhost:3000/oauth";
    let mut script = suite("http://unused/", MCP, base, place, json!({}));
    script.run(options(Revision::V2025_03_26, "Bearer")).unwrap();
    assert_eq!(script.sent_to("http://localhost:3000/oauth/register").len(), 1);
    assert_eq!(script.sent_to("http://localhost:3000/oauth/token").len(), 1);
}

#[test]
fn backcompat_2025_03_26_oauth_endpoint_fallback() {
    let mut script = suite(
        "http://unused/",
        MCP,
        "http://localhost:3000",
        "http://unused/2",
        json!({}),
    );
    script.run(options(Revision::V2025_03_26, "")).unwrap();
    assert_eq!(script.sent_to("http://localhost:3000/register").len(), 1);
    assert_eq!(script.sent_to("http://localhost:3000/token").len(), 1);
    assert!(script.browsed("code_challenge").is_some());
    assert_eq!(challenge(""), AuthChallenge::default());
}
