//! The sessions of legacy clients: opened within limits, found by ids that cannot be guessed, ended when they are idle.

use std::collections::{HashMap, VecDeque};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::StatusCode;
use mainstay::gateway::message::RpcError;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::time::Instant;

use super::guard::HttpCaller;
use super::limits::LogLimiter;
use super::options::HttpLimits;
use super::response::HttpRefusal;
use super::stream::{ClientStream, STANDING};
use crate::budget::Account;
use crate::client::Client;
use crate::lock::lock;
use crate::principal::Principal;
use crate::router::Router;
use crate::scope::Scope;
use crate::sessions::DoorKind;

/// Random bytes of an id.
const ID_LENGTH: usize = 24;

/// When a client that could not open a session may try again.
const RETRY_DELAY: Duration = Duration::from_secs(30);

/// Idle sessions that one search finds. The next evictions need no search.
const CANDIDATES: usize = 16;

/// Unused sessions, above which they no longer look like clients that start at the same time. From then on they are
/// evicted before any session that was used, however long that one is idle.
const UNUSED_LIMIT: usize = 64;

/// Streams of requests that a session keeps for a client that lost its connection. One more drops the oldest.
const KEPT_STREAMS_LIMIT: usize = 32;

/// How long a stream is kept after its end.
const KEPT_STREAM_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Finds the session that an id names, for every request that names one.
trait SessionLookup: Send + Sync {
    /// The session of this id and door, if this caller may use it. It is in use from then on: it is not evicted in between.
    fn find(&self, id: &str, door: DoorKind, caller: HttpCaller) -> Option<SessionUse>;

    /// The session of this id, whichever client opened it. Looking does not count as use.
    fn peek(&self, id: &str) -> Option<Arc<HttpSession>>;
}

/// All sessions.
pub(super) struct Sessions {
    /// Where requests find their sessions.
    found_in: Arc<dyn SessionLookup>,
    router: Arc<Router>,
    random: SystemRandom,
    limit: usize,
    limit_per_caller: usize,
    idle_timeout: Duration,
    table: Arc<Mutex<SessionTable>>,
    evictions: LogLimiter,
}

/// The sessions that this gateway opened.
impl SessionLookup for Mutex<SessionTable> {
    fn find(&self, id: &str, door: DoorKind, caller: HttpCaller) -> Option<SessionUse> {
        let table = lock(self);
        let session = table.sessions.get(id)?;
        let may_use = session.door == door && session.caller.may_use(caller);
        may_use.then(|| {
            session.was_used.store(true, Ordering::Relaxed);
            SessionUse::new(session.clone())
        })
    }

    fn peek(&self, id: &str) -> Option<Arc<HttpSession>> {
        lock(self).sessions.get(id).cloned()
    }
}

#[derive(Default)]
struct SessionTable {
    sessions: HashMap<String, Arc<HttpSession>>,
    /// The longest idle sessions of all.
    idle: IdleSessions,
    callers: HashMap<HttpCaller, CallerSessions>,
}

/// The sessions of one caller.
#[derive(Default)]
struct CallerSessions {
    count: usize,
    idle: IdleSessions,
}

/// Idle sessions and since when they are idle, the longest idle first, as of the last search. All other sessions became idle
/// later, so an entry that still holds is the longest idle session.
#[derive(Default)]
struct IdleSessions(VecDeque<(Instant, String)>);

impl Sessions {
    pub(super) fn new(router: Arc<Router>, limits: &HttpLimits) -> Self {
        let table = Arc::<Mutex<SessionTable>>::default();
        Self {
            found_in: table.clone(),
            router,
            random: SystemRandom::new(),
            limit: limits.sessions,
            limit_per_caller: limits.sessions_per_caller,
            idle_timeout: limits.session_idle,
            table,
            evictions: LogLimiter::default(),
        }
    }

