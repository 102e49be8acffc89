//! One client of the gateway, as the router sees it: what it can answer, where it can be reached, which requests run.
//!
//! A legacy client lives as long as its session, a modern one as long as its request. A server's request goes to the client whose
//! call caused it, and the client may answer on any of its connections.

mod questions;
mod running;

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::SystemTime;

use bytes::Bytes;
use mainstay::gateway::Introduction;
use mainstay::gateway::message::{self, Object, RawJson, RpcError};
use mainstay::handler::{Answer, ClientCapabilities, ServerNotification, ServerRequest};
use mainstay::{ClientHandler, Era};

use crate::budget::HeldBytes;
use crate::door::HttpCaller;
use crate::isolation::{Isolated, OwnServers};
use crate::lock::lock;
use crate::principal::Principal;
use crate::protocol::{ClientIntroduction, ClientMeta, MODERN_VERSIONS, capability_for, declined};
use crate::router::tasks::{ClientTasks, OwnTasks};
use crate::router::{Level, StartWaits, Subscriber, TASK_STATUS, task_id};
use crate::scope::Scope;
use crate::sessions::{DoorKind, SessionInfo, SessionNotes, name_and_version};
pub(crate) use questions::URL_ELICITATION_COMPLETE;
use questions::{PendingQuestions, QuestionOrigin, UrlElicitations};
pub(crate) use running::{BeginError, RunningRequest, RunningRequests};

/// Where messages to a client go: those of one of its requests, or those of none.
pub(crate) trait Outbox: Send + Sync + 'static {
    /// Queues a message, without waiting; `false` when it was dropped, since the client does not read or nothing fits.
    fn send(&self, message: Bytes) -> bool;

    /// Queues a notification that says no more than an equal one before it: nothing, while that one is unread.
    fn send_once(&self, message: Bytes) -> bool {
        self.send(message)
    }

    /// Queues a message that the client can miss: it is dropped long before it could take the place of another.
    fn offer(&self, message: Bytes) -> bool;

    /// Whether the client reads it now.
    fn is_read(&self) -> bool {
        true
    }

    /// Returns when the client will not read what it has not read yet.
    ///
    /// Cancel safety: dropping it changes nothing.
    fn lost(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::pending())
    }
}

pub(crate) struct Client {
    /// Shared by a session and the modern requests on its connection; a request without a session has its own.
    number: u64,
    /// Who makes its requests.
    pub(crate) principal: Principal,
    pub(crate) scope: Scope,
    pub(crate) era: Era,
    pub(crate) running: Arc<RunningRequests>,
    /// Shared like the number.
    pub(crate) waits: Arc<StartWaits>,
    /// Shared like the number.
    notes: Arc<SessionNotes>,
    /// What the client said of itself, once it has.
    introduction: Mutex<Option<ClientIntroduction>>,
    /// The bytes that are held for the introduction.
    introduction_held: Mutex<Option<HeldBytes>>,
    /// The least severe log message it wants.
    level: Mutex<Option<Level>>,
    /// Whether a modern request came on the connection of this session.
    is_modern_too: AtomicBool,
    /// Notifications that did not reach it, since it does not read, or opened no stream.
    missed: AtomicU64,
    /// The server did not take the client's last notification in time.
    pub(crate) last_notify_timed_out: AtomicBool,
    questions: PendingQuestions,
    pub(crate) elicited: UrlElicitations,
    /// The tasks of its principal.
    pub(crate) tasks: OwnTasks,
    outboxes: Mutex<Outboxes>,
    /// `None` for a client of one request.
    subscriber: OnceLock<Subscriber>,
    /// The servers of its own; a client of one request without a session has none.
    own: Option<Arc<OwnServers>>,
}

/// Where a client can be reached now.
#[derive(Default)]
struct Outboxes {
    /// For what belongs to no request.
    standing: Option<Arc<dyn Outbox>>,
    /// Of the requests that run, the latest last.
    requests: Vec<Arc<dyn Outbox>>,
}

impl Client {
    /// The client of a session.
    pub(crate) fn of_session(
        scope: Scope,
        isolated: &Arc<Isolated>,
        tasks: &ClientTasks,
        caller: Option<HttpCaller>,
        notes: SessionNotes,
    ) -> Arc<Self> {
        let notes = Arc::new(notes);
        Arc::new_cyclic(|session| {
            let number = next_number();
            let principal = Principal::of_session(caller, number);
            let own = isolated.admit(session.clone(), caller.map(|_| principal));
            let tasks = tasks.of(principal, scope.clone());
            Self::build(number, principal, scope, Era::Legacy, tasks, Some(own), notes)
        })
    }

