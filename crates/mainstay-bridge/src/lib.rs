//! The thin bridge that connects an MCP host to the Mainstay daemon of its user.
//!
//! A host starts a bridge where it would start an MCP server. The [`bridge`] passes the host's messages to the daemon through a unix socket,
//! starts the daemon if there is none, and resumes its host's session when the daemon was replaced. [`hello`] is the protocol between the
//! two: one line in each direction, then MCP. [`handover`] lets a small program be the bridge in place of the whole one.
//!
//! Invariants: at most one daemon serves a runtime directory; only the holder of its lock binds and removes the socket. The bridge uses no
//! async runtime, and does nothing while no message passes.

mod ask;
pub mod bridge;
mod dial;
pub mod handover;
pub mod hello;
mod launch;
pub mod lock;
mod methods;
mod runtime_dir;
mod runtime_file;
mod socket;
mod wait;

pub use ask::{AskError, end, status, stop};
pub use dial::{ConnectError, DaemonDialer};
pub use launch::{DaemonStart, LaunchError, Launcher, StartReport, bound_log, detach, inherited_variables};
pub use methods::only_reads;
pub use runtime_dir::{RuntimeDirError, RuntimeDirectory};
pub use runtime_file::open_runtime_file;
pub use socket::is_listening;

/// The variables that a server gets from the bridge without being named: those that the MCP SDKs pass on.
pub const DEFAULT_VARIABLES: [&str; 6] = ["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"];

/// What a person should know whose server ends while it is being started: which variables it gets.
pub const VARIABLES_HINT: &str = "A server behind `mainstay connect --` gets only the variables HOME, LOGNAME, PATH, SHELL, TERM and USER, and those that \
     `--env NAME` names before the `--`.";

#[cfg(test)]
mod tests {
    use super::{DEFAULT_VARIABLES, VARIABLES_HINT};

    #[test]
    fn the_hint_names_every_variable_that_a_server_gets() {
        for name in DEFAULT_VARIABLES {
            assert!(VARIABLES_HINT.contains(name), "{name}");
        }
    }
}
