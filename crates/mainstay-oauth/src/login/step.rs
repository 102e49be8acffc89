//! What the caller does for a login.

use std::fmt;
use std::time::SystemTime;

use url::Url;

use crate::device::DevicePrompt;
use crate::http::HttpRequest;
use crate::record::LoginRecord;
use crate::registration::Registration;

/// The next thing to do, and the method of [`Login`](crate::Login) that takes the result.
#[derive(Clone, Debug)]
#[must_use]
pub enum LoginStep {
    /// Send this request. Result: [`handle_response`](crate::Login::handle_response).
    Send(HttpRequest),
    /// Listen for the redirect on this port of 127.0.0.1, or on any if it is taken or not given.
    /// Result: [`handle_listening`](crate::Login::handle_listening).
    Listen {
        /// The port that the client is registered or configured with.
        port: Option<u16>,
    },
    /// Open this address in a browser. Result: [`handle_callback`](crate::Login::handle_callback).
    Browse(AuthorizationAddress),
    /// Show a person the code, then wait. Result: [`resume`](crate::Login::resume).
    ShowCode {
        /// What to show.
        prompt: DevicePrompt,
        /// When to resume.
        until: SystemTime,
    },
    /// Wait. Result: [`resume`](crate::Login::resume).
    Wait {
        /// When to resume.
        until: SystemTime,
    },
    /// The login is complete.
    Done(Box<CompletedLogin>),
}

/// An address for a person's browser. `Debug` hides its query, which logs must not show.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthorizationAddress(pub(super) Url);

impl AuthorizationAddress {
    /// The whole address, for the browser.
    pub fn url(&self) -> &Url {
        &self.0
    }
}

impl fmt::Debug for AuthorizationAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "AuthorizationAddress({}…)",
            self.0.origin().ascii_serialization()
        )
    }
}

/// What a login leaves behind.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompletedLogin {
    /// The login, to be saved before its token is used.
    pub record: LoginRecord,
    /// A registration that this login made.
    pub registration: Option<Registration>,
}