    /// Opens a session for this caller. If there are too many, it evicts the longest idle one.
    pub(super) fn open(
        &self,
        scope: Scope,
        door: DoorKind,
        caller: HttpCaller,
    ) -> Result<SessionUse, HttpRefusal> {
        let id = self.new_id()?;
        let mut table = lock(&self.table);
        let mut evicted = None;
        if table.count_of(caller) >= self.limit_per_caller {
            evicted = table.take_longest_idle_of(caller);
            if evicted.is_none() {
                let what = format!("this client uses {} sessions already", self.limit_per_caller);
                let refusal = HttpRefusal::limited(StatusCode::TOO_MANY_REQUESTS, what);
                return Err(refusal.retry_after(RETRY_DELAY));
            }
        } else if table.sessions.len() >= self.limit {
            evicted = table.take_longest_idle();
            if evicted.is_none() {
                let what = format!("{} sessions are in use already", self.limit);
                let refusal = HttpRefusal::limited(StatusCode::SERVICE_UNAVAILABLE, what);
                return Err(refusal.retry_after(RETRY_DELAY));
            }
        }
        table.callers.entry(caller).or_default().count += 1;
        let client = self.router.open_session(scope, Some(caller), door);
        client.named_over_http(&id);
        let account = self.router.budget.account(client.principal);
        let session = HttpSession::new(id.clone(), door, caller, client, account);
        // In use before another client could evict it.
        let in_use = SessionUse::new(session.clone());
        table.sessions.insert(id, session);
        drop(table);
        if let Some(evicted) = evicted {
            self.log_eviction();
            self.close(&evicted);
        }
        Ok(in_use)
    }

    fn log_eviction(&self) {
        if let Some(evicted) = self.evictions.count(Instant::now()) {
            let (limit, per_client) = (self.limit, self.limit_per_caller);
            tracing::warn!(
                limit,
                per_client,
                evicted,
                "too many sessions: the longest idle one was ended"
            );
        }
    }

    /// The version that the session of this id negotiated.
    pub(super) fn version(&self, id: &str) -> Option<&'static str> {
        self.found_in.peek(id)?.client.version()
    }

    /// The session of this id and door, if this caller may use it. It is in use from then on: it is not evicted in between.
    pub(super) fn find(&self, id: &str, door: DoorKind, caller: HttpCaller) -> Option<SessionUse> {
        self.found_in.find(id, door, caller)
    }

    /// The budget of the session of this id, if this caller opened it.
    pub(super) fn account(&self, id: &str, caller: HttpCaller) -> Option<Account> {
        let session = self.found_in.peek(id)?;
        session.caller.may_use(caller).then(|| session.account.clone())
    }

    /// Drops finished streams that no client reads, of these principals, until so many bytes are free. The oldest are dropped
    /// first.
    pub(super) fn drop_unread(&self, of: &dyn Fn(Principal) -> bool, bytes: usize) {
        let sessions: Vec<_> = lock(&self.table).sessions.values().cloned().collect();
        let sessions = sessions.iter().filter(|session| of(session.client.principal));
        let mut unread: Vec<_> = sessions
            .flat_map(|session| {
                let unread = session.unread_streams().into_iter();
                unread.map(move |(since, bytes, number)| (since, bytes, number, session))
            })
            .collect();
        unread.sort_unstable_by_key(|(since, ..)| *since);
        let mut free = 0;
        for (_, of_stream, number, session) in unread {
            if free >= bytes {
                return;
            }
            session.drop_stream(number);
            free += of_stream;
        }
    }

    /// Ends a session and all its requests.
    pub(super) fn end(&self, id: &str) {
        let ended = lock(&self.table).remove(id);
        if let Some(session) = ended {
            self.close(&session);
        }
    }

    /// Ends the sessions that have been idle for too long, and drops old streams of the others.
    pub(super) fn sweep(&self, now: Instant) {
        let mut ended = Vec::new();
        let mut table = lock(&self.table);
        for session in table.sessions.values() {
            if session.is_idle_for(now, self.idle_timeout) {
                ended.push(session.id.clone());
            } else {
                session.drop_old_streams(now);
            }
        }
        let ended: Vec<_> = ended.iter().filter_map(|id| table.remove(id)).collect();
        drop(table);
        for session in ended {
            self.close(&session);
        }
    }

    /// Ends the sessions of all callers that are not admitted.
    pub(super) fn end_unless(&self, is_admitted: impl Fn(HttpCaller) -> bool) {
        let mut table = lock(&self.table);
        let revoked = table
            .sessions
            .values()
            .filter(|session| !is_admitted(session.caller));
        let revoked: Vec<_> = revoked.map(|session| session.id.clone()).collect();
        let ended: Vec<_> = revoked.iter().filter_map(|id| table.remove(id)).collect();
        drop(table);
        for session in ended {
            self.close(&session);
        }
    }

    pub(super) fn end_all(&self) {
        let table = std::mem::take(&mut *lock(&self.table));
        for session in table.sessions.into_values() {
            self.close(&session);
        }
    }

    fn close(&self, session: &HttpSession) {
        session.standing.close();
        lock(&session.kept).clear();
        self.router.close_session(&session.client);
    }

    fn new_id(&self) -> Result<String, HttpRefusal> {
        let mut id = [0; ID_LENGTH];
        self.random.fill(&mut id).map_err(|_| {
            let what = "the system has no random numbers";
            HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, RpcError::INTERNAL_ERROR, what)
        })?;
        Ok(URL_SAFE_NO_PAD.encode(id))
    }
}

