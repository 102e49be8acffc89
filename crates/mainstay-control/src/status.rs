//! What is seen of servers and sessions, in the types of the API.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use mainstay::catalog::{Diagnostic, Kind};
use mainstay::lifecycle::Desired;
use mainstay::process::{StderrLine, TreeUsage, tree_usage};
use mainstay::server::{CallCounts, TransportKind};
use mainstay::{Failure, Server, Status};
use mainstay_gateway::{DoorKind, Scope, SessionInfo};

use crate::api::{
    CallTotals, CatalogDocument, CatalogItem, CatalogSummary, DesiredState, FailedCalls, FailureDocument,
    LoginNeeded, PendingCallStatus, ProcessStatus, RunningCall, ServerStatus, SessionDoor, SessionList,
    SessionStatus, SetAside, StartStatus, StateName, StderrRecord, ms, unix_ms,
};
use crate::control::{AttachedGroup, Hub, Named, Role};

/// Lines of stderr in a server's status.
const STDERR_LINES: usize = 5;

/// What was set aside, in a server's status.
const SET_ASIDE: usize = 20;

/// Calls in a server's status.
const PENDING_CALLS: usize = 20;

/// What the processes of servers use, by the process that was started.
#[derive(Default)]
pub(crate) struct UsageByPid(HashMap<i32, TreeUsage>);

impl UsageByPid {
    /// Looks at the processes of these servers. Costs nothing if none has any.
    pub(crate) async fn read(servers: &[Named]) -> Self {
        let pids = servers
            .iter()
            .filter_map(|named| named.server.watch().borrow().pid);
        let pids: Vec<i32> = pids.collect();
        let usage = tree_usage(&pids).await;
        let known = pids.into_iter().zip(usage);
        Self(known.filter_map(|(pid, usage)| Some((pid, usage?))).collect())
    }

    pub(crate) fn of(&self, pid: i32) -> Option<TreeUsage> {
        self.0.get(&pid).copied()
    }
}

/// The sessions that use each server.
pub(crate) struct SessionUsers(HashMap<(u64, Arc<str>), Vec<u64>>);

impl SessionUsers {
    pub(crate) fn of(hub: &Hub) -> Self {
        let mut users: HashMap<_, Vec<u64>> = HashMap::new();
        for group in hub.all_groups() {
            for session in group.gateway.sessions() {
                for server in &session.servers {
                    let key = (group.number, server.clone());
                    users.entry(key).or_default().push(session.number);
                }
            }
        }
        users.values_mut().for_each(|sessions| sessions.sort_unstable());
        Self(users)
    }

    fn of_server(&self, named: &Named) -> Vec<u64> {
        let key = (named.group.number, named.server.name().into());
        self.0.get(&key).cloned().unwrap_or_default()
    }
}

/// What is set aside of each server's offers, within its group.
pub(crate) struct SetAsideOffers(HashMap<(u64, String), Vec<String>>);

impl SetAsideOffers {
    /// Of all servers. A published catalog finds it once.
    pub(crate) fn of(hub: &Hub) -> Self {
        let mut all: HashMap<_, Vec<String>> = HashMap::new();
        for group in hub.all_groups() {
            for found in group.gateway.fleet().catalog().diagnostics() {
                let of_server = all.entry((group.number, found.server.clone())).or_default();
                if of_server.len() < SET_ASIDE {
                    of_server.push(in_words(found));
                }
            }
        }
        Self(all)
    }

    fn of_server(&self, named: &Named) -> Vec<String> {
        let key = (named.group.number, named.server.name().to_owned());
        self.0.get(&key).cloned().unwrap_or_default()
    }
}

/// What was set aside, without the name of its server.
fn in_words(found: &Diagnostic) -> String {
    match &found.item {
        Some(item) => format!("{} `{item}`: {}", found.kind, found.message),
        None => format!("{}s: {}", found.kind, found.message),
    }
}

