//! What one server offers, as last listed with success, and what was set aside of it.

use std::fmt;
use std::time::Duration;

use super::names::{CatalogHash, Hasher};
use super::pages::{Caching, ItemList, MAX_BYTES};
use super::{Item, Kind};
use crate::PlainText;
use crate::wire::RawJson;

/// What one server offers, as last listed with success. Two catalogs are equal when their hashes are.
#[derive(Clone, Debug)]
pub struct ServerCatalog {
    about: About,
    /// Sorted by key.
    items: [Vec<Item>; Kind::ALL.len()],
    /// Where the items stand, in the order in which the server listed them.
    order: [Vec<u32>; Kind::ALL.len()],
    caching: [Option<Caching>; Kind::ALL.len()],
    hash: CatalogHash,
    diagnostics: Vec<Diagnostic>,
}

/// What a server said of itself when the connection was made.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The protocol version spoken with it.
    pub protocol_version: Option<String>,
    /// Its `serverInfo`, as sent.
    pub server_info: Option<RawJson>,
    /// Its `capabilities`, as sent.
    pub capabilities: Option<RawJson>,
    /// Its instructions to a model.
    pub instructions: Option<String>,
    /// Its `capabilities` in the modern era, as sent, if it takes requests of that era beside its session.
    pub modern_capabilities: Option<RawJson>,
}

impl ServerCatalog {
    /// Makes a catalog of what was listed; what is malformed, doubled or over the bounds is set aside.
    ///
    /// Items are sorted by key, and the order of the listing is kept beside. A server may list in another order each
    /// time; but callers put the list at the head of a model's prompt, and a prompt cache is lost with the first byte
    /// that moves.
    pub(crate) fn new(server: &str, about: About, listings: impl IntoIterator<Item = ItemList>) -> Self {
        Self::admitting(server, about, listings, |_item| Ok(()))
    }

    /// The same for a server whose calls go over HTTP in the modern era. A tool that breaks the rules of headers is set
    /// aside: no call to it could be made as the protocol wants it.
    pub(crate) fn over_http(
        server: &str,
        about: About,
        listings: impl IntoIterator<Item = ItemList>,
    ) -> Self {
        Self::admitting(server, about, listings, |item| {
            item.bad_mirror().map_or(Ok(()), |why| Err(why.to_owned()))
        })
    }

    fn admitting(
        server: &str,
        about: About,
        listings: impl IntoIterator<Item = ItemList>,
        admit: impl Fn(&Item) -> Result<(), String>,
    ) -> Self {
        let mut diagnostics = DiagnosticList::of(server);
        let mut listed: [Vec<(u32, Item)>; Kind::ALL.len()] = Default::default();
        let mut caching: [Option<Caching>; Kind::ALL.len()] = Default::default();
        for listing in listings {
            let kind = listing.kind;
            let said = &mut caching[kind.index()];
            *said = match (*said, listing.caching) {
                (Some(one), Some(other)) => Some(one.and(other)),
                (one, other) => one.or(other),
            };
            if let Some(why) = listing.cut_off {
                diagnostics.add(kind, CatalogFault::CutOff, None, why);
            }
            for (at, raw) in (0..).zip(listing.items) {
                match Item::read(kind, raw) {
                    Ok(item) => match admit(&item) {
                        Ok(()) => listed[kind.index()].push((at, item)),
                        Err(why) => diagnostics.add(kind, CatalogFault::Malformed, Some(item.key()), why),
                    },
                    Err(flaw) => diagnostics.add(kind, flaw.fault, flaw.item.as_deref(), flaw.message),
                }
            }
        }
        let mut room = MAX_BYTES.saturating_sub(about.bytes());
        for kind in Kind::ALL {
            let list = &mut listed[kind.index()];
            sort(kind, list, &mut diagnostics);
            cut_to(&mut room, kind, list, &mut diagnostics);
        }
        let order = listed.each_ref().map(|list| order(list));
        let items = listed.map(|list| list.into_iter().map(|(_, item)| item).collect());
        Self {
            hash: hash(&about, &items, &caching),
            about,
            items,
            order,
            caching,
            diagnostics: diagnostics.finish(),
        }
    }

