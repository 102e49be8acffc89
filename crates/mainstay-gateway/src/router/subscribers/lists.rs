//! Changes of lists: every subscriber that has seen a list, or listens for it, gets one notification, however much changed in it.

use std::sync::Arc;

use mainstay::Catalog;
use mainstay::catalog::Kind;

use super::{Broadcast, SubscriberEntry, Subscribers, fingerprints};
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
    /// Takes what is published at the start as known: no client has seen another list.
    pub(crate) async fn note_lists(&self, catalog: Arc<Catalog>, isolated: &Arc<Isolated>) {
        let now = fingerprints::of_all(catalog, isolated.clone()).await;
        self.table().fingerprints.extend(now);
    }

    /// Notifies every subscriber that sees a list which changed, once for each list.
    ///
    /// Cancel safety: dropping the future notifies no subscriber.
    pub(crate) async fn catalog_changed(&self, catalog: Arc<Catalog>, isolated: &Arc<Isolated>) {
        let now = fingerprints::of_all(catalog, isolated.clone()).await;
        let mut table = self.table();
        let mut changed = Vec::new();
        for (list, now) in now {
            if table.fingerprints.insert(list.clone(), now) != Some(now) {
                changed.push(list);
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
