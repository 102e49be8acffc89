//! The HTTP client, and Streamable HTTP on it.
//!
//! The way of a request: `exchanges` admits it and starts its task, `streamable` sends it, `post` reads the answer, and
//! `refusal` says of a failure whether the request may have run.

pub(in crate::transport) mod answer;
pub(in crate::transport) mod body_headers;
mod coding;
pub(in crate::transport) mod connection;
mod dialer;
pub(in crate::transport) mod endpoint;
pub(in crate::transport) mod events;
pub(in crate::transport) mod exchanges;
mod fetch;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod listen;
#[cfg_attr(
    not(feature = "tls"),
    expect(dead_code, reason = "TLS reads the files of certificates")
)]
mod options;
pub(in crate::transport) mod pool;
mod port_probe;
mod post;
pub(in crate::transport) mod refusal;
mod session;
mod socket;
mod socks;
mod streamable;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;

use std::sync::Arc;

pub use fetch::{FETCH_BODY_LIMIT, FETCH_TIMEOUT, FetchRequest, Fetched, fetch};
pub use options::{AddressCheck, HttpOptions};

use super::{
    Challenge, CredentialRefusal, Credentials, HttpConfigError, HttpFailure, HttpStage, ParamHeaders,
    ReconnectBackoff, fraction,
};
use crate::transport::{Inbound, Outbound, Transport};
pub(crate) use endpoint::{Endpoint, address, is_loopback};
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
        if Exchanges::start(&self.0, &inbound) {
            Exchanges::spawn_other(&self.0, None, self.0.clone().watch_port());
        }
    }
}

impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Http").field(&self.0.endpoint).finish()
    }
}

#[cfg(test)]
pub(in crate::transport) mod tests;
