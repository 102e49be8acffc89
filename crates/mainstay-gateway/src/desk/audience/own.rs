//! What happens at a session's own servers is told to that session's hearers alone.

use std::sync::Arc;

use mainstay::Kind;
use mainstay::message::RawJson;

use super::{Audience, Hearer, uri};
use crate::isolation::OwnServers;

impl Audience {
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
        let Some(uri) = uri(params) else { return };
        for hearer in self.seats().hearers.values() {
            if hearer.is_of(own) && hearer.hears(&uri, server, true) {
                hearer.tell("notifications/resources/updated", params);
            }
        }
    }
}

impl Hearer {
    fn is_of(&self, own: &Arc<OwnServers>) -> bool {
        self.own.as_ref().is_some_and(|its| Arc::ptr_eq(its, own))
    }
}
