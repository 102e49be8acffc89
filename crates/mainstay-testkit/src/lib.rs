//! Scripted faulty MCP servers for Mainstay's own tests.
//!
//! A [`Script`] says what a server offers and where it misbehaves. Three stages perform it:
//!
//! - [`FaultyServer`]: a real process (`faulty-server`), for tests of pipes, signals and process trees;
//! - [`memory::MemoryServer`]: a tokio task at the other end of a duplex stream, for tests in paused time;
//! - [`http::FaultyHttpServer`]: a server on a loopback port, which an [`http::HttpScript`] makes fail as HTTP can.
//!
//! All ask one [`Responder`], which maps each line it is handed to a list of [`Action`]s and does no IO itself,
//! so a fault means the same thing on every stage. What a server did is written to its [`Ledger`].

pub mod blocking;
pub mod chaos;
pub mod client;
pub mod clock;
pub mod fleet;
pub mod guarded;
pub mod http;
pub mod memory;
pub mod poll;
pub mod procfs;
pub mod stdio;
pub mod store;

mod action;
mod corpus;
mod fault;
mod faulty_server;
mod hostile;
mod ledger;
mod program;
mod responder;
mod rule;
mod script;

pub use action::{Action, Child, Signal, Work};
pub use corpus::replay_corpus;
pub use fault::{AnswerFault, Fault, Flood, Garbage};
pub use faulty_server::FaultyServer;
pub use hostile::{HARMLESS_TEXT, HOSTILE_TEXT, hostile, hostile_on_stderr};
pub use ledger::Ledger;
pub use program::program;
pub use responder::{Incoming, Responder};
pub use rule::{Occurrence, Rule, Step};
pub use script::{Cursors, LEGACY_VERSIONS, MODERN_VERSION, Script, Speaks};
