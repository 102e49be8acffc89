//! The catalog, through the fleet: what servers offer stays in sight while they come and go, and changes only when they
//! say something else.

use mainstay::Catalog;
use mainstay::catalog::Offer;
use mainstay_testkit::Script;
use mainstay_testkit::fleet::Memory;

mod changes;
mod disk;
mod following;
mod last_good;
mod listing;
mod refreshing;
mod refusals;
mod restoring;
mod subscriptions;

/// What a server sends when its tools have changed.
const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

/// The public names of all tools.
fn names(catalog: &Catalog) -> Vec<&str> {
    catalog.tools().iter().map(Offer::name).collect()
}

/// Changes the script of the connections to come.
fn rewrite(memory: &Memory, change: impl FnOnce(Script) -> Script) {
    let mut script = memory.script.lock().unwrap();
    *script = change(script.clone());
}
