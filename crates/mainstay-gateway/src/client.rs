//! One client of the gateway, as the desk sees it: what it can answer, where it can be reached, what it waits for.
//!
//! A legacy client lives as long as its session, a modern one as long as its request. What a server asks because of a
//! client's request is asked of that client; it answers on whatever way it likes.

mod asks;
pub(crate) mod elicited;
mod running;

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use mainstay::gateway::Introduction;
use mainstay::gateway::message::{self, Object, RawJson, RpcError};
use mainstay::handler::{Answer, ClientCapabilities, ServerNotification, ServerRequest};
use mainstay::{ClientHandler, Era};

use crate::budget::Held;
use crate::door::Caller;
use crate::introduction::Said;
use crate::isolation::{Isolated, OwnServers};
use crate::principal::Principal;
use crate::protocol::{RequestMeta, capability_for, declined};
use crate::router::tasks::{OwnTasks, Tasks};
use crate::router::{Level, Subscriber, TASK_STATUS, Waits, task_id};
use crate::scope::Scope;
use asks::Asks;
pub(crate) use asks::Origin;
use elicited::Elicited;
pub(crate) use running::{Busy, Run, Running};

/// The way to a client, for what belongs to one of its requests, or to none.
pub(crate) trait Outbox: Send + Sync + 'static {
    /// Puts a message on its way, without waiting; `false` when it was dropped, since nobody reads or nothing fits.
    fn send(&self, message: Bytes) -> bool;

    /// The same for news that say no more than before: while the client has yet to read the same, they are not put on their way
    /// again.
    fn send_once(&self, message: Bytes) -> bool {
        self.send(message)
    }

    /// The same for a message that the client can miss: it is dropped long before it could take the place of another.
    fn offer(&self, message: Bytes) -> bool;

    /// Comes back when it cannot be expected any more that the client reads what it has not read yet.
    ///
    /// Cancel safety: dropping it changes nothing.
    fn lost(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::pending())
    }
}

pub(crate) struct Client {
    /// Shared by a session and the requests that came on its way; a request without a session has one of its own.
    number: u64,
    /// Who makes its requests.
    pub(crate) principal: Principal,
    pub(crate) scope: Scope,
    pub(crate) era: Era,
    pub(crate) running: Arc<Running>,
    /// Shared by a session and the requests that came on its way.
    pub(crate) waits: Arc<Waits>,
    /// What the client said of itself, once it has.
    said: Mutex<Option<Said>>,
    /// What is held for that.
    said_held: Mutex<Option<Held>>,
    /// The least severe log message it wants.
    level: Mutex<Option<Level>>,
    /// Whether a modern request came on the way of this session.
    is_modern_too: AtomicBool,
    /// What it was told and did not get, since it does not read, or opened nothing to read from.
    missed: AtomicU64,
    /// The server took nothing of what the client told it last.
    pub(crate) last_notify_timed_out: AtomicBool,
    asks: Asks,
    pub(crate) elicited: Elicited,
    /// The tasks of its principal.
    pub(crate) tasks: OwnTasks,
    lines: Mutex<Lines>,
    /// Its seat in the audience; a client of one request has none.
    hearing: OnceLock<Subscriber>,
    /// The servers of its own; a client of one request without a session has none.
    own: Option<Arc<OwnServers>>,
}

/// Where a client can be reached now.
#[derive(Default)]
struct Lines {
    /// For what belongs to no request.
    standing: Option<Arc<dyn Outbox>>,
    /// The requests that run, the latest last.
    calls: Vec<Arc<dyn Outbox>>,
}

