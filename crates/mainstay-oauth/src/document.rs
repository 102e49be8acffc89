//! JSON documents from servers that are not trusted, and the bounds of what they may hold.
//!
//! The caller bounds the bytes of a document. Here each text and each list is bounded, so that a valid document cannot
//! make a request too long to send. Errors never quote a document that failed to parse: it may hold a token.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::http::HttpResponse;

/// The longest text in a metadata document. Addresses beyond 2,048 characters fail in browsers and proxies.
pub(crate) const TEXT_LIMIT: usize = 2048;

/// The longest list in a metadata document. Large authorization servers list some hundred scopes.
pub(crate) const LIST_LIMIT: usize = 1000;

/// How much of a server's explanation an error shows.
const EXPLANATION_LIMIT: usize = 200;

/// A document that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// A web page came instead of JSON.
    #[error(
        "the {document} is an HTML page instead of JSON; check the address, and whether a proxy or login page answers there"
    )]
    Html {
        /// Which document.
        document: &'static str,
    },
    /// The body is no JSON.
    #[error("the {document} is not valid JSON (status {status}, line {line}, column {column})")]
    NotJson {
        /// Which document.
        document: &'static str,
        /// The status of the response.
        status: u16,
        /// Where it stops being JSON.
        line: usize,
        /// Where it stops being JSON.
        column: usize,
    },
    /// The JSON does not have the members that the specification gives this document.
    #[error(
        "the {document} is JSON but not of the specified form: a member has the wrong type, is missing or comes twice (line {line}, column {column})"
    )]
    Malformed {
        /// Which document.
        document: &'static str,
        /// Where the form is broken.
        line: usize,
        /// Where the form is broken.
        column: usize,
    },
    /// A required member is missing or empty.
    #[error("the {document} has no `{member}`")]
    Missing {
        /// Which document.
        document: &'static str,
        /// The member.
        member: &'static str,
    },
    /// A member is longer than any real server needs.
    #[error("`{member}` of the {document} is longer than the limit of {limit}")]
    TooLong {
        /// Which document.
        document: &'static str,
        /// The member.
        member: &'static str,
        /// The limit, in characters or entries.
        limit: usize,
    },
}

/// Parses the body of a response.
pub(crate) fn parse<T: DeserializeOwned>(
    document: &'static str,
    response: &HttpResponse,
) -> Result<T, DocumentError> {
    let body = response
        .body
        .strip_prefix("\u{feff}".as_bytes())
        .unwrap_or(&response.body);
    if is_html(response.content_type.as_deref(), body) {
        return Err(DocumentError::Html { document });
    }
    serde_json::from_slice(body).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        if error.is_data() {
            DocumentError::Malformed {
                document,
                line,
                column,
            }
        } else {
            let status = response.status;
            DocumentError::NotJson {
                document,
                status,
                line,
                column,
            }
        }
    })
}

fn is_html(content_type: Option<&str>, body: &[u8]) -> bool {
    let starts_like_a_page = body.trim_ascii_start().first() == Some(&b'<');
    let says_so =
        content_type.is_some_and(|value| value.trim_start().to_ascii_lowercase().starts_with("text/html"));
    // Some servers send JSON as `text/html`; what counts is the body.
    starts_like_a_page || (says_so && !body.trim_ascii_start().starts_with(b"{"))
}

/// Checks the length of a text.
pub(crate) fn bounded(
    document: &'static str,
    member: &'static str,
    text: Option<String>,
    limit: usize,
) -> Result<Option<String>, DocumentError> {
    if text.as_ref().is_some_and(|text| text.len() > limit) {
        return Err(DocumentError::TooLong {
            document,
            member,
            limit,
        });
    }
    Ok(text.filter(|text| !text.is_empty()))
}

/// Checks the lengths of a list and of its entries.
pub(crate) fn bounded_list(
    document: &'static str,
    member: &'static str,
    list: Option<Vec<String>>,
) -> Result<Option<Vec<String>>, DocumentError> {
    let Some(list) = list else { return Ok(None) };
    let too_long = |limit| DocumentError::TooLong {
        document,
        member,
        limit,
    };
    if list.len() > LIST_LIMIT {
        return Err(too_long(LIST_LIMIT));
    }
    if list.iter().any(|entry| entry.len() > TEXT_LIMIT) {
        return Err(too_long(TEXT_LIMIT));
    }
    Ok(Some(list))
}

/// The error members that OAuth endpoints answer with (RFC 6749 section 5.2).
#[derive(Deserialize)]
pub(crate) struct ErrorMembers {
    pub(crate) error: Option<String>,
    pub(crate) error_description: Option<String>,
}

/// A server's explanation as errors may show it: one line, bounded, without control characters.
pub(crate) fn explanation(text: &str) -> String {
    let plain = text.chars().map(|c| if is_unprintable(c) { ' ' } else { c });
    plain
        .take(EXPLANATION_LIMIT)
        .collect::<String>()
        .trim()
        .to_owned()
}

/// Control characters, and the marks that reorder text on a terminal.
fn is_unprintable(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_text(text: &str, content_type: Option<&str>) -> Result<ErrorMembers, DocumentError> {
        let mut response = HttpResponse::json(200, text);
        response.content_type = content_type.map(str::to_owned);
        parse("answer", &response)
    }

    #[test]
    fn a_web_page_is_told_from_broken_json() {
        for page in ["<!DOCTYPE html>", "  \n<html>", "\u{feff}<p>"] {
            let error = parse_text(page, None).err().unwrap();
            assert_eq!(error, DocumentError::Html { document: "answer" });
        }
        let error = parse_text("Sign in", Some("Text/HTML; charset=utf-8"))
            .err()
            .unwrap();
        assert_eq!(error, DocumentError::Html { document: "answer" });
        assert!(
            parse_text("{}", Some("text/html")).is_ok(),
            "JSON with the wrong type"
        );
        assert!(parse_text("\u{feff}{}", None).is_ok(), "a byte order mark");
        let error = parse_text("{\"error\":", None).err().unwrap();
        assert!(matches!(error, DocumentError::NotJson { status: 200, .. }));
        let error = parse_text("{\"error\":7}", None).err().unwrap();
        assert!(matches!(error, DocumentError::Malformed { .. }));
    }

    #[test]
    fn errors_do_not_quote_the_document() {
        for text in ["{\"error\":\"hunter2\"", "{\"error\":[\"hunter2\"]}", "hunter2"] {
            let error = parse_text(text, None).err().unwrap();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn an_explanation_is_one_bounded_printable_line() {
        assert_eq!(explanation(" a\nb\u{1b}[31m\u{202e}c "), "a b [31m c");
        assert_eq!(explanation(&"x".repeat(1000)).len(), EXPLANATION_LIMIT);
    }

    #[test]
    fn texts_and_lists_are_bounded() {
        let text = |n| Some("x".repeat(n));
        assert!(bounded("d", "m", text(TEXT_LIMIT), TEXT_LIMIT).is_ok());
        assert!(bounded("d", "m", text(TEXT_LIMIT + 1), TEXT_LIMIT).is_err());
        assert_eq!(bounded("d", "m", text(0), TEXT_LIMIT), Ok(None));
        let list = |n| Some(vec!["x".to_owned(); n]);
        assert!(bounded_list("d", "m", list(LIST_LIMIT)).is_ok());
        assert!(bounded_list("d", "m", list(LIST_LIMIT + 1)).is_err());
        assert!(bounded_list("d", "m", Some(vec!["x".repeat(TEXT_LIMIT + 1)])).is_err());
    }
}
