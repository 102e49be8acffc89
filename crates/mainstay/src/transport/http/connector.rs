//! Opens Streamable HTTP connections to one server.

use super::client::Endpoint;
use super::options::{HttpConfigError, HttpOptions};
use crate::transport::{Connecting, Connector};

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
