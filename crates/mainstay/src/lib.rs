//! Keeps MCP servers connected.

mod catalog;
pub mod config;
mod connection;
mod event;
mod fleet;
mod handler;
mod keeper;
mod process;
mod protocol;
mod server;
pub mod transport;
mod wire;

pub use catalog::{
    Catalog, CatalogReader, Diagnostic, Freshness, Hints, Item, Kind, PublicTool, ServerCatalog,
};
pub use config::{Configuration, Replay, ServerConfig};
pub use event::{Event, Events, Heard, Trouble};
pub use fleet::{Changes, CloseReport, ClosedServer, Fleet, FleetBuilder, StartupError};
pub use handler::{Answer, ClientCapabilities, ClientHandler, ServerNotification, ServerRequest};
pub use mainstay_lifecycle::{Cause, Desired, Generation, Policy, StateKind};
pub use process::{Exit, StderrLine};
pub use protocol::Era;
pub use server::{
    CallError, CallOptions, CommandError, NotConnected, Reason, Reply, Server, Status, Waiting,
};
pub use wire::{BadAnswer, Outcome, RawJson, RpcError, TimeoutKind};
