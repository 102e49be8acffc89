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
    let length = catalog.servers().filter_map(|server| catalog.server(server));
    let length = length.map(|listed| listed.length()).sum();
    large::process(length, move || {
        let found = catalog.diagnostics().iter().filter(|found| is_conflict(found));
        found.map(ToString::to_string).collect()
    })
    .await
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
