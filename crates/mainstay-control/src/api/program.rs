//! The program as a whole.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The running program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProgramStatus {
    /// The version of the program.
    pub version: String,
    /// What the program is: `serve` or `daemon`.
    pub role: String,
    /// The machine that it runs on, where several are watched together.
    pub node: Option<String>,
    /// Names this run of the program. The numbers of events belong to it.
    pub instance: String,
    /// The process.
    pub pid: u32,
    /// When it started.
    pub started_ms: u64,
    /// The configuration file, where there is one.
    pub configuration: Option<String>,
    /// Whether that file does not exist. It is applied as soon as it does.
    #[serde(default)]
    pub configuration_missing: bool,
    /// Why that file, as it was last read, is not applied. What was in force before it stays in force.
    pub configuration_problem: Option<String>,
    /// How many servers there are.
    pub servers: usize,
    /// How many servers are connected.
    pub connected: usize,
    /// How many sessions clients have.
    pub sessions: usize,
    /// The number of the last event; zero before the first.
    pub last_event: u64,
}

/// A link to the dashboard that works once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PageLink {
    /// Where a browser reaches the program, such as `http://127.0.0.1:40123`; `null` if that is where this request went.
    pub address: Option<String>,
    /// The path with its fragment, below that address. It holds a secret: it must not stand in a command line, which all users can read.
    pub path: String,
    /// The number of the link, as the event `page_link_used` names it.
    pub link: u64,
    /// How long it can be used.
    pub lifetime_ms: u64,
}