    /// Notes the id that names its session in the headers of its requests.
    pub(crate) fn named_over_http(&self, id: &str) {
        // A session has one id.
        let _ = self.notes.http_id.set(id.into());
    }

    /// The id that names its session in the headers of its requests.
    pub(crate) fn http_session_id(&self) -> Option<&str> {
        self.notes.http_id.get().map(|id| &**id)
    }

    /// The door that it came through.
    pub(crate) fn door(&self) -> DoorKind {
        self.notes.door
    }

    /// The client of one modern request, which belongs to no session.
    pub(crate) fn of_request(
        principal: Principal,
        scope: Scope,
        tasks: OwnTasks,
        meta: &ClientMeta,
        notes: SessionNotes,
    ) -> Arc<Self> {
        let notes = Arc::new(notes);
        let client = Self::build(next_number(), principal, scope, Era::Modern, tasks, None, notes);
        Arc::new(client.described(meta))
    }

    /// The client of one modern request on the connection of this session. It has the session's own servers, and can be cancelled like
    /// the session's requests.
    pub(crate) fn with_request(&self, meta: &ClientMeta) -> Arc<Self> {
        self.is_modern_too.store(true, Ordering::Relaxed);
        let (scope, tasks, own) = (self.scope.clone(), self.tasks.clone(), self.own.clone());
        let (number, principal, notes) = (self.number, self.principal, self.notes.clone());
        let client = Self::build(number, principal, scope, Era::Modern, tasks, own, notes);
        self.notes.says(meta.client_info.as_ref());
        Arc::new(Self {
            running: self.running.clone(),
            waits: self.waits.clone(),
            ..client.described(meta)
        })
    }

    fn build(
        number: u64,
        principal: Principal,
        scope: Scope,
        era: Era,
        tasks: OwnTasks,
        own: Option<Arc<OwnServers>>,
        notes: Arc<SessionNotes>,
    ) -> Self {
        Self {
            number,
            principal,
            scope,
            era,
            running: Arc::default(),
            waits: Arc::default(),
            notes,
            introduction: Mutex::default(),
            introduction_held: Mutex::default(),
            level: Mutex::default(),
            is_modern_too: AtomicBool::new(false),
            missed: AtomicU64::new(0),
            last_notify_timed_out: AtomicBool::new(false),
            questions: PendingQuestions::default(),
            elicited: UrlElicitations::default(),
            tasks,
            outboxes: Mutex::default(),
            subscriber: OnceLock::new(),
            own,
        }
    }

    /// The client as its request describes it.
    fn described(self, meta: &ClientMeta) -> Self {
        Self {
            introduction: Mutex::new(Some(ClientIntroduction::of_request(meta))),
            level: Mutex::new(meta.log_level),
            ..self
        }
    }

    /// Notes what the client says of itself, and the bytes that are held for it.
    pub(crate) fn introduce(&self, introduction: &ClientIntroduction, held: HeldBytes) {
        *lock(&self.introduction) = Some(introduction.copied());
        *lock(&self.introduction_held) = Some(held);
    }

    /// Notes that a request goes to this server.
    pub(crate) fn uses(&self, server: &str) {
        self.notes.uses(server);
    }

    /// The number that the control API shows for its session.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Since when it is connected.
    pub(crate) fn since(&self) -> SystemTime {
        self.notes.since
    }

    /// What can be seen of its session.
    pub(crate) fn info(&self) -> SessionInfo {
        let said = lock(&self.introduction)
            .as_ref()
            .and_then(ClientIntroduction::info);
        let (client, client_version) = match said {
            Some(said) => name_and_version(&said),
            None => self.notes.said(),
        };
        let is_modern = self.is_modern_too.load(Ordering::Relaxed);
        SessionInfo {
            number: self.number,
            client,
            client_version,
            era: if is_modern { Era::Modern } else { self.era },
            protocol_version: match is_modern {
                true => Some(MODERN_VERSIONS[0].to_owned()),
                false => self.version().map(str::to_owned),
            },
            door: self.notes.door,
            since: self.notes.since,
            scope: self.scope.clone(),
            servers: self.notes.servers(),
            running: self.running.info(),
            questions: self.questions.len(),
            missed: self.missed.load(Ordering::Relaxed),
        }
    }

