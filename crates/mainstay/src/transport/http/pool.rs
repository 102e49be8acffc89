//! The connections to one server that wait for their next request.
//!
//! Each request takes one of them or makes its own, so one slow answer never holds another back. The one that was used last
//! is taken first; one that nobody has used for as long as its server keeps it is closed, and one that its server closes is
//! let go. Both are the
//! business of one task, which is there as long as anything waits: see `sweeping`.

mod sweeping;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::ClientConfig;
use tokio::time::{Instant, timeout};

use super::dialling::{BoxError, Dialling};
use super::line::{HEAD_LIMIT, Line, Request, Response, Unanswered};
use sweeping::Sweeper;

/// A connection that was idle for so long may have been closed without this process having heard of it; the system is asked,
/// which costs a system call. Busy connections are spared it.
const LOOK_AFTER: Duration = Duration::from_millis(20);

pub(super) struct Pool {
    pub(super) dialling: Dialling,
    tls: ArcSwap<ClientConfig>,
    connect_timeout: Duration,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    /// The one that was used last is the last.
    lines: Vec<Kept>,
    /// Who closes those that nobody uses, and lets go of those that are closed, while there are any.
    sweeper: Option<Sweeper>,
}

/// A connection that waits for its next request.
struct Kept {
    line: Line,
    /// Since when nobody uses it.
    since: Instant,
    /// When it is closed.
    until: Instant,
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub(in crate::transport) enum Mishap {
    /// No connection was made in time.
    #[error("connecting took too long")]
    TooSlow,
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
    pub(super) fn new(dialling: Dialling, tls: ClientConfig, connect_timeout: Duration) -> Self {
        Self {
            dialling,
            tls: ArcSwap::from_pointee(tls),
            connect_timeout,
            idle: Mutex::default(),
        }
    }

    /// Sends a request and waits for the head of its answer.
    ///
    /// Cancel safety: dropping it closes the connection that the request went out on.
    pub(super) async fn send(self: &Arc<Self>, mut request: Request) -> Result<Response, Mishap> {
        while let Some(mut line) = self.take() {
            match line.ask(request).await {
                Ok(answer) => return Ok(Response::new(answer, line, self.clone())),
                // It was closed by the far side just now, and nothing was written: another will carry the request.
                Err(Unanswered::Returned(again, _)) => request = *again,
                Err(Unanswered::NotWritten(error)) => return Err(Mishap::NotWritten(error)),
                Err(Unanswered::Broken(error)) => return Err(Mishap::Broken(error)),
                Err(Unanswered::NoHead) => return Err(Mishap::NoHead),
            }
        }
        // Boxed: few requests make a connection, and those that do not should not carry room for it.
        let mut line = Box::pin(self.connect()).await?;
        match line.ask(request).await {
            Ok(answer) => Ok(Response::new(answer, line, self.clone())),
            Err(Unanswered::Returned(_, error) | Unanswered::NotWritten(error)) => {
                Err(Mishap::NotWritten(error))
            }
            Err(Unanswered::Broken(error)) => Err(Mishap::Broken(error)),
            Err(Unanswered::NoHead) => Err(Mishap::NoHead),
        }
    }

    /// Keeps a connection for the next request, for so long at most.
    pub(super) fn keep(self: &Arc<Self>, line: Line, kept: Duration) {
        if kept.is_zero() {
            return;
        }
        let since = Instant::now();
        let until = since + kept;
        let mut idle = self.idle();
        idle.lines.push(Kept { line, since, until });
        match &mut idle.sweeper {
            Some(sweeper) => sweeper.line_came(),
            none => *none = Sweeper::start(self),
        }
    }

    /// From now on connections are encrypted so, and those that are not are used no more.
    pub(super) fn encrypt_with(&self, tls: ClientConfig) {
        self.tls.store(Arc::new(tls));
        let old = std::mem::take(&mut self.idle().lines);
        drop(old);
    }

    async fn connect(&self) -> Result<Line, Mishap> {
        let tls = self.tls.load_full();
        let connecting = async {
            let stream = self.dialling.dial(&tls).await.map_err(Mishap::NotConnected)?;
            Line::open(stream).await.map_err(Mishap::NotWritten)
        };
        timeout(self.connect_timeout, connecting)
            .await
            .unwrap_or(Err(Mishap::TooSlow))
    }

    fn take(&self) -> Option<Line> {
        let now = Instant::now();
        loop {
            let mut kept = self.idle().lines.pop()?;
            let was_idle = now.saturating_duration_since(kept.since) >= LOOK_AFTER;
            if now < kept.until && kept.line.is_ready(was_idle) {
                return Some(kept.line);
            }
        }
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
