//! All sessions: opened within bounds, found by ids that nobody guesses, ended when nobody uses them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::StatusCode;
use mainstay::gateway::message::RpcError;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::time::Instant;

use super::guard::Caller;
use super::options::Bounds;
use super::refusal::Refusal;
use super::seldom::Seldom;
use super::session::{InUse, Session, Way};
use crate::budget::Account;
use crate::principal::Principal;
use crate::protocol::SERVER_UNAVAILABLE;
use crate::router::Router;
use crate::scope::Scope;

/// Random bytes of an id.
const ID: usize = 24;

/// When a client that found no room may try again.
const RETRY: Duration = Duration::from_secs(30);

/// Idle sessions that are looked up at once, when one must give way: the next ones then cost no look at all of them.
const CANDIDATES: usize = 16;

/// More sessions than this that were opened and never used are no clients that begin at the same time. One of them gives way
/// before a session that was ever used, however long that one is idle.
const CROWD: usize = 64;

pub(super) struct Sessions {
    router: Arc<Router>,
    random: SystemRandom,
    most: usize,
    most_of_caller: usize,
    idle: Duration,
    table: Mutex<Table>,
    gave_way: Seldom,
}

#[derive(Default)]
struct Table {
    sessions: HashMap<String, Arc<Session>>,
    /// The longest idle of all, as they were when they were looked up.
    idle: Idle,
    of_caller: HashMap<Caller, OfCaller>,
}

/// The sessions of one caller.
#[derive(Default)]
struct OfCaller {
    count: usize,
    idle: Idle,
}

/// Idle sessions and since when they are, the first to give way first. Sessions only become idle later than these are, so as
/// long as one of these is as idle as it was, none is longer.
#[derive(Default)]
struct Idle(VecDeque<(Instant, String)>);

impl Sessions {
    pub(super) fn new(router: Arc<Router>, bounds: &Bounds) -> Self {
        Self {
            router,
            random: SystemRandom::new(),
            most: bounds.sessions,
            most_of_caller: bounds.sessions_of_caller,
            idle: bounds.session_idle,
            table: Mutex::default(),
            gave_way: Seldom::default(),
        }
    }