    /// The items of one kind, sorted by key.
    pub fn items(&self, kind: Kind) -> &[Item] {
        &self.items[kind.index()]
    }

    /// The items of one kind, in the order in which the server listed them when it first offered just these.
    pub fn listed(&self, kind: Kind) -> impl ExactSizeIterator<Item = &Item> {
        let items = self.items(kind);
        self.order[kind.index()].iter().map(|&at| &items[at as usize])
    }

    /// The item of this kind with this name or uri.
    pub fn item(&self, kind: Kind, key: &str) -> Option<&Item> {
        let items = self.items(kind);
        let at = items.binary_search_by(|item| item.key().cmp(key)).ok()?;
        Some(&items[at])
    }

    /// What the server said of itself.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Whether some of it is meant for this authorization alone, and so may be stored only where this user alone can read it.
    pub fn is_private(&self) -> bool {
        self.caching.iter().flatten().any(|said| said.is_private())
    }

    /// How long the server calls its lists fresh: the shortest time of them.
    pub fn ttl(&self) -> Option<Duration> {
        self.caching.iter().flatten().filter_map(|said| said.ttl).min()
    }

    /// How one list may be kept; `None` where the server was not asked for it.
    pub fn caching(&self, kind: Kind) -> Option<Caching> {
        self.caching[kind.index()]
    }

    /// The same in the order of `previous`, which has the same content: an order that changes for no reason is not shown.
    pub(super) fn in_order_of(self, previous: &Self) -> Self {
        debug_assert_eq!(
            self.hash, previous.hash,
            "the same items stand in the same places"
        );
        Self {
            order: previous.order.clone(),
            ..self
        }
    }

    /// The hash of all items and of what the server said of itself.
    pub fn hash(&self) -> CatalogHash {
        self.hash
    }

    /// How many bytes the items take.
    pub(crate) fn length(&self) -> usize {
        let items = self.items.iter().flatten();
        items.map(|item| item.raw().as_bytes().len()).sum()
    }

    /// What was set aside.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }
}

impl PartialEq for ServerCatalog {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

impl Eq for ServerCatalog {}

impl About {
    fn bytes(&self) -> usize {
        let raw = |json: &Option<RawJson>| json.as_ref().map_or(0, |json| json.as_bytes().len());
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        raw(&self.server_info)
            + raw(&self.capabilities)
            + raw(&self.modern_capabilities)
            + text(&self.instructions)
            + text(&self.protocol_version)
    }
}

/// Sorts by key and leaves one item for each.
///
/// Of two different items with one key the one with the lesser bytes stays, so that the choice does not hang on the
/// order of the listing. An exact copy is dropped without a word: nothing is lost with it.
fn sort(kind: Kind, items: &mut Vec<(u32, Item)>, diagnostics: &mut DiagnosticList<'_>) {
    // Stable: of exact copies the one that was listed first stays.
    items.sort_by(|(_, a), (_, b)| (a.key(), a.raw().as_bytes()).cmp(&(b.key(), b.raw().as_bytes())));
    items.dedup_by(|(_, later), (_, first)| {
        let doubled = later.key() == first.key();
        if doubled && later.raw() != first.raw() {
            let message = format!("the server offers two different {kind}s of this name");
            diagnostics.add(kind, CatalogFault::Duplicate, Some(later.key()), message);
        }
        doubled
    });
}

/// Cuts the list where the catalog's bytes run out.
fn cut_to(room: &mut usize, kind: Kind, items: &mut Vec<(u32, Item)>, diagnostics: &mut DiagnosticList<'_>) {
    let fitting = items
        .iter()
        .take_while(|(_, item)| match room.checked_sub(item.raw().as_bytes().len()) {
            Some(left) => {
                *room = left;
                true
            }
            None => false,
        });
    let fitting = fitting.count();
    let over = items.len() - fitting;
    if over > 0 {
        items.truncate(fitting);
        let message = format!("the catalog has more than {MAX_BYTES} bytes: {over} left out");
        diagnostics.add(kind, CatalogFault::CutOff, None, message);
    }
}

/// Where sorted items stand, in the order of their listing.
fn order(items: &[(u32, Item)]) -> Vec<u32> {
    let mut order: Vec<(u32, u32)> = (0..).zip(items).map(|(at, (listed, _))| (*listed, at)).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, at)| at).collect()
}

