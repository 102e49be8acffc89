//! One client of the gateway, as the desk sees it: what it can answer, where it can be reached, what it waits for.
//!
//! A legacy client lives as long as its session, a modern one as long as its request. What a server asks because of a
//! client's request is asked of that client; it answers on whatever way it likes.

mod asks;
mod running;

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use mainstay::message::{self, Object, RawJson, RpcError};
use mainstay::{Answer, ClientCapabilities, ClientHandler, Era, ServerNotification, ServerRequest};

use crate::desk::tasks::{self, OwnTasks};
use crate::desk::{Hearing, Level};
use crate::door::Caller;
use crate::isolation::{Isolated, OwnServers};
use crate::protocol::{RequestMeta, capability_for, declined};
use crate::scope::Scope;
use asks::Asks;
pub(crate) use running::{Busy, Running};

/// The way to a client, for what belongs to one of its requests, or to none.
pub(crate) trait Line: Send + Sync + 'static {
    /// Puts a message on its way, without waiting; `false` when it was dropped, since nobody reads or nothing fits.
    fn send(&self, message: Bytes) -> bool;

    /// Comes back when it cannot be expected any more that the client reads what it has not read yet.
    ///
    /// Cancel safety: dropping it changes nothing.
    fn lost(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::pending())
    }
}

pub(crate) struct Client {
    pub(crate) scope: Scope,
    pub(crate) era: Era,
    pub(crate) running: Arc<Running>,
    /// What the client said that it can answer, once it has.
    capabilities: Mutex<Option<RawJson>>,
    /// The least severe log message it wants.
    level: Mutex<Option<Level>>,
    asks: Asks,
    /// The tasks that it has begun.
    pub(crate) tasks: OwnTasks,
    lines: Mutex<Lines>,
    /// Its seat in the audience; a client of one request has none.
    hearing: OnceLock<Hearing>,
    /// The servers of its own; a client of one request without a session has none.
    own: Option<Arc<OwnServers>>,
}

/// Where a client can be reached now.
#[derive(Default)]
struct Lines {
    /// For what belongs to no request.
    standing: Option<Arc<dyn Line>>,
    /// The requests that run, the latest last.
    calls: Vec<Arc<dyn Line>>,
}

impl Client {
    /// A client that stays for longer than a request.
    pub(crate) fn of_session(scope: Scope, isolated: &Arc<Isolated>, caller: Option<Caller>) -> Arc<Self> {
        Arc::new_cyclic(|session| {
            let own = isolated.admit(session.clone(), caller);
            Self::build(scope, Era::Legacy, Arc::default(), Some(own))
        })
    }

    /// A client of one modern request.
    pub(crate) fn of_request(scope: Scope, meta: &RequestMeta) -> Arc<Self> {
        Arc::new(Self::build(scope, Era::Modern, Arc::default(), None).described(meta))
    }

    /// A client of one modern request, on a way that it shares with this session. It can be cancelled like the others, and
    /// has the session's own servers.
    pub(crate) fn with_request(&self, meta: &RequestMeta) -> Arc<Self> {
        let (running, own) = (self.running.clone(), self.own.clone());
        let client = Self::build(self.scope.clone(), Era::Modern, running, own);
        Arc::new(client.described(meta))
    }

    fn build(scope: Scope, era: Era, running: Arc<Running>, own: Option<Arc<OwnServers>>) -> Self {
        Self {
            scope,
            era,
            running,
            capabilities: Mutex::default(),
            level: Mutex::default(),
            asks: Asks::default(),
            tasks: OwnTasks::default(),
            lines: Mutex::default(),
            hearing: OnceLock::new(),
            own,
        }
    }

    /// The client as its request describes it.
    fn described(self, meta: &RequestMeta) -> Self {
        let capabilities = meta.capabilities.clone();
        Self {
            capabilities: Mutex::new(Some(capabilities.unwrap_or(RawJson::EMPTY_OBJECT))),
            level: Mutex::new(meta.log_level),
            ..self
        }
    }

    /// Notes what the client can answer. It is copied: the message it came in is not kept for as long as a session lives.
    pub(crate) fn introduce(&self, capabilities: &RawJson) {
        if let Ok(copy) = RawJson::from_text(capabilities.as_str()) {
            *lock(&self.capabilities) = Some(copy);
        }
    }

