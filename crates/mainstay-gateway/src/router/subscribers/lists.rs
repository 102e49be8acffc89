//! Changes of lists: each that sees one, or listens for it, is told once, however much changed in it.

use mainstay::Catalog;
use mainstay::catalog::{Item, Kind, Offer};
use mainstay::gateway::message::RawJson;

use super::{News, SubscriberEntry, Subscribers};
use crate::isolation::Isolated;
use crate::scope::Scope;

/// The lists whose changes somebody wants to hear of.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Filter {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
}

impl Subscribers {
    /// Tells whoever sees a list that changed. Each is told once for each list, however much changed in it.
    pub(crate) fn catalog_changed(&self, catalog: &Catalog, isolated: &Isolated) {
        let mut seats = self.seats();
        let mut changed = Vec::new();
        let mut look = |scope: Scope, kind: Kind, now: u64| {
            if seats.seen.insert((scope.clone(), kind), now) != Some(now) {
                changed.push((scope, kind));
            }
        };
        let isolated_names = isolated.names();
        for kind in Kind::ALL {
            // Those that sessions have for themselves are looked at one by one: who sees which differs.
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
        for hearer in seats.hearers.values() {
            let mine = changed.iter().filter(|(scope, _)| hearer.sees(scope, isolated));
            hearer.tell_of_lists(mine.map(|(_, kind)| *kind));
        }
    }
}

impl SubscriberEntry {
    /// Whether it sees what changed in the fleet that all share.
    fn sees(&self, changed: &Scope, isolated: &Isolated) -> bool {
        match changed {
            Scope::Server(name) if isolated.holds(name) => {
                let follows = self.own.as_ref().is_some_and(|own| own.follows_pattern(name));
                follows && self.scope.holds(name)
            }
            Scope::Server(_) | Scope::Union => *changed == self.scope,
        }
    }

    pub(super) fn tell_of_lists(&self, kinds: impl Iterator<Item = Kind>) {
        let mut methods: Vec<_> = kinds.filter_map(|kind| self.filter.method(kind)).collect();
        // Resources and their templates share a method, and so do several servers. They come kind by kind.
        methods.dedup();
        for method in methods {
            self.tell(&News::of_change(method, None));
        }
    }
}

impl Filter {
    fn method(&self, kind: Kind) -> Option<&'static str> {
        let (wanted, method) = match kind {
            Kind::Tool => (self.tools, "notifications/tools/list_changed"),
            Kind::Prompt => (self.prompts, "notifications/prompts/list_changed"),
            Kind::Resource | Kind::Template => (self.resources, "notifications/resources/list_changed"),
        };
        wanted.then_some(method)
    }
}

/// What one server shows of a kind, as a number.
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
