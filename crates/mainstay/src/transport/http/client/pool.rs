//! The connections to one server that wait for their next request.
//!
//! Each request takes one of them or makes its own, so one slow answer never delays another. The one that was used last is
//! taken first. One task (`Sweeper`) closes connections that were idle for their keep-alive time, and drops those that
//! the server closed.
//!
//! If somebody waits for the close of connections, the last idle one stays open after its keep-alive time. It carries no more
//! request, and is closed before the next one is made: a server that ends is seen without a request.

use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use http::header::CONNECTION;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::connection::{HEAD_LIMIT, HttpConnection, PoolRequest, Response, Unanswered};
use super::dialer::{BoxError, Dialer};
use super::tls::TlsConfig;
use crate::lock::Lock;

/// A connection that was idle for so long may have been closed before the runtime noticed. The pool asks the
/// system, which costs a system call; busy connections are exempt.
const LOOK_AFTER: Duration = Duration::from_millis(20);

/// Where the server does not say how long it keeps a connection. Node and uvicorn close after 5 s.
pub(super) const DEFAULT_KEEP_ALIVE: Duration = Duration::from_secs(4);

/// The longest, whatever the server says: balancers on the way may close sooner.
const KEEP_ALIVE_LIMIT: Duration = Duration::from_secs(45);

/// How much sooner than the server this side closes, so that a request seldom meets a connection that is just being closed.
const KEEP_ALIVE_MARGIN: Duration = Duration::from_secs(1);

const MIB: usize = 1024 * 1024;

/// The large messages that are received from one server at the same time, in MiB: two of the largest. Whatever comes beyond that waits
/// at the server. A message of unknown length needs room for the largest. Servers share no room: one that stops in the middle of a message holds
/// its room until its call times out.
const RECEIVING_LIMIT: u32 = 128;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

pub(super) struct Pool {
    pub(super) dialer: Dialer,
    tls: ArcSwap<TlsConfig>,
    connect_timeout: Duration,
    idle: Lock<Idle>,
    /// Room for large messages that are being received, in MiB.
    receiving: Arc<Semaphore>,
    /// Marked whenever the remote peer closed a connection that was idle.
    closes: watch::Sender<()>,
}

#[derive(Default)]
struct Idle {
    /// The one that was used last is the last.
    connections: Vec<IdleConnection>,
    /// The last of them, once its time is over: only its close is awaited.
    watched: Option<HttpConnection>,
    /// The task that closes idle connections, while there are any.
    sweeper: Option<Sweeper>,
}

