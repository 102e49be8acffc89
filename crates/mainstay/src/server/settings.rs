//! A server's configuration, with what is derived from it worked out once.

use std::ops::Deref;
use std::sync::Arc;

use crate::config::{Identity, ServerConfig, ToolView};

pub(crate) struct Settings {
    config: ServerConfig,
    identity: Identity,
    /// The part of the configuration that the published catalog shares.
    pub(crate) view: Arc<ToolView>,
}

impl Settings {
    pub(crate) fn new(config: ServerConfig) -> Self {
        Self {
            identity: config.identity(),
            view: Arc::new(config.tools().clone()),
            config,
        }
    }

    pub(crate) fn config(&self) -> &ServerConfig {
        &self.config
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }
}

impl Deref for Settings {
    type Target = ServerConfig;

    fn deref(&self) -> &ServerConfig {
        &self.config
    }
}
