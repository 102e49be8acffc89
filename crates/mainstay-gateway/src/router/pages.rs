//! A list in pages, as it goes to clients.
//!
//! A cursor names its page and the content that it is a page of. Whoever comes with one after the list has changed is
//! told to list again: the same number would lead to other items, and leave some out.

use std::hash::{DefaultHasher, Hash, Hasher};

use mainstay::Era;
use mainstay::catalog::Kind;
use mainstay::gateway::message::{Object, RawJson, RpcError};

use super::caching::Hint;
use crate::protocol::{invalid_params, text};

/// Items on a page. Clients that do not turn pages see this many.
const PAGE: usize = 1000;

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
    /// Writes the items in pages; a modern client is also told how they may be kept.
    pub(super) fn write(kind: Kind, era: Era, items: &[RawJson], hint: Hint) -> Self {
        let content = fingerprint(items);
        let count = items.len().div_ceil(PAGE).max(1);
        let pages = (0..count).map(|page| {
            let items = items.iter().skip(page * PAGE).take(PAGE);
            let next = (page + 1 < count).then_some(Cursor::Page {
                page: page + 1,
                content,
            });
            write_page(kind, era, items, next, hint)
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
    pub(super) fn read(params: Option<&RawJson>) -> Result<Self, RpcError> {
        let cursor = params
            .and_then(Object::parse)
            .and_then(|params| params.get("cursor").cloned());
        let Some(cursor) = cursor.filter(|cursor| *cursor != RawJson::NULL) else {
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
    hint: Hint,
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
    match era {
        Era::Legacy => {}
        Era::Modern => hint.write(&mut result),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn many(count: usize) -> Vec<RawJson> {
        (0..count as u64).map(RawJson::from).collect()
    }

    #[test]
    fn a_cursor_leads_on_while_the_list_is_the_same_and_is_refused_when_it_is_another() {
        let items = many(PAGE * 2 + 1);
        let write = |items: &[RawJson]| Pages::write(Kind::Tool, Era::Legacy, items, Hint::NONE);
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
            "written anew, and the same"
        );
        let mut changed = items;
        changed.remove(0);
        let refused = write(&changed).page(cursors[0]).unwrap_err();
        assert_eq!(refused.code(), RpcError::INVALID_PARAMS);
    }

    #[test]
    fn a_cursor_that_was_never_given_is_refused() {
        for cursor in [r#""1""#, r#""1-x""#, r#""-""#, r#""""#, "7", "{}"] {
            let params = RawJson::from_text(format!(r#"{{"cursor":{cursor}}}"#)).unwrap();
            let refused = Cursor::read(Some(&params)).unwrap_err();
            assert_eq!(refused.code(), RpcError::INVALID_PARAMS, "{cursor}");
        }
        let none = RawJson::from_text(r#"{"cursor":null}"#).unwrap();
        assert_eq!(Cursor::read(Some(&none)).unwrap(), Cursor::Start);
    }
}