impl Client {
    /// A client that stays for longer than a request.
    pub(crate) fn of_session(
        scope: Scope,
        isolated: &Arc<Isolated>,
        tasks: &Tasks,
        caller: Option<Caller>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|session| {
            let number = next_number();
            let principal = Principal::of_session(caller, number);
            let own = isolated.admit(session.clone(), caller.map(|_| principal));
            let tasks = tasks.of(principal, scope.clone());
            Self::build(number, principal, scope, Era::Legacy, tasks, Some(own))
        })
    }

    /// A client of one modern request, which belongs to no session.
    pub(crate) fn of_request(
        principal: Principal,
        scope: Scope,
        tasks: OwnTasks,
        meta: &RequestMeta,
    ) -> Arc<Self> {
        let client = Self::build(next_number(), principal, scope, Era::Modern, tasks, None);
        Arc::new(client.described(meta))
    }

    /// A client of one modern request, on a way that it shares with this session. It can be cancelled like the others, and
    /// has the session's own servers.
    pub(crate) fn with_request(&self, meta: &RequestMeta) -> Arc<Self> {
        self.is_modern_too.store(true, Ordering::Relaxed);
        let (scope, tasks, own) = (self.scope.clone(), self.tasks.clone(), self.own.clone());
        let client = Self::build(self.number, self.principal, scope, Era::Modern, tasks, own);
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
    ) -> Self {
        Self {
            number,
            principal,
            scope,
            era,
            running: Arc::default(),
            waits: Arc::default(),
            said: Mutex::default(),
            said_held: Mutex::default(),
            level: Mutex::default(),
            is_modern_too: AtomicBool::new(false),
            missed: AtomicU64::new(0),
            last_notify_timed_out: AtomicBool::new(false),
            asks: Asks::default(),
            elicited: Elicited::default(),
            tasks,
            lines: Mutex::default(),
            hearing: OnceLock::new(),
            own,
        }
    }

    /// The client as its request describes it.
    fn described(self, meta: &RequestMeta) -> Self {
        Self {
            said: Mutex::new(Some(Said::of_request(meta))),
            level: Mutex::new(meta.log_level),
            ..self
        }
    }

    /// Notes what the client says of itself, for which this is held.
    pub(crate) fn introduce(&self, said: &Said, held: Held) {
        *lock(&self.said) = Some(said.kept());
        *lock(&self.said_held) = Some(held);
    }

    /// The version that its session negotiated, once it has.
    pub(crate) fn version(&self) -> Option<&'static str> {
        lock(&self.said).as_ref().map(|said| said.version)
    }

    /// Whether it has said who it is: a session that was opened by `initialize`.
    pub(crate) fn is_introduced(&self) -> bool {
        lock(&self.said).is_some()
    }

    /// How a server of its own is told of it, once it has said who it is.
    pub(crate) fn introduction(&self) -> Option<Introduction> {
        lock(&self.said).as_ref().map(Said::introduction)
    }

    /// Whether it has said anything by which it can be told something unasked.
    fn is_here(&self) -> bool {
        self.is_introduced() || self.is_modern_too.load(Ordering::Relaxed)
    }

    /// The servers of its own, where it has a session that could have any.
    pub(crate) fn own(&self) -> Option<&Arc<OwnServers>> {
        self.own.as_ref()
    }

    /// The capability that it would have to declare, and does not, to be asked this.
    pub(crate) fn lacks_for(&self, method: &str) -> Option<&'static str> {
        let needed = capability_for(method)?;
        let declared = Object::parse(&self.declared()).unwrap_or_default();
        declared.get(needed).is_none().then_some(needed)
    }

    /// What it declares that it can answer.
    fn declared(&self) -> RawJson {
        let said = lock(&self.said);
        let declared = said.as_ref().map(|said| said.capabilities.clone());
        declared.unwrap_or(RawJson::EMPTY_OBJECT)
    }

    /// Takes a seat in the subscribers.
    pub(crate) fn attend(&self, hearing: Subscriber) {
        let taken = self.hearing.set(hearing);
        debug_assert!(taken.is_ok(), "a session is seated once");
    }

    pub(crate) fn hearing(&self) -> Option<&Subscriber> {
        self.hearing.get()
    }

    /// The least severe log message it wants, where it says so.
    pub(crate) fn level(&self) -> Option<Level> {
        *lock(&self.level)
    }

    pub(crate) fn set_level(&self, level: Option<Level>) {
        *lock(&self.level) = level;
    }

    /// Where what belongs to no request goes from now on.
    pub(crate) fn stand_by(&self, line: Option<Arc<dyn Outbox>>) {
        self.lines().standing = line;
    }

    /// Reaches the client on this line too, until the guard is dropped.
    pub(crate) fn reachable(self: &Arc<Self>, line: &Arc<dyn Outbox>) -> Reachable {
        self.lines().calls.push(line.clone());
        Reachable {
            client: self.clone(),
            line: line.clone(),
        }
    }

    /// Takes the client's answer to something it was asked; `false` when it was not.
    pub(crate) fn answered(&self, id: &RawJson, answer: Result<RawJson, RpcError>) -> bool {
        self.asks.answered(id, answer)
    }

    /// Where the progress belongs that it tells under this token.
    pub(crate) fn asked_under(&self, token: &RawJson) -> Option<Origin> {
        self.asks.under(token)
    }

    /// Hears what a server tells that belongs to no request.
    pub(crate) fn overhear(&self, notification: ServerNotification) {
        let standing = self.lines().standing.clone();
        self.hear_on(standing, notification);
    }

    /// Where what belongs to no request goes now.
    pub(crate) fn standing(&self) -> Option<Arc<dyn Outbox>> {
        self.lines().standing.clone()
    }

    /// Asks the client, on the line of its latest request, or on another of its lines if that one is lost.
    ///
    /// Cancel safety: when it is dropped the client is told that the answer is not wanted.
    async fn ask(&self, origin: Origin, method: &str, params: Option<&RawJson>) -> Result<RawJson, RpcError> {
        for line in self.ways() {
            let asked = self.asks.open(origin.clone(), line.clone())?;
            if !line.send(message::request(asked.id(), method, params)) {
                continue;
            }
            tokio::select! {
                biased;
                answer = asked.answer() => return answer,
                () = line.lost() => {}
            }
        }
        let what = format!("{method} declined: the client cannot be reached");
        Err(RpcError::new(RpcError::INTERNAL_ERROR, what))
    }

    /// Where the client can be reached now, the best way first.
    fn ways(&self) -> Vec<Arc<dyn Outbox>> {
        let lines = self.lines();
        let calls = lines.calls.iter().rev();
        calls.chain(lines.standing.as_ref()).cloned().collect()
    }

    /// Whether it wants to hear what this server logs at this level.
    fn wants(&self, server: &str, level: Level) -> bool {
        match (self.era, self.level()) {
            (Era::Legacy | Era::Modern, Some(least)) => least <= level,
            // A modern client on the same way says with each request what it wants.
            (Era::Legacy, None) if !self.is_introduced() => false,
            (Era::Legacy, None) => {
                let unasked = self.hearing().map(|hearing| hearing.unasked_level(server));
                unasked.is_none_or(|least| least <= level)
            }
            (Era::Modern, None) => false,
        }
    }

    /// Hears what a server tells while its call runs.
    pub(crate) fn hear(&self, notification: ServerNotification) {
        self.hear_on(self.line(), notification);
    }

    /// Hears news of a task, if its principal has begun it; otherwise those hear it whose task it is. What is nobody's yet may
    /// be of a task whose answer is on its way.
    fn hear_of_task(&self, notification: ServerNotification) {
        let (server, params) = (&notification.server, notification.params.as_ref());
        let Some(id) = task_id(params) else { return };
        if self.tasks.has(server, &id) {
            return self.hear(notification);
        }
        let hearing = self.hearing();
        let is_told = hearing.is_some_and(|hearing| hearing.task_changed(server, &id, params));
        if !is_told {
            self.tasks.keep(id, notification);
        }
    }

    /// The parameters of what a server tells, as the client is to see them; `None` where they are of another's task.
    fn shown(&self, server: &str, method: &str, params: RawJson) -> Option<RawJson> {
        let params = self.tasks.shown(server, params)?;
        match method {
            TASK_STATUS => self.tasks.with_public_id(server, &params),
            _other => Some(params),
        }
    }

    fn hear_on(&self, line: Option<Arc<dyn Outbox>>, notification: ServerNotification) {
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
        if !line.is_some_and(|line| line.offer(message)) {
            let missed = self.missed.fetch_add(1, Ordering::Relaxed) + 1;
            if missed.is_power_of_two() {
                tracing::debug!(%server, method, missed, "a client does not read what it is told");
            }
        }
    }

    fn line(&self) -> Option<Arc<dyn Outbox>> {
        let lines = self.lines();
        lines.calls.last().or(lines.standing.as_ref()).cloned()
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        lock(&self.lines)
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
            if let Some(capability) = self.lacks_for(&request.method) {
                return Err(declined(&request.method, capability));
            }
            let origin = Origin::of(&request);
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
        let is_another_s = |hearing: &Subscriber| hearing.is_another_s_answer(self, &notification);
        match notification.method.as_str() {
            TASK_STATUS if !self.tasks.are_all() => self.hear_of_task(notification),
            elicited::ANSWERED if self.hearing().is_some_and(is_another_s) => {}
            _other => self.hear(notification),
        }
    }
}

/// A client that can be reached on the line of a request, as long as this lives.
pub(crate) struct Reachable {
    client: Arc<Client>,
    line: Arc<dyn Outbox>,
}

impl Drop for Reachable {
    fn drop(&mut self) {
        let calls = &mut self.client.lines().calls;
        if let Some(at) = calls.iter().rposition(|line| Arc::ptr_eq(line, &self.line)) {
            calls.remove(at);
        }
    }
}

/// The number of a new client: no two have the same.
fn next_number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
