//! The protocol between bridge and daemon: one line in each direction, then MCP lines. When the daemon ends a connection itself, it writes
//! a last line that says why.
//!
//! A line of this protocol is an object whose first member is `mainstay`, the number of the protocol; no MCP message has such a member.
//! Unknown members are ignored, so that a later version can add some without another number.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The number of this protocol. It changes when an older side would misunderstand a newer one. A daemon takes the order to end under every
/// number: that is how the next one takes its place.
pub const PROTOCOL: u32 = 1;

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The longest line of this protocol: arguments and variables of a server can be long.
pub const LINE_LIMIT: usize = 1024 * 1024;

/// How every line of this protocol begins.
pub const PREFIX: &[u8] = b"{\"mainstay\":";

/// The first line of a connection. Has no `Debug`: it holds secrets.
#[derive(Serialize, Deserialize)]
pub struct Hello {
    /// The number of the protocol.
    pub mainstay: u32,
    /// The version of the program that sends it.
    pub version: String,
    /// What a bridge wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect: Option<ConnectRequest>,
    /// What a command asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<Ask>,
}

/// What the number alone says, whatever else is in the line.
#[derive(Deserialize)]
pub struct ProtocolNumber {
    /// The number.
    pub mainstay: u32,
}

/// The order to end, which has the same form under every number.
#[derive(Deserialize)]
pub struct EndOrder {
    /// The order.
    pub ask: Ask,
}

/// What a bridge wants to be connected to. Has no `Debug`: it holds secrets.
#[derive(Clone, Serialize, Deserialize)]
pub struct ConnectRequest {
    /// The server.
    pub server: ServerRequestKind,
    /// With whom it is shared.
    #[serde(default)]
    pub share: Share,
    /// The configuration that the bridge names. A daemon with another one refuses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// The roots of the client, where they decide with whom the server is shared and are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roots: Option<Vec<String>>,
    /// How long the host's calls wait for a server that is not connected, in milliseconds; the server's own limit, if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// Whether the bridge resumes a session that it had with another daemon, whose end made the server start again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resumes: bool,
}

/// Which server a bridge wants.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerRequestKind {
    /// One that a command starts.
    Command(CommandServer),
    /// One at an address.
    Url(UrlServer),
    /// One of the daemon's configuration.
    Configured(String),
    /// All servers of the daemon's configuration as one.
    Union,
}

/// The era that a server is pinned to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PinnedEra {
    /// Versions up to 2025-11-25.
    Legacy,
    /// Version 2026-07-28.
    Modern,
}

/// A server that a command starts. Bridges share it if `program`, `args`, `cwd`, `env` and `era` are equal.
#[derive(Clone, Serialize, Deserialize)]
pub struct CommandServer {
    /// Its name in messages.
    pub name: String,
    /// The program.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Where it runs.
    pub cwd: String,
    /// The variables that `--env` names.
    pub env: BTreeMap<String, String>,
    /// The variables that every server gets.
    pub base_env: BTreeMap<String, String>,
    /// How many descriptors the server may open, if this bridge is the one that starts it: as many as the bridge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptors: Option<DescriptorLimits>,
    /// The era that it is pinned to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub era: Option<PinnedEra>,
}

/// How many descriptors a process may open; `None` for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DescriptorLimits {
    /// The limit in force.
    pub soft: Option<u64>,
    /// As far as the process may raise it.
    pub hard: Option<u64>,
}

/// A server at an address. Bridges share it if `url`, `bearer_token` and `era` are equal.
#[derive(Clone, Serialize, Deserialize)]
pub struct UrlServer {
    /// Its name in messages.
    pub name: String,
    /// The address.
    pub url: String,
    /// The token that is sent to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer_token: Option<String>,
    /// The era that it is pinned to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub era: Option<PinnedEra>,
}

/// With whom a server is shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// With every bridge that wants the same server.
    #[default]
    Yes,
    /// With none.
    Never,
    /// With every such bridge whose client has the same roots.
    Roots,
}

/// What a command asks of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// What runs.
    Status,
    /// End, and do not come back by yourself.
    Stop,
    /// End, since another program takes over.
    Restart,
}

/// The daemon's answer to the first line.
#[derive(Debug, Serialize, Deserialize)]
pub struct HelloReply {
    /// The number of the protocol.
    pub mainstay: u32,
    /// The version of the daemon.
    pub version: String,
    /// The name of the server that the bridge is connected to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// What runs, if that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<DaemonStatus>,
    /// Why the daemon refuses, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<HelloRefusal>,
}

/// Why the daemon does not connect a bridge.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HelloRefusal {
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub remedy: String,
}

