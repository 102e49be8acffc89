//! Servers and their state.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// All servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServerList {
    /// When this was seen.
    pub at_ms: u64,
    /// The servers, by name.
    pub servers: Vec<ServerStatus>,
}

/// What can be seen of one server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServerStatus {
    /// The name, by which commands find it.
    pub name: String,
    /// The machine that it runs on, where several are watched together.
    pub node: Option<String>,
    /// Where it comes from.
    pub origin: ServerOrigin,
    /// What is started or reached: the program without its arguments, or the address. Arguments can hold secrets, and are not shown.
    pub target: Option<String>,
    /// What lets requests to a server over HTTP in: `login` if a person can log in, `configured` if the configuration has a token,
    /// `none` if it has none and turns logins off.
    #[serde(default)]
    pub credential: Option<String>,
    /// Where it is in its life.
    pub state: StateName,
    /// Whether calls can use it: it is connected, or the next call starts it.
    pub up: bool,
    /// Why a disconnected server is so: `idle`, `auth_required`, `lost` or `budget_spent`.
    pub reason: Option<String>,
    /// What is wanted of it.
    pub desired: DesiredState,
    /// Since when it is in its state.
    pub since_ms: u64,
    /// The connection that is being opened or is live.
    pub generation: Option<u64>,
    /// Failures in a row so far.
    pub attempt: u32,
    /// How many failures in a row are answered with backoff.
    pub budget: u32,
    /// When the next attempt starts, if one is planned.
    pub next_retry_ms: Option<u64>,
    /// Until when calls fail at once, because the server asked to be left alone.
    pub calls_held_until_ms: Option<u64>,
    /// Since when the server has sent nothing, if it has not answered a probe since. If calls are running, it may be at work
    /// on them, and stays connected until their time is up.
    pub silent_since_ms: Option<u64>,
    /// What it does while it is being started.
    pub start: Option<StartStatus>,
    /// What went wrong last. It stays after a recovery.
    pub last_failure: Option<FailureDocument>,
    /// The last lines of stderr. More of them are at `/servers/{name}/stderr`.
    pub stderr: Vec<String>,
    /// `legacy` or `modern`, while it is connected.
    pub era: Option<String>,
    /// The protocol version, while it is connected.
    pub protocol_version: Option<String>,
    /// `stdio`, `http`, `sse` or `custom`, while it is connected.
    pub transport: Option<String>,
    /// What it offers, as last listed; `null` if it was never listed.
    pub catalog: Option<CatalogSummary>,
    /// What of its offers is not shown, or is read from another server, and why: up to 20. Names that belong to another server are
    /// among it.
    #[serde(default)]
    pub set_aside: Vec<String>,
    /// Its calls.
    pub calls: CallTotals,
    /// The failed calls, by what went wrong; only what occurred.
    #[serde(default)]
    pub call_failures: Vec<FailedCalls>,
    /// The calls that wait for an answer: up to 20, the oldest first.
    #[serde(default)]
    pub pending: Vec<PendingCallStatus>,
    /// Its processes, where it has any.
    pub process: Option<ProcessStatus>,
    /// How often it was started.
    pub starts: u64,
    /// Late reports of earlier connections, which changed nothing.
    pub stale_reports: u64,
    /// The sessions whose requests went to it, by their ids.
    pub sessions: Vec<u64>,
}

/// Where a server comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServerOrigin {
    /// The configuration file.
    Configured,
    /// A host's `mainstay connect` with a command or an address.
    AdHoc,
    /// A source that this version does not know.
    #[serde(other)]
    Unknown,
}

/// Where a server is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StateName {
    /// Nothing runs, and nothing is wanted.
    Disabled,
    /// The first connection since it was enabled is being opened.
    Connecting,
    /// It is connected and listed.
    Connected,
    /// It was lost, and is retried within the budget.
    Reconnecting,
    /// It is being stopped.
    Disabling,
    /// It is not connected, and nothing is under way. `reason` says why.
    Disconnected,
    /// It does not come back unless a person acts.
    PermanentlyFailed,
    /// A state that this version does not know.
    #[serde(other)]
    Unknown,
}

