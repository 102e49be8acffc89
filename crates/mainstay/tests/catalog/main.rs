//! The catalog, through the fleet: what servers offer stays in sight while they come and go, and changes only when they
//! say something else.

#[path = "../support/memory.rs"]
mod support;

use mainstay_testkit::Script;
use support::Memory;

mod changes;
mod disk;
mod last_good;
mod listing;
mod wishes;

/// Changes the script of the connections to come.
fn rewrite(memory: &Memory, change: impl FnOnce(Script) -> Script) {
    let mut script = memory.script.lock().unwrap();
    *script = change(script.clone());
}
