//! The mark in the environment by which a process tree is known: `MAINSTAY_TREE=<fleet token>.<n>`.
//!
//! The token is drawn once per program and distinguishes its trees from those of other programs on the machine; `n` counts
//! the starts. It is a name to search for, not a secret.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// The environment variable that holds the marker.
pub(super) const VARIABLE: &str = "MAINSTAY_TREE";

/// The marker of one process tree; never drawn twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Marker(String);

impl Marker {
    pub(super) fn next() -> Self {
        static STARTS: AtomicU64 = AtomicU64::new(1);
        let n = STARTS.fetch_add(1, Ordering::Relaxed);
        Self(format!("{}.{n}", fleet_token()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is what a process carries, by what follows [`prefix`] in its environment. All of it counts: `.1` is not
    /// the beginning of `.12`.
    pub(super) fn is(&self, value: &str) -> bool {
        self.number() == value
    }

    /// The part that differs from the other markers of this program.
    pub(super) fn number(&self) -> &str {
        let dot = fleet_token().len() + 1;
        &self.0[dot..]
    }
}

/// How the marker of each tree of this program begins, as it stands in `/proc/<pid>/environ`.
pub(super) fn prefix() -> Vec<u8> {
    format!("{VARIABLE}={}.", fleet_token()).into_bytes()
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What the markers of this program have in common: 16 hexadecimal digits.
pub(super) fn fleet_token() -> &'static str {
    static TOKEN: OnceLock<String> = OnceLock::new();
    TOKEN.get_or_init(|| {
        // The hasher's keys are random per program; pid and time guard against a system without randomness.
        let drawn = RandomState::new().hash_one((std::process::id(), SystemTime::now()));
        format!("{drawn:016x}")
    })
}

#[cfg(test)]
mod tests {
    use super::{Marker, fleet_token};

    #[test]
    fn markers_share_the_token_and_never_repeat() {
        let (first, second) = (Marker::next(), Marker::next());
        assert_ne!(first, second);
        assert!(first.as_str().starts_with(&format!("{}.", fleet_token())));
        assert_eq!(fleet_token().len(), 16);
    }
}
