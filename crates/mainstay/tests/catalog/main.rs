//! The catalog, through the fleet: what servers offer stays in sight while they come and go, and changes only when they
//! say something else.

#[path = "../support/memory.rs"]
mod support;

mod changes;
mod disk;
mod last_good;
mod listing;
mod wishes;
