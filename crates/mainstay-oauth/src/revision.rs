//! The revisions of the MCP specification, and the authorization rules in which they differ.

use std::fmt;
use std::str::FromStr;

/// A revision of the MCP specification. Later revisions demand more of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    /// 2025-03-26: the authorization server lives at the origin of the MCP server.
    V2025_03_26,
    /// 2025-06-18: protected resource metadata and the `resource` parameter.
    V2025_06_18,
    /// 2025-11-25: OpenID discovery, client ID metadata documents, advertised S256, step-up.
    V2025_11_25,
    /// 2026-07-28: identical issuers, `iss`, joined scopes, `offline_access`.
    #[default]
    V2026_07_28,
}

impl Revision {
    /// Every revision, the oldest first.
    pub const ALL: [Self; 4] = [
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
        Self::V2026_07_28,
    ];

    /// The date that names the revision.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The client sends the `resource` parameter of RFC 8707.
    pub fn sends_resource(self) -> bool {
        self >= Self::V2025_06_18
    }

    /// The client refuses a server whose metadata does not advertise PKCE.
    pub fn requires_advertised_pkce(self) -> bool {
        self >= Self::V2025_11_25
    }

    /// The client refuses metadata whose `issuer` is not the text it was looked up by.
    pub fn requires_identical_issuer(self) -> bool {
        self >= Self::V2026_07_28
    }

    /// The client compares `iss` even if the server does not advertise it.
    pub fn checks_unadvertised_iss(self) -> bool {
        self >= Self::V2026_07_28
    }

    /// A new authorization asks for the scopes asked before as well.
    pub fn joins_scopes(self) -> bool {
        self >= Self::V2026_07_28
    }

    /// The client may add `offline_access` if the authorization server lists it.
    pub fn adds_offline_access(self) -> bool {
        self >= Self::V2026_07_28
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Revision {
    type Err = UnknownRevision;

    fn from_str(text: &str) -> Result<Self, UnknownRevision> {
        let found = Self::ALL.into_iter().find(|revision| revision.as_str() == text);
        found.ok_or(UnknownRevision)
    }
}

/// The text names no revision that defines authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown protocol revision; authorization is defined by 2025-03-26, 2025-06-18, 2025-11-25 and 2026-07-28"
)]
pub struct UnknownRevision;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_revision_is_parsed_from_its_date() {
        for revision in Revision::ALL {
            assert_eq!(revision.to_string().parse(), Ok(revision));
        }
        assert_eq!("2024-11-05".parse::<Revision>(), Err(UnknownRevision));
        assert_eq!(Revision::default(), Revision::V2026_07_28);
    }

    #[test]
    fn the_rules_begin_with_the_revision_that_introduced_them() {
        type Rule = fn(Revision) -> bool;
        let rules: [(Rule, Revision); 6] = [
            (Revision::sends_resource, Revision::V2025_06_18),
            (Revision::requires_advertised_pkce, Revision::V2025_11_25),
            (Revision::requires_identical_issuer, Revision::V2026_07_28),
            (Revision::checks_unadvertised_iss, Revision::V2026_07_28),
            (Revision::joins_scopes, Revision::V2026_07_28),
            (Revision::adds_offline_access, Revision::V2026_07_28),
        ];
        for (rule, first) in rules {
            for revision in Revision::ALL {
                assert_eq!(rule(revision), revision >= first, "{revision}");
            }
        }
    }
}
