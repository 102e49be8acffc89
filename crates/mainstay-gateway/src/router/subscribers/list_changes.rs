//! Which lists of the shared fleet changed from one published catalog to the next.

use std::collections::HashMap;
use std::sync::Arc;

use mainstay::Catalog;
use mainstay::catalog::Kind;
use mainstay::gateway::{ChangedServer, ListHashes, ServerLists, changed_servers, server_lists};

use crate::isolation::Isolated;
use crate::scope::Scope;

/// A flag for each kind, in the order of [`Kind::ALL`].
type Flags = [bool; Kind::ALL.len()];

/// The lists that were last looked at.
#[derive(Default)]
pub(super) struct SeenLists {
    catalog: Arc<Catalog>,
    isolated: Vec<Arc<str>>,
    /// What each server offered when it was last published. One that is withdrawn is remembered.
    offered: HashMap<Arc<str>, ListHashes>,
}

impl SeenLists {
    /// Looks at what is published now. Returns the lists that clients of the shared fleet can see and that changed since the last look,
    /// kind by kind.
    pub(super) fn look(&mut self, catalog: &Arc<Catalog>, isolated: &Isolated) -> Vec<(Scope, Kind)> {
        let before = std::mem::replace(&mut self.catalog, Arc::clone(catalog));
        let mut union = self.look_at_isolated(isolated.names());
        let mut of_servers = Vec::new();
        for server in changed_servers(&before, catalog) {
            let published = changed_kinds(
                server.before.unwrap_or(ServerLists::NOTHING).published,
                server.now.unwrap_or(ServerLists::NOTHING).published,
            );
            let offered = self.offered_since(&server);
            let is_isolated = isolated.holds(server.name);
            if !is_isolated {
                union = either(union, published);
            }
            // Each isolated server counts for itself: sessions differ in which of the template servers they see.
            let own = if is_isolated { published } else { offered };
            of_servers.push((server.name, own));
        }
        let mut changed = Vec::new();
        for (at, kind) in Kind::ALL.into_iter().enumerate() {
            let of_servers = of_servers.iter().filter(|(_, changed)| changed[at]);
            let of_servers = of_servers.map(|(name, _)| Scope::Server(Arc::clone(name)));
            let of_union = union[at].then_some(Scope::Union);
            changed.extend(of_union.into_iter().chain(of_servers).map(|scope| (scope, kind)));
        }
        changed
    }

    /// The kinds of the union that changed because other servers are isolated than before.
    fn look_at_isolated(&mut self, names: Vec<Arc<str>>) -> Flags {
        let mut changed = Flags::default();
        if self.isolated != names {
            let (before, now) = (&self.isolated, &names);
            let came = now.iter().filter(|name| !before.contains(name));
            let went = before.iter().filter(|name| !now.contains(name));
            for lists in came
                .chain(went)
                .filter_map(|name| server_lists(&self.catalog, name))
            {
                changed = either(
                    changed,
                    changed_kinds(lists.published, ServerLists::NOTHING.published),
                );
            }
            self.isolated = names;
        }
        changed
    }

    /// The lists that differ from those that the server offered last, and all lists of one that was never there.
    fn offered_since(&mut self, server: &ChangedServer<'_>) -> Flags {
        let Some(now) = server.now else {
            return Flags::default();
        };
        match self.offered.insert(Arc::clone(server.name), now.offered) {
            Some(before) => changed_kinds(before, now.offered),
            None => [true; Kind::ALL.len()],
        }
    }
}

/// The kinds in which two servers, or a server at two times, differ.
pub(crate) fn changed_kinds(before: ListHashes, now: ListHashes) -> Flags {
    std::array::from_fn(|at| before[at] != now[at])
}

fn either(one: Flags, other: Flags) -> Flags {
    std::array::from_fn(|at| one[at] || other[at])
}
