//! Why a login failed.

use std::time::Duration;

use crate::address::AddressError;
use crate::callback::CallbackError;
use crate::client::ClientError;
use crate::context::NoRandomness;
use crate::device::DeviceError;
use crate::discovery::DiscoveryError;
use crate::dynamic::RegistrationError;
use crate::signing::KeyError;
use crate::token::TokenError;

/// A login that failed, or a callback that it refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    /// The authorization server was not found or is not trusted.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// The client could not register.
    #[error(transparent)]
    Registration(#[from] RegistrationError),
    /// The client cannot authenticate.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The callback was refused. The login goes on unless [`CallbackError::ends_login`].
    #[error(transparent)]
    Callback(#[from] CallbackError),
    /// The token endpoint refused.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The identity provider of the enterprise refused.
    #[error("the identity provider refused: {0}")]
    IdentityProvider(TokenError),
    /// The authorization server refused the workload's token. It is not sent again, and no other grant is tried.
    #[error("the workload's token was refused and is not sent again: {0}")]
    Workload(TokenError),
    /// The device grant ended without a token.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// An address is refused.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The authorization server does not protect codes with S256.
    #[error(
        "the authorization server {issuer} does not advertise PKCE with S256 (`code_challenge_methods_supported`); the client does not log in without it"
    )]
    NoPkce {
        /// The issuer.
        issuer: String,
    },
    /// The authorization server has no page for people.
    #[error("the authorization server {issuer} has no authorization endpoint; use another grant")]
    NoAuthorizationEndpoint {
        /// The issuer.
        issuer: String,
    },
    /// There is no client for this authorization server.
    #[error(
        "there is no client for the authorization server {issuer}; register one there and set `client_id` and, if it has a secret, `client_secret_env`"
    )]
    NoClient {
        /// The issuer.
        issuer: String,
    },
    /// The configured client belongs to another authorization server.
    #[error(
        "the client {client_id} is registered at {registered_at}, but the server now names {issuer}; its credentials are not sent there (register a client there, or set `issuer`)"
    )]
    ClientOfOtherIssuer {
        /// The client ID.
        client_id: String,
        /// The issuer that registered the client.
        registered_at: String,
        /// The issuer that the server names.
        issuer: String,
    },
    /// The address of the client ID metadata document cannot be a client ID.
    #[error("`client_metadata_url` must be an https URL with a path and without fragment")]
    MetadataUrl,
    /// The registered redirect URI cannot be used, and the server registers no other.
    #[error(
        "the client is registered with another redirect URI, and the authorization server registers no other; free the port {port:?}"
    )]
    RedirectTaken {
        /// The port of the registered redirect URI.
        port: Option<u16>,
    },
    /// There are no random numbers.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    /// The caller handed in something the login does not wait for.
    #[error("the login does not wait for this; it has ended or waits for something else")]
    OutOfTurn,
}

impl LoginError {
    /// Whether a new login may succeed later without a change of the configuration.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Discovery(DiscoveryError::Unavailable { .. })
            | Self::Registration(RegistrationError::Unavailable { .. })
            | Self::NoRandomness(_) => true,
            Self::Token(error) | Self::IdentityProvider(error) | Self::Device(DeviceError::Token(error)) => {
                error.is_temporary()
            }
            Self::Discovery(_)
            | Self::Registration(_)
            | Self::Client(_)
            | Self::Callback(_)
            | Self::Workload(_)
            | Self::Device(_)
            | Self::Address(_)
            | Self::NoPkce { .. }
            | Self::NoAuthorizationEndpoint { .. }
            | Self::NoClient { .. }
            | Self::ClientOfOtherIssuer { .. }
            | Self::MetadataUrl
            | Self::RedirectTaken { .. }
            | Self::OutOfTurn => false,
        }
    }

    /// The pause that the server asked for.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Discovery(DiscoveryError::Unavailable { retry_after, .. })
            | Self::Registration(RegistrationError::Unavailable { retry_after, .. })
            | Self::Token(TokenError::Temporary { retry_after, .. })
            | Self::IdentityProvider(TokenError::Temporary { retry_after, .. })
            | Self::Device(DeviceError::Token(TokenError::Temporary { retry_after, .. })) => *retry_after,
            _lasting => None,
        }
    }
}

impl From<KeyError> for LoginError {
    fn from(error: KeyError) -> Self {
        Self::Client(error.into())
    }
}
