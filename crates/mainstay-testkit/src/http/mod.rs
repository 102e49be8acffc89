//! A scripted MCP server over HTTP, and a scripted network.
//!
//! [`FaultyHttpServer`] plays a [`crate::Script`] over Streamable HTTP in both eras (`/mcp`) and over HTTP+SSE (`/sse`);
//! `/either` is the former where it is served, and the latter otherwise.
//! Its answers come from the same [`crate::Responder`] as on any other stage; an [`HttpScript`] says how they travel, and
//! its [`HttpRule`]s where that goes wrong. HTTP/1.1 is written by hand, so that any byte of it can be wrong.
//!
//! [`FaultyHttpProcess`] is the same in a process of its own. Everything is on 127.0.0.1. [`Proxy`] stands between a client and any port there,
//! [`SocksProxy`] does so in the manner of SOCKS, and a [`Port`] is reserved while no process listens on it.

mod coding;
mod connection;
mod era;
mod exchange;
mod fault;
mod handle;
mod out;
mod perform;
mod plan;
mod port;
mod post;
mod process;
mod proxy;
mod reply;
mod rule;
mod script;
mod server;
mod session;
mod socks;
mod stream;
mod traffic;
mod wire;

pub use coding::Compression;
pub use fault::{BadStream, HttpFault, Redirect};
pub use handle::FaultyHttpServer;
pub use port::Port;
pub use process::{FaultyHttpProcess, play};
pub use proxy::{Proxy, ProxyCounts};
pub use rule::{HttpRule, HttpStep};
pub use script::{AnswerForm, HttpScript, Serves, UnknownSession};
pub use socks::SocksProxy;
pub use traffic::Traffic;

#[cfg(test)]
mod tests;
