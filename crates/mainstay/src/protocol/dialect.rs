//! The dialect of a server, which is stored for the next start.

use super::greeting::Era;

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

    /// The dialect as one word, for files.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Modern => "modern",
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
        assert_eq!(Dialect::from_word("klingon"), None);
    }
}
