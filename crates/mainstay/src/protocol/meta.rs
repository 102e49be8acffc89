//! What every modern request carries about its client.

use crate::wire::{RawJson, with_meta};

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT_KEY: &str = "io.modelcontextprotocol/clientInfo";
const LOG_LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";

/// The `_meta` entries of a modern request, written once for a connection.
#[derive(Clone, Debug)]
pub(crate) struct RequestMeta {
    version: RawJson,
    capabilities: RawJson,
    client: RawJson,
}

impl RequestMeta {
    pub(crate) fn new(version: &str, capabilities: RawJson, client: RawJson) -> Self {
        let version = RawJson::from_value(&version).unwrap_or(RawJson::NULL);
        Self {
            version,
            capabilities,
            client,
        }
    }

    /// The parameters with the client's entries in their `_meta`; `capabilities` are those of the one call, where it
    /// has its own.
    pub(crate) fn stamp(
        &self,
        params: Option<&RawJson>,
        capabilities: Option<RawJson>,
        log_level: Option<RawJson>,
    ) -> RawJson {
        let mut entries = vec![
            (VERSION_KEY, self.version.clone()),
            (
                CAPABILITIES_KEY,
                capabilities.unwrap_or_else(|| self.capabilities.clone()),
            ),
            (CLIENT_KEY, self.client.clone()),
        ];
        entries.extend(log_level.map(|level| (LOG_LEVEL_KEY, level)));
        with_meta(params, &entries)
    }
}
