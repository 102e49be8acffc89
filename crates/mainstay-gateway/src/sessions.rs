//! What can be seen of the clients that have a session.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use mainstay::Era;
use mainstay::gateway::PlainText;
use mainstay::gateway::message::RawJson;
use serde::Deserialize;

use crate::gateway::Gateway;
use crate::scope::Scope;

/// A snapshot of one session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionInfo {
    /// The number of the session, which no other session of this process has. It opens nothing.
    pub number: u64,
    /// What the client calls itself, as plain text.
    pub client: Option<String>,
    /// The version that the client names, as plain text.
    pub client_version: Option<String>,
    /// The era of its latest requests.
    pub era: Era,
    /// The protocol version that the session negotiated, once it has.
    pub protocol_version: Option<String>,
    /// The door that the client came through.
    pub door: DoorKind,
    /// Since when.
    pub since: SystemTime,
    /// What the client sees.
    pub scope: Scope,
    /// The servers that its requests went to.
    pub servers: Vec<Arc<str>>,
    /// The requests that it waits for, the oldest first.
    pub running: Vec<RunningInfo>,
    /// Questions of servers that the client has not answered.
    pub questions: usize,
    /// Notifications that the client missed, because it does not read them.
    pub missed: u64,
}

/// A request that a client waits for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunningInfo {
    /// The method, as plain text; empty until the request was routed.
    pub method: String,
    /// The server that it went to, if it went to one.
    pub server: Option<Arc<str>>,
    /// The tool, prompt or resource, as the client names it, as plain text.
    pub name: Option<String>,
    /// Since when.
    pub since: SystemTime,
}

/// How a client is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DoorKind {
    /// On a stream of lines, such as standard input and output.
    Stdio,
    /// Streamable HTTP.
    Http,
    /// HTTP+SSE.
    Sse,
}

impl Gateway {
    /// The clients that have a session now, the oldest first. A modern client over HTTP has none.
    pub fn sessions(&self) -> Vec<SessionInfo> {
        let mut sessions: Vec<_> = self
            .0
            .subscribers
            .sessions()
            .iter()
            .map(|client| client.info())
            .collect();
        sessions.sort_by_key(|session: &SessionInfo| session.number);
        sessions
    }
}

/// What is noted of a session for those who look at it. Shared by its client and the modern requests on its connection.
pub(crate) struct SessionNotes {
    pub(crate) since: SystemTime,
    pub(crate) door: DoorKind,
    /// The id in the headers of the client, for its traces. Only a session over HTTP has one.
    pub(crate) http_id: OnceLock<Box<str>>,
    /// The gateway's count of notifications that clients do not read.
    pub(crate) unread: Arc<AtomicU64>,
    servers: ArcSwap<BTreeSet<Arc<str>>>,
    /// The name and the version in the first modern request that says them.
    modern_client: OnceLock<(Option<String>, Option<String>)>,
}

impl SessionNotes {
    pub(crate) fn new(door: DoorKind, unread: Arc<AtomicU64>) -> Self {
        Self {
            since: SystemTime::now(),
            door,
            http_id: OnceLock::new(),
            unread,
            servers: ArcSwap::default(),
            modern_client: OnceLock::new(),
        }
    }

    /// Notes who a modern client says it is, the first time that it does.
    pub(crate) fn says(&self, info: Option<&RawJson>) {
        if let Some(info) = info {
            self.modern_client.get_or_init(|| name_and_version(info));
        }
    }

    /// Who a modern client said it is.
    pub(crate) fn said(&self) -> (Option<String>, Option<String>) {
        self.modern_client.get().cloned().unwrap_or_default()
    }

    /// Notes that a request goes to this server. Takes no lock; only the first request to a server allocates.
    pub(crate) fn uses(&self, server: &str) {
        if self.servers.load().contains(server) {
            return;
        }
        self.servers.rcu(|servers| {
            let mut servers = BTreeSet::clone(servers);
            servers.insert(server.into());
            servers
        });
    }

    pub(crate) fn servers(&self) -> Vec<Arc<str>> {
        self.servers.load().iter().cloned().collect()
    }
}

/// Characters of a name that are shown.
const SHOWN_LIMIT: usize = 200;

/// The name and the version in a `clientInfo`.
pub(crate) fn name_and_version(info: &RawJson) -> (Option<String>, Option<String>) {
    #[derive(Deserialize)]
    struct ClientInfo {
        name: Option<String>,
        version: Option<String>,
    }
    let said = info.parse::<ClientInfo>().ok();
    let (name, version) = said.map_or((None, None), |said| (said.name, said.version));
    (name.as_deref().map(shown), version.as_deref().map(shown))
}

/// The text on one line, without control characters.
pub(crate) fn shown(text: &str) -> String {
    PlainText::line(text).cut(SHOWN_LIMIT).into_string()
}
