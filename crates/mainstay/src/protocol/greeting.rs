//! What a server said of itself when the connection was opened.

use std::fmt;

use serde::Deserialize;

use crate::wire::RawJson;

/// One of the two versions of the handshake and of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Era {
    /// `initialize` and sessions: 2024-11-05 to 2025-11-25.
    Legacy,
    /// Stateless: 2026-07-28.
    Modern,
}

impl Era {
    /// The era as one word, for files and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }

    /// The era of that word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Legacy, Self::Modern]
            .into_iter()
            .find(|era| era.as_str() == word)
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The server's introduction: the answer to `initialize` or to `server/discover`.
#[derive(Clone, Debug)]
pub(crate) struct Greeting {
    pub(crate) era: Era,
    pub(crate) version: String,
    pub(crate) offers: Offers,
    pub(crate) capabilities: RawJson,
    pub(crate) server_info: Option<RawJson>,
    pub(crate) instructions: Option<String>,
}

/// What a server says it has: which lists are worth asking for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offers {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
    pub(crate) subscriptions: bool,
    pub(crate) logging: bool,
    pub(crate) completions: bool,
    /// It declares tools, prompts or resources: what it does not declare it does not have. Early servers forgot to.
    pub(crate) is_declared: bool,
}

/// What a request needs of its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capability {
    Prompts,
    Resources,
    Completions,
}

impl Capability {
    /// The word of the protocol.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Completions => "completions",
        }
    }
}

/// The first version in which a server declares that it completes arguments; before, it may do so without a word.
const DECLARES_COMPLETIONS: &str = "2025-03-26";

impl Greeting {
    /// Whether the server said that it cannot answer what needs this.
    pub(crate) fn lacks(&self, capability: Capability) -> bool {
        self.offers.is_declared
            && match capability {
                Capability::Prompts => !self.offers.prompts,
                Capability::Resources => !self.offers.resources,
                Capability::Completions => {
                    !self.offers.completions && self.version.as_str() >= DECLARES_COMPLETIONS
                }
            }
    }
}

impl Offers {
    /// Reads the capabilities. A server that declares nothing at all may still have tools: early ones forgot to say so,
    /// and asking costs one "method not found".
    pub(crate) fn of(capabilities: &RawJson) -> Self {
        let Ok(declared) = capabilities.parse::<Declared>() else {
            return Self {
                tools: true,
                ..Self::default()
            };
        };
        let resources = declared.resources.as_ref();
        let offers = Self {
            tools: declared.tools.is_some(),
            prompts: declared.prompts.is_some(),
            resources: resources.is_some(),
            subscriptions: resources.is_some_and(|resources| resources.subscribe),
            logging: declared.logging.is_some(),
            completions: declared.completions.is_some(),
            is_declared: false,
        };
        let says_nothing = !(offers.tools || offers.prompts || offers.resources);
        Self {
            tools: offers.tools || says_nothing,
            is_declared: !says_nothing,
            ..offers
        }
    }
}

#[derive(Deserialize)]
struct Declared {
    tools: Option<RawJson>,
    prompts: Option<RawJson>,
    resources: Option<DeclaredResources>,
    logging: Option<RawJson>,
    completions: Option<RawJson>,
}

#[derive(Deserialize)]
struct DeclaredResources {
    #[serde(default)]
    subscribe: bool,
}

/// The era of a server and, over HTTP, its transport. Stored on disk beside the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Dialect {
    /// Stateless.
    Modern,
    /// `initialize`, over whatever the configuration names; over HTTP it is Streamable HTTP.
    Legacy,
    /// `initialize`, over HTTP+SSE.
    LegacySse,
}

impl Dialect {
    const ALL: [Self; 3] = [Self::Modern, Self::Legacy, Self::LegacySse];

    pub(crate) const fn era(self) -> Era {
        match self {
            Self::Modern => Era::Modern,
            Self::Legacy | Self::LegacySse => Era::Legacy,
        }
    }

    /// The dialect as one word, for files. The word `modern` of earlier files may mean a server that speaks both eras.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Modern => "modern_only",
            Self::Legacy => "legacy",
            Self::LegacySse => "legacy_sse",
        }
    }

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.as_str() == word)
    }
}

impl From<Era> for Dialect {
    fn from(era: Era) -> Self {
        match era {
            Era::Modern => Self::Modern,
            Era::Legacy => Self::Legacy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Dialect;

    #[test]
    fn every_dialect_is_found_again_by_its_word() {
        for dialect in Dialect::ALL {
            assert_eq!(Dialect::from_word(dialect.as_str()), Some(dialect));
        }
        for word in ["klingon", "modern"] {
            assert_eq!(Dialect::from_word(word), None);
        }
    }
}
