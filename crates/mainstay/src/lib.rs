//! Keeps MCP servers connected.
//!
//! A [`Fleet`] owns the connections to many MCP servers, each kept by a task of its own. Servers crash, hang, restart and
//! change their tools; a [`Server`] handle obtained once works for ever, the published [`Catalog`] stays readable
//! whatever happens, and every call ends inside its deadline with an answer or with an error that says whether it may
//! have run.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use mainstay::{CallOptions, Fleet, ServerConfig};
//!
//! let files = ServerConfig::stdio("files", "npx").args(["-y", "@modelcontextprotocol/server-filesystem", "."]).build()?;
//! let fleet = Fleet::builder().start([files]);
//!
//! let server = fleet.server("files").expect("just configured");
//! server.wait_connected(Duration::from_secs(60)).await?;
//! for tool in fleet.catalog().tools() {
//!     println!("{}", tool.name()); // files__read_file, …
//! }
//! let reply = server.call("list_directory", &serde_json::json!({ "path": "." }), CallOptions::default()).await?;
//! println!("{}", reply.result); // the result, byte for byte as the server sent it
//!
//! fleet.close(Duration::from_secs(10)).await;
//! # Ok(())
//! # }
//! ```
//!
//! The walk of a call: `fleet` → `server` → `connection` → `wire` → `transport`, and back. Only what changes a server's
//! life goes through its `keeper`, which asks the pure machine of [`mainstay_lifecycle`] what to do.

mod catalog;
pub mod config;
mod connection;
mod deadline;
mod event;
mod fleet;
#[doc(hidden)]
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod handler;
mod keeper;
mod lack;
mod large;
pub mod message;
mod plain_text;
mod process;
mod protocol;
mod redaction;
mod server;
pub mod transport;
mod turn;
#[doc(hidden)]
pub mod unsupervised;
mod wire;

pub use catalog::{
    About, CacheScope, Caching, Catalog, CatalogFault, CatalogHash, CatalogReader, Diagnostic, Freshness,
    Hints, Item, Kind, Offer, PublicPrompt, PublicResource, PublicTemplate, PublicTool, ServerCatalog,
    public_name,
};
#[cfg(feature = "config-file")]
pub use config::Configuration;
pub use config::{Replay, ServerConfig};
pub use event::{Event, EventOrLag, Events, Failure};
pub use fleet::{Changes, CloseReport, ClosedServer, DuplicateName, Fleet, FleetBuilder, StartupError};
pub use handler::{Answer, ClientCapabilities, ClientHandler, ServerNotification, ServerRequest};
pub use lack::Lack;
/// The pure machine, and every part of its [`Policy`].
pub use mainstay_lifecycle as lifecycle;
pub use mainstay_lifecycle::{Cause, Desired, Generation, Policy, StateKind};
pub use plain_text::PlainText;
pub use process::{Exit, Followed, StderrFollower, StderrLine, raise_descriptor_limit};
pub use protocol::{Era, Introduction};
pub use server::{
    CallError, CallOptions, CommandError, NotConnected, NotifyError, Pong, Reason, RefreshError, Reply,
    Server, StartProgress, StartStage, Status, TransportKind, Waiting, WishError,
};
pub use wire::{BadAnswer, Outcome, RawJson, RpcError, TimeoutKind};
