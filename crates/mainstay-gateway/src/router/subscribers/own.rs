//! What happens at a session's own servers is told to that session's hearers alone.

use std::sync::Arc;

use mainstay::catalog::Kind;
use mainstay::gateway::message::RawJson;

use super::{News, SubscriberEntry, Subscribers, resource};
use crate::isolation::OwnServers;

impl Subscribers {
    /// Tells whoever shares the session that the lists of one of its own servers changed.
    pub(crate) fn own_lists_changed(&self, own: &Arc<OwnServers>, server: &str, kinds: &[Kind]) {
        for hearer in self.seats().hearers.values() {
            if hearer.is_of(own) && hearer.scope.holds(server) {
                hearer.tell_of_lists(kinds.iter().copied());
            }
        }
    }

    /// Tells whoever shares the session, and subscribed, that a resource of one of its own servers changed.
    pub(crate) fn own_resource_updated(&self, own: &Arc<OwnServers>, server: &str, params: Option<&RawJson>) {
        let Some(topic) = resource(params) else { return };
        let news = News::of_change("notifications/resources/updated", params);
        for hearer in self.seats().hearers.values() {
            if hearer.is_of(own) && hearer.hears(&topic, server, true) {
                hearer.tell(&news);
            }
        }
    }
}

impl SubscriberEntry {
    /// Whether it sees the server of this name that all share. Of one that sessions have for themselves that is the pattern,
    /// which is nobody's.
    pub(super) fn shares(&self, server: &str) -> bool {
        let has_its_own = self.own.as_ref().is_some_and(|own| own.isolates(server));
        self.scope.holds(server) && !has_its_own
    }

    pub(super) fn is_of(&self, own: &Arc<OwnServers>) -> bool {
        self.own.as_ref().is_some_and(|its| Arc::ptr_eq(its, own))
    }
}