impl SessionTable {
    fn remove(&mut self, id: &str) -> Option<Arc<HttpSession>> {
        let session = self.sessions.remove(id)?;
        if let Some(own) = self.callers.get_mut(&session.caller) {
            own.count -= 1;
            if own.count == 0 {
                self.callers.remove(&session.caller);
            }
        }
        Some(session)
    }

    fn count_of(&self, caller: HttpCaller) -> usize {
        self.callers.get(&caller).map_or(0, |own| own.count)
    }

    /// Removes the longest idle session.
    fn take_longest_idle(&mut self) -> Option<Arc<HttpSession>> {
        let id = self.idle.next(&self.sessions, |_| true)?;
        self.remove(&id)
    }

    /// Removes the longest idle session of one caller.
    fn take_longest_idle_of(&mut self, caller: HttpCaller) -> Option<Arc<HttpSession>> {
        let own = self.callers.get_mut(&caller)?;
        let id = own
            .idle
            .next(&self.sessions, |session| session.caller == caller)?;
        self.remove(&id)
    }
}

impl IdleSessions {
    /// The longest idle of these sessions. The caller holds the lock of the table, under which no idle session comes into use.
    fn next(
        &mut self,
        sessions: &HashMap<String, Arc<HttpSession>>,
        is_counted: impl Fn(&HttpSession) -> bool,
    ) -> Option<String> {
        if let Some(id) = self.next_found(sessions) {
            return Some(id);
        }
        let counted = sessions.values().filter(|session| is_counted(session));
        let mut idle: Vec<_> = counted
            .filter_map(|session| Some((session.idle_since()?, session)))
            .collect();
        let unused = idle.iter().filter(|(_, session)| !session.was_used()).count();
        if unused > UNUSED_LIMIT {
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
        self.next_found(sessions)
    }

    /// The first session of the last search that has been idle ever since.
    fn next_found(&mut self, sessions: &HashMap<String, Arc<HttpSession>>) -> Option<String> {
        while let Some((since, id)) = self.0.pop_front() {
            let now = sessions.get(&id).and_then(|session| session.idle_since());
            if now == Some(since) {
                return Some(id);
            }
        }
        None
    }
}

/// One session: what is kept for its client between requests.
pub(super) struct HttpSession {
    pub(super) id: String,
    door: DoorKind,
    caller: HttpCaller,
    pub(super) client: Arc<Client>,
    /// The client's budget of bytes.
    pub(super) account: Account,
    /// The stream for what belongs to no request.
    pub(super) standing: Arc<ClientStream>,
    kept: Mutex<VecDeque<Arc<ClientStream>>>,
    last_stream: AtomicU64,
    /// Whether its client has named it in a request since it was opened.
    was_used: AtomicBool,
    usage: Mutex<SessionUsage>,
}

/// Both under one lock: otherwise a reader between the two updates could see a session as idle since before its last use.
struct SessionUsage {
    /// Requests and open streams.
    uses: usize,
    ended_at: Instant,
}

impl HttpSession {
    pub(super) fn new(
        id: String,
        door: DoorKind,
        caller: HttpCaller,
        client: Arc<Client>,
        account: Account,
    ) -> Arc<Self> {
        let standing = Arc::new(match door {
            DoorKind::Sse => ClientStream::once(account.clone()),
            DoorKind::Http | DoorKind::Stdio => ClientStream::standing(account.clone()),
        });
        client.set_standing_outbox(Some(standing.clone()));
        Arc::new(Self {
            id,
            door,
            caller,
            client,
            account,
            standing,
            kept: Mutex::default(),
            last_stream: AtomicU64::new(STANDING),
            was_used: AtomicBool::new(false),
            usage: Mutex::new(SessionUsage {
                uses: 0,
                ended_at: Instant::now(),
            }),
        })
    }

