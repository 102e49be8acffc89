//! Logs what is in conflict between servers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::{Catalog, CatalogFault, CatalogReader, Diagnostic, Kind};
use crate::large;

/// The shortest time between two looks at the whole catalog. The servers of a large fleet change many times in a second, and a look takes
/// some milliseconds there.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Logs what is set aside because its name is taken, and where resources are read from another server than a template's; once for as
/// long as it is so. Ends with the fleet.
pub(crate) async fn log_conflicts(mut catalogs: CatalogReader) {
    let mut known = Conflicts::new();
    while let Some(catalog) = catalogs.changed().await {
        let now = find(catalog).await;
        for conflict in now.difference(&known) {
            tracing::warn!("{conflict}");
        }
        known = now;
        sleep(LOOK_INTERVAL).await;
    }
}

type Conflicts = BTreeSet<String>;

/// The conflicts of a catalog. A thread that may block looks for them in a large one.
async fn find(catalog: Arc<Catalog>) -> Conflicts {
    let listed = catalog.servers().filter_map(|server| catalog.server(server));
    let length = listed.map(|listed| listed.length()).sum();
    large::process(length, move || conflicts_of(&catalog)).await
}

fn conflicts_of(catalog: &Catalog) -> Conflicts {
    let found = catalog.diagnostics().iter().filter(|found| is_conflict(found));
    found.map(ToString::to_string).collect()
}

/// Many servers may list the same resource, which is no mistake.
fn is_conflict(diagnostic: &Diagnostic) -> bool {
    match diagnostic.fault {
        CatalogFault::Overlap => true,
        CatalogFault::Collision => matches!(diagnostic.kind, Kind::Tool | Kind::Prompt),
        CatalogFault::Malformed | CatalogFault::TooLarge | CatalogFault::Duplicate | CatalogFault::CutOff => {
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::SystemTime;

    use super::conflicts_of;
    use crate::catalog::fixtures::{catalog, resource, template, tool};
    use crate::catalog::{Freshness, PreparedOffers, Publisher};

    #[test]
    fn a_taken_name_and_an_overlap_are_conflicts_and_a_resource_of_two_servers_is_none() {
        let mut publisher = Publisher::new();
        let freshness = Freshness {
            listed_at: SystemTime::UNIX_EPOCH,
            stale_since: None,
            generation: None,
        };
        for (server, items) in [
            ("a", vec![tool("b__c"), resource("x:1"), template("y:{z}")]),
            ("a__b", vec![tool("c"), resource("x:1"), resource("y:1")]),
        ] {
            let listed = Arc::new(catalog(server, &items));
            let offers = PreparedOffers::new(&Arc::from(server), listed, Arc::default());
            publisher.set(server, offers, freshness);
        }
        let conflicts: Vec<_> = conflicts_of(&publisher.reader().load()).into_iter().collect();
        let [overlap, collision] = &conflicts[..] else {
            panic!("{conflicts:?}");
        };
        assert!(
            overlap.starts_with("a: resource template `y:{z}`: fits `y:1`"),
            "{overlap}"
        );
        assert!(
            collision.starts_with("a__b: tool `c`: is set aside"),
            "{collision}"
        );
    }
}
