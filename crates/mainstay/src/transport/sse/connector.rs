//! Opens HTTP+SSE connections to one server.

use crate::transport::http::client::Endpoint;
use crate::transport::http::{HttpConfigError, HttpOptions};
use crate::transport::{Connecting, Connector};

/// Opens HTTP+SSE connections to one server. They share the TCP connections, and nothing else.
#[derive(Debug)]
pub struct SseConnector {
    endpoint: Endpoint,
}

impl SseConnector {
    /// A connector to the stream at this address.
    pub fn new(url: impl AsRef<str>, options: HttpOptions) -> Result<Self, HttpConfigError> {
        let endpoint = Endpoint::new(url.as_ref(), options)?;
        Ok(Self { endpoint })
    }
}

impl Connector for SseConnector {
    fn connect(&self) -> Connecting<'_> {
        Box::pin(std::future::ready(Ok(self.endpoint.sse())))
    }
}
