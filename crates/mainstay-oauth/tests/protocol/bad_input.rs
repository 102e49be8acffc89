//! Hostile documents: addresses, sizes and types that no server should send.

use mainstay_oauth::{AddressError, DiscoveryError, DocumentError, HttpResponse, LoginError};
use serde_json::{Value, json};

use crate::support::{
    ISSUER, ISSUER_OAUTH, REGISTER, RESOURCE_PATH, Script, TOKEN, but, challenge, options, resource_metadata,
    server_metadata,
};

const BAD_ADDRESSES: [&str; 17] = [
    "http://auth.example.com/x",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "data:text/html,x",
    "ftp://auth.example.com/x",
    "https://user:pw@auth.example.com/x",
    "https://auth.example.com/x#f",
    "https://127.0.0.1/x",
    "https://localhost/x",
    "https://10.0.0.1/x",
    "https://0x7f.1/x",
    "https://2852039166/x",
    "https://[::1]/x",
    "https://[::ffff:a9fe:a9fe]/x",
    "https://[fe80::1]/x",
    "/relative",
    "",
];

fn address_error(error: LoginError) -> AddressError {
    match error {
        LoginError::Discovery(DiscoveryError::Address(error)) => error,
        other => panic!("{other}"),
    }
}

#[test]
fn a_bad_address_of_any_endpoint_refuses_the_whole_metadata() {
    for endpoint in [
        "authorization_endpoint",
        "token_endpoint",
        "registration_endpoint",
        "device_authorization_endpoint",
        "revocation_endpoint",
    ] {
        for address in BAD_ADDRESSES {
            let mut script = Script::usual().json(
                ISSUER_OAUTH,
                &but(server_metadata(ISSUER), json!({endpoint: address})),
            );
            address_error(script.run(options()).unwrap_err());
            assert_eq!(
                script.addresses(),
                [RESOURCE_PATH, ISSUER_OAUTH],
                "{endpoint} {address}"
            );
        }
    }
}

#[test]
fn a_bad_issuer_or_metadata_address_is_not_asked() {
    for address in BAD_ADDRESSES {
        let mut script = Script::usual().json(
            RESOURCE_PATH,
            &but(resource_metadata(), json!({"authorization_servers": [address]})),
        );
        address_error(script.run(options()).unwrap_err());
        assert_eq!(script.addresses(), [RESOURCE_PATH], "{address}");
        let mut named = options();
        named.challenge = challenge(&format!("Bearer resource_metadata=\"{address}\""));
        let mut script = Script::usual();
        address_error(script.run(named).unwrap_err());
        assert!(script.sent.is_empty(), "{address}");
    }
    let mut script = Script::usual().json(
        RESOURCE_PATH,
        &but(
            resource_metadata(),
            json!({"authorization_servers": ["https://a.example/?x"]}),
        ),
    );
    let error = address_error(script.run(options()).unwrap_err());
    assert!(matches!(error, AddressError::Query { .. }), "{error}");
}

#[test]
fn private_endpoints_are_used_where_a_person_allowed_them() {
    let issuer = "http://10.0.0.7:8080";
    let mut open = options();
    open.allow_private = true;
    let mut script = Script::usual()
        .json(
            RESOURCE_PATH,
            &but(resource_metadata(), json!({"authorization_servers": [issuer]})),
        )
        .json(
            "http://10.0.0.7:8080/.well-known/oauth-authorization-server",
            &server_metadata(issuer),
        )
        .answer("http://10.0.0.7:8080/register", 201, &json!({"client_id": "c"}))
        .json("http://10.0.0.7:8080/token", &json!({"access_token": "at"}));
    script.run(open).unwrap();
}

#[test]
fn members_of_the_wrong_type_are_refused() {
    for (address, changes) in [
        (RESOURCE_PATH, json!({"resource": 7})),
        (
            RESOURCE_PATH,
            json!({"authorization_servers": "https://auth.example.com"}),
        ),
        (RESOURCE_PATH, json!({"authorization_servers": [7]})),
        (RESOURCE_PATH, json!({"scopes_supported": {"a": true}})),
        (ISSUER_OAUTH, json!({"issuer": ["x"]})),
        (ISSUER_OAUTH, json!({"token_endpoint": {}})),
        (ISSUER_OAUTH, json!({"code_challenge_methods_supported": "S256"})),
        (
            ISSUER_OAUTH,
            json!({"client_id_metadata_document_supported": "true"}),
        ),
        (
            ISSUER_OAUTH,
            json!({"authorization_response_iss_parameter_supported": 1}),
        ),
    ] {
        let document = if address == RESOURCE_PATH {
            resource_metadata()
        } else {
            server_metadata(ISSUER)
        };
        let mut script = Script::usual().json(address, &but(document, changes.clone()));
        let error = script.run(options()).unwrap_err();
        let LoginError::Discovery(DiscoveryError::Document { error, .. }) = error else {
            panic!("{changes}: {error}")
        };
        assert!(matches!(error, DocumentError::Malformed { .. }), "{error}");
    }
}

