//! All sessions: opened within bounds, found by ids that nobody guesses, ended when nobody uses them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::StatusCode;
use mainstay::message::RpcError;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::time::Instant;

use super::guard::Caller;
use super::options::Bounds;
use super::refusal::Refusal;
use super::session::{InUse, Session, Way};
use crate::desk::Desk;
use crate::protocol::SERVER_UNAVAILABLE;
use crate::scope::Scope;

/// Random bytes of an id.
const ID: usize = 24;

/// When a client that found no room may try again.
const RETRY: Duration = Duration::from_secs(30);

pub(super) struct Sessions {
    desk: Arc<Desk>,
    random: SystemRandom,
    most: usize,
    most_of_caller: usize,
    idle: Duration,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    sessions: HashMap<String, Arc<Session>>,
    of_caller: HashMap<Caller, usize>,
}

impl Sessions {
    pub(super) fn new(desk: Arc<Desk>, bounds: &Bounds) -> Self {
        Self {
            desk,
            random: SystemRandom::new(),
            most: bounds.sessions,
            most_of_caller: bounds.sessions_of_caller,
            idle: bounds.session_idle,
            table: Mutex::default(),
        }
    }

    /// Opens a session for this caller, if there is room for one more.
    pub(super) fn open(&self, scope: Scope, way: Way, caller: Caller) -> Result<InUse, Refusal> {
        let id = self.draw_id()?;
        let mut table = self.table();
        if table.sessions.len() >= self.most {
            let what = format!("{} sessions are open already", self.most);
            let refusal = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, SERVER_UNAVAILABLE, what);
            return Err(refusal.retry_after(RETRY));
        }
        let of_caller = table.of_caller.entry(caller).or_default();
        if *of_caller >= self.most_of_caller {
            let what = format!("this client has {} sessions open already", self.most_of_caller);
            let refusal = Refusal::new(StatusCode::TOO_MANY_REQUESTS, SERVER_UNAVAILABLE, what);
            return Err(refusal.retry_after(RETRY));
        }
        *of_caller += 1;
        let session = Session::new(id.clone(), way, caller, self.desk.welcome(scope, Some(caller)));
        table.sessions.insert(id, session.clone());
        Ok(InUse::new(session))
    }

    /// The session of this id, if this caller opened it.
    pub(super) fn find(&self, id: &str, scope: &Scope, way: Way, caller: Caller) -> Option<InUse> {
        let session = self.find_any(id, way, caller)?;
        (session.client.scope == *scope).then_some(session)
    }

    /// The same, whatever it shows.
    pub(super) fn find_any(&self, id: &str, way: Way, caller: Caller) -> Option<InUse> {
        let table = self.table();
        let session = table.sessions.get(id)?;
        let is_theirs = session.way == way && session.caller.may_use(caller);
        is_theirs.then(|| InUse::new(session.clone()))
    }

    /// Ends a session, and whatever runs for it.
    pub(super) fn end(&self, id: &str) {
        let ended = self.table().remove(id);
        if let Some(session) = ended {
            self.part(&session);
        }
    }

    /// Ends the sessions that nobody has used for long, and forgets what is old in the others.
    pub(super) fn sweep(&self, now: Instant) {
        let mut ended = Vec::new();
        let mut table = self.table();
        for session in table.sessions.values() {
            if session.is_idle(now, self.idle) {
                ended.push(session.id.clone());
            } else {
                session.forget_old(now);
            }
        }
        let ended: Vec<_> = ended.iter().filter_map(|id| table.remove(id)).collect();
        drop(table);
        for session in ended {
            self.part(&session);
        }
    }

    /// Ends all of them.
    pub(super) fn end_all(&self) {
        let table = std::mem::take(&mut *self.table());
        for session in table.sessions.into_values() {
            self.part(&session);
        }
    }

    fn part(&self, session: &Session) {
        session.close();
        self.desk.part(&session.client);
    }

    fn draw_id(&self) -> Result<String, Refusal> {
        let mut id = [0; ID];
        self.random.fill(&mut id).map_err(|_| {
            let what = "the system has no random numbers";
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, RpcError::INTERNAL_ERROR, what)
        })?;
        Ok(URL_SAFE_NO_PAD.encode(id))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn remove(&mut self, id: &str) -> Option<Arc<Session>> {
        let session = self.sessions.remove(id)?;
        if let Some(count) = self.of_caller.get_mut(&session.caller) {
            *count -= 1;
            if *count == 0 {
                self.of_caller.remove(&session.caller);
            }
        }
        Some(session)
    }
}
