//! A server's configuration, with what is derived from it worked out once.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crate::config::{HttpTarget, ServerConfig, ServerIdentity, ToolView};
use crate::redaction::Redaction;
use crate::transport::http::{Endpoint, HttpConfigError};

pub(crate) struct Settings {
    config: ServerConfig,
    identity: ServerIdentity,
    /// The part of the configuration that the published catalog shares.
    pub(crate) view: Arc<ToolView>,
    /// The HTTP client, made at its first use. Its connections are of use to every generation.
    endpoint: OnceLock<Endpoint>,
    redaction: Arc<Redaction>,
}

impl Settings {
    pub(crate) fn new(config: ServerConfig) -> Self {
        Self {
            identity: config.identity(),
            view: Arc::new(config.tools().clone()),
            redaction: Arc::new(Redaction::of(&config)),
            config,
            endpoint: OnceLock::new(),
        }
    }

    /// The way to a server over HTTP. One that cannot be made, for want of a file say, is tried again the next time.
    pub(crate) fn endpoint(&self, target: &HttpTarget) -> Result<&Endpoint, Arc<HttpConfigError>> {
        if let Some(endpoint) = self.endpoint.get() {
            return Ok(endpoint);
        }
        let endpoint = Endpoint::of(target).map_err(Arc::new)?;
        Ok(self.endpoint.get_or_init(|| endpoint))
    }

    /// The way to a server over HTTP, if it was ever used.
    pub(crate) fn used_endpoint(&self) -> Option<&Endpoint> {
        self.endpoint.get()
    }

    /// The values of its configuration that must not be shown.
    pub(crate) fn redaction(&self) -> &Arc<Redaction> {
        &self.redaction
    }

    pub(crate) fn config(&self) -> &ServerConfig {
        &self.config
    }

    pub(crate) fn identity(&self) -> &ServerIdentity {
        &self.identity
    }
}

impl Deref for Settings {
    type Target = ServerConfig;

    fn deref(&self) -> &ServerConfig {
        &self.config
    }
}
