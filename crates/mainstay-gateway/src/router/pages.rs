//! A list in pages, as it goes to clients, and how long clients may cache it.
//!
//! A cursor names its page and the content that it is a page of. A client that brings one after the list has changed must list
//! again: the same page number would lead to other items, and leave some out.
//!
//! Clients may cache a list as long as its servers allow, and never longer. A server's time runs from its listing, so clients get
//! what is left of it. A server that does not say allows no caching; neither does one that was not listed yet. A server without
//! such a list does not count.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, SystemTime};

use mainstay::catalog::{CacheScope, Caching, Kind};
use mainstay::gateway::message::{Object, RawJson, RpcError};
use mainstay::{Catalog, Era, StateKind, Status};

use super::Router;
use crate::client::Client;
use crate::protocol::{invalid_params, text};

/// Items on a page. Clients that ignore `nextCursor` see this many.
const PAGE_LIMIT: usize = 1000;

/// A list, written for the clients of one era.
pub(super) struct Pages {
    content: u64,
    pages: Vec<RawJson>,
}

/// Where in a list a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cursor {
    Start,
    Page { page: usize, content: u64 },
}

impl Pages {
    /// Writes the items in pages. How they may be cached is added to each answer.
    pub(super) fn write(kind: Kind, era: Era, items: &[RawJson]) -> Self {
        let content = fingerprint(items);
        let count = items.len().div_ceil(PAGE_LIMIT).max(1);
        let pages = (0..count).map(|page| {
            let items = items.iter().skip(page * PAGE_LIMIT).take(PAGE_LIMIT);
            let next = (page + 1 < count).then_some(Cursor::Page {
                page: page + 1,
                content,
            });
            write_page(kind, era, items, next)
        });
        Self {
            content,
            pages: pages.collect(),
        }
    }

    /// The page at this cursor.
    pub(super) fn page(&self, cursor: Cursor) -> Result<RawJson, RpcError> {
        let page = match cursor {
            Cursor::Start => self.pages.first(),
            Cursor::Page { page, content } if content == self.content => self.pages.get(page),
            Cursor::Page { .. } => None,
        };
        let changed = || invalid_params("the list has changed since this cursor was given: list again");
        page.cloned().ok_or_else(changed)
    }
}

impl Cursor {
    pub(super) fn read(cursor: Option<&RawJson>) -> Result<Self, RpcError> {
        let Some(cursor) = cursor.filter(|cursor| **cursor != RawJson::NULL) else {
            return Ok(Self::Start);
        };
        let read = cursor
            .parse::<String>()
            .ok()
            .and_then(|word| Self::from_word(&word));
        read.ok_or_else(|| invalid_params("the cursor is not one of this gateway: list again"))
    }

    fn from_word(word: &str) -> Option<Self> {
        let (page, content) = word.split_once('-')?;
        Some(Self::Page {
            page: page.parse().ok()?,
            content: u64::from_str_radix(content, 16).ok()?,
        })
    }

    fn word(self) -> Option<String> {
        match self {
            Self::Start => None,
            Self::Page { page, content } => Some(format!("{page}-{content:016x}")),
        }
    }
}

fn write_page<'a>(
    kind: Kind,
    era: Era,
    items: impl Iterator<Item = &'a RawJson>,
    next: Option<Cursor>,
) -> RawJson {
    let mut list = String::from("[");
    for (n, item) in items.enumerate() {
        list.push_str(if n == 0 { "" } else { "," });
        list.push_str(item.as_str());
    }
    list.push(']');
    let list = RawJson::from_text(list).unwrap_or(RawJson::NULL);
    let mut result = Object::default();
    match era {
        Era::Legacy => {}
        Era::Modern => result.set("resultType", text("complete")),
    }
    result.set(field(kind), list);
    if let Some(next) = next.and_then(Cursor::word) {
        result.set("nextCursor", text(&next));
    }
    result.to_raw()
}

const fn field(kind: Kind) -> &'static str {
    match kind {
        Kind::Tool => "tools",
        Kind::Prompt => "prompts",
        Kind::Resource => "resources",
        Kind::Template => "resourceTemplates",
    }
}

/// Equal lists have equal fingerprints, also after a restart of the gateway.
fn fingerprint(items: &[RawJson]) -> u64 {
    let mut hasher = DefaultHasher::new();
    items.hash(&mut hasher);
    hasher.finish()
}

/// How a modern client may cache a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheHint {
    ttl_ms: u64,
    is_public: bool,
}

impl CacheHint {
    /// Stale at once, and for this client alone.
    pub(crate) const NONE: Self = Self {
        ttl_ms: 0,
        is_public: false,
    };

