//! Streamable HTTP: every message is a POST of its own, answered by JSON or by a stream of events.
//!
//! It carries both eras, and learns from the messages which one it is in. A request that names its protocol version in
//! `_meta` belongs to no session and repeats its method and name in headers. An answered `initialize` opens a session: all
//! later messages carry its headers, its server speaks on a stream of its own (`listen`), and closing the transport
//! deletes it.
//!
//! The way of a request: `exchanges` admits it and starts its task, `streamable` sends it, `post` reads the answer, and
//! `refusal` says of a failure whether the request may have run.

pub(super) mod answer;
mod backoff;
mod body_headers;
mod challenge;
pub(super) mod client;
mod coding;
pub(super) mod connection;
mod credentials;
mod dialer;
pub(super) mod events;
pub(super) mod exchanges;
mod failure;
mod fetch;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod listen;
mod options;
pub(super) mod pool;
mod port_probe;
mod post;
pub(super) mod refusal;
mod session;
mod socket;
mod socks;
mod streamable;
mod tls;

use std::sync::Arc;

pub use body_headers::ParamHeaders;
pub use challenge::Challenge;
pub use credentials::{Authorizing, BearerToken, Changing, CredentialRefusal, Credentials, Refusing};
pub use failure::{HttpFailure, HttpStage};
pub use fetch::{FETCH_BODY_LIMIT, FETCH_TIMEOUT, FetchRequest, Fetched, fetch};
pub use options::{AddressCheck, HttpConfigError, HttpOptions};

use super::{Connecting, Connector, Inbound, Outbound, Transport};
pub(crate) use backoff::ReconnectBackoff;
pub(crate) use client::{Endpoint, address, is_loopback};
use exchanges::{Exchanges, Sender};
pub(crate) use options::header;
use streamable::StreamableHttp;
pub(crate) use tls::{check_certificate, check_key, check_roots};

/// A Streamable HTTP connection, ready to be started. Nothing is sent before the first message.
pub struct Http(Arc<StreamableHttp>);

impl Http {
    /// A connection to this address.
    pub fn new(url: impl AsRef<str>, options: HttpOptions) -> Result<Self, HttpConfigError> {
        Ok(Self::over(Endpoint::new(url.as_ref(), options)?))
    }

    fn over(endpoint: Endpoint) -> Self {
        Self(Arc::new(StreamableHttp::new(endpoint)))
    }
}

impl Transport for Http {
    fn outbound(&self) -> Arc<dyn Outbound> {
        Arc::new(Sender(self.0.clone()))
    }

    fn start(self: Box<Self>, inbound: Arc<dyn Inbound>) {
        Exchanges::start(&self.0, &inbound);
    }
}

impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Http").field(&self.0.endpoint).finish()
    }
}

/// Opens Streamable HTTP connections to one server. They share the TCP connections, and nothing else.
#[derive(Debug)]
pub struct HttpConnector {
    endpoint: Endpoint,
}

impl HttpConnector {
    /// A connector to this address.
    pub fn new(url: impl AsRef<str>, options: HttpOptions) -> Result<Self, HttpConfigError> {
        let endpoint = Endpoint::new(url.as_ref(), options)?;
        Ok(Self { endpoint })
    }
}

impl Connector for HttpConnector {
    fn connect(&self) -> Connecting<'_> {
        Box::pin(std::future::ready(Ok(self.endpoint.streamable())))
    }
}

#[cfg(test)]
pub(super) mod tests;