    /// Whether it has said what it can answer: a session that was opened by `initialize`.
    pub(crate) fn is_introduced(&self) -> bool {
        lock(&self.capabilities).is_some()
    }

    /// The servers of its own, where it has a session that could have any.
    pub(crate) fn own(&self) -> Option<&Arc<OwnServers>> {
        self.own.as_ref()
    }

    /// The capability that it would have to declare, and does not, to be asked this.
    pub(crate) fn lacks_for(&self, method: &str) -> Option<&'static str> {
        let needed = capability_for(method)?;
        let declared = lock(&self.capabilities).as_ref().and_then(Object::parse);
        let declared = declared.unwrap_or_default();
        declared.get(needed).is_none().then_some(needed)
    }

    /// Takes a seat in the audience.
    pub(crate) fn attend(&self, hearing: Hearing) {
        let taken = self.hearing.set(hearing);
        debug_assert!(taken.is_ok(), "a session is seated once");
    }

    pub(crate) fn hearing(&self) -> Option<&Hearing> {
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
    pub(crate) fn stand_by(&self, line: Option<Arc<dyn Line>>) {
        self.lines().standing = line;
    }

    /// Reaches the client on this line too, until the guard is dropped.
    pub(crate) fn reachable(self: &Arc<Self>, line: &Arc<dyn Line>) -> Reachable {
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

    /// Tells the client something that belongs to no request.
    pub(crate) fn tell(&self, message: Bytes) -> bool {
        let standing = self.lines().standing.clone();
        standing.is_some_and(|line| line.send(message))
    }

    /// Asks the client, on the line of its latest request, or on another of its lines if that one is lost.
    ///
    /// Cancel safety: when it is dropped the client is told that the answer is not wanted.
    async fn ask(&self, method: &str, params: Option<&RawJson>) -> Result<RawJson, RpcError> {
        for line in self.ways() {
            let asked = self.asks.open(line.clone())?;
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
    fn ways(&self) -> Vec<Arc<dyn Line>> {
        let lines = self.lines();
        let calls = lines.calls.iter().rev();
        calls.chain(lines.standing.as_ref()).cloned().collect()
    }

    /// Whether it wants to hear what this server logs at this level.
    fn wants(&self, server: &str, level: Level) -> bool {
        match (self.era, self.level()) {
            (Era::Legacy | Era::Modern, Some(least)) => least <= level,
            (Era::Legacy, None) => {
                let unasked = self.hearing().map(|hearing| hearing.unasked_level(server));
                unasked.is_none_or(|least| least <= level)
            }
            (Era::Modern, None) => false,
        }
    }

    fn line(&self) -> Option<Arc<dyn Line>> {
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
            raw: Some(lock(&self.capabilities).clone().unwrap_or(RawJson::EMPTY_OBJECT)),
            ..ClientCapabilities::default()
        }
    }

    fn log_level(&self) -> Option<&str> {
        self.level().map(Level::word)
    }

    fn request(&self, request: ServerRequest) -> Answer<'_> {
        Box::pin(async move {
            if let Some(capability) = self.lacks_for(&request.method) {
                return Err(declined(&request.method, capability));
            }
            let ServerRequest {
                server,
                method,
                params,
                ..
            } = request;
            let params = tasks::shown(&self.scope, &server, &method, params);
            let answer = self.ask(&method, params.as_ref()).await?;
            Ok(tasks::as_known(&self.scope, answer))
        })
    }

    fn notification(&self, notification: ServerNotification) {
        let ServerNotification {
            server,
            method,
            params,
            ..
        } = notification;
        if method == "notifications/message" && !self.wants(&server, Level::of_message(params.as_ref())) {
            return;
        }
        if let Some(line) = self.line() {
            let params = tasks::shown(&self.scope, &server, &method, params);
            line.send(message::notification(&method, params.as_ref()));
        }
    }
}

/// A client that can be reached on the line of a request, as long as this lives.
pub(crate) struct Reachable {
    client: Arc<Client>,
    line: Arc<dyn Line>,
}

impl Drop for Reachable {
    fn drop(&mut self) {
        let calls = &mut self.client.lines().calls;
        if let Some(at) = calls.iter().rposition(|line| Arc::ptr_eq(line, &self.line)) {
            calls.remove(at);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