    /// The version that its session negotiated, once it has.
    pub(crate) fn version(&self) -> Option<&'static str> {
        lock(&self.introduction).as_ref().map(|said| said.version)
    }

    /// Whether it has said who it is: a session that was opened by `initialize`.
    pub(crate) fn is_introduced(&self) -> bool {
        lock(&self.introduction).is_some()
    }

    /// How the gateway introduces it to a server of its own, once it has said who it is.
    pub(crate) fn introduction(&self) -> Option<Introduction> {
        lock(&self.introduction)
            .as_ref()
            .map(ClientIntroduction::to_server)
    }

    /// Whether it may get notifications outside of its requests: it must have sent something first.
    fn is_here(&self) -> bool {
        self.is_introduced() || self.is_modern_too.load(Ordering::Relaxed)
    }

    /// The servers of its own, where it has a session that could have any.
    pub(crate) fn own(&self) -> Option<&Arc<OwnServers>> {
        self.own.as_ref()
    }

    /// The capability that a server's request of this method needs, and that it does not declare.
    pub(crate) fn missing_capability_for(&self, method: &str) -> Option<&'static str> {
        let needed = capability_for(method)?;
        let declared = Object::parse(&self.declared()).unwrap_or_default();
        declared.get(needed).is_none().then_some(needed)
    }

    /// What it declares that it can answer.
    fn declared(&self) -> RawJson {
        let introduction = lock(&self.introduction);
        let declared = introduction.as_ref().map(|said| said.capabilities.clone());
        declared.unwrap_or(RawJson::EMPTY_OBJECT)
    }

    pub(crate) fn set_subscriber(&self, subscriber: Subscriber) {
        let set = self.subscriber.set(subscriber);
        debug_assert!(set.is_ok(), "a session subscribes once");
    }

    pub(crate) fn subscriber(&self) -> Option<&Subscriber> {
        self.subscriber.get()
    }

    /// The least severe log message it wants, where it says so.
    pub(crate) fn level(&self) -> Option<Level> {
        *lock(&self.level)
    }

    pub(crate) fn set_level(&self, level: Option<Level>) {
        *lock(&self.level) = level;
    }

    /// Where messages go from now on that belong to no request.
    pub(crate) fn set_standing_outbox(&self, outbox: Option<Arc<dyn Outbox>>) {
        lock(&self.outboxes).standing = outbox;
    }

    /// Where messages go now that belong to no request.
    pub(crate) fn standing_outbox(&self) -> Option<Arc<dyn Outbox>> {
        lock(&self.outboxes).standing.clone()
    }

    /// Reaches the client on this outbox too, until the guard is dropped.
    pub(crate) fn reachable(self: &Arc<Self>, outbox: &Arc<dyn Outbox>) -> Reachable {
        lock(&self.outboxes).requests.push(outbox.clone());
        Reachable {
            client: self.clone(),
            outbox: outbox.clone(),
        }
    }

    /// Takes the client's answer to a server's request; `false` when no request has this id.
    pub(crate) fn answered(&self, id: &RawJson, answer: Result<RawJson, RpcError>) -> bool {
        self.questions.answered(id, answer)
    }

    /// The id of the latest question that it has not answered.
    #[cfg(test)]
    pub(crate) fn latest_question(&self) -> RawJson {
        RawJson::from(self.questions.latest().expect("an open question"))
    }

    /// The server whose request the client sends progress of under this token.
    pub(crate) fn origin_of(&self, token: &RawJson) -> Option<QuestionOrigin> {
        self.questions.origin_of(token)
    }

    /// Sends a server's request to the client, on the outbox of its latest request, or on another of its outboxes if that one is
    /// lost.
    ///
    /// Cancel safety: when it is dropped the client gets a `notifications/cancelled`.
    async fn ask(
        &self,
        origin: QuestionOrigin,
        method: &str,
        params: Option<&RawJson>,
    ) -> Result<RawJson, RpcError> {
        for outbox in self.all_outboxes() {
            let question = self.questions.open(origin.clone(), outbox.clone())?;
            if !outbox.send(message::request(question.id(), method, params)) {
                continue;
            }
            tokio::select! {
                biased;
                answer = question.answer() => return answer,
                () = outbox.lost() => {}
            }
        }
        let what = format!("{method} declined: the client cannot be reached");
        Err(RpcError::new(RpcError::INTERNAL_ERROR, what))
    }

    /// Where the client can be reached now, the best outbox first.
    fn all_outboxes(&self) -> Vec<Arc<dyn Outbox>> {
        let outboxes = lock(&self.outboxes);
        let requests = outboxes.requests.iter().rev();
        requests.chain(outboxes.standing.as_ref()).cloned().collect()
    }

    /// Whether it reads what it is sent now, on any of its outboxes.
    pub(crate) fn reads(&self) -> bool {
        self.all_outboxes().iter().any(|outbox| outbox.is_read())
    }

    /// Whether it wants log messages of this server at this level.
    fn wants(&self, server: &str, level: Level) -> bool {
        match (self.era, self.level()) {
            (Era::Legacy | Era::Modern, Some(least)) => least <= level,
            // A modern client on the same connection says with each request what it wants.
            (Era::Legacy, None) if !self.is_introduced() => false,
            (Era::Legacy, None) => {
                let least = self.subscriber().map(|subscriber| subscriber.unset_level(server));
                least.is_none_or(|least| least <= level)
            }
            (Era::Modern, None) => false,
        }
    }

    /// Sends the client a notification of a server whose call runs.
    pub(crate) fn notify(&self, notification: ServerNotification) {
        let outbox = {
            let outboxes = lock(&self.outboxes);
            outboxes.requests.last().or(outboxes.standing.as_ref()).cloned()
        };
        self.notify_on(outbox, notification);
    }

    /// Sends the client a notification of a server that belongs to no request.
    pub(crate) fn notify_outside_calls(&self, notification: ServerNotification) {
        self.notify_on(self.standing_outbox(), notification);
    }

    /// Sends the status of a task to the sessions whose principal began the task: to this one where it can be reached best. A status of
    /// an unknown task is kept: the result that names the task may be on its way.
    fn notify_of_task(&self, notification: ServerNotification) {
        let (server, params) = (&notification.server, notification.params.as_ref());
        let Some(id) = task_id(params) else { return };
        let subscriber = self.subscriber();
        let is_sent = subscriber.is_some_and(|subscriber| subscriber.task_changed(server, &id, params));
        if self.tasks.has(server, &id) {
            self.notify(notification);
        } else if !is_sent {
            self.tasks.keep(id, notification);
        }
    }

    /// The parameters of a notification, as the client is to see them; `None` where they are of another's task.
    fn shown(&self, server: &str, method: &str, params: RawJson) -> Option<RawJson> {
        let params = self.tasks.shown(server, params)?;
        match method {
            TASK_STATUS => self.tasks.with_public_id(server, &params),
            _other => Some(params),
        }
    }

    fn notify_on(&self, outbox: Option<Arc<dyn Outbox>>, notification: ServerNotification) {
        let ServerNotification {
            server,
            method,
            params,
            ..
        } = notification;
        let is_wanted = match method.as_str() {
            "notifications/message" => self.wants(&server, Level::of_message(params.as_ref())),
            _other => self.is_here(),
        };
        if !is_wanted {
            return;
        }
        let params = match params {
            Some(params) => match self.shown(&server, &method, params) {
                Some(shown) => Some(shown),
                None => return,
            },
            None => None,
        };
        let message = message::notification(&method, params.as_ref());
        if !outbox.is_some_and(|outbox| outbox.offer(message)) {
            self.notes.unread.fetch_add(1, Ordering::Relaxed);
            let missed = self.missed.fetch_add(1, Ordering::Relaxed) + 1;
            if missed.is_power_of_two() {
                tracing::debug!(%server, method, missed, "a client does not read its notifications");
            }
        }
    }
}

