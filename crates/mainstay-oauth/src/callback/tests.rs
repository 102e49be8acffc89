use super::*;

const ISSUER: &str = "https://auth.example.com";

fn expected(promises_iss: bool, compares_iss: bool) -> Expected {
    Expected {
        state: SecretText::new("s1"),
        issuer: ISSUER.to_owned(),
        promises_iss,
        compares_iss,
    }
}

fn code(expected: &Expected, query: &str) -> Result<String, CallbackError> {
    expected.code_of(query).map(|code| code.expose().to_owned())
}

fn mismatch() -> CallbackError {
    CallbackError::IssuerMismatch {
        expected: ISSUER.to_owned(),
    }
}

#[test]
fn iss_advertised_and_right_is_accepted() {
    let query = "code=c&state=s1&iss=https%3A%2F%2Fauth.example.com";
    assert_eq!(code(&expected(true, true), query), Ok("c".to_owned()));
}

#[test]
fn iss_advertised_and_missing_is_rejected() {
    let result = code(&expected(true, true), "code=c&state=s1");
    assert_eq!(result, Err(CallbackError::IssuerMissing));
    let result = code(&expected(true, false), "code=c&state=s1");
    assert_eq!(result, Err(CallbackError::IssuerMissing));
}

#[test]
fn iss_advertised_and_wrong_is_rejected() {
    let query = "code=c&state=s1&iss=https%3A%2F%2Fevil.example";
    assert_eq!(code(&expected(true, true), query), Err(mismatch()));
}

#[test]
fn iss_not_advertised_and_missing_is_accepted() {
    assert_eq!(
        code(&expected(false, true), "code=c&state=s1"),
        Ok("c".to_owned())
    );
}

#[test]
fn iss_not_advertised_but_present_is_compared_all_the_same() {
    let query = "code=c&state=s1&iss=https%3A%2F%2Fevil.example";
    assert_eq!(code(&expected(false, true), query), Err(mismatch()));
    let query = "code=c&state=s1&iss=https%3A%2F%2Fauth.example.com";
    assert_eq!(code(&expected(false, true), query), Ok("c".to_owned()));
}

#[test]
fn iss_not_advertised_is_ignored_before_2026() {
    let query = "code=c&state=s1&iss=https%3A%2F%2Fevil.example";
    assert_eq!(code(&expected(false, false), query), Ok("c".to_owned()));
}

#[test]
fn iss_is_compared_as_text_without_normalisation() {
    for iss in [
        "https://auth.example.com/",
        "https://AUTH.example.com",
        "HTTPS://auth.example.com",
        "https://auth.example.com:443",
        "https://auth.example.%63om",
        "",
    ] {
        let iss: String = form_urlencoded::byte_serialize(iss.as_bytes()).collect();
        let query = format!("code=c&state=s1&iss={iss}");
        assert_eq!(code(&expected(true, true), &query), Err(mismatch()), "{iss}");
        assert_eq!(code(&expected(false, true), &query), Err(mismatch()), "{iss}");
    }
}

#[test]
fn a_wrong_iss_hides_the_error() {
    let query = "error=access_denied&error_description=call+555&state=s1&iss=https%3A%2F%2Fevil.example";
    let error = code(&expected(false, true), query).unwrap_err();
    assert_eq!(error, mismatch());
    assert!(!error.to_string().contains("555"));
    let query = "error=access_denied&state=s1";
    assert_eq!(
        code(&expected(true, true), query),
        Err(CallbackError::IssuerMissing)
    );
}

#[test]
fn a_callback_without_the_right_state_is_refused_before_anything_else() {
    for query in ["code=c", "error=access_denied", "nonsense", ""] {
        let error = code(&expected(false, true), query).unwrap_err();
        assert_eq!(error, CallbackError::NoState, "{query}");
        assert!(
            !error.ends_login() && !error.to_string().contains("another"),
            "{error}"
        );
    }
    for query in [
        "code=c&state=",
        "code=c&state=s2",
        "code=c&state=s1x",
        "error=access_denied&state=s2",
        "code=c&state=s2&iss=https%3A%2F%2Fevil.example",
    ] {
        let error = code(&expected(false, true), query).unwrap_err();
        assert_eq!(error, CallbackError::WrongState, "{query}");
        assert!(!error.ends_login());
    }
}

#[test]
fn the_servers_refusal_ends_the_login_and_is_shown_in_one_line() {
    let query = "error=access_denied&error_description=no%0Athanks&state=s1";
    let error = code(&expected(false, true), query).unwrap_err();
    assert!(error.ends_login());
    assert!(
        error.to_string().ends_with("access_denied (no thanks)"),
        "{error}"
    );
}

#[test]
fn a_parameter_that_comes_twice_is_refused() {
    for parameter in ["state", "code", "iss", "error", "error_description"] {
        let query = format!("state=s1&code=c&iss={ISSUER}&error=e&error_description=d&{parameter}=x");
        let error = code(&expected(false, true), &query).unwrap_err();
        assert!(matches!(error, CallbackError::Repeated { parameter: p } if p == parameter));
        assert!(!error.ends_login());
    }
    assert!(code(&expected(false, true), "state=s1&code=c&x=1&x=2").is_ok());
}

#[test]
fn a_callback_without_a_code_is_refused_and_so_is_a_huge_one() {
    assert_eq!(
        code(&expected(false, true), "state=s1"),
        Err(CallbackError::Empty)
    );
    assert_eq!(
        code(&expected(false, true), "state=s1&code="),
        Err(CallbackError::Empty)
    );
    let huge = format!("state=s1&code={}", "x".repeat(QUERY_LIMIT));
    assert_eq!(code(&expected(false, true), &huge), Err(CallbackError::TooLong));
}

#[test]
fn a_pasted_address_is_reduced_to_its_query() {
    for text in [
        "http://127.0.0.1:1234/callback?code=c&state=s1",
        "  /callback?code=c&state=s1#_=_\n",
        "code=c&state=s1",
    ] {
        assert_eq!(pasted_query(text), "code=c&state=s1", "{text}");
    }
}
