//! Requests to send and responses received, independent of any HTTP client.

use std::time::Duration;

use url::Url;

use crate::secret::SecretText;

/// A request for the caller to send. A request with a body is a POST, any other a GET.
///
/// The caller follows no redirect of a POST, and redirects of a GET within the same origin only. It connects only to
/// addresses that [`AddressRules::permits`](crate::AddressRules::permits) accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpRequest {
    /// Where to send it.
    pub url: Url,
    /// The value of `Authorization`, if the client authenticates in a header.
    pub authorization: Option<SecretText>,
    /// The body of a POST.
    pub body: Option<HttpBody>,
}

/// The body of a POST request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpBody {
    /// The value of `Content-Type`.
    pub content_type: &'static str,
    /// The text, which may hold secrets.
    pub text: SecretText,
}

impl HttpRequest {
    pub(crate) fn get(url: Url) -> Self {
        Self {
            url,
            authorization: None,
            body: None,
        }
    }

    pub(crate) fn post(url: Url, content_type: &'static str, text: String) -> Self {
        Self {
            url,
            authorization: None,
            body: Some(HttpBody {
                content_type,
                text: SecretText::new(text),
            }),
        }
    }

    /// `GET` or `POST`.
    pub fn method(&self) -> &'static str {
        if self.body.is_some() { "POST" } else { "GET" }
    }

    /// The headers to send, besides those of the transport. `authorization` is the only secret one.
    pub fn headers(&self) -> Vec<(&'static str, &str)> {
        let mut headers = vec![("accept", "application/json")];
        headers.extend(self.body.iter().map(|body| ("content-type", body.content_type)));
        let authorization = self.authorization.iter();
        headers.extend(authorization.map(|value| ("authorization", value.expose())));
        headers
    }
}

/// A response as the caller received it. The caller bounds the size of the body.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpResponse {
    /// The status code.
    pub status: u16,
    /// The value of `Content-Type`.
    pub content_type: Option<String>,
    /// The pause that `Retry-After` asks for.
    pub retry_after: Option<Duration>,
    /// The body, decompressed.
    pub body: Vec<u8>,
}

impl HttpResponse {
    /// A response with a JSON body and no `Retry-After`.
    pub fn json(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            content_type: Some("application/json".to_owned()),
            retry_after: None,
            body: body.into(),
        }
    }

    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The server could not answer now: too many requests, a timeout, or a fault of its own.
    pub(crate) fn is_temporary(&self) -> bool {
        matches!(self.status, 408 | 425 | 429 | 500..=599)
    }
}

/// The body may hold tokens, so only its length is shown.
impl std::fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpResponse")
            .field("status", &self.status)
            .field("content_type", &self.content_type)
            .field("retry_after", &self.retry_after)
            .field("body", &format_args!("{} bytes", self.body.len()))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_requests_nor_responses_show_their_secrets() {
        let url = Url::parse("https://a.example/token").unwrap();
        let mut request = HttpRequest::post(url, "application/json", "hunter2".to_owned());
        request.authorization = Some(SecretText::new("Basic hunter2"));
        assert!(!format!("{request:?}").contains("hunter2"));
        assert_eq!(
            request.headers(),
            [
                ("accept", "application/json"),
                ("content-type", "application/json"),
                ("authorization", "Basic hunter2")
            ]
        );
        assert_eq!(request.method(), "POST");
        let response = HttpResponse::json(200, "hunter2");
        assert!(!format!("{response:?}").contains("hunter2"));
    }

    #[test]
    fn throttling_timeouts_and_server_errors_are_temporary() {
        for (status, temporary) in [
            (200, false),
            (400, false),
            (401, false),
            (404, false),
            (408, true),
            (429, true),
            (500, true),
            (503, true),
            (599, true),
            (600, false),
        ] {
            assert_eq!(
                HttpResponse::json(status, "").is_temporary(),
                temporary,
                "{status}"
            );
        }
    }
}
