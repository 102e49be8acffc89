//! Why a login or a renewal failed.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use mainstay::transport::HttpFailure;
use mainstay_oauth::{DeviceError, LoginError, RenewalError, StepUpError, TokenError};

use crate::store::LoginStoreError;

/// A login that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoginFailure {
    /// The protocol says no.
    #[error(transparent)]
    Protocol(Box<LoginError>),
    /// The server answers without a login, and offers none.
    #[error("no login is needed: {server} answers without one, and none can be begun there ({reason})")]
    NotNeeded {
        /// The origin of the server.
        server: String,
        /// Why no login can be begun.
        reason: Box<LoginError>,
    },
    /// A server could not be reached.
    #[error("{origin} could not be asked: {failure}")]
    Http {
        /// The origin of the server.
        origin: String,
        /// Why not.
        failure: Box<HttpFailure>,
    },
    /// The store could not be used.
    #[error(transparent)]
    Store(#[from] LoginStoreError),
    /// The client was to register itself again, and is one that the configuration names.
    #[error(
        "the configuration names the client ({client}), which Mainstay does not register: register one at the authorization server and set \
         `client_id`"
    )]
    ConfiguredClient {
        /// The id of the client.
        client: String,
    },
    /// The port for the redirect could not be opened.
    #[error("the port for the browser's answer could not be opened: {0}")]
    Listener(#[source] io::Error),
    /// The workload's token could not be read.
    #[error("the assertion file {path} cannot be read: {source}")]
    Assertion {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Another authorization would not help.
    #[error(transparent)]
    StepUp(#[from] StepUpError),
    /// The person did not finish in time.
    #[error(
        "the login was not finished within {within:?}; start it again{}",
        if *.reuses_registration { ", and register the client again if the browser said that it is unknown" } else { "" }
    )]
    TimedOut {
        /// How long the person had.
        within: Duration,
        /// Whether the client registered itself before this login, so that the authorization server may have forgotten it.
        reuses_registration: bool,
    },
    /// The authorization server sends the client from request to request.
    #[error("the login took more than {0} requests; the authorization server sends the client in circles")]
    TooManyRequests(usize),
    /// The login was given up.
    #[error("the login was cancelled")]
    Cancelled,
}

impl LoginFailure {
    /// Whether the login may have failed because the authorization server does not know the client any more.
    pub fn may_be_unknown_client(&self) -> bool {
        match self {
            Self::TimedOut { .. } => true,
            Self::Protocol(error) => matches!(
                **error,
                LoginError::Token(TokenError::InvalidClient { .. })
                    | LoginError::Device(DeviceError::Token(TokenError::InvalidClient { .. }))
            ),
            Self::NotNeeded { .. }
            | Self::Http { .. }
            | Self::Store(_)
            | Self::ConfiguredClient { .. }
            | Self::Listener(_)
            | Self::Assertion { .. }
            | Self::StepUp(_)
            | Self::TooManyRequests(_)
            | Self::Cancelled => false,
        }
    }
}

impl From<LoginError> for LoginFailure {
    fn from(error: LoginError) -> Self {
        Self::Protocol(Box::new(error))
    }
}

/// A renewal that failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RenewalFailure {
    /// A person must log in.
    #[error("a login is needed")]
    NeedsLogin,
    /// The last attempts failed; the next one is later.
    #[error("the authorization server could not renew the token; the next attempt is in {} s ({last})", .wait.as_secs().max(1))]
    Paused {
        /// How long to wait.
        wait: Duration,
        /// Why the last attempt failed.
        last: String,
    },
    /// The authorization server could not be asked, or refused for now.
    #[error("{0}")]
    Unavailable(String),
    /// The store could not be used.
    #[error("{0}")]
    Store(String),
}

impl From<LoginStoreError> for RenewalFailure {
    fn from(error: LoginStoreError) -> Self {
        Self::Store(error.to_string())
    }
}

impl From<RenewalError> for RenewalFailure {
    fn from(error: RenewalError) -> Self {
        Self::Unavailable(error.to_string())
    }
}