pub(crate) fn server_status(
    hub: &Hub,
    named: &Named,
    usage: &UsageByPid,
    users: &SessionUsers,
    set_aside: &SetAsideOffers,
) -> ServerStatus {
    let server = &named.server;
    let status = server.status();
    let counts = server.call_counts();
    ServerStatus {
        name: named.name.to_string(),
        node: hub.node.clone(),
        origin: named.group.origin,
        target: server.shown_target(),
        credential: server.credential().map(|kind| kind.as_str().to_owned()),
        state: status.state.into(),
        up: status.is_up(),
        reason: status.reason.map(|reason| reason.as_str().to_owned()),
        desired: match status.desired {
            Desired::Enabled => DesiredState::Enabled,
            Desired::Disabled => DesiredState::Disabled,
        },
        since_ms: unix_ms(status.since),
        generation: status.generation.map(|generation| generation.0),
        attempt: status.attempt,
        budget: status.budget,
        next_retry_ms: status.next_retry.map(unix_ms),
        calls_held_until_ms: status.calls_held_until.map(unix_ms),
        silent_since_ms: status.silent_since.map(unix_ms),
        start: status.start.as_ref().map(|start| StartStatus {
            stage: start.stage.as_str().to_owned(),
            since_ms: unix_ms(start.since),
            program: start.program.as_deref().map(str::to_owned),
        }),
        last_failure: status.last_error.as_deref().map(failure),
        stderr: server
            .stderr_tail(STDERR_LINES)
            .into_iter()
            .map(|line| line.text)
            .collect(),
        era: status.protocol.as_ref().map(|(era, _)| era.as_str().to_owned()),
        protocol_version: status.protocol.as_ref().map(|(_, version)| version.to_string()),
        transport: status
            .transport
            .map(|kind: TransportKind| kind.as_str().to_owned()),
        catalog: catalog_summary(server, &status),
        set_aside: set_aside.of_server(named),
        calls: totals(&counts, &status),
        call_failures: counts.failures.iter().map(failed_calls).collect(),
        pending: pending(server),
        process: status.pid.map(|pid| {
            let used = usage.of(pid);
            ProcessStatus {
                pid,
                processes: used.map(|used| used.processes),
                resident_bytes: used.map(|used| used.resident_bytes),
                cpu_ms: used.map(|used| ms(used.cpu_time)),
            }
        }),
        starts: status.starts,
        stale_reports: status.stale_reports,
        sessions: users.of_server(named),
    }
}

pub(crate) fn failure(failure: &Failure) -> FailureDocument {
    FailureDocument {
        message: failure.message.clone(),
        generation: failure.generation.map(|generation| generation.0),
        exit_code: failure.exit.and_then(|exit| exit.code),
        signal: failure.exit.and_then(|exit| exit.signal),
        stderr: failure.stderr.clone(),
        stderr_reason: failure.decisive_stderr_line().map(str::to_owned),
        login: failure.challenge.as_ref().map(|challenge| LoginNeeded {
            resource_metadata: challenge.resource_metadata.clone(),
            scopes: challenge.scopes.clone(),
        }),
    }
}

