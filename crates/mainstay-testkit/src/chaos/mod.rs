//! What the chaos tests share: chance that can be repeated, servers that are restarted externally, how late the machine itself is, and
//! what is left in the end.

mod adversary;
mod cast;
mod dice;
mod held;
mod hosts;
mod kind;
mod lateness;
mod planned_call;
mod runs;

use std::time::Duration;

pub use adversary::{Adversary, Deed};
pub use cast::Cast;
pub use dice::Dice;
pub use held::Held;
pub use hosts::{ChaosHost, Hosts};
pub use kind::ChaosServerKind;
pub use lateness::Lateness;
pub use planned_call::PlannedCall;
pub use runs::Runs;

/// How long each call may take.
pub const DEADLINE: Duration = Duration::from_millis(1500);

/// The first so many servers, of every kind, are never disabled, so their tools are listed at every moment.
pub const NEVER_DISABLED: usize = 6;

/// The name of a server.
#[must_use]
pub fn name(server: usize) -> String {
    format!("s{server:02}")
}

/// A number from the environment, if it is set.
///
/// # Panics
/// When it is set to something else.
#[must_use]
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| {
        value.parse().unwrap_or_else(|_| panic!("{name} is no number"))
    })
}