/// A connection that waits for its next request.
struct IdleConnection {
    connection: HttpConnection,
    /// Since when it is idle.
    since: Instant,
    /// When it is closed.
    until: Instant,
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub(in crate::transport) enum ExchangeError {
    /// No connection was made in time.
    #[error("connecting took longer than {0:?}")]
    TooSlow(Duration),
    /// No connection could be made.
    #[error("no connection")]
    NotConnected(#[source] BoxError),
    /// The connection broke before the request was written.
    #[error("the connection broke at once")]
    NotWritten(#[source] hyper::Error),
    /// The connection broke while the answer was awaited.
    #[error("the connection broke")]
    Broken(#[from] hyper::Error),
    /// So much came that is no head of an answer.
    #[error("the server sends interim answers without end: {HEAD_LIMIT} bytes, and no answer")]
    NoHead,
    /// The answer cannot be decompressed.
    #[error("the answer cannot be decompressed")]
    Damaged(#[source] std::io::Error),
}

impl Pool {
    pub(super) fn new(dialer: Dialer, tls: TlsConfig, connect_timeout: Duration) -> Self {
        Self {
            dialer,
            tls: ArcSwap::from_pointee(tls),
            connect_timeout,
            idle: Lock::default(),
            receiving: Arc::new(Semaphore::new(RECEIVING_LIMIT as usize)),
            closes: watch::Sender::new(()),
        }
    }

    /// Waits for room to receive a message of this length.
    ///
    /// Cancel safety: dropping it takes no room.
    pub(super) async fn receiving_room(&self, length: usize) -> Option<OwnedSemaphorePermit> {
        let needed = u32::try_from(length.div_ceil(MIB)).unwrap_or(RECEIVING_LIMIT);
        let room = self
            .receiving
            .clone()
            .acquire_many_owned(needed.min(RECEIVING_LIMIT));
        // The semaphore is never closed.
        room.await.ok()
    }

    /// The room that is free, in MiB.
    #[cfg(test)]
    pub(super) fn free_receiving_room(&self) -> usize {
        self.receiving.available_permits()
    }

    /// Changes whenever the server closes a connection that was idle.
    pub(super) fn closes(&self) -> watch::Receiver<()> {
        self.closes.subscribe()
    }

    /// Sends a request and waits for the head of its answer.
    ///
    /// Cancel safety: dropping it closes the connection that the request went out on.
    pub(super) async fn send(self: &Arc<Self>, mut request: PoolRequest) -> Result<Response, ExchangeError> {
        loop {
            let kept = self.take();
            let is_kept = kept.is_some();
            let mut connection = match kept {
                Some(connection) => connection,
                // Boxed: few requests make a connection, and those that do not should not carry room for it.
                None => Box::pin(self.connect()).await?,
            };
            match connection.ask(request).await {
                Ok(answer) => return Ok(Response::new(answer, connection, self.clone())),
                // The remote peer closed a kept connection just now, and nothing was written: another will carry the request.
                Err(Unanswered {
                    returned: Some(again),
                    ..
                }) if is_kept => request = *again,
                Err(Unanswered { error, .. }) => return Err(error),
            }
        }
    }

    /// Keeps a connection for the next request, for so long at most.
    pub(super) fn keep(self: &Arc<Self>, connection: HttpConnection, kept: Duration) {
        if kept.is_zero() {
            return;
        }
        let since = Instant::now();
        let until = since + kept;
        let mut idle = self.idle.lock();
        idle.connections.push(IdleConnection {
            connection,
            since,
            until,
        });
        match &mut idle.sweeper {
            Some(sweeper) => sweeper.connection_came(),
            none => *none = Sweeper::start(self),
        }
    }

    /// From now on connections are encrypted so, and those that are not are used no more.
    pub(super) fn encrypt_with(&self, tls: TlsConfig) {
        self.tls.store(Arc::new(tls));
        let mut idle = self.idle.lock();
        let old = (std::mem::take(&mut idle.connections), idle.watched.take());
        drop(idle);
        drop(old);
    }

    async fn connect(&self) -> Result<HttpConnection, ExchangeError> {
        let tls = self.tls.load_full();
        let connecting = async {
            let stream = self
                .dialer
                .dial(&tls)
                .await
                .map_err(ExchangeError::NotConnected)?;
            HttpConnection::open(stream)
                .await
                .map_err(ExchangeError::NotWritten)
        };
        timeout(self.connect_timeout, connecting)
            .await
            .unwrap_or(Err(ExchangeError::TooSlow(self.connect_timeout)))
    }

    fn take(&self) -> Option<HttpConnection> {
        let now = Instant::now();
        loop {
            let mut idle = self.idle.lock();
            let Some(mut kept) = idle.connections.pop() else {
                // A server that serves one connection at a time could not accept the next one.
                let watched = idle.watched.take();
                drop(idle);
                drop(watched);
                return None;
            };
            drop(idle);
            let was_idle = now.saturating_duration_since(kept.since) >= LOOK_AFTER;
            if now < kept.until && kept.connection.is_ready(was_idle) {
                return Some(kept.connection);
            }
        }
    }
}

/// How long the connection that an answer with these headers came on may be kept.
pub(super) fn keep_alive(headers: &HeaderMap) -> Duration {
    let closes = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"close");
    if headers.get(CONNECTION).is_some_and(closes) {
        return Duration::ZERO;
    }
    let Some(timeout) = headers
        .get(KEEP_ALIVE)
        .and_then(|value| keep_alive_timeout(value.to_str().ok()?))
    else {
        return DEFAULT_KEEP_ALIVE;
    };
    // Of a short time a share is kept: a margin would leave nothing of it.
    timeout
        .saturating_sub(KEEP_ALIVE_MARGIN)
        .max(timeout.min(KEEP_ALIVE_MARGIN) / 2)
        .min(KEEP_ALIVE_LIMIT)
}

/// The `timeout` of a `Keep-Alive`.
fn keep_alive_timeout(value: &str) -> Option<Duration> {
    let mut parameters = value.split(',').filter_map(|parameter| parameter.split_once('='));
    let (_, seconds) = parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("timeout"))?;
    seconds
        .trim()
        .trim_matches('"')
        .parse()
        .ok()
        .map(Duration::from_secs)
}

#[cfg(test)]
mod tests;

/// How long a connection that came back may be closed before the sweeper notices.
const SWEEP_DELAY: Duration = Duration::from_secs(1);

/// How long the sweeper rests at most while it waits for the close of a connection, which wakes it.
const WATCH_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// The task that closes idle connections, and how to wake it. It ends when this is dropped.
///
/// One task waits for the close of each connection. It does not look at a connection the moment it comes back: in a busy
/// pool that would wake it for every request. It looks at all connections a second after one came, and then rests until one
/// is closed, has been kept long enough, or a new one comes.
pub(super) struct Sweeper {
    task: AbortHandle,
    new_connection: Arc<Notify>,
    /// Whether it waits for the close of every connection that is there.
    rests: bool,
}

impl Sweeper {
    /// None outside of a runtime: then nothing can be kept for long.
    pub(super) fn start(pool: &Arc<Pool>) -> Option<Self> {
        let runtime = Handle::try_current().ok()?;
        let new_connection = Arc::<Notify>::default();
        let task = runtime.spawn(sweep(Arc::downgrade(pool), new_connection.clone()));
        Some(Self {
            task: task.abort_handle(),
            new_connection,
            rests: false,
        })
    }

    /// Wakes the task for a connection that it has not seen, unless it is awake.
    pub(super) fn connection_came(&mut self) {
        if std::mem::take(&mut self.rests) {
            self.new_connection.notify_one();
        }
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn sweep(pool: Weak<Pool>, new_connection: Arc<Notify>) {
    loop {
        sleep(SWEEP_DELAY).await;
        loop {
            let look = poll_fn(|cx| Poll::Ready(pool.upgrade().and_then(|pool| pool.close_idle(cx))));
            let Some(next) = look.await else { return };
            let mut is_first = true;
            // Whatever wakes this task but the other two is a connection that has something to say.
            let stirred = poll_fn(|_| match std::mem::take(&mut is_first) {
                true => Poll::Pending,
                false => Poll::Ready(()),
            });
            tokio::select! {
                biased;
                () = new_connection.notified() => break,
                () = sleep_until(next) => {}
                () = stirred => {}
            }
        }
    }
}

impl Pool {
    /// Closes connections that were idle for too long, and drops those that the remote peer closed. The close of any other
    /// wakes the task. Returns when to look again at the latest; `None` ends the task.
    fn close_idle(&self, cx: &mut Context<'_>) -> Option<Instant> {
        let mut idle = self.idle.lock();
        let now = Instant::now();
        let is_closed = |kept: &mut IdleConnection| !kept.connection.is_open(cx);
        let mut over: Vec<_> = idle.connections.extract_if(.., is_closed).collect();
        let was_watched_closed = idle.watched.take_if(|watched| !watched.is_open(cx)).is_some();
        let was_closed = !over.is_empty() || was_watched_closed;
        let is_over = |kept: &mut IdleConnection| kept.until <= now;
        over.extend(idle.connections.extract_if(.., is_over));
        if idle.connections.is_empty()
            && idle.watched.is_none()
            && !was_closed
            && self.closes.receiver_count() > 0
        {
            idle.watched = over.pop().map(|kept| kept.connection);
        }
        let next = idle.connections.iter().map(|kept| kept.until).min();
        let next = next.or(idle.watched.is_some().then(|| now + WATCH_INTERVAL));
        let done = match &mut idle.sweeper {
            Some(sweeper) if next.is_some() => {
                sweeper.rests = true;
                None
            }
            there => there.take(),
        };
        drop(idle);
        drop((over, done));
        if was_closed {
            self.closes.send_replace(());
        }
        next
    }
}
