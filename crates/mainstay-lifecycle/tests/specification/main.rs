//! The behaviour of the machine through its public API: inputs and time go in, effects come out.

mod commands;
mod jitter;
mod listing;
mod names;
mod probing;
mod reachability;
mod recovery;
mod restart_never;
mod server;
mod shortage;
