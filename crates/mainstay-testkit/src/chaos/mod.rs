//! What the chaos tests share: chance that can be repeated, servers that are restarted externally, how late the machine itself is, and
//! what is left in the end.

mod dice;
mod held;
mod hosts;
mod kind;
mod lateness;
mod planned_call;
mod runs;

pub use dice::Dice;
pub use held::Held;
pub use hosts::{ChaosHost, Hosts};
pub use kind::ChaosServerKind;
pub use lateness::Lateness;
pub use planned_call::PlannedCall;
pub use runs::Runs;

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
