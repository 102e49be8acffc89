//! Stands in for the HTTP client where the cargo feature `http` is off: an endpoint that cannot be made.

use std::convert::Infallible;
use std::sync::Arc;

use tokio::time::Instant;

use super::{Credentials, HttpConfigError, ParamHeaders};
use crate::config::HttpTarget;
use crate::transport::Transport;

/// An endpoint of which there is none.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint(Infallible);

impl Endpoint {
    pub(crate) fn of(_target: &HttpTarget) -> Result<Self, HttpConfigError> {
        Err(HttpConfigError::MissingFeature { feature: "http" })
    }

    pub(crate) fn credentials(&self) -> Option<Arc<dyn Credentials>> {
        match self.0 {}
    }

    pub(crate) fn address(&self) -> (&str, u16) {
        match self.0 {}
    }

    pub(crate) fn showing(&self, _params: Arc<dyn ParamHeaders>) -> Self {
        match self.0 {}
    }

    pub(crate) async fn sessions_deleted(&self) {
        match self.0 {}
    }

    pub(crate) fn port_probe(&self) -> Option<PortProbe> {
        match self.0 {}
    }

    pub(crate) fn streamable(&self) -> Box<dyn Transport> {
        match self.0 {}
    }

    pub(crate) fn sse(&self) -> Box<dyn Transport> {
        match self.0 {}
    }

    pub(crate) fn reread_certificates(&self) -> Result<(), HttpConfigError> {
        match self.0 {}
    }
}

/// A probe of an endpoint of which there is none.
pub(crate) struct PortProbe(Infallible);

impl PortProbe {
    pub(crate) async fn wait_until_reachable(&self, _since: Instant) {
        match self.0 {}
    }
}
