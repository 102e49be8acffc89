//! Writes what changes in the catalogs of a fleet's servers to the journal.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use mainstay::Catalog;
use mainstay::catalog::{CatalogReader, Item, Kind, ServerCatalog};
use mainstay::gateway::{PlainText, changed_servers};
use serde_json::Value;

use crate::api::{CatalogChange, CatalogEntry, ChangedEntry, ChangedMember, EventDetail};
use crate::journal::Journal;

/// Entries that one event names. A server that changes more of them has changed altogether.
const ENTRIES_LIMIT: usize = 50;

/// Characters of a name that are kept.
const NAME_CHARS_LIMIT: usize = 200;

/// Characters of a changed member that are kept, before and after.
const MEMBER_CHARS_LIMIT: usize = 400;

/// Records the changes until the fleet or the journal is gone. Its server may be shown under another name. The first listing of a
/// server is no change.
pub(crate) fn start(mut catalogs: CatalogReader, shown_as: Option<Arc<str>>, journal: &Arc<Journal>) {
    let journal = Arc::downgrade(journal);
    let mut seen = SeenCatalogs::default();
    seen.changes(&catalogs.load());
    tokio::spawn(async move {
        while let Some(catalog) = catalogs.changed().await {
            let Some(journal) = journal.upgrade() else { return };
            for (server, change) in seen.changes(&catalog) {
                let server = shown_as.clone().unwrap_or(server);
                journal.write(Some(server), EventDetail::CatalogChanged { change });
            }
        }
    });
}

/// The last catalog of each server. One that is withdrawn while its server is disabled is remembered.
#[derive(Default)]
struct SeenCatalogs {
    published: Arc<Catalog>,
    by_server: HashMap<Arc<str>, Arc<ServerCatalog>>,
}

impl SeenCatalogs {
    /// What changed since the last look.
    fn changes(&mut self, catalog: &Arc<Catalog>) -> Vec<(Arc<str>, CatalogChange)> {
        let last = std::mem::replace(&mut self.published, Arc::clone(catalog));
        let mut found = Vec::new();
        for server in changed_servers(&last, catalog) {
            let name = server.name;
            let Some(now) = catalog.server(name) else { continue };
            let Some(before) = self.by_server.insert(name.clone(), now.clone()) else {
                continue;
            };
            if before.hash() == now.hash() {
                continue;
            }
            let change = difference(&before, now, catalog.revision());
            if !(change.added.is_empty() && change.removed.is_empty() && change.changed.is_empty()) {
                found.push((name.clone(), change));
            }
        }
        found
    }
}

fn difference(before: &ServerCatalog, now: &ServerCatalog, revision: u64) -> CatalogChange {
    let mut change = CatalogChange {
        revision,
        added: Vec::new(),
        removed: Vec::new(),
        changed: Vec::new(),
        left_out: 0,
    };
    for kind in Kind::ALL {
        for item in now.items(kind) {
            match before.item(kind, item.key()) {
                None => bounded(&mut change.added, &mut change.left_out, || entry(kind, item)),
                Some(old) if old.raw() != item.raw() => {
                    bounded(&mut change.changed, &mut change.left_out, || ChangedEntry {
                        kind: word(kind).to_owned(),
                        name: cut(item.key(), NAME_CHARS_LIMIT),
                        members: members(old, item),
                    });
                }
                Some(_same) => {}
            }
        }
        for item in before.items(kind) {
            if now.item(kind, item.key()).is_none() {
                bounded(&mut change.removed, &mut change.left_out, || entry(kind, item));
            }
        }
    }
    change
}

fn bounded<T>(list: &mut Vec<T>, left_out: &mut usize, entry: impl FnOnce() -> T) {
    if list.len() < ENTRIES_LIMIT {
        list.push(entry());
    } else {
        *left_out += 1;
    }
}

/// The members of a definition that differ.
fn members(before: &Item, now: &Item) -> Vec<ChangedMember> {
    let read = |item: &Item| -> BTreeMap<String, Value> { item.raw().parse().unwrap_or_default() };
    let (before, now) = (read(before), read(now));
    let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let differing = names
        .into_iter()
        .filter(|name| before.get(*name) != now.get(*name));
    let text = |value: Option<&Value>| value.map(|value| cut(&value.to_string(), MEMBER_CHARS_LIMIT));
    let differing = differing.map(|name| ChangedMember {
        member: cut(name, NAME_CHARS_LIMIT),
        before: text(before.get(name)),
        after: text(now.get(name)),
    });
    differing.take(ENTRIES_LIMIT).collect()
}

fn entry(kind: Kind, item: &Item) -> CatalogEntry {
    CatalogEntry {
        kind: word(kind).to_owned(),
        name: cut(item.key(), NAME_CHARS_LIMIT),
    }
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Tool => "tool",
        Kind::Prompt => "prompt",
        Kind::Resource => "resource",
        Kind::Template => "template",
    }
}

fn cut(text: &str, limit: usize) -> String {
    PlainText::line(text).cut(limit).into_string()
}
