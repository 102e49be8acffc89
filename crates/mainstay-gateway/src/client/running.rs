//! The requests of a client that are being answered, by the ids that the client gave them.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use mainstay::gateway::SentNote;
use mainstay::gateway::message::{Params, RawJson, RpcError};
use mainstay::{Outcome, Server};
use tokio::sync::Notify;

use crate::lock::lock;
use crate::observer::RequestMarks;
use crate::protocol::limit_error;
use crate::sessions::{RunningInfo, shown};

/// Requests of one client that may run at the same time. One that wants more must wait for an answer first.
const RUNNING_LIMIT: usize = 512;

/// The requests of one client that run. In no order: there are few, and a search through all is quick.
#[derive(Default)]
pub(crate) struct RunningRequests(Mutex<Vec<(RawJson, Arc<RunningEntry>)>>);

/// A request that runs; it is over when this is dropped.
pub(crate) struct RunningRequest {
    running: Arc<RunningRequests>,
    id: RawJson,
    entry: Arc<RunningEntry>,
}

/// A request in the table.
struct RunningEntry {
    cancel: Notify,
    began: Instant,
    /// Where the request went, once it was routed.
    route: OnceLock<RequestRoute>,
    marks: RequestMarks,
    /// Whether its call may have run, once there is one.
    sent: OnceLock<SentNote>,
}

/// Where a request went.
struct RequestRoute {
    method: String,
    server: Server,
    /// The JSON of the name of the tool, prompt or resource.
    name: Option<String>,
}

/// Why a request cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BeginError {
    #[error("the id is used by a request that still runs")]
    IdInUse,
    #[error("{RUNNING_LIMIT} requests of this client run already")]
    TooMany,
}

impl From<BeginError> for RpcError {
    fn from(busy: BeginError) -> Self {
        match busy {
            BeginError::IdInUse => Self::new(Self::INVALID_REQUEST, busy.to_string()),
            BeginError::TooMany => limit_error(Outcome::NotSent, busy.to_string()),
        }
    }
}

impl RunningRequests {
    /// Notes a request, unless its id is in use or there are too many. A door calls this as soon as it has read the request, so that a
    /// `notifications/cancelled` right behind it finds it.
    pub(crate) fn begin(self: &Arc<Self>, id: RawJson) -> Result<RunningRequest, BeginError> {
        let mut running = lock(&self.0);
        check(&running, &id)?;
        let entry = Arc::new(RunningEntry {
            cancel: Notify::new(),
            began: Instant::now(),
            route: OnceLock::new(),
            marks: RequestMarks::default(),
            sent: OnceLock::new(),
        });
        running.push((id.clone(), entry.clone()));
        drop(running);
        Ok(RunningRequest {
            running: self.clone(),
            id,
            entry,
        })
    }

    /// Cancels the request of this id.
    pub(crate) fn cancel(&self, id: &RawJson) {
        let table = lock(&self.0);
        if let Some((_, entry)) = table.iter().find(|(running, _)| running == id) {
            entry.cancel.notify_one();
        }
    }

    /// Cancels all requests.
    pub(crate) fn cancel_all(&self) {
        lock(&self.0)
            .iter()
            .for_each(|(_, entry)| entry.cancel.notify_one());
    }

    /// Whether one of them went to this server.
    pub(crate) fn is_at(&self, server: &str) -> bool {
        let table = lock(&self.0);
        let mut routes = table.iter().filter_map(|(_, entry)| entry.route.get());
        routes.any(|route| route.server.name() == server)
    }

    /// The requests that run, the oldest first.
    pub(crate) fn info(&self) -> Vec<RunningInfo> {
        let entries: Vec<_> = lock(&self.0).iter().map(|(_, entry)| entry.clone()).collect();
        let mut running: Vec<_> = entries.iter().map(|entry| entry.info()).collect();
        running.sort_by_key(|running| running.since);
        running
    }
}

fn check(running: &[(RawJson, Arc<RunningEntry>)], id: &RawJson) -> Result<(), BeginError> {
    if running.iter().any(|(running, _)| running == id) {
        return Err(BeginError::IdInUse);
    }
    if running.len() >= RUNNING_LIMIT {
        return Err(BeginError::TooMany);
    }
    Ok(())
}

impl RunningEntry {
    fn info(&self) -> RunningInfo {
        let route = self.route.get();
        let name = route.and_then(|route| serde_json::from_str::<String>(route.name.as_deref()?).ok());
        RunningInfo {
            method: route.map_or_else(String::new, |route| shown(&route.method)),
            server: route.map(|route| route.server.name().into()),
            name: name.as_deref().map(shown),
            since: SystemTime::now() - self.began.elapsed(),
        }
    }
}

/// The longest name that is noted of a request, in bytes.
const NAME_LIMIT: usize = 1024;

impl RunningRequest {
    /// Notes where the request goes. The name is copied, so that the message is not kept while the request runs.
    pub(crate) fn routed(&self, method: &str, server: &Server, name: Option<String>) {
        // A request is routed once.
        let _ = self.entry.route.set(RequestRoute {
            method: method.to_owned(),
            server: server.clone(),
            name,
        });
    }

    /// The name of what a request of this method is about, to note it.
    pub(crate) fn name_in(method: &str, params: &Params) -> Option<String> {
        let member = match method {
            "tools/call" | "prompts/get" => "name",
            "resources/read" => "uri",
            _other => return None,
        };
        let name = params.shown_text(member)?;
        (name.len() <= NAME_LIMIT).then(|| name.to_owned())
    }

    /// What is noted of it for metrics and the log.
    pub(crate) fn marks(&self) -> &RequestMarks {
        &self.entry.marks
    }

    /// Its call begins, or goes on: this note says whether that call may have run.
    pub(crate) fn calls(&self, note: &SentNote) {
        // A request has one call.
        let _ = self.entry.sent.set(note.clone());
    }

    /// Whether its call may have run, once the call was dropped.
    pub(crate) fn outcome(&self) -> Outcome {
        let sent = self.entry.sent.get();
        sent.map_or(Outcome::NotSent, SentNote::outcome)
    }

    /// The server that it went to.
    pub(crate) fn server(&self) -> Option<&str> {
        self.entry.route.get().map(|route| route.server.name())
    }

    /// How long it runs already.
    pub(crate) fn elapsed(&self) -> Duration {
        self.entry.began.elapsed()
    }

    /// Where it went.
    pub(crate) fn info(&self) -> RunningInfo {
        self.entry.info()
    }

    pub(crate) fn id(&self) -> &RawJson {
        &self.id
    }

    /// Returns when the client has cancelled it.
    pub(crate) async fn cancelled(&self) {
        self.entry.cancel.notified().await;
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        let mut table = lock(&self.running.0);
        if let Some(at) = table
            .iter()
            .position(|(_, entry)| Arc::ptr_eq(entry, &self.entry))
        {
            table.swap_remove(at);
        }
    }
}
