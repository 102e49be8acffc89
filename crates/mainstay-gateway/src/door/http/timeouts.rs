//! The timers of one connection: how long the client may take to read, and to send the head of a request; and how long the
//! head of a response is held back.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use mainstay::transport::Turn;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::limits::ConnectionActivity;

use crate::lock::lock;

/// How long a client may read nothing of what is written to it.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a connection may stay open between two requests.
pub(super) const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(60);

/// How long the head of a request may take from its first byte. A client sends it at once, and a slow network needs seconds.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the head of a response is held back. After that the client gets a stream: it learns where to resume it, and
/// no proxy takes the silence for the end.
pub(super) const HOLD_BACK_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection that fails when its client does not read, sends no request, or does not finish the head of one in time.
pub(super) struct WriteTimeout<S> {
    stream: S,
    activity: Arc<ConnectionActivity>,
    /// The head of the next request, while no request runs.
    awaited: Option<AwaitedHead>,
    /// Runs while a head is awaited. It stays registered with the runtime between requests, as that of [`HeadTimer`] does.
    silent: Option<Pin<Box<Sleep>>>,
    /// Runs while the client reads nothing.
    blocked: Option<Pin<Box<Sleep>>>,
    unread: Arc<UnreadOutput>,
    /// A client that never stops writing must not keep the thread to itself.
    turn: Turn,
}

/// The head of a request that is not complete.
#[derive(Clone, Copy)]
struct AwaitedHead {
    /// How many requests came before it.
    requests: u64,
    /// Since when it is awaited, or since its first byte.
    since: Instant,
    has_begun: bool,
}

/// Whether something was written that the client has not read yet.
#[derive(Default)]
pub(super) struct UnreadOutput(AtomicBool);

impl UnreadOutput {
    pub(super) fn is_some(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl<S> WriteTimeout<S> {
    pub(super) fn new(stream: S, activity: Arc<ConnectionActivity>) -> Self {
        Self {
            stream,
            activity,
            awaited: None,
            silent: None,
            blocked: None,
            unread: Arc::default(),
            turn: Turn::new(),
        }
    }

    /// Tells whether the client has yet to read, also after the connection was given to hyper.
    pub(super) fn unread(&self) -> Arc<UnreadOutput> {
        self.unread.clone()
    }

    /// Passes on the outcome of a write, or fails if the client has read nothing for too long.
    fn limit_write<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        self.unread.0.store(written.is_pending(), Ordering::Relaxed);
        if written.is_ready() {
            self.activity.touch();
            self.blocked = None;
            return written;
        }
        let blocked = self.blocked.get_or_insert_with(|| Box::pin(sleep(WRITE_TIMEOUT)));
        ready!(blocked.as_mut().poll(context));
        // Armed again, in case of another write.
        blocked.as_mut().reset(Instant::now() + WRITE_TIMEOUT);
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client does not read",
        )))
    }

    /// Waits until the client has taken too long to begin a request, or to finish the head of one. While a request runs, this
    /// never returns.
    fn poll_silent(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        if !self.activity.is_idle() {
            return Poll::Pending;
        }
        let awaited = self.awaited.get_or_insert_with(|| AwaitedHead {
            requests: self.activity.requests(),
            since: Instant::now(),
            has_begun: false,
        });
        loop {
            let (timeout, what) = match awaited.has_begun {
                false => (KEEP_ALIVE_TIMEOUT, "the client sent no request"),
                true => (HEAD_TIMEOUT, "the head of a request did not arrive in time"),
            };
            let until = awaited.since + timeout;
            let timer = self.silent.get_or_insert_with(|| Box::pin(sleep_until(until)));
            if timer.deadline() != until {
                timer.as_mut().reset(until);
            }
            ready!(timer.as_mut().poll(context));
            if awaited.has_begun || !self.unread.is_some() {
                return Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, what));
            }
            // The client still reads the last answer, and has a time of its own for that.
            awaited.since = Instant::now();
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.turn.poll_over(context));
        let requests = self.activity.requests();
        // Once its request has begun, a head is complete.
        self.awaited = self.awaited.filter(|head| head.requests == requests);
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let bytes = buffer.filled().len() - before;
        if read.is_pending() {
            // The task waits now, and others run.
            self.turn = Turn::new();
            return self.poll_silent(context).map(Err);
        }
        self.turn.count_message();
        self.turn.count_bytes(bytes);
        // What arrives while a request is being answered is its body.
        let has_begun = self.awaited.is_some_and(|head| head.has_begun);
        if bytes > 0 && !has_begun && self.activity.is_idle() {
            self.awaited = Some(AwaitedHead {
                requests,
                since: Instant::now(),
                has_begun: true,
            });
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.limit_write(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.limit_write(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.limit_write(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.limit_write(shut, context)
    }
}

/// The timer that all requests of one connection share. It stays registered with the runtime between them: to reset it costs
/// little, while each new timer that is the next to fire wakes the runtime by a system call.
pub(super) struct HeadTimer {
    /// The number of the connection, which no other connection of this process has.
    pub(super) connection: u64,
    timer: Mutex<Option<Pin<Box<Sleep>>>>,
}

impl Default for HeadTimer {
    fn default() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self {
            connection: LAST.fetch_add(1, Ordering::Relaxed),
            timer: Mutex::default(),
        }
    }
}

impl HeadTimer {
    /// Waits for [`HOLD_BACK_TIMEOUT`] from now on.
    ///
    /// Cancel safety: if the future is dropped, the next request can use the timer.
    pub(super) async fn wait(&self) {
        let until = Instant::now() + HOLD_BACK_TIMEOUT;
        let timer = match lock(&self.timer).take() {
            Some(mut timer) => {
                timer.as_mut().reset(until);
                timer
            }
            None => Box::pin(sleep_until(until)),
        };
        let mut borrowed = BorrowedTimer {
            owner: self,
            timer: Some(timer),
        };
        if let Some(timer) = &mut borrowed.timer {
            timer.as_mut().await;
        }
    }
}

/// Gives the timer back to its connection when it is dropped.
struct BorrowedTimer<'a> {
    owner: &'a HeadTimer,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Drop for BorrowedTimer<'_> {
    fn drop(&mut self) {
        *lock(&self.owner.timer) = self.timer.take();
    }
}

#[cfg(test)]
mod tests;