/// The last line of a connection that the daemon ends.
#[derive(Debug, Serialize, Deserialize)]
pub struct Goodbye {
    /// The number of the protocol.
    pub mainstay: u32,
    /// Why, and what became of the requests.
    pub goodbye: EndNotice,
}

/// Why the daemon ends a connection.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct EndNotice {
    /// Why the daemon ends.
    pub reason: EndReason,
    /// Every request that the daemon has read was answered. What was not answered was not read, and did not run.
    pub answered_all: bool,
}

/// Why a daemon ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// A person or the system stopped it.
    Stop,
    /// Another program takes over.
    Restart,
    /// It was not used for its idle time.
    Idle,
}

/// What runs in a daemon.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DaemonStatus {
    /// The process.
    pub pid: u32,
    /// The version of its program.
    pub version: String,
    /// When it began, in seconds since 1970.
    pub since: u64,
    /// Whether a service manager made its socket, and starts the next daemon.
    #[serde(default)]
    pub inherited: bool,
    /// Its configuration, if it has one.
    pub config: Option<String>,
    /// Whether that file does not exist.
    #[serde(default)]
    pub config_missing: bool,
    /// Why that file, as it was last read, is not applied.
    #[serde(default)]
    pub config_problem: Option<String>,
    /// The bridges that are connected.
    pub bridges: Vec<BridgeStatus>,
    /// The servers that bridges asked for, and those of the configuration.
    pub servers: Vec<SharedServerStatus>,
}

/// One bridge.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BridgeStatus {
    /// Its process, where the system says so.
    pub pid: Option<i32>,
    /// The server that it is connected to; `None` for all of the configuration.
    pub server: Option<String>,
    /// When it connected, in seconds since 1970.
    pub since: u64,
}

/// One server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SharedServerStatus {
    /// Its name.
    pub name: String,
    /// The state that it is in.
    pub state: String,
    /// Whether it is of the configuration.
    pub configured: bool,
    /// With whom it is shared.
    pub share: Share,
    /// How many bridges use it.
    pub bridges: usize,
}

impl Hello {
    /// The line of a bridge.
    pub fn connecting(request: ConnectRequest) -> Self {
        Self {
            connect: Some(request),
            ..Self::of(None)
        }
    }

    /// The line of a command.
    pub fn asking(ask: Ask) -> Self {
        Self::of(Some(ask))
    }

    fn of(ask: Option<Ask>) -> Self {
        Self {
            mainstay: PROTOCOL,
            version: VERSION.to_owned(),
            connect: None,
            ask,
        }
    }
}

impl HelloReply {
    fn empty() -> Self {
        Self {
            mainstay: PROTOCOL,
            version: VERSION.to_owned(),
            server: None,
            status: None,
            error: None,
        }
    }

    /// The answer to a bridge that is connected to this server, or to all.
    pub fn connected(server: Option<&str>) -> Self {
        Self {
            server: server.map(str::to_owned),
            ..Self::empty()
        }
    }

    /// The answer to a command that asks what runs.
    pub fn status(status: DaemonStatus) -> Self {
        Self {
            status: Some(status),
            ..Self::empty()
        }
    }

    /// The answer that refuses.
    pub fn refused(refusal: HelloRefusal) -> Self {
        Self {
            error: Some(refusal),
            ..Self::empty()
        }
    }
}

impl HelloRefusal {
    /// What is wrong, and what to do.
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            remedy: remedy.into(),
        }
    }
}

impl fmt::Display for HelloRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.remedy)
    }
}

impl Goodbye {
    /// The last line of a daemon that ends for this reason.
    pub fn new(reason: EndReason, answered_all: bool) -> Self {
        Self {
            mainstay: PROTOCOL,
            goodbye: EndNotice { reason, answered_all },
        }
    }
}

/// A line of this protocol, its end included.
pub fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("plain data is JSON");
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_begins_as_no_mcp_message_does() {
        let lines = [
            line(&Hello::asking(Ask::Status)),
            line(&HelloReply::connected(None)),
            line(&Goodbye::new(EndReason::Restart, true)),
        ];
        for line in lines {
            assert!(line.starts_with(PREFIX), "{}", String::from_utf8_lossy(&line));
        }
    }

    #[test]
    fn members_of_a_later_version_are_ignored() {
        let hello: Hello = serde_json::from_str(
            r#"{"mainstay":1,"version":"0.9.0","connect":{"server":"union","share":"yes","later":7},"more":{}}"#,
        )
        .unwrap();
        assert!(matches!(hello.connect.unwrap().server, ServerRequestKind::Union));
        let number: ProtocolNumber = serde_json::from_str(r#"{"mainstay":2,"connect":"other"}"#).unwrap();
        assert_eq!(number.mainstay, 2);
    }
}
