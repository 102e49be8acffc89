//! The child processes of stdio servers: started, watched, and stopped with all their descendants.
//!
//! - Each child leads its own process group, and carries a marker in its environment that its descendants inherit.
//!   The group reaches those that stayed; the marker finds those that left it (`setsid`, double fork).
//! - The leader is reaped last. Until then its zombie keeps the number of the group from being reused, so a signal to
//!   the group never reaches another program.
//! - However a `Process` ends (stop, drop, half a stop, panic), nothing of its tree is left behind. When this program
//!   itself is killed, the guardian ends the trees.
//! - stderr is always read, and kept only in a bounded ring.
//!
//! Finding the marker takes `/proc`. On other unixes the tree is the process group, and nothing more.

mod activity;
mod child;
mod explanation;
mod guardian;
mod ladder;
mod leader;
mod marker;
mod scan;
mod shared_scan;
mod spawn;
mod stderr;
mod stop;

#[cfg(test)]
mod tests;

pub(crate) use activity::{Activity, InputGauge, Observer, is_stopped};
pub(crate) use child::Process;
pub(crate) use explanation::StderrExcerpt;
pub(crate) use ladder::{Ladder, ShutdownDeadline};
pub use leader::ProcessExit;
pub use marker::{Orphan, orphans};
pub use shared_scan::{TreeUsage, tree_usage};
pub use spawn::{DescriptorLimit, raise_descriptor_limit};
pub(crate) use spawn::{SpawnError, Spawned, Spec, spawn};
pub(crate) use stderr::StderrRing;
pub use stderr::{Followed, StderrFollower, StderrLine};
pub(crate) use stop::{Rung, Stopped};