impl ClientHandler for Client {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities {
            raw: Some(self.declared()),
            ..ClientCapabilities::default()
        }
    }

    fn client(&self) -> Option<u64> {
        Some(self.number)
    }

    fn log_level(&self) -> Option<&str> {
        self.level().map(Level::word)
    }

    fn request(&self, request: ServerRequest) -> Answer<'_> {
        Box::pin(async move {
            if let Some(capability) = self.missing_capability_for(&request.method) {
                return Err(declined(&request.method, capability));
            }
            let origin = QuestionOrigin::of(&request);
            let ServerRequest {
                server,
                method,
                params,
                ..
            } = request;
            self.elicited.note_request(&server, &method, params.as_ref());
            let params = self.tasks.asked(&server, &method, params)?;
            let answer = self.ask(origin, &method, params.as_ref()).await?;
            Ok(self.tasks.as_known(answer))
        })
    }

    fn notification(&self, notification: ServerNotification) {
        let is_another_s = |subscriber: &Subscriber| subscriber.url_elicitation_complete(self, &notification);
        match notification.method.as_str() {
            TASK_STATUS if !self.tasks.are_all() => self.notify_of_task(notification),
            URL_ELICITATION_COMPLETE if self.subscriber().is_some_and(is_another_s) => {}
            _other => self.notify(notification),
        }
    }
}

/// A client that can be reached on the outbox of a request, as long as this lives.
pub(crate) struct Reachable {
    client: Arc<Client>,
    outbox: Arc<dyn Outbox>,
}

impl Drop for Reachable {
    fn drop(&mut self) {
        let requests = &mut lock(&self.client.outboxes).requests;
        if let Some(at) = requests
            .iter()
            .rposition(|outbox| Arc::ptr_eq(outbox, &self.outbox))
        {
            requests.remove(at);
        }
    }
}

/// The number of a new client: no two have the same.
fn next_number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed)
}
