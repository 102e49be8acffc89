//! Keeps MCP servers connected.
//!
//! A [`Fleet`] owns the connections to many MCP servers, each kept by a task of its own. Servers crash, hang, restart and
//! change their tools. A [`Server`] handle obtained once keeps working, the published [`Catalog`] stays readable, and every
//! call ends inside its deadline with a reply or with an error that says whether it may have run.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use mainstay::{Fleet, ServerConfig};
//! use serde_json::json;
//!
//! let files = ServerConfig::stdio("files", "npx").args(["-y", "@modelcontextprotocol/server-filesystem", "."]).build()?;
//! let fleet = Fleet::builder().start([files]);
//! fleet.wait_settled(Duration::from_secs(60)).await;
//!
//! let tool = fleet.tool("files__list_directory").ok_or("the server is not up")?;
//! let reply = tool.call(&json!({ "path": "." })).timeout(Duration::from_secs(30)).await?;
//! println!("{}", reply.text());
//!
//! fleet.close(Duration::from_secs(10)).await;
//! # Ok(())
//! # }
//! ```
//!
//! The names at the root are what most embedders need. The modules have the rest:
//!
//! | module | contents |
//! | --- | --- |
//! | [`config`] | what a person writes |
//! | [`catalog`] | what servers offer |
//! | [`fleet`], [`server`] | their reports and errors |
//! | [`event`] | changes of state |
//! | [`handler`] | what servers ask of their client |
//! | [`process`] | what a child process writes, and how it ends |
//! | [`transport`] | how messages travel |
//! | [`recorder`] | the last messages of each server |
//! | [`lifecycle`] | the machine that decides |
//! | [`gateway`] | what only a gateway needs |
//!
//! # Cargo features
//!
//! All are on by default; the library builds without them.
//!
//! | feature | what it adds |
//! | --- | --- |
//! | `http` | servers that are reached by an address: Streamable HTTP and HTTP+SSE |
//! | `tls` | addresses that begin with `https://`; includes `http` |
//! | `config-file` | `Configuration`: files of Mainstay and of other programs |
//! | `rmcp` | typed views of replies and catalog items with the types of the Rust SDK |
//!
//! Without a feature, a server that needs it is refused with an error that names the feature.
//!
//! A call takes the path `fleet` → `server` → `connection` → `wire` → `transport`, and back. Only what changes a server's
//! state goes through its keeper, which asks the pure machine of [`lifecycle`] what to do.

mod broadcast_reader;
pub mod catalog;
pub mod config;
mod connection;
mod deadline;
pub mod event;
pub mod fleet;
#[doc(hidden)]
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod gateway;
pub mod handler;
mod json;
mod keeper;
mod lack;
mod large;
mod lock;
mod plain_text;
pub mod process;
mod protocol;
pub mod recorder;
mod redaction;
#[cfg(feature = "rmcp")]
mod sdk;
pub mod server;
mod trace_context;
pub mod transport;
mod turn;
#[doc(hidden)]
pub mod unsupervised;
mod wire;

#[doc(inline)]
pub use catalog::{Catalog, CatalogReader};
#[doc(inline)]
#[cfg(feature = "config-file")]
pub use config::Configuration;
#[doc(inline)]
pub use config::ServerConfig;
#[doc(inline)]
pub use event::{Event, Events, Failure};
#[doc(inline)]
pub use fleet::{Fleet, FleetBuilder, Tool};
#[doc(inline)]
pub use handler::ClientHandler;
/// The pure machine, and every part of its [`Policy`].
pub use mainstay_lifecycle as lifecycle;
pub use mainstay_lifecycle::{Generation, Policy, StateKind};
pub(crate) use plain_text::PlainText;
pub use protocol::Era;
#[doc(inline)]
pub use server::{Call, CallError, CallErrorKind, CallOptions, Reply, Server, Status};
pub use trace_context::TraceContext;
pub use wire::{Outcome, RawJson, RpcError};

/// The example of the README is compiled with the doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ReadmeExample;
