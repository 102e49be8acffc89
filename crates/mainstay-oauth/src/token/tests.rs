use std::time::UNIX_EPOCH;

use super::*;

fn read_body(body: &str) -> Result<IssuedTokens, TokenError> {
    read(&HttpResponse::json(200, body), Expect::Bearer, UNIX_EPOCH)
}

fn refused(status: u16, body: &str) -> TokenError {
    read(&HttpResponse::json(status, body), Expect::Bearer, UNIX_EPOCH).unwrap_err()
}

#[test]
fn a_full_response_is_read() {
    let tokens = read_body(
        r#"{"access_token":"at","token_type":"BEARER","expires_in":60,"refresh_token":"rt","scope":"a  b a"}"#,
    )
    .unwrap();
    assert_eq!(tokens.access_token.expose(), "at");
    assert_eq!(tokens.refresh_token.unwrap().expose(), "rt");
    assert_eq!(tokens.expires_at, Some(UNIX_EPOCH + Duration::from_secs(60)));
    assert_eq!(tokens.scopes.unwrap(), ["a", "b"]);
}

#[test]
fn an_odd_lifetime_is_no_error() {
    let seconds = |n| Some(UNIX_EPOCH + Duration::from_secs(n));
    for (value, expected) in [
        ("3600", seconds(3600)),
        ("\"3600\"", seconds(3600)),
        ("\" 7 \"", seconds(7)),
        ("1.5", Some(UNIX_EPOCH + Duration::from_millis(1500))),
        ("0", None),
        ("-1", None),
        ("\"-1\"", None),
        ("\"soon\"", None),
        ("\"NaN\"", None),
        ("null", None),
        ("true", None),
        ("[]", None),
        ("{}", None),
        ("1e300", Some(UNIX_EPOCH + LIFETIME_LIMIT)),
        ("99999999999999999999", Some(UNIX_EPOCH + LIFETIME_LIMIT)),
        ("\"inf\"", Some(UNIX_EPOCH + LIFETIME_LIMIT)),
    ] {
        let tokens = read_body(&format!(r#"{{"access_token":"at","expires_in":{value}}}"#)).unwrap();
        assert_eq!(tokens.expires_at, expected, "{value}");
    }
    assert_eq!(read_body(r#"{"access_token":"at"}"#).unwrap().expires_at, None);
}

#[test]
fn tokens_that_no_header_can_carry_are_refused_and_not_shown() {
    for token in [
        "hunter2\\n",
        "hunter2\\u0000",
        "hunter 2",
        "hunter2é",
        "\\r\\nhunter2: x",
    ] {
        for body in [
            format!(r#"{{"access_token":"{token}"}}"#),
            format!(r#"{{"access_token":"at","refresh_token":"{token}"}}"#),
        ] {
            let error = read_body(&body).unwrap_err();
            assert!(matches!(error, TokenError::Unusable { .. }), "{error}");
            assert!(!format!("{error}{error:?}").contains("hunter"), "{error}");
        }
    }
    let long = "x".repeat(TOKEN_LIMIT + 1);
    assert!(read_body(&format!(r#"{{"access_token":"{long}"}}"#)).is_err());
    assert!(read_body(&format!(r#"{{"access_token":"{}"}}"#, &long[1..])).is_ok());
}

#[test]
fn only_bearer_tokens_are_used() {
    for kind in ["DPoP", "mac", "N_A", ""] {
        let body = format!(r#"{{"access_token":"at","token_type":"{kind}"}}"#);
        assert!(
            matches!(read_body(&body), Err(TokenError::Unusable { .. })),
            "{kind}"
        );
    }
    assert!(
        read_body(r#"{"access_token":"at"}"#).is_ok(),
        "some servers leave it out"
    );
}

#[test]
fn an_empty_refresh_token_or_an_odd_scope_counts_as_none() {
    let tokens = read_body(r#"{"access_token":"at","refresh_token":"","scope":["a"]}"#).unwrap();
    assert_eq!(tokens.refresh_token, None);
    assert_eq!(tokens.scopes, None);
}

#[test]
fn failures_are_classified() {
    assert!(matches!(
        refused(400, r#"{"error":"invalid_grant"}"#),
        TokenError::InvalidGrant { .. }
    ));
    assert!(matches!(
        refused(401, r#"{"error":"invalid_client"}"#),
        TokenError::InvalidClient { .. }
    ));
    for status in [429, 500, 502, 503, 504, 408] {
        let error = refused(status, r#"{"error":"invalid_grant"}"#);
        assert!(
            error.is_temporary(),
            "{status}: a failing server proves nothing about the grant"
        );
    }
    for code in ["temporarily_unavailable", "server_error"] {
        assert!(refused(400, &format!(r#"{{"error":"{code}"}}"#)).is_temporary());
    }
    let error = refused(400, r#"{"error":"invalid_scope","error_description":"a\nb"}"#);
    assert_eq!(
        error,
        TokenError::Rejected {
            status: 400,
            code: "invalid_scope".to_owned(),
            description: Some("a b".to_owned()),
        }
    );
    assert!(!error.is_temporary());
    assert!(matches!(
        refused(403, "{}"),
        TokenError::Rejected { status: 403, .. }
    ));
    assert!(matches!(
        refused(404, "<html>"),
        TokenError::Document(DocumentError::Html { .. })
    ));
    assert!(matches!(
        refused(200, "<html>"),
        TokenError::Document(DocumentError::Html { .. })
    ));
    assert!(matches!(
        refused(302, ""),
        TokenError::Document(DocumentError::NotJson { .. })
    ));
}

#[test]
fn retry_after_is_passed_on() {
    let mut response = HttpResponse::json(429, "");
    response.retry_after = Some(Duration::from_secs(7));
    let error = read(&response, Expect::Bearer, UNIX_EPOCH).unwrap_err();
    let retry_after = Some(Duration::from_secs(7));
    assert_eq!(
        error,
        TokenError::Temporary {
            status: 429,
            retry_after
        }
    );
}

#[test]
fn an_error_with_status_200_is_an_error() {
    let error = read_body(r#"{"error":"invalid_grant"}"#).unwrap_err();
    assert!(matches!(error, TokenError::InvalidGrant { .. }));
    assert!(matches!(read_body("{}"), Err(TokenError::Unusable { .. })));
    assert!(matches!(
        read_body(r#"{"access_token":""}"#),
        Err(TokenError::Unusable { .. })
    ));
}

#[test]
fn a_token_exchange_must_yield_an_id_jag() {
    let read = |body: &str| read(&HttpResponse::json(200, body), Expect::IdJag, UNIX_EPOCH);
    let id_jag = "urn:ietf:params:oauth:token-type:id-jag";
    let body = format!(r#"{{"access_token":"j","token_type":"N_A","issued_token_type":"{id_jag}"}}"#);
    assert_eq!(read(&body).unwrap().access_token.expose(), "j");
    assert!(read(r#"{"access_token":"j","token_type":"Bearer"}"#).is_err());
}