    /// Opens a session for this caller, if there is room for one more, or one that is idle gives way.
    pub(super) fn open(&self, scope: Scope, way: Way, caller: Caller) -> Result<InUse, Refusal> {
        let id = self.draw_id()?;
        let mut table = self.table();
        let mut gone = None;
        if table.count_of(caller) >= self.most_of_caller {
            gone = table.longest_idle_of(caller);
            if gone.is_none() {
                let what = format!("this client uses {} sessions already", self.most_of_caller);
                let refusal = Refusal::new(StatusCode::TOO_MANY_REQUESTS, SERVER_UNAVAILABLE, what);
                return Err(refusal.retry_after(RETRY));
            }
        } else if table.sessions.len() >= self.most {
            gone = table.longest_idle();
            if gone.is_none() {
                let what = format!("{} sessions are in use already", self.most);
                let refusal = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, SERVER_UNAVAILABLE, what);
                return Err(refusal.retry_after(RETRY));
            }
        }
        table.of_caller.entry(caller).or_default().count += 1;
        let client = self.router.welcome(scope, Some(caller));
        let account = self.router.budget.account(client.principal);
        let session = Session::new(id.clone(), way, caller, client, account);
        // In use before anybody else could make it give way.
        let in_use = InUse::new(session.clone());
        table.sessions.insert(id, session);
        drop(table);
        if let Some(gone) = gone {
            self.give_way(&gone);
        }
        Ok(in_use)
    }

    /// The version that the session of this id negotiated.
    pub(super) fn version(&self, id: &str) -> Option<&'static str> {
        self.table().sessions.get(id)?.client.version()
    }

    fn give_way(&self, session: &Session) {
        if let Some(given_way) = self.gave_way.count(Instant::now()) {
            let (limit, per_client) = (self.most, self.most_of_caller);
            tracing::warn!(
                limit,
                per_client,
                given_way,
                "as many sessions are open as may be: the longest idle gives way to a new one"
            );
        }
        self.part(session);
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
        is_theirs.then(|| {
            session.note_use();
            InUse::new(session.clone())
        })
    }

    /// What is held for the session of this id, if this caller opened it.
    pub(super) fn account(&self, id: &str, caller: Caller) -> Option<Account> {
        let table = self.table();
        let session = table.sessions.get(id)?;
        session.caller.may_use(caller).then(|| session.account.clone())
    }

    /// Forgets answers that nobody has come back for, the oldest first: of this principal, or of any, until so many bytes are
    /// free.
    pub(super) fn forget_left_behind(&self, of: Option<Principal>, bytes: usize) {
        let sessions: Vec<_> = self.table().sessions.values().cloned().collect();
        let sessions = sessions
            .iter()
            .filter(|session| of.is_none_or(|of| of == session.client.principal));
        let mut left: Vec<_> = sessions
            .flat_map(|session| {
                let left = session.left_behind().into_iter();
                left.map(move |(since, bytes, number)| (since, bytes, number, session))
            })
            .collect();
        left.sort_unstable_by_key(|(since, ..)| *since);
        let mut free = 0;
        for (_, of_stream, number, session) in left {
            if free >= bytes {
                return;
            }
            session.forget(number);
            free += of_stream;
        }
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
        self.router.part(&session.client);
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
        if let Some(own) = self.of_caller.get_mut(&session.caller) {
            own.count -= 1;
            if own.count == 0 {
                self.of_caller.remove(&session.caller);
            }
        }
        Some(session)
    }

    fn count_of(&self, caller: Caller) -> usize {
        self.of_caller.get(&caller).map_or(0, |own| own.count)
    }

    /// Takes out the session that nobody has used for the longest time.
    fn longest_idle(&mut self) -> Option<Arc<Session>> {
        let id = self.idle.next(&self.sessions, |_| true)?;
        self.remove(&id)
    }

    /// The same of the sessions of one caller.
    fn longest_idle_of(&mut self, caller: Caller) -> Option<Arc<Session>> {
        let own = self.of_caller.get_mut(&caller)?;
        let id = own
            .idle
            .next(&self.sessions, |session| session.caller == caller)?;
        self.remove(&id)
    }
}

impl Idle {
    /// The longest idle of these sessions. Under the lock of the table, in which nobody begins to use an idle one.
    fn next(
        &mut self,
        sessions: &HashMap<String, Arc<Session>>,
        counts: impl Fn(&Session) -> bool,
    ) -> Option<String> {
        if let Some(id) = self.known(sessions) {
            return Some(id);
        }
        let counted = sessions.values().filter(|session| counts(session));
        let mut idle: Vec<_> = counted
            .filter_map(|session| Some((session.idle_since()?, session)))
            .collect();
        let unused = idle.iter().filter(|(_, session)| !session.was_used()).count();
        if unused > CROWD {
            idle.retain(|(_, session)| !session.was_used());
        }
        let few = CANDIDATES.min(idle.len());
        if few > 0 {
            idle.select_nth_unstable_by_key(few - 1, |(since, _)| *since);
        }
        idle.truncate(few);
        idle.sort_unstable_by_key(|(since, _)| *since);
        self.0 = idle
            .into_iter()
            .map(|(since, session)| (since, session.id.clone()))
            .collect();
        self.known(sessions)
    }

    /// The first of those looked up that is still as idle as it was.
    fn known(&mut self, sessions: &HashMap<String, Arc<Session>>) -> Option<String> {
        while let Some((since, id)) = self.0.pop_front() {
            let now = sessions.get(&id).and_then(|session| session.idle_since());
            if now == Some(since) {
                return Some(id);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