/// What is wanted of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DesiredState {
    /// It is kept connected.
    Enabled,
    /// Nothing of it runs.
    Disabled,
}

/// What a server does that is being started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StartStatus {
    /// `waiting`, `installing`, `starting`, `unanswered` or `listing`.
    pub stage: String,
    /// Since when.
    pub since_ms: u64,
    /// The program that works, if one is seen to.
    pub program: Option<String>,
}

/// What went wrong with a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailureDocument {
    /// What went wrong, in one line.
    pub message: String,
    /// The connection that it happened to.
    pub generation: Option<u64>,
    /// The exit status of its process, if that exited by itself.
    pub exit_code: Option<i32>,
    /// The signal that killed its process, if one did.
    pub signal: Option<i32>,
    /// The last lines that its process wrote to stderr.
    pub stderr: Vec<String>,
    /// The line of them that says best why.
    pub stderr_reason: Option<String>,
    /// What a login would need, if the server asks for one.
    pub login: Option<LoginNeeded>,
}

/// What a login to a server needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LoginNeeded {
    /// Where the server describes its authorization.
    pub resource_metadata: Option<String>,
    /// The scopes that it asks for.
    pub scopes: Vec<String>,
}

/// How much a server offers, and how old that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CatalogSummary {
    /// Tools.
    pub tools: usize,
    /// Prompts.
    pub prompts: usize,
    /// Resources.
    pub resources: usize,
    /// Templates of resources.
    pub templates: usize,
    /// When it was listed, in this run of the program.
    pub listed_ms: Option<u64>,
    /// Since when it may be out of date, if it may be.
    pub stale_since_ms: Option<u64>,
}

/// The calls of a server since it was added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CallTotals {
    /// Calls that wait for a connection now.
    pub waiting: usize,
    /// Calls that run now.
    pub in_flight: usize,
    /// Calls that were begun.
    pub total: u64,
    /// Calls that ended with a result.
    pub answered: u64,
    /// Calls that the server answered with an error.
    pub errors: u64,
    /// Calls that failed and were not sent.
    pub not_sent: u64,
    /// Calls that the server refused without running them.
    pub refused: u64,
    /// Calls that failed after they may have run.
    pub unknown: u64,
    /// Calls that their callers gave up.
    pub cancelled: u64,
    /// When a call was last answered with a result.
    pub last_success_ms: Option<u64>,
    /// Half of the calls with a result took no longer, in microseconds.
    pub p50_us: Option<u64>,
    /// 95 of 100 calls with a result took no longer, in microseconds.
    pub p95_us: Option<u64>,
}

/// Calls that failed in the same way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailedCalls {
    /// What went wrong: `not_sent`, `refused`, `unknown`, `timeout`, `cancelled`, or the code of the server's error. Codes without a
    /// count of their own are `rpc_other`. The metrics have the same words.
    pub error: String,
    /// How many.
    pub calls: u64,
}

/// A call that waits for an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PendingCallStatus {
    /// What it is cancelled by.
    pub id: String,
    /// The method.
    pub method: String,
    /// The tool or prompt that it names, where that is known.
    pub name: Option<String>,
    /// The session that made it, if one did.
    pub session: Option<u64>,
    /// When it was sent.
    pub since_ms: u64,
}

/// The processes of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProcessStatus {
    /// The process that was started.
    pub pid: i32,
    /// How many processes run, those that it started included; `null` where the system does not tell.
    pub processes: Option<usize>,
    /// Their resident memory, in bytes.
    pub resident_bytes: Option<u64>,
    /// The processor time that they have used, in milliseconds. The difference of two readings is the load.
    pub cpu_ms: Option<u64>,
}

/// Lines that a server wrote to stderr.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StderrPage {
    /// The server.
    pub server: String,
    /// The lines, the oldest first.
    pub lines: Vec<StderrRecord>,
}

/// One line that a server wrote to stderr.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StderrRecord {
    /// When it was read.
    pub at_ms: u64,
    /// The connection whose process wrote it.
    pub generation: u64,
    /// The text, without control characters.
    pub text: String,
}
