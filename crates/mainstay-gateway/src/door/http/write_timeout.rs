//! A connection that waits for its client to read, and to finish the head of a request, but not for ever.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use mainstay::transport::Turn;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::peers::Presence;

/// How long a client may take nothing of what is written to it.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long the head of a request may take from its first byte, whatever trickles in meanwhile: a client sends it at once,
/// and a slow network within seconds.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct WriteTimeout<S> {
    stream: S,
    presence: Arc<Presence>,
    head: Head,
    /// Runs while the client takes nothing.
    waiting: Option<Pin<Box<Sleep>>>,
    unread: Arc<Unread>,
    /// A client that never stops writing must not keep the thread to itself.
    turn: Turn,
}

/// How far the head of a request has come.
enum Head {
    /// Nothing of it is there.
    Awaited,
    /// Something of it is there since then, after so many requests. Nearly always the rest is there too, and no timer is
    /// needed.
    Begun(Instant, u64),
    /// It did not come at once, after so many requests.
    Slow(Pin<Box<Sleep>>, u64),
}

/// Whether something is written to a client that it has yet to take.
#[derive(Default)]
pub(super) struct Unread(AtomicBool);

impl Unread {
    pub(super) fn is_some(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl<S> WriteTimeout<S> {
    pub(super) fn new(stream: S, presence: Arc<Presence>) -> Self {
        Self {
            stream,
            presence,
            head: Head::Awaited,
            waiting: None,
            unread: Arc::default(),
            turn: Turn::new(),
        }
    }

    /// Tells, also when the connection is in other hands, whether its client has yet to read.
    pub(super) fn unread(&self) -> Arc<Unread> {
        self.unread.clone()
    }

    /// What came of a write: progress, or more waiting than there is patience for.
    fn judge<T>(&mut self, written: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        self.unread.0.store(written.is_pending(), Ordering::Relaxed);
        if written.is_ready() {
            self.presence.touch();
            self.waiting = None;
            return written;
        }
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(PATIENCE)));
        ready!(waiting.as_mut().poll(context));
        // Armed again, should somebody go on writing.
        waiting.as_mut().reset(Instant::now() + PATIENCE);
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client does not read",
        )))
    }
}

impl<S: AsyncRead + Unpin> WriteTimeout<S> {
    /// Reads on, unless the head of a request takes too long.
    fn read_in_time(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let after = self.presence.exchanges();
        if let Head::Begun(_, begun) | Head::Slow(_, begun) = self.head
            && begun != after
        {
            // It came, and its request began.
            self.head = Head::Awaited;
        }
        if let Head::Begun(since, _) = self.head {
            let left = (since + HEAD_TIMEOUT).saturating_duration_since(Instant::now());
            self.head = Head::Slow(Box::pin(sleep(left)), after);
        }
        if let Head::Slow(timer, _) = &mut self.head
            && timer.as_mut().poll(context).is_ready()
        {
            let what = "the head of a request did not come in time";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, what)));
        }
        ready!(self.turn.poll_over(context));
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let is_something = buffer.filled().len() > before;
        match read.is_pending() {
            // The task waits now, and the others run.
            true => self.turn = Turn::new(),
            false => {
                self.turn.count_message();
                self.turn.count_bytes(buffer.filled().len() - before);
            }
        }
        // What is read while a request is being answered is its body.
        if is_something && matches!(self.head, Head::Awaited) && self.presence.is_waiting() {
            self.head = Head::Begun(Instant::now(), after);
        }
        read
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.read_in_time(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.judge(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(shut, context)
    }
}

#[cfg(test)]
mod tests;
