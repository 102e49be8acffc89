//! The redirect that ends the person's part: its parameters, and whether they may be believed.

use crate::document::explanation;
use crate::pkce::is_same_secret;
use crate::secret::SecretText;

/// The longest query that is read. Codes are short; browsers stop at some thousand characters.
const QUERY_LIMIT: usize = 16 * 1024;

/// A callback that is refused. No code of it was used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallbackError {
    /// The callback belongs to no login, or to another one.
    #[error("the callback does not carry the `state` of this login; it belongs to another one")]
    WrongState,
    /// What arrived is no callback at all.
    #[error(
        "it carries no `state`, so it is not the address that the browser was sent to at the end of the login"
    )]
    NoState,
    /// A parameter comes twice.
    #[error("the callback carries `{parameter}` more than once")]
    Repeated {
        /// The parameter.
        parameter: &'static str,
    },
    /// The callback is longer than any authorization server needs.
    #[error("the callback is longer than {QUERY_LIMIT} characters")]
    TooLong,
    /// The authorization server advertises `iss` and did not send it.
    #[error(
        "the callback carries no `iss`, which the authorization server promises to send; it may come from another server"
    )]
    IssuerMissing,
    /// The callback comes from another authorization server.
    #[error(
        "the `iss` of the callback is not {expected}; the callback comes from another authorization server"
    )]
    IssuerMismatch {
        /// The issuer of this login.
        expected: String,
    },
    /// The callback holds neither a code nor an error.
    #[error("the callback holds neither a code nor an error")]
    Empty,
    /// The person or the authorization server refused.
    #[error("the authorization server refused the login: {code}{}", description.as_ref().map(|d| format!(" ({d})")).unwrap_or_default())]
    Refused {
        /// The error code, such as `access_denied`.
        code: String,
        /// What the server says about it.
        description: Option<String>,
    },
    /// The login waits for no callback, or has had one.
    #[error("the login does not wait for a callback")]
    NotExpected,
}

impl CallbackError {
    /// Whether the callback ends the login. Any other refused callback leaves the login waiting: anyone can send
    /// requests to the listener as well.
    pub fn ends_login(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }
}

/// What a callback is checked against. It was recorded before the browser was opened.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) state: SecretText,
    pub(crate) issuer: String,
    /// The authorization server advertises `iss`.
    pub(crate) promises_iss: bool,
    /// The client compares an `iss` that is not advertised.
    pub(crate) compares_iss: bool,
}

#[derive(Default)]
struct Parameters {
    state: Option<String>,
    iss: Option<String>,
    code: Option<String>,
    error: Option<String>,
    error_description: Option<String>,
}

impl Expected {
    /// Checks a callback and returns its code. `iss` comes before `error`: the error of another server is neither shown nor
    /// believed.
    pub(crate) fn code_of(&self, query: &str) -> Result<SecretText, CallbackError> {
        let parameters = Parameters::parse(query)?;
        let state = parameters.state.as_deref().ok_or(CallbackError::NoState)?;
        if !is_same_secret(self.state.expose(), state) {
            return Err(CallbackError::WrongState);
        }
        match &parameters.iss {
            None if self.promises_iss => return Err(CallbackError::IssuerMissing),
            Some(iss) if (self.promises_iss || self.compares_iss) && *iss != self.issuer => {
                let expected = self.issuer.clone();
                return Err(CallbackError::IssuerMismatch { expected });
            }
            None | Some(_) => {}
        }
        if let Some(code) = parameters.error {
            return Err(CallbackError::Refused {
                code: explanation(&code),
                description: parameters.error_description.as_deref().map(explanation),
            });
        }
        let code = parameters.code.filter(|code| !code.is_empty());
        code.map(SecretText::new).ok_or(CallbackError::Empty)
    }
}

impl Parameters {
    fn parse(query: &str) -> Result<Self, CallbackError> {
        if query.len() > QUERY_LIMIT {
            return Err(CallbackError::TooLong);
        }
        let mut parameters = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let (parameter, place) = match name.as_ref() {
                "state" => ("state", &mut parameters.state),
                "iss" => ("iss", &mut parameters.iss),
                "code" => ("code", &mut parameters.code),
                "error" => ("error", &mut parameters.error),
                "error_description" => ("error_description", &mut parameters.error_description),
                _other => continue,
            };
            if place.replace(value.into_owned()).is_some() {
                return Err(CallbackError::Repeated { parameter });
            }
        }
        Ok(parameters)
    }
}

/// The query of a callback that a person pasted: a whole address, or what follows the question mark.
pub fn pasted_query(text: &str) -> &str {
    let text = text.trim();
    let query = text.split_once('?').map_or(text, |(_, query)| query);
    query.split_once('#').map_or(query, |(query, _)| query)
}

#[cfg(test)]
mod tests;