/// Privacy is content: a list that turns private must replace the one that may be stored. A time to live is not: it
/// may count down with every listing. Nor is the order.
fn hash(about: &About, items: &[Vec<Item>], caching: &[Option<Caching>]) -> CatalogHash {
    let mut hasher = Hasher::default();
    hasher
        .optional(about.protocol_version.as_deref().map(str::as_bytes))
        .optional(about.server_info.as_ref().map(RawJson::as_bytes))
        .optional(about.capabilities.as_ref().map(RawJson::as_bytes))
        .optional(about.instructions.as_deref().map(str::as_bytes))
        .optional(about.modern_capabilities.as_ref().map(RawJson::as_bytes));
    for said in caching {
        hasher.count(usize::from(said.is_some_and(Caching::is_private)));
    }
    for list in items {
        hasher.count(list.len());
        for item in list {
            hasher.part(item.raw().as_bytes());
        }
    }
    hasher.finish()
}

/// Diagnostics kept for one server. A server with 10,000 malformed tools is one problem, not 10,000.
pub(super) const MAX_DIAGNOSTICS: usize = 100;
/// Characters of an item's name kept in a diagnostic; a name is the server's own text and may be of any length.
const MAX_ITEM_CHARS: usize = 128;

/// Something in a server's catalog that was set aside, or that a person should look at.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// The server that offered it.
    pub server: String,
    /// The kind of thing it is about.
    pub kind: Kind,
    /// What is wrong.
    pub fault: CatalogFault,
    /// The item's name or uri, as [`PlainText`] and shortened; `None` when it has none, or when the whole list is meant.
    pub item: Option<String>,
    /// The same for a person, in a few words.
    pub message: String,
}

/// What is wrong with an item or a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CatalogFault {
    /// The item lacks what its kind must have.
    Malformed,
    /// The item has more bytes than one may have.
    TooLarge,
    /// The server offers two different items under one name.
    Duplicate,
    /// An item offered before it, perhaps by another server, has the same public name or uri.
    Collision,
    /// A template fits addresses of another server, which are read from that server.
    Overlap,
    /// The list was longer than its bounds, or its pages did not end.
    CutOff,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.server, self.kind)?;
        if let Some(item) = &self.item {
            write!(f, " `{item}`")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Collects the diagnostics of one server, up to [`MAX_DIAGNOSTICS`].
#[derive(Debug)]
pub(super) struct DiagnosticList<'a> {
    server: &'a str,
    list: Vec<Diagnostic>,
}

impl<'a> DiagnosticList<'a> {
    pub(super) fn of(server: &'a str) -> Self {
        Self {
            server,
            list: Vec::new(),
        }
    }

    pub(super) fn add(
        &mut self,
        kind: Kind,
        fault: CatalogFault,
        item: Option<&str>,
        message: impl fmt::Display,
    ) {
        if self.list.len() < MAX_DIAGNOSTICS {
            self.list.push(Diagnostic {
                server: self.server.to_owned(),
                kind,
                fault,
                item: item.map(|item| PlainText::line(item).cut(MAX_ITEM_CHARS).into_string()),
                message: PlainText::line(&message.to_string()).into_string(),
            });
        }
    }

    pub(super) fn finish(self) -> Vec<Diagnostic> {
        self.list
    }
}

#[cfg(test)]
mod tests;
