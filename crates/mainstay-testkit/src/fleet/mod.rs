//! What tests of fleets share: servers in memory whose every connection can be watched and cut, and a [`Stage`] of processes
//! that are found wherever they flee.

mod memory;
mod stage;

pub use memory::{Memory, Notes, connected, fleet_of, fleet_with, raw};
pub use stage::{Cast, Stage, configured, is_alone, itself, quick};

pub use crate::client::LONG;