    /// A stream for a new request.
    pub(super) fn new_stream(&self) -> ClientStream {
        let number = self.last_stream.fetch_add(1, Ordering::Relaxed) + 1;
        ClientStream::resumable(number, self.account.clone())
    }

    /// Keeps a stream for a client that loses its connection.
    pub(super) fn keep_stream(&self, stream: Arc<ClientStream>) {
        let mut kept = lock(&self.kept);
        if kept.len() >= KEPT_STREAMS_LIMIT {
            kept.pop_front();
        }
        kept.push_back(stream);
    }

    /// The stream of this number, if it is kept.
    pub(super) fn find_stream(&self, number: u64) -> Option<Arc<ClientStream>> {
        if number == STANDING {
            return Some(self.standing.clone());
        }
        let kept = lock(&self.kept);
        kept.iter().find(|stream| stream.number() == number).cloned()
    }

    /// The finished streams that the client does not read: since when they are finished, their bytes, and their numbers.
    fn unread_streams(&self) -> Vec<(Instant, usize, u64)> {
        let kept = lock(&self.kept);
        kept.iter()
            .filter_map(|stream| {
                let (since, bytes) = stream.finished_unread()?;
                Some((since, bytes, stream.number()))
            })
            .collect()
    }

    fn drop_stream(&self, number: u64) {
        lock(&self.kept).retain(|stream| stream.number() != number);
    }

    fn drop_old_streams(&self, now: Instant) {
        let is_young = |stream: &Arc<ClientStream>| {
            let closed = stream.closed_at();
            closed.is_none_or(|closed| now.duration_since(closed) < KEPT_STREAM_TIMEOUT)
        };
        lock(&self.kept).retain(is_young);
    }

    fn was_used(&self) -> bool {
        self.was_used.load(Ordering::Relaxed)
    }

    /// Since when it has no request and no open stream; `None` while it has.
    fn idle_since(&self) -> Option<Instant> {
        let usage = lock(&self.usage);
        (usage.uses == 0).then_some(usage.ended_at)
    }

    fn is_idle_for(&self, now: Instant, timeout: Duration) -> bool {
        let since = self.idle_since();
        since.is_some_and(|since| now.duration_since(since) >= timeout)
    }
}

/// A session in use: it is not idle until this is dropped.
pub(super) struct SessionUse(Arc<HttpSession>);

impl SessionUse {
    pub(super) fn new(session: Arc<HttpSession>) -> Self {
        lock(&session.usage).uses += 1;
        Self(session)
    }
}

impl Deref for SessionUse {
    type Target = HttpSession;

    fn deref(&self) -> &HttpSession {
        &self.0
    }
}

impl Clone for SessionUse {
    fn clone(&self) -> Self {
        Self::new(self.0.clone())
    }
}

impl Drop for SessionUse {
    fn drop(&mut self) {
        let mut usage = lock(&self.0.usage);
        usage.uses -= 1;
        usage.ended_at = Instant::now();
    }
}

#[cfg(test)]
mod tests;
