//! One daemon of a user that all hosts share, and the thin bridge that connects a host to it.
//!
//! A host starts a bridge where it would start an MCP server. The [`bridge`] passes the host's messages to the daemon through a unix socket,
//! starts the daemon if there is none, and resumes its host's session when the daemon was replaced. The [`daemon`] keeps the servers: those
//! of its configuration, and one for each distinct server that bridges ask for. `hello` is the protocol between the two: one line in each
//! direction, then MCP.
//!
//! Invariants: at most one daemon serves a runtime directory; only the holder of its lock binds and removes the socket. The bridge uses
//! no async runtime, and does nothing while no message passes.

mod ask;
pub mod bridge;
pub mod daemon;
mod dial;
mod hello;
mod launch;
pub mod live;
mod lock;
mod runtime_dir;
mod wait;

pub use ask::{AskError, status, stop};
pub use dial::{ConnectError, DaemonDialer};
pub use hello::{
    BridgeStatus, CommandServer, ConnectRequest, DaemonStatus, EndReason, ServerRequestKind, Share,
    SharedServerStatus, UrlServer,
};
pub use launch::{DaemonStart, LaunchError, Launcher, StartReport, detach};
pub use runtime_dir::{RuntimeDirError, RuntimeDirectory};

/// The variables that a server gets from the bridge without being named: those that the MCP SDKs pass on.
pub const DEFAULT_VARIABLES: [&str; 6] = ["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"];
