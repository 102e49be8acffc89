//! The connections to one server that wait for their next request.
//!
//! Each request takes one of them or makes its own, so one slow answer never holds another back. The one that was used last
//! is taken first; one that nobody has used for a while is closed, and one that its server closes is let go. Both are the
//! business of one task, which is there as long as anything waits: see `sweeping`.

mod sweeping;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::ClientConfig;
use tokio::time::{Instant, timeout};

use super::dialling::{BoxError, Dialling};
use super::line::{Line, Request, Response};
use sweeping::Sweeper;

pub(super) struct Pool {
    pub(super) dialling: Dialling,
    tls: ArcSwap<ClientConfig>,
    connect_timeout: Duration,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    /// With the moment since which each is unused, the latest last.
    lines: Vec<(Line, Instant)>,
    /// Who closes those that nobody uses, and lets go of those that are closed, while there are any.
    sweeper: Option<Sweeper>,
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
                Err(mut unsent) => match unsent.take_message() {
                    Some(again) => request = again,
                    None => return Err(Mishap::Broken(unsent.into_error())),
                },
            }
        }
        // Boxed: few requests make a connection, and those that do not should not carry room for it.
        let mut line = Box::pin(self.connect()).await?;
        match line.ask(request).await {
            Ok(answer) => Ok(Response::new(answer, line, self.clone())),
            Err(failed) if failed.message().is_some() => Err(Mishap::NotWritten(failed.into_error())),
            Err(failed) => Err(Mishap::Broken(failed.into_error())),
        }
    }

    /// Keeps a connection for the next request.
    pub(super) fn keep(self: &Arc<Self>, line: Line) {
        let mut idle = self.idle();
        idle.lines.push((line, Instant::now()));
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
        loop {
            let (mut line, _) = self.idle().lines.pop()?;
            if line.is_ready() {
                return Some(line);
            }
        }
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
