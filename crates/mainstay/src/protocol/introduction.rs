//! The client information that servers receive, with `initialize` or with every modern request.

use std::sync::Arc;

use super::{ClientExtensions, Era, LEGACY_VERSIONS, MODERN_VERSIONS};
use crate::config::ServerIdentity;
use crate::wire::{MetaEntries, Object, RawJson, with_meta};

/// The client information and capabilities that a server receives on each connection, byte for byte as the client gave them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction {
    capabilities: RawJson,
    client_info: Option<RawJson>,
    version: &'static str,
    era: Era,
}

impl Introduction {
    /// A client with these `capabilities`, the object of the protocol.
    pub fn new(capabilities: RawJson) -> Self {
        Self {
            capabilities,
            client_info: None,
            version: LEGACY_VERSIONS[0],
            era: Era::Legacy,
        }
    }

    /// The object `clientInfo` of the protocol. Without it a legacy server, which requires one, receives Mainstay's.
    #[must_use]
    pub fn client_info(mut self, info: RawJson) -> Self {
        self.client_info = Some(info);
        self
    }

    /// The version that the client speaks. A legacy server is offered it first; an unknown version, or one that is not legacy, leaves the
    /// newest. A server that speaks both eras is spoken to in the era of this version.
    #[must_use]
    pub fn protocol_version(mut self, version: &str) -> Self {
        if MODERN_VERSIONS.contains(&version) {
            self.era = Era::Modern;
        }
        let known = LEGACY_VERSIONS.into_iter().find(|known| *known == version);
        self.version = known.unwrap_or(self.version);
        self
    }

    /// The extensions that the client declares.
    pub fn extensions(&self) -> Option<RawJson> {
        let [extensions] = Object::find(&self.capabilities, ["extensions"])?;
        extensions
    }

    /// The same client with the extensions of those that it speaks for.
    pub(crate) fn with_extensions(&self, extensions: &ClientExtensions) -> Self {
        Self {
            capabilities: extensions.added_to(&self.capabilities),
            ..self.clone()
        }
    }

    /// The era that the client speaks.
    pub(crate) fn era(&self) -> Era {
        self.era
    }

    /// The identity of a server as this client sees it. Many servers decide by the client's name, era and capabilities what they
    /// offer. The rest of `clientInfo` changes with each release, and would only invalidate the stored catalog.
    pub(crate) fn seen(&self, server: &ServerIdentity) -> ServerIdentity {
        let info = self.client_info.as_ref().and_then(Object::parse);
        let name = info.as_ref().and_then(|info| info.get("name"));
        server.shown_to(name, self.era, &self.capabilities)
    }

    /// The parameters of `initialize`.
    pub(crate) fn to_params(&self) -> RawJson {
        let mut params = Object::default();
        params.set("protocolVersion", text(self.version));
        params.set("capabilities", self.capabilities.clone());
        let info = self.client_info.clone();
        params.set(
            "clientInfo",
            info.unwrap_or_else(|| named("mainstay", env!("CARGO_PKG_VERSION"))),
        );
        params.to_raw()
    }

    /// What every request of a modern connection carries.
    pub(crate) fn to_meta(&self) -> RequestMeta {
        let [version] = MODERN_VERSIONS;
        RequestMeta::new(text(version), self.capabilities.clone(), self.client_info.clone())
    }
}

/// What a client of this name says of itself.
pub(crate) fn named(name: &str, version: &str) -> RawJson {
    let mut info = Object::default();
    info.set("name", text(name));
    info.set("version", text(version));
    info.to_raw()
}

fn text(text: &str) -> RawJson {
    RawJson::from_value(text).unwrap_or(RawJson::NULL)
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ServerConfig;

    fn raw(text: &str) -> RawJson {
        RawJson::from_text(text).unwrap()
    }

    #[test]
    fn what_a_client_says_of_itself_is_told_byte_for_byte() {
        let introduction = Introduction::new(raw(r#"{ "x-new":{"n":1.0} }"#))
            .client_info(raw(r#"{"version":"\u0031" ,"name":"c"}"#))
            .protocol_version("2025-03-26");
        assert_eq!(
            introduction.to_params().as_str(),
            r#"{"protocolVersion":"2025-03-26","capabilities":{ "x-new":{"n":1.0} },"clientInfo":{"version":"\u0031" ,"name":"c"}}"#
        );
        assert_eq!(
            introduction.to_meta().stamp(None).as_str(),
            r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{ "x-new":{"n":1.0} },"io.modelcontextprotocol/clientInfo":{"version":"\u0031" ,"name":"c"}}}"#
        );
    }

    #[test]
    fn a_client_that_does_not_name_itself_is_given_a_name_only_where_there_must_be_one() {
        let introduction = Introduction::new(RawJson::EMPTY_OBJECT);
        assert!(
            introduction
                .to_params()
                .as_str()
                .contains(r#""clientInfo":{"name":"mainstay""#)
        );
        assert!(!introduction.to_meta().stamp(None).as_str().contains("clientInfo"));
    }

    #[test]
    fn a_version_that_opens_with_no_initialize_is_not_offered_in_one() {
        for version in ["2026-07-28", "1999-01-01"] {
            let introduction = Introduction::new(RawJson::EMPTY_OBJECT).protocol_version(version);
            let offered = introduction.to_params();
            assert!(offered.as_str().contains("2025-11-25"), "{offered}");
        }
    }

    #[test]
    fn a_server_is_known_to_each_client_by_what_that_client_is_called_and_can_answer() {
        let server = ServerConfig::stdio("files", "run").build().unwrap().identity();
        let seen = |info: &str, capabilities: &str| {
            let client = Introduction::new(raw(capabilities)).client_info(raw(info));
            client.seen(&server)
        };
        let one = seen(r#"{"name":"one","version":"1"}"#, "{}");
        assert_ne!(one, server);
        assert_eq!(
            one,
            seen(r#"{"version":"2","name":"one"}"#, "{}"),
            "a release later"
        );
        assert_ne!(one, seen(r#"{"name":"two","version":"1"}"#, "{}"));
        assert_ne!(one, seen(r#"{"name":"one","version":"1"}"#, r#"{"sampling":{}}"#));
        let modern = Introduction::new(raw("{}"))
            .client_info(raw(r#"{"name":"one"}"#))
            .protocol_version("2026-07-28");
        assert_ne!(one, modern.seen(&server));
    }
}