fn failed_calls((error, calls): &(&'static str, u64)) -> FailedCalls {
    FailedCalls {
        error: (*error).to_owned(),
        calls: *calls,
    }
}

fn totals(counts: &CallCounts, status: &Status) -> CallTotals {
    let percentile = |percent| {
        let found = counts.durations.percentile(percent)?;
        u64::try_from(found.as_micros()).ok()
    };
    CallTotals {
        waiting: counts.waiting,
        in_flight: counts.in_flight,
        total: counts.begun,
        answered: counts.answered,
        errors: counts.errors,
        not_sent: counts.not_sent,
        refused: counts.refused,
        unknown: counts.unknown,
        cancelled: counts.cancelled,
        last_success_ms: status.last_success.map(unix_ms),
        p50_us: percentile(50),
        p95_us: percentile(95),
    }
}

/// The calls that wait for an answer. A session of a client is known by its number.
fn pending(server: &Server) -> Vec<PendingCallStatus> {
    let calls = server.pending_calls(PENDING_CALLS).into_iter();
    calls
        .map(|call| PendingCallStatus {
            id: call.id.to_string(),
            method: call.method,
            name: call.name,
            session: call.client,
            since_ms: unix_ms(call.since),
        })
        .collect()
}

fn catalog_summary(server: &Server, status: &Status) -> Option<CatalogSummary> {
    let catalog = server.catalog()?;
    Some(CatalogSummary {
        tools: catalog.items(Kind::Tool).len(),
        prompts: catalog.items(Kind::Prompt).len(),
        resources: catalog.items(Kind::Resource).len(),
        templates: catalog.items(Kind::Template).len(),
        listed_ms: status.listed_at.map(unix_ms),
        stale_since_ms: status.stale_since.map(unix_ms),
    })
}

/// What a server offers; empty lists if it was never listed.
pub(crate) fn catalog(named: &Named) -> CatalogDocument {
    let (server, status) = (&named.server, named.server.status());
    let listed = server.catalog();
    let published = named.group.gateway.fleet().catalog();
    let public_names: HashMap<(Kind, &str), &str> = published_names(&published, server.name());
    let items = |kind: Kind| -> Vec<CatalogItem> {
        let Some(listed) = &listed else { return Vec::new() };
        let item = |item: &mainstay::catalog::Item| CatalogItem {
            public_name: (*public_names.get(&(kind, item.key())).unwrap_or(&item.key())).to_owned(),
            name: item.key().to_owned(),
            definition: item.raw().parse().unwrap_or(serde_json::Value::Null),
        };
        listed.listed(kind).map(item).collect()
    };
    let about = server.about();
    // What is not published meets no other server.
    let found: &[Diagnostic] = match (published.server(server.name()), &listed) {
        (Some(_), _) => published.diagnostics(),
        (None, Some(listed)) => listed.diagnostics(),
        (None, None) => &[],
    };
    let found = found.iter().filter(|found| found.server == server.name());
    let set_aside = |found: &Diagnostic| SetAside {
        message: found.to_string(),
    };
    CatalogDocument {
        server: named.name.to_string(),
        server_info: about
            .as_ref()
            .and_then(|about| about.server_info.as_ref()?.parse().ok()),
        instructions: about.as_ref().and_then(|about| about.instructions.clone()),
        listed_ms: status.listed_at.map(unix_ms),
        stale_since_ms: status.stale_since.map(unix_ms),
        hash: listed
            .as_ref()
            .map_or_else(String::new, |listed| listed.hash().to_string()),
        tools: items(Kind::Tool),
        prompts: items(Kind::Prompt),
        resources: items(Kind::Resource),
        templates: items(Kind::Template),
        set_aside: found.map(set_aside).collect(),
    }
}

/// The names under which all servers together show what this one offers.
fn published_names<'a>(catalog: &'a mainstay::Catalog, server: &str) -> HashMap<(Kind, &'a str), &'a str> {
    let tools = catalog.tools().iter().filter(|tool| tool.server() == server);
    let tools = tools.map(|tool| ((Kind::Tool, tool.original()), tool.name()));
    let prompts = catalog
        .prompts()
        .iter()
        .filter(|prompt| prompt.server() == server);
    let prompts = prompts.map(|prompt| ((Kind::Prompt, prompt.original()), prompt.name()));
    tools.chain(prompts).collect()
}

pub(crate) fn stderr_record(line: StderrLine) -> StderrRecord {
    StderrRecord {
        at_ms: unix_ms(line.at),
        generation: line.generation,
        text: line.text,
    }
}

pub(crate) fn session_list(hub: &Hub) -> SessionList {
    let groups = hub.all_groups();
    let mut sessions: Vec<SessionStatus> = groups
        .iter()
        .flat_map(|group| {
            let sessions = group.gateway.sessions().into_iter();
            sessions.map(|session| session_status(hub, group, session))
        })
        .collect();
    sessions.sort_by_key(|session| (session.since_ms, session.id));
    SessionList { sessions }
}

fn session_status(hub: &Hub, group: &AttachedGroup, session: SessionInfo) -> SessionStatus {
    let shown = |server: &str| group.shown(server).to_string();
    let servers: BTreeSet<String> = session.servers.iter().map(|server| shown(server)).collect();
    SessionStatus {
        id: session.number,
        node: hub.node.clone(),
        client: session.client,
        client_version: session.client_version,
        era: session.era.as_str().to_owned(),
        protocol_version: session.protocol_version,
        door: match (session.door, hub.role) {
            (DoorKind::Stdio, Role::Serve) => SessionDoor::Stdio,
            (DoorKind::Stdio, Role::Daemon) => SessionDoor::Bridge,
            (DoorKind::Http, Role::Serve | Role::Daemon) => SessionDoor::Http,
            (DoorKind::Sse, Role::Serve | Role::Daemon) => SessionDoor::Sse,
        },
        since_ms: unix_ms(session.since),
        scope: match &session.scope {
            Scope::Union => None,
            Scope::Server(name) => Some(shown(name)),
        },
        servers: servers.into_iter().collect(),
        running: session
            .running
            .into_iter()
            .map(|call| RunningCall {
                method: call.method,
                server: call.server.map(|server| shown(&server)),
                name: call.name,
                since_ms: unix_ms(call.since),
            })
            .collect(),
        questions: session.questions,
        missed: session.missed,
    }
}

impl From<mainstay::StateKind> for StateName {
    fn from(state: mainstay::StateKind) -> Self {
        use mainstay::StateKind;
        match state {
            StateKind::Disabled => Self::Disabled,
            StateKind::Connecting => Self::Connecting,
            StateKind::Connected => Self::Connected,
            StateKind::Reconnecting => Self::Reconnecting,
            StateKind::Disabling => Self::Disabling,
            StateKind::Disconnected => Self::Disconnected,
            StateKind::PermanentlyFailed => Self::PermanentlyFailed,
        }
    }
}
