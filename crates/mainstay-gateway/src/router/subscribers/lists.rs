//! Changes of lists: every subscriber that has seen a list, or listens for it, gets one notification, however much changed in it.

use mainstay::message::RawJson;
use mainstay::{Catalog, Item, Kind, Offer};

use super::{Broadcast, SubscriberEntry, Subscribers};
use crate::isolation::Isolated;
use crate::scope::Scope;

/// The lists whose changes a subscriber wants.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ListFilter {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
}

impl Subscribers {
    /// Notifies every subscriber that sees a list which changed, once for each list.
    pub(crate) fn catalog_changed(&self, catalog: &Catalog, isolated: &Isolated) {
        let mut table = self.table();
        let mut changed = Vec::new();
        let mut look = |scope: Scope, kind: Kind, now: u64| {
            if table.fingerprints.insert((scope.clone(), kind), now) != Some(now) {
                changed.push((scope, kind));
            }
        };
        let isolated_names = isolated.names();
        for kind in Kind::ALL {
            // Each isolated server counts for itself: sessions differ in which of the template servers they see.
            let is_shared = |server: &str| !isolated.holds(server);
            look(Scope::Union, kind, of_union(catalog, kind, is_shared));
            for server in &isolated_names {
                let now = fingerprint_of(catalog, server, kind);
                look(Scope::Server(server.clone()), kind, now);
            }
            for server in catalog.servers().filter(|server| is_shared(server)) {
                if let Some(listed) = catalog.server(server) {
                    let items = listed.items(kind).iter().map(Item::raw);
                    look(Scope::Server(server.into()), kind, fingerprint(items));
                }
            }
        }
        for entry in table.entries.values() {
            let mine = changed.iter().filter(|(scope, _)| entry.sees(scope, isolated));
            entry.send_list_changes(mine.map(|(_, kind)| *kind));
        }
    }
}

impl SubscriberEntry {
    /// Whether it sees this change of the shared fleet.
    fn sees(&self, changed: &Scope, isolated: &Isolated) -> bool {
        match changed {
            Scope::Server(name) if isolated.holds(name) => {
                let follows = self.own.as_ref().is_some_and(|own| own.follows_template(name));
                follows && self.scope.holds(name)
            }
            Scope::Server(_) | Scope::Union => *changed == self.scope,
        }
    }

    pub(super) fn send_list_changes(&self, kinds: impl Iterator<Item = Kind>) {
        let mut methods: Vec<_> = kinds.filter_map(|kind| self.lists.method(kind)).collect();
        // Resources and their templates share a method, and so do several servers. They come kind by kind.
        methods.dedup();
        for method in methods {
            self.send(&Broadcast::of_change(method, None));
        }
    }
}

impl ListFilter {
    fn method(&self, kind: Kind) -> Option<&'static str> {
        let (wanted, method) = match kind {
            Kind::Tool => (self.tools, "notifications/tools/list_changed"),
            Kind::Prompt => (self.prompts, "notifications/prompts/list_changed"),
            Kind::Resource | Kind::Template => (self.resources, "notifications/resources/list_changed"),
        };
        wanted.then_some(method)
    }
}

/// A fingerprint of what one server offers of a kind.
pub(crate) fn fingerprint_of(catalog: &Catalog, server: &str, kind: Kind) -> u64 {
    of_union(catalog, kind, |its| its == server)
}

fn of_union(catalog: &Catalog, kind: Kind, counts: impl Fn(&str) -> bool) -> u64 {
    fn of<'a, T>(offers: &'a [Offer<T>], counts: impl Fn(&str) -> bool + 'a) -> u64 {
        let offers = offers.iter().filter(|offer| counts(offer.server()));
        fingerprint(offers.map(Offer::published))
    }
    match kind {
        Kind::Tool => of(catalog.tools(), counts),
        Kind::Prompt => of(catalog.prompts(), counts),
        Kind::Resource => of(catalog.resources(), counts),
        Kind::Template => of(catalog.templates(), counts),
    }
}

fn fingerprint<'a>(items: impl Iterator<Item = &'a RawJson>) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    items.for_each(|item| item.hash(&mut hasher));
    hasher.finish()
}
