//! Walks the pages of one list, without doing any IO itself.
//!
//! The owner of the connection asks for each page and hands it in:
//! `Pager::new(kind)`, request `kind.method()` with `pager.cursor()`, `pager.accept(&result)`, and so on until
//! [`PageStep::Done`]. Pages, items and bytes are bounded and a cursor may not come twice, so the walk ends whatever the
//! server answers; a walk that is cut off yields what was listed until then.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use serde::Deserializer as _;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::Kind;
use crate::wire::{Object, RawJson};

/// Pages of one list. At even ten items a page this reaches [`MAX_ITEMS`]; more means a server that never ends.
pub(crate) const MAX_PAGES: usize = 1_000;
/// Items of one kind. Far more than a model can be shown; a server that lists more has listed its database.
pub(crate) const MAX_ITEMS: usize = 10_000;
/// Bytes of one server's catalog. It stays in memory for as long as the server is configured, and goes to disk.
pub(crate) const MAX_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of one item. It has a name, some text and a schema; the largest that a model could be shown is a fraction of it.
pub(crate) const MAX_ITEM_BYTES: usize = 4 * 1024 * 1024;

/// A walk under way: what was listed so far, and which page to ask for next.
#[derive(Debug)]
pub(crate) struct Pager {
    listing: ItemList,
    cursor: Option<String>,
    seen: HashSet<String>,
    pages: usize,
    bytes: usize,
}

/// What a page leads to.
#[derive(Debug)]
#[must_use]
pub(crate) enum PageStep {
    /// Ask for the page at the pager's cursor.
    Ask(Pager),
    /// The list is complete, or was cut off.
    Done(ItemList),
}

/// One list, all pages of it.
#[derive(Debug)]
pub(crate) struct ItemList {
    pub(crate) kind: Kind,
    /// The items as the server sent them, in its order.
    pub(crate) items: Vec<RawJson>,
    /// How the list may be kept, all its pages together; `None` where no page was given.
    pub(crate) caching: Option<Caching>,
    /// Why the rest was not listed.
    pub(crate) cut_off: Option<CutOff>,
}

/// Why a walk ended before its list did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CutOff {
    #[error("the server gave a cursor it had given before")]
    RepeatedCursor,
    #[error("the server gave a cursor that is no text")]
    BadCursor,
    #[error("the list has more than {MAX_PAGES} pages")]
    Pages,
    #[error("the list has more than {MAX_ITEMS} items")]
    Items,
    #[error("the list has more than {MAX_BYTES} bytes")]
    Bytes,
}

/// A result that is no page of the list: the listing has failed and replaces nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum PageError {
    /// The result is not an object.
    #[error("the result of {} is no object", .kind.method())]
    NotAnObject { kind: Kind, source: serde_json::Error },
    /// The result has no array of items.
    #[error("the result of {} has no array `{}`", .kind.method(), .kind.list_field())]
    NoItems { kind: Kind },
}

impl Pager {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            listing: ItemList::empty(kind),
            cursor: None,
            seen: HashSet::new(),
            pages: 0,
            bytes: 0,
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.listing.kind
    }

    /// The cursor to ask with; none for the first page. An empty one is a cursor like any other.
    pub(crate) fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// Takes the `result` of the request for the current page.
    pub(crate) fn accept(mut self, result: &RawJson) -> Result<PageStep, PageError> {
        let kind = self.kind();
        let wanted = [kind.list_field(), "nextCursor", "cacheScope", "ttlMs"];
        let [items, next, scope, ttl] = Object::find_once(result.as_str(), wanted)
            .map_err(|source| PageError::NotAnObject { kind, source })?;

        self.pages += 1;
        let caching = Caching::read(scope, ttl);
        self.listing.caching = Some(self.listing.caching.map_or(caching, |so_far| so_far.and(caching)));
        let items = items.ok_or(PageError::NoItems { kind })?;
        let within = self.add(items).map_err(|_| PageError::NoItems { kind })?;
        Ok(match within.and_then(|()| self.turn_to(next)) {
            Ok(true) => PageStep::Ask(self),
            Ok(false) => PageStep::Done(self.listing),
            Err(cut_off) => PageStep::Done(self.listing.cut_off(cut_off)),
        })
    }

    /// What was listed, if the server's refusal of the current page means that there was nothing more to list.
    ///
    /// An empty cursor is valid and has to be followed, yet some servers write it to say "the end" and then refuse it.
    /// A refusal of any other page is a failed listing.
    pub(crate) fn refused(self) -> Option<ItemList> {
        (self.cursor.as_deref() == Some("")).then_some(self.listing)
    }

    /// Adds a page's items, up to the bounds. The outer error: not an array.
    fn add(&mut self, items: &RawValue) -> Result<Result<(), CutOff>, serde_json::Error> {
        serde_json::Deserializer::from_str(items.get()).deserialize_seq(Items(self))
    }

    fn add_one(&mut self, item: &RawValue) -> Result<(), CutOff> {
        if self.listing.items.len() == MAX_ITEMS {
            return Err(CutOff::Items);
        }
        self.grow(item.get().len())?;
        // A copy, not a slice: a slice would keep the whole page in memory for as long as one item of it is published.
        let item = RawJson::from_text(item.get()).expect("a raw value was parsed as JSON");
        self.listing.items.push(item);
        Ok(())
    }

    /// Turns to the next page, if there is one.
    fn turn_to(&mut self, next: Option<&RawValue>) -> Result<bool, CutOff> {
        let Some(next) = next.filter(|next| next.get() != "null") else {
            return Ok(false);
        };
        let cursor: String = serde_json::from_str(next.get()).map_err(|_| CutOff::BadCursor)?;
        self.grow(cursor.len())?;
        if !self.seen.insert(cursor.clone()) {
            return Err(CutOff::RepeatedCursor);
        }
        if self.pages == MAX_PAGES {
            return Err(CutOff::Pages);
        }
        self.cursor = Some(cursor);
        Ok(true)
    }

    fn grow(&mut self, bytes: usize) -> Result<(), CutOff> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MAX_BYTES {
            Err(CutOff::Bytes)
        } else {
            Ok(())
        }
    }
}

impl ItemList {
    /// The list of a server that does not have this kind at all.
    pub(crate) fn empty(kind: Kind) -> Self {
        Self {
            kind,
            items: Vec::new(),
            caching: None,
            cut_off: None,
        }
    }

    /// Bytes of all its items.
    pub(crate) fn length(&self) -> usize {
        self.items.iter().map(|item| item.as_bytes().len()).sum()
    }

    fn cut_off(self, why: CutOff) -> Self {
        Self {
            cut_off: Some(why),
            ..self
        }
    }
}

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

    pub(super) fn is_private(self) -> bool {
        self.scope == Some(CacheScope::Private)
    }
}

/// Reads the items of a page one by one, so that a page of a million numbers is never held as a million values.
struct Items<'a>(&'a mut Pager);

impl<'de> Visitor<'de> for Items<'_> {
    type Value = Result<(), CutOff>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        while let Some(item) = items.next_element::<&RawValue>()? {
            if let Err(cut_off) = self.0.add_one(item) {
                while items.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(Err(cut_off));
            }
        }
        Ok(Ok(()))
    }
}

#[cfg(test)]
mod tests;
