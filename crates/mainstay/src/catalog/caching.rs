//! How long a server lets its lists be kept, and for whom.

use std::time::Duration;

use serde_json::value::RawValue;

/// What a server says of keeping a list. Only modern servers say anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caching {
    /// How long the list may be called fresh, from when it was listed; `None` where the server does not say.
    pub ttl: Option<Duration>,
    /// For whom; `None` where the server does not say.
    pub scope: Option<CacheScope>,
}

/// For whom a list may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheScope {
    /// For everybody.
    Public,
    /// For this authorization alone: it is stored only where this user alone can read it, and a gateway that passes it on
    /// says so.
    Private,
}

impl Caching {
    /// What a page says. A scope that is given and unknown counts as private: it may be stricter, never laxer.
    pub(super) fn read(scope: Option<&RawValue>, ttl: Option<&RawValue>) -> Self {
        let scope = scope.map(RawValue::get).filter(|scope| *scope != "null");
        Self {
            ttl: ttl
                .and_then(|ttl| serde_json::from_str(ttl.get()).ok())
                .map(Duration::from_millis),
            scope: scope.map(|scope| match scope {
                "\"public\"" => CacheScope::Public,
                _private_or_unknown => CacheScope::Private,
            }),
        }
    }

    /// What holds for two parts together: the shorter time, and the stricter scope. To say nothing is stricter than
    /// `public`.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            ttl: self.ttl.into_iter().chain(other.ttl).min(),
            scope: match (self.scope, other.scope) {
                (Some(CacheScope::Private), _) | (_, Some(CacheScope::Private)) => Some(CacheScope::Private),
                (Some(CacheScope::Public), Some(CacheScope::Public)) => Some(CacheScope::Public),
                (None, _) | (_, None) => None,
            },
        }
    }

    pub(in crate::catalog) fn is_private(self) -> bool {
        self.scope == Some(CacheScope::Private)
    }
}
