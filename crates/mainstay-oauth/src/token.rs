//! Responses of the token endpoint.

use std::time::{Duration, SystemTime};

use serde::Deserialize;
use serde_json::Value;

use crate::document::{self, DocumentError, ErrorMembers, explanation};
use crate::http::HttpResponse;
use crate::scope::{is_scope, join};
use crate::secret::SecretText;

const DOCUMENT: &str = "token response";

/// The longest token. Longer ones fit no header that servers accept.
const TOKEN_LIMIT: usize = 32 * 1024;

/// The longest lifetime that is believed. It keeps absurd numbers from overflowing the time.
const LIFETIME_LIMIT: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// A token request that failed. Only `InvalidGrant` for the stored refresh token ends a login.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The code, refresh token or assertion is not valid, or not any more.
    #[error(
        "the authorization server says the grant is no longer valid (invalid_grant){}; log in again",
        suffix(description)
    )]
    InvalidGrant {
        /// What the server says about it.
        description: Option<String>,
    },
    /// The server does not know the client, or not with this secret.
    #[error(
        "the authorization server does not accept the client (invalid_client){}; check `client_id` and its secret, or register the client again",
        suffix(description)
    )]
    InvalidClient {
        /// What the server says about it.
        description: Option<String>,
    },
    /// The server could not answer. The tokens may still be valid.
    #[error("the token endpoint answered with status {status}; try again later")]
    Temporary {
        /// The status.
        status: u16,
        /// The pause the server asks for.
        retry_after: Option<Duration>,
    },
    /// The server refused the request for another reason.
    #[error(
        "the token endpoint refused the request with status {status}: {code}{}",
        suffix(description)
    )]
    Rejected {
        /// The status.
        status: u16,
        /// The error code.
        code: String,
        /// What the server says about it.
        description: Option<String>,
    },
    /// The response has not the specified form.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// The response holds no token that can be used.
    #[error("the token response cannot be used: {problem}")]
    Unusable {
        /// What cannot be used.
        problem: &'static str,
    },
}

fn suffix(description: &Option<String>) -> String {
    description
        .as_ref()
        .map(|text| format!(": {text}"))
        .unwrap_or_default()
}

impl TokenError {
    /// Whether the server may have refused the client before it looked at the grant. Servers on the Python SDK said
    /// `unauthorized_client` for a client that they could not authenticate, and others say `invalid_request` for one that
    /// authenticates in two ways.
    pub(crate) fn may_refuse_client(&self) -> bool {
        match self {
            Self::InvalidClient { .. } => true,
            Self::Rejected { status, code, .. } => {
                *status == 401 || matches!(code.as_str(), "invalid_request" | "unauthorized_client")
            }
            Self::InvalidGrant { .. }
            | Self::Temporary { .. }
            | Self::Document(_)
            | Self::Unusable { .. } => false,
        }
    }

    /// Whether the same request may succeed later.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Temporary { .. })
    }
}

/// What kind of token a request was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    Bearer,
    IdJag,
}

/// The tokens of a successful response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IssuedTokens {
    /// The access token.
    pub access_token: SecretText,
    /// The refresh token, if the server gave one.
    pub refresh_token: Option<SecretText>,
    /// When the access token expires. `None` means that it is used until the server refuses it.
    pub expires_at: Option<SystemTime>,
    /// The granted scopes. `None` means those that were asked for.
    pub scopes: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Members {
    access_token: Option<String>,
    token_type: Option<String>,
    issued_token_type: Option<String>,
    refresh_token: Option<String>,
    expires_in: Option<Value>,
    scope: Option<Value>,
}

/// When tokens were requested, and when they arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenTimes {
    pub(crate) requested_at: SystemTime,
    pub(crate) now: SystemTime,
}

impl From<SystemTime> for TokenTimes {
    fn from(now: SystemTime) -> Self {
        let requested_at = now;
        Self { requested_at, now }
    }
}

