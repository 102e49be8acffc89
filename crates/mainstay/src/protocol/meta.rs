//! What every modern request carries about its client.

use std::sync::Arc;

use crate::wire::{MetaEntries, Object, RawJson, with_meta};

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT_KEY: &str = "io.modelcontextprotocol/clientInfo";
pub(crate) const LOG_LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";

/// The `_meta` entries of a modern request, written once for a connection.
#[derive(Clone, Debug)]
pub(crate) struct RequestMeta(Arc<MetaEntries>);

impl RequestMeta {
    pub(crate) fn new(version: RawJson, capabilities: RawJson, client: Option<RawJson>) -> Self {
        let mut entries = vec![(VERSION_KEY, version), (CAPABILITIES_KEY, capabilities)];
        entries.extend(client.map(|client| (CLIENT_KEY, client)));
        Self(Arc::new(MetaEntries::new(entries)))
    }

    /// The entries of one request, which may have capabilities of its own.
    pub(crate) fn of_request(
        &self,
        capabilities: Option<&RawJson>,
        log_level: Option<RawJson>,
    ) -> Arc<MetaEntries> {
        if capabilities.is_none() && log_level.is_none() {
            return self.0.clone();
        }
        let own = |key: &str| capabilities.filter(|_| key == CAPABILITIES_KEY);
        let usual = self.0.entries().iter();
        let mut entries: Vec<_> = usual
            .map(|(key, value)| (*key, own(key).unwrap_or(value).clone()))
            .collect();
        entries.extend(log_level.map(|level| (LOG_LEVEL_KEY, level)));
        Arc::new(MetaEntries::new(entries))
    }

    /// The parameters with the client's entries in their `_meta`.
    pub(crate) fn stamp(&self, params: Option<&RawJson>) -> RawJson {
        with_meta(params, self.0.entries()).expect(FEW_MEMBERS)
    }

    /// The same for a request that needs an extension, which is declared beside whatever else the client can.
    pub(crate) fn stamp_with_extension(&self, params: &RawJson, extension: &str) -> RawJson {
        let usual = self.0.entries().iter();
        let entries: Vec<_> = usual
            .map(|(key, value)| match *key {
                CAPABILITIES_KEY => (*key, with_extension(value, extension)),
                _other => (*key, value.clone()),
            })
            .collect();
        with_meta(Some(params), &entries).expect(FEW_MEMBERS)
    }
}

const FEW_MEMBERS: &str = "parameters that Mainstay writes have few members";

fn with_extension(capabilities: &RawJson, extension: &str) -> RawJson {
    let mut capabilities = Object::parse(capabilities).unwrap_or_default();
    let mut extensions = capabilities
        .get("extensions")
        .and_then(Object::parse)
        .unwrap_or_default();
    if extensions.get(extension).is_none() {
        extensions.set(extension, RawJson::EMPTY_OBJECT);
    }
    capabilities.set("extensions", extensions.to_raw());
    capabilities.to_raw()
}
