//! The device grant (RFC 8628): a person enters a code on another device while the client polls.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use url::Url;

use crate::address::{AddressError, AddressRules};
use crate::document::{self, DocumentError, TEXT_LIMIT, bounded};
use crate::http::HttpResponse;
use crate::secret::SecretText;
use crate::token::{self, Expect, IssuedTokens, TokenError, TokenTimes};

const DOCUMENT: &str = "device authorization response";

/// The pause between polls if the server names none, and what `slow_down` adds (RFC 8628 sections 3.2 and 3.5).
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// The shortest and the longest pause between polls.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);

/// The longest life of a code. No person takes longer.
const LIFETIME_LIMIT: Duration = Duration::from_secs(60 * 60);

/// What a person needs to agree on another device. `Debug` hides the code.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DevicePrompt {
    /// The code to enter.
    pub user_code: String,
    /// The address to open.
    pub verification_uri: Url,
    /// The same address with the code in it, if the server offers one.
    pub verification_uri_complete: Option<Url>,
    /// When the code expires.
    pub expires_at: SystemTime,
}

impl fmt::Debug for DevicePrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DevicePrompt")
            .field("verification_uri", &self.verification_uri.as_str())
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

/// A device grant that ended without a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The code expired before a person entered it.
    #[error("the code was not entered in time; start the login again")]
    Expired,
    /// The person denied the login.
    #[error("the login was denied on the other device")]
    Denied,
    /// The authorization server does not offer the device grant.
    #[error("the authorization server {issuer} does not offer the device grant; log in with a browser")]
    NotOffered {
        /// The issuer.
        issuer: String,
    },
    /// The response cannot be used.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// The address to open is refused.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The token endpoint refused.
    #[error(transparent)]
    Token(#[from] TokenError),
}

/// A code that waits to be entered.
#[derive(Clone, Debug)]
pub(crate) struct DeviceCode {
    pub(crate) code: SecretText,
    interval: Duration,
    expires_at: SystemTime,
}

#[derive(Deserialize)]
struct Members {
    device_code: Option<String>,
    user_code: Option<String>,
    verification_uri: Option<String>,
    /// The name that early servers used.
    verification_url: Option<String>,
    verification_uri_complete: Option<String>,
    expires_in: Option<f64>,
    interval: Option<f64>,
}

impl DeviceCode {
    /// Reads the response of the device authorization endpoint.
    pub(crate) fn read(
        response: &HttpResponse,
        rules: &AddressRules,
        now: SystemTime,
    ) -> Result<(Self, DevicePrompt), DeviceError> {
        if !response.is_success() {
            return Err(token::refusal(response).into());
        }
        let members: Members = document::parse(DOCUMENT, response)?;
        let text = |member, text| {
            let text = bounded(DOCUMENT, member, text, TEXT_LIMIT)?;
            text.ok_or(DocumentError::Missing {
                document: DOCUMENT,
                member,
            })
        };
        let code = SecretText::new(text("device_code", members.device_code)?);
        let user_code = document::explanation(&text("user_code", members.user_code)?);
        let uri = members.verification_uri.or(members.verification_url);
        let verification_uri = rules.check("verification address", &text("verification_uri", uri)?)?;
        let complete = members.verification_uri_complete;
        let complete = complete
            .map(|uri| rules.check("verification address", &uri))
            .transpose()?;
        let seconds = |value: Option<f64>, limit: Duration| {
            let value = value.filter(|value| *value > 0.0)?;
            Some(Duration::from_secs_f64(value.min(limit.as_secs_f64())))
        };
        let lifetime = seconds(members.expires_in, LIFETIME_LIMIT).unwrap_or(LIFETIME_LIMIT);
        let interval = seconds(members.interval, LONGEST_INTERVAL).unwrap_or(POLL_INTERVAL);
        let expires_at = now + lifetime;
        let device = Self {
            code,
            interval: interval.max(SHORTEST_INTERVAL),
            expires_at,
        };
        let prompt = DevicePrompt {
            user_code,
            verification_uri,
            verification_uri_complete: complete,
            expires_at,
        };
        Ok((device, prompt))
    }

    /// When to poll next.
    pub(crate) fn next_poll(&self, now: SystemTime) -> SystemTime {
        now + self.interval
    }

    pub(crate) fn check_expiry(&self, now: SystemTime) -> Result<(), DeviceError> {
        if now >= self.expires_at {
            return Err(DeviceError::Expired);
        }
        Ok(())
    }

    /// Reads the response to a poll. `None` means that the person has not decided yet.
    pub(crate) fn handle_poll(
        &mut self,
        response: &HttpResponse,
        times: TokenTimes,
    ) -> Result<Option<IssuedTokens>, DeviceError> {
        let slower = (self.interval + POLL_INTERVAL).min(LONGEST_INTERVAL);
        match token::read(response, Expect::Bearer, times) {
            Ok(tokens) => Ok(Some(tokens)),
            Err(TokenError::Rejected { code, .. }) if code == "authorization_pending" => Ok(None),
            Err(TokenError::Rejected { code, .. }) if code == "slow_down" => {
                self.interval = slower;
                Ok(None)
            }
            Err(TokenError::Temporary { retry_after, .. }) => {
                self.interval = slower.max(retry_after.unwrap_or_default()).min(LONGEST_INTERVAL);
                Ok(None)
            }
            Err(TokenError::Rejected { code, .. }) if code == "expired_token" => Err(DeviceError::Expired),
            Err(TokenError::Rejected { code, .. }) if code == "access_denied" => Err(DeviceError::Denied),
            Err(error) => Err(error.into()),
        }
    }
}