impl TokenTimes {
    /// When a token of this life expires. The server issued it at some time between the request and the answer, so its life counts
    /// from the request. An answer that took longer than a quarter of the life costs a quarter: a token that counts as expired when it
    /// arrives would be renewed for ever.
    fn expiry(self, life: Duration) -> Option<SystemTime> {
        let earliest = self.now.checked_sub(life / 4)?;
        let issued_at = self.requested_at.min(self.now).max(earliest);
        issued_at.checked_add(life)
    }
}

/// Reads a response of the token endpoint.
pub(crate) fn read(
    response: &HttpResponse,
    expect: Expect,
    times: impl Into<TokenTimes>,
) -> Result<IssuedTokens, TokenError> {
    if !response.is_success() {
        return Err(refusal(response));
    }
    let members: Members = document::parse(DOCUMENT, response)?;
    let unusable = |problem| TokenError::Unusable { problem };
    let Some(access_token) = members.access_token.filter(|token| !token.is_empty()) else {
        // Some servers answer errors with status 200.
        return Err(match document::parse::<ErrorMembers>(DOCUMENT, response) {
            Ok(ErrorMembers { error: Some(_), .. }) => refusal(response),
            Ok(_) | Err(_) => unusable("it has no access token"),
        });
    };
    match expect {
        Expect::Bearer => {
            let is_bearer = |kind: &str| kind.eq_ignore_ascii_case("bearer");
            if !members.token_type.as_deref().is_none_or(is_bearer) {
                return Err(unusable("its token type is not `Bearer`"));
            }
        }
        Expect::IdJag => {
            if members.issued_token_type.as_deref() != Some(crate::grant::ID_JAG) {
                return Err(unusable("the issued token is not an ID-JAG"));
            }
        }
    }
    let refresh_token = members.refresh_token.filter(|token| !token.is_empty());
    let is_token =
        |token: &str| token.len() <= TOKEN_LIMIT && token.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_token(&access_token) {
        return Err(unusable(
            "the access token is too long or holds characters that no header can carry",
        ));
    }
    if !refresh_token.as_deref().is_none_or(is_token) {
        return Err(unusable(
            "the refresh token is too long or holds characters that tokens cannot have",
        ));
    }
    Ok(IssuedTokens {
        access_token: SecretText::new(access_token),
        refresh_token: refresh_token.map(SecretText::new),
        expires_at: members
            .expires_in
            .and_then(|value| lifetime(&value))
            .and_then(|life| times.into().expiry(life)),
        scopes: members.scope.as_ref().and_then(Value::as_str).map(split_scopes),
    })
}

/// The lifetime of a token: a number, or a number as text. What is missing, negative or nonsense says nothing, so that
/// the token is used until the server refuses it.
fn lifetime(value: &Value) -> Option<Duration> {
    let seconds = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    let positive = Some(seconds).filter(|seconds| *seconds > 0.0)?;
    Some(Duration::from_secs_f64(
        positive.min(LIFETIME_LIMIT.as_secs_f64()),
    ))
}

fn split_scopes(text: &str) -> Vec<String> {
    join(
        text.split_ascii_whitespace()
            .filter(|scope| is_scope(scope))
            .map(str::to_owned),
    )
}

/// Classifies a refusal.
pub(crate) fn refusal(response: &HttpResponse) -> TokenError {
    let status = response.status;
    let temporary = TokenError::Temporary {
        status,
        retry_after: response.retry_after,
    };
    if response.is_temporary() {
        return temporary;
    }
    let members: ErrorMembers = match document::parse("error of the token endpoint", response) {
        Ok(members) => members,
        Err(error) => return error.into(),
    };
    let description = members.error_description.as_deref().map(explanation);
    match members.error.as_deref() {
        Some("invalid_grant") => TokenError::InvalidGrant { description },
        Some("invalid_client") => TokenError::InvalidClient { description },
        Some("temporarily_unavailable" | "server_error") => temporary,
        Some(code) => TokenError::Rejected {
            status,
            code: explanation(code),
            description,
        },
        None => TokenError::Rejected {
            status,
            code: "no error code".to_owned(),
            description,
        },
    }
}

#[cfg(test)]
mod tests;
