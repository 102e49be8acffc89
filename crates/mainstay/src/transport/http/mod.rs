//! Streamable HTTP: every message is a POST of its own, answered by JSON or by a stream of events.
//!
//! It carries both eras, and learns from the messages which one it is in: a request that names its protocol version
//! in `_meta` belongs to no session and shows its method and name in headers; an answered `initialize` opens a session,
//! whose headers are on all that follows, whose server speaks on a stream of its own (`listen`), and which is deleted
//! when the transport is closed.
//!
//! The walk of a request: `crew` gives it a place and a task, `courier` sends it, `post` reads what comes back, and
//! `refusal` says of what went wrong whether it may have run.

pub(super) mod answer;
mod body_headers;
mod challenge;
pub(super) mod client;
mod coding;
mod connector;
mod courier;
mod credentials;
pub(super) mod crew;
mod dialling;
mod door;
pub(super) mod events;
mod failure;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod inquiry;
mod keeping;
pub(super) mod line;
mod listen;
mod options;
mod pace;
pub(super) mod pool;
mod post;
mod pulse;
pub(super) mod refusal;
mod session;
mod socks;
mod tls;

use std::sync::Arc;

pub use body_headers::ParamHeaders;
pub use challenge::Challenge;
pub use connector::HttpConnector;
pub use credentials::{Authorizing, BearerToken, Changing, Credentials};
pub use failure::{HttpFailure, Step};
pub use options::{HttpConfigError, HttpOptions};

use super::{Inbound, Outbound, Transport};
pub(crate) use client::{Endpoint, address, is_loopback};
use courier::Courier;
use crew::{Crew, Sender};
pub(crate) use options::header;
pub(crate) use pace::Pace;
pub(crate) use tls::{check_certificate, check_key, check_roots};

/// A Streamable HTTP connection, ready to be started. Nothing is sent before the first message.
pub struct Http(Arc<Courier>);

impl Http {
    /// A connection to this address.
    pub fn new(url: impl AsRef<str>, options: HttpOptions) -> Result<Self, HttpConfigError> {
        Ok(Self::over(Endpoint::new(url.as_ref(), options)?))
    }

    fn over(endpoint: Endpoint) -> Self {
        Self(Arc::new(Courier::new(endpoint)))
    }
}

impl Transport for Http {
    fn outbound(&self) -> Arc<dyn Outbound> {
        Arc::new(Sender(self.0.clone()))
    }

    fn start(self: Box<Self>, inbound: Arc<dyn Inbound>) {
        Crew::start(&self.0, &inbound);
    }
}

impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Http").field(&self.0.endpoint).finish()
    }
}

#[cfg(test)]
pub(super) mod tests;