#[test]
fn missing_members_are_named() {
    for member in ["issuer", "token_endpoint"] {
        let mut script =
            Script::usual().json(ISSUER_OAUTH, &but(server_metadata(ISSUER), json!({member: null})));
        let error = script.run(options()).unwrap_err().to_string();
        assert!(error.contains(&format!("`{member}`")), "{error}");
    }
    let error = Script::usual()
        .json(
            ISSUER_OAUTH,
            &but(server_metadata(ISSUER), json!({"authorization_endpoint": null})),
        )
        .run(options())
        .unwrap_err();
    assert!(
        matches!(error, LoginError::NoAuthorizationEndpoint { .. }),
        "{error}"
    );
}

#[test]
fn huge_lists_and_texts_are_refused() {
    let many: Vec<String> = (0..1001).map(|n| format!("s{n}")).collect();
    let long = "x".repeat(3000);
    for (address, changes) in [
        (RESOURCE_PATH, json!({"scopes_supported": many})),
        (RESOURCE_PATH, json!({"authorization_servers": many})),
        (RESOURCE_PATH, json!({"resource": long})),
        (ISSUER_OAUTH, json!({"scopes_supported": [long]})),
        (ISSUER_OAUTH, json!({"issuer": long})),
        (ISSUER_OAUTH, json!({"code_challenge_methods_supported": many})),
        (
            ISSUER_OAUTH,
            json!({"token_endpoint_auth_methods_supported": many}),
        ),
        (
            ISSUER_OAUTH,
            json!({"token_endpoint_auth_signing_alg_values_supported": many}),
        ),
        (
            ISSUER_OAUTH,
            json!({"authorization_grant_profiles_supported": many}),
        ),
    ] {
        let document = if address == RESOURCE_PATH {
            resource_metadata()
        } else {
            server_metadata(ISSUER)
        };
        let mut script = Script::usual().json(address, &but(document, changes.clone()));
        let error = script.run(options()).unwrap_err();
        let LoginError::Discovery(DiscoveryError::Document { error, .. }) = error else {
            panic!("{error}")
        };
        assert!(matches!(error, DocumentError::TooLong { .. }), "{error}");
    }
    let address = format!("https://auth.example.com/{long}");
    let mut script = Script::usual().json(
        ISSUER_OAUTH,
        &but(server_metadata(ISSUER), json!({"token_endpoint": address})),
    );
    let error = address_error(script.run(options()).unwrap_err());
    assert!(matches!(error, AddressError::TooLong { .. }), "{error}");
}

#[test]
fn unreadable_answers_are_typed_errors_everywhere() {
    let bodies: [&[u8]; 8] = [
        b"",
        b"<html>",
        b"nonsense",
        b"[]",
        b"null",
        b"{",
        b"\xff\xfe",
        b"\"text\"",
    ];
    for address in [RESOURCE_PATH, ISSUER_OAUTH, REGISTER, TOKEN] {
        for body in bodies {
            let mut script = Script::usual().raw(address, HttpResponse::json(200, body));
            let error = script.run(options()).unwrap_err();
            assert!(!error.is_temporary(), "{error}");
            assert!(!error.to_string().is_empty());
        }
    }
}

#[test]
fn a_member_that_comes_twice_is_refused() {
    let body = r#"{"access_token":"one","access_token":"two"}"#;
    let error = Script::usual()
        .raw(TOKEN, HttpResponse::json(200, body))
        .run(options())
        .unwrap_err();
    assert!(matches!(error, LoginError::Token(_)), "{error}");
    let issuer = format!(
        r#"{{"issuer":"https://evil.example",{}"#,
        &server_metadata(ISSUER).to_string()[1..]
    );
    assert!(
        Script::usual()
            .raw(ISSUER_OAUTH, HttpResponse::json(200, issuer))
            .run(options())
            .is_err()
    );
}

#[test]
fn unknown_members_are_ignored() {
    let extra = json!({"x": {"y": [1, 2, {"z": null}]}, "jwks_uri": "http://10.0.0.1/keys"});
    let script = Script::usual()
        .json(RESOURCE_PATH, &but(resource_metadata(), extra.clone()))
        .json(ISSUER_OAUTH, &but(server_metadata(ISSUER), extra));
    let mut script = script;
    script.run(options()).unwrap();
}

#[test]
fn every_error_says_something_in_lower_case() {
    let broken: Value = json!({});
    for address in [RESOURCE_PATH, ISSUER_OAUTH, REGISTER, TOKEN] {
        let error = Script::usual()
            .json(address, &broken)
            .run(options())
            .unwrap_err()
            .to_string();
        assert!(error.chars().next().unwrap().is_lowercase(), "{error}");
    }
}