    /// The hint as the last members of an object that has others.
    pub(crate) fn members(self) -> String {
        let scope = if self.is_public { "public" } else { "private" };
        format!(r#","ttlMs":{},"cacheScope":"{scope}""#, self.ttl_ms)
    }

    /// What is left of a server's time.
    fn of(caching: Caching, age: Duration) -> Self {
        let left = caching.ttl.unwrap_or_default().saturating_sub(age);
        Self {
            ttl_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
            is_public: match caching.scope {
                Some(CacheScope::Public) => true,
                Some(CacheScope::Private) | None => false,
            },
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            ttl_ms: self.ttl_ms.min(other.ttl_ms),
            is_public: self.is_public && other.is_public,
        }
    }
}

impl Router {
    /// How this list may be cached, as of now.
    pub(super) fn cache_hint(&self, catalog: &Catalog, client: &Client, kind: Kind) -> CacheHint {
        let now = SystemTime::now();
        let servers = client.scope.servers(self.fleet());
        let seen = servers
            .iter()
            .filter(|server| self.is_reachable(client, server.name()));
        let hints = seen.filter_map(|server| {
            let Some(listed) = catalog.server(server.name()) else {
                // It will add to the list once it is there.
                return may_come(&server.status()).then_some(CacheHint::NONE);
            };
            let Some(caching) = listed.caching(kind) else {
                // It was read from disk, which holds the items alone.
                return (!listed.items(kind).is_empty()).then_some(CacheHint::NONE);
            };
            let listed_at = catalog.freshness(server.name())?.listed_at;
            let age = now.duration_since(listed_at).unwrap_or_default();
            Some(CacheHint::of(caching, age))
        });
        hints.reduce(CacheHint::and).unwrap_or(CacheHint::NONE)
    }
}

fn may_come(status: &Status) -> bool {
    match status.state {
        StateKind::Connecting | StateKind::Reconnecting | StateKind::Connected | StateKind::Disconnected => {
            true
        }
        StateKind::Disabled | StateKind::Disabling | StateKind::PermanentlyFailed => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn many(count: usize) -> Vec<RawJson> {
        (0..count as u64).map(RawJson::from).collect()
    }

    #[test]
    fn a_cursor_leads_on_while_the_list_is_the_same_and_is_refused_when_it_is_another() {
        let items = many(PAGE_LIMIT * 2 + 1);
        let write = |items: &[RawJson]| Pages::write(Kind::Tool, Era::Legacy, items);
        let pages = write(&items);
        let mut seen = Vec::new();
        let mut at = Some(Cursor::Start);
        let mut cursors = Vec::new();
        while let Some(cursor) = at {
            let page = Object::parse(&pages.page(cursor).unwrap()).unwrap();
            seen.extend(page.get("tools").unwrap().parse::<Vec<u64>>().unwrap());
            let next = page.get("nextCursor").map(|next| next.parse::<String>().unwrap());
            at = next.map(|next| Cursor::from_word(&next).unwrap());
            cursors.extend(at);
        }
        assert_eq!(seen, (0..items.len() as u64).collect::<Vec<_>>());
        assert_eq!(cursors.len(), 2);
        assert!(
            write(&items).page(cursors[0]).is_ok(),
            "written again, and the same"
        );
        let mut changed = items;
        changed.remove(0);
        let refused = write(&changed).page(cursors[0]).unwrap_err();
        assert_eq!(refused.code(), RpcError::INVALID_PARAMS);
    }

    #[test]
    fn a_cursor_that_was_never_given_is_refused() {
        for cursor in [r#""1""#, r#""1-x""#, r#""-""#, r#""""#, "7", "{}"] {
            let read = Cursor::read(Some(&RawJson::from_text(cursor).unwrap()));
            let refused = read.unwrap_err();
            assert_eq!(refused.code(), RpcError::INVALID_PARAMS, "{cursor}");
        }
        assert_eq!(Cursor::read(Some(&RawJson::NULL)).unwrap(), Cursor::Start);
    }

    fn caching(ttl: Option<u64>, scope: Option<CacheScope>) -> Caching {
        Caching {
            ttl: ttl.map(Duration::from_millis),
            scope,
        }
    }

    #[test]
    fn a_hint_is_what_is_left_of_the_server_s_time_and_nothing_that_it_did_not_say() {
        let age = Duration::from_millis(400);
        for (caching, ttl_ms, is_public) in [
            (caching(Some(1000), Some(CacheScope::Public)), 600, true),
            (caching(Some(1000), Some(CacheScope::Private)), 600, false),
            (caching(Some(300), Some(CacheScope::Public)), 0, true),
            (caching(None, None), 0, false),
        ] {
            assert_eq!(
                CacheHint::of(caching, age),
                CacheHint { ttl_ms, is_public },
                "{caching:?}"
            );
        }
    }

    #[test]
    fn the_least_of_the_servers_counts() {
        let one = CacheHint::of(caching(Some(1000), Some(CacheScope::Public)), Duration::ZERO);
        let two = CacheHint::of(caching(Some(300), Some(CacheScope::Public)), Duration::ZERO);
        let private = CacheHint::of(caching(Some(5000), Some(CacheScope::Private)), Duration::ZERO);
        assert_eq!(one.and(two), two);
        assert_eq!(
            two.and(private),
            CacheHint {
                ttl_ms: 300,
                is_public: false
            }
        );
    }
}
