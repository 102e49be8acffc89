//! For clients built on [`rmcp`]: a supervised MCP server in the place of a child process.
//!
//! One line changes. `().serve(TokioChildProcess::new(command)?)` becomes:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use mainstay::ServerConfig;
//! use rmcp::ServiceExt;
//!
//! let config = ServerConfig::stdio("files", "npx").args(["-y", "@modelcontextprotocol/server-filesystem", "."]).build()?;
//! let client = ().serve(mainstay_rmcp::supervised(config)).await?;
//!
//! println!("{:?}", client.list_all_tools().await?);
//! client.cancel().await?;
//! # Ok(())
//! # }
//! ```
//!
//! The client's session stays open while the server crashes, hangs or restarts. Mainstay starts the server again, repeats the
//! handshake, and restores subscriptions, log level and roots. A tool call that is lost with the server ends at once, with a result
//! that has `is_error`. [`outcome`] says whether the call may have run. Mainstay repeats only calls that cannot have run, and calls
//! of tools that are read-only or idempotent.
//!
//! The client sees the server as it is: its name, its version, its capabilities and its own tool names. Sampling, elicitation,
//! roots, progress, cancellation, logging and `list_changed` pass in both eras of the protocol:
//! [`serve`](rmcp::ServiceExt::serve) for the legacy one,
//! [`serve_with_lifecycle`](rmcp::service::ClientServiceExt::serve_with_lifecycle) for the modern one. Client and server may be
//! of different eras.
//!
//! A server that is itself built on rmcp 3.8 and has an open `subscriptions/listen` waits five seconds for it when its input is
//! closed. Mainstay sends such a server SIGTERM after two seconds, so closing the client takes that long.
//!
//! Two things differ from a child process. The server's stderr is not inherited: read it with
//! [`Server::follow_stderr_lines`](mainstay::Server::follow_stderr_lines). And each call has a time limit, which
//! [`ServerConfig`](mainstay::ServerConfig) sets (`call_timeout`, `call_idle_timeout`).

mod outcome;
mod session;
mod supervised;

pub use outcome::outcome;
pub use supervised::{ServerHandle, Supervised, supervised};
