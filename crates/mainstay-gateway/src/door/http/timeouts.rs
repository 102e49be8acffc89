//! The timers of one connection: how long the client may take to read, and to send the head of a request; and how long the
//! head of a response is held back.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use mainstay::transport::Turn;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::limits::ConnectionActivity;

/// How long a client may read nothing of what is written to it.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the head of a request may take from its first byte. A client sends it at once, and a slow network needs seconds.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the head of a response is held back. After that the client gets a stream: it learns where to resume it, and
/// no proxy takes the silence for the end.
pub(super) const HOLD_BACK_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection that fails when its client does not read, or does not finish the head of a request, in time.
pub(super) struct WriteTimeout<S> {
    stream: S,
    activity: Arc<ConnectionActivity>,
    head: HeadProgress,
    /// Runs while the client reads nothing.
    blocked: Option<Pin<Box<Sleep>>>,
    unread: Arc<UnreadOutput>,
    /// A client that never stops writing must not keep the thread to itself.
    turn: Turn,
}

/// How much of the head of a request has arrived. Each counts the requests before it.
enum HeadProgress {
    Nothing,
    /// Something, since then. Nearly always the rest has arrived too, and no timer is needed.
    Begun(Instant, u64),
    /// The rest did not arrive at once.
    Slow(Pin<Box<Sleep>>, u64),
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
            head: HeadProgress::Nothing,
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
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.turn.poll_over(context));
        let requests = self.activity.requests();
        if let HeadProgress::Begun(_, before) | HeadProgress::Slow(_, before) = self.head
            && before != requests
        {
            // The head is complete: its request has begun.
            self.head = HeadProgress::Nothing;
        }
        if let HeadProgress::Begun(since, _) = self.head {
            let left = (since + HEAD_TIMEOUT).saturating_duration_since(Instant::now());
            self.head = HeadProgress::Slow(Box::pin(sleep(left)), requests);
        }
        if let HeadProgress::Slow(timer, _) = &mut self.head
            && timer.as_mut().poll(context).is_ready()
        {
            let what = "the head of a request did not arrive in time";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, what)));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let bytes = buffer.filled().len() - before;
        match read.is_pending() {
            // The task waits now, and others run.
            true => self.turn = Turn::new(),
            false => {
                self.turn.count_message();
                self.turn.count_bytes(bytes);
            }
        }
        // What arrives while a request is being answered is its body.
        if bytes > 0 && matches!(self.head, HeadProgress::Nothing) && self.activity.is_idle() {
            self.head = HeadProgress::Begun(Instant::now(), requests);
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
        let timer = match self.timer().take() {
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

    fn timer(&self) -> MutexGuard<'_, Option<Pin<Box<Sleep>>>> {
        self.timer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives the timer back to its connection when it is dropped.
struct BorrowedTimer<'a> {
    owner: &'a HeadTimer,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Drop for BorrowedTimer<'_> {
    fn drop(&mut self) {
        *self.owner.timer() = self.timer.take();
    }
}

#[cfg(test)]
mod tests;
