//! The lifecycle of one MCP server, as a pure machine.
//!
//! [`Machine::handle`] takes one [`Input`], the time, and an unused generation, and returns the [`Effects`] to start.
//! It does no IO, reads no clock, draws no random number, takes no lock and cannot fail: every pair of state and input
//! has a meaning, even if that is to ignore the input. The loop around it has three lines:
//!
//! ```
//! # use mainstay_lifecycle::{Effect, Generation, Input, Machine, Moment, Policy};
//! # use std::time::Duration;
//! let mut machine = Machine::new(Policy::default());
//! let input = Input::Enable { dormant: false }; // wait for one input, or for `machine.deadline()`
//! let effects = machine.handle(input, Moment::new(Duration::ZERO), Generation(1));
//! for effect in effects { // start each effect; its end comes back as an input with its generation
//! #   if let Effect::Open(generation) = effect { assert_eq!(generation, Generation(1)); }
//! }
//! assert!(machine.deadline().is_some(), "a machine that waits has a deadline");
//! ```
//!
//! `table.rs` shows what each input does in each state. Every test run checks these invariants against every interleaving
//! of several connections (`docs/lifecycle.md` says how many, and at which moments):
//!
//! - Each [`Effect::Open`] is followed by exactly one [`Effect::Close`] of its generation. Nothing is opened until the
//!   connection before it is closed or abandoned, except beside one that was replaced and finishes its calls.
//! - A report of an old generation changes nothing, and is counted.
//! - Every waiting state has a [`Deadline`], so nothing that hangs outside can block a server.
//! - A disabled server comes to rest, and an enabled one comes back. Starts that lead to no completed call never come more
//!   often than the bucket allows.
//!
//! `docs/lifecycle.md` shows the states and transitions; the same test run keeps it up to date.

mod effect;
#[cfg(test)]
mod explore;
mod input;
mod machine;
mod policy;
mod state;
mod step;
mod table;
mod time;
mod tokens;

pub use effect::{Cause, CloseMode, Effect, Effects, Transition};
pub use input::{Input, Listing, OtherCalls, Recovery, Vitals};
pub use machine::{Deadline, Desired, Machine, Timer};
pub use policy::{Backoff, Bucket, Expiry, Policy, Probe, TimeLimits, WhenLost, WhenSpent};
pub use state::{Attempt, DisconnectReason, LiveConnection, OpenConnection, Pause, State, StateKind};
pub use time::{Generation, Moment};
