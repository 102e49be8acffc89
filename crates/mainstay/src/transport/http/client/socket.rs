//! What the system knows of a connection before the runtime does.
//!
//! A server may close a kept connection at any moment. A request that is written to it then may have been read or not, and
//! nothing tells which. Two things are certain: a close that this machine has received before the request is written, and
//! a request of which the system took no byte. Both are known here; in either case the request did not run.

use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::transport::Turn;

/// Shared between a connection and the line that is made of it.
#[derive(Debug, Default)]
pub(super) struct SocketCounters {
    /// Whether the next read asks the system, even if the runtime knows of nothing to read.
    look: AtomicBool,
    /// Bytes that the system took.
    written: AtomicU64,
    /// Bytes that came.
    read: AtomicU64,
}

impl SocketCounters {
    /// Lets the next read ask the system. The runtime may not have noticed yet that data came.
    pub(super) fn look(&self) {
        self.look.store(true, Ordering::Relaxed);
    }

    /// How many bytes the system has taken so far.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// How many bytes have come so far.
    pub(super) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }
}

/// A socket with its counters. Its reader yields after each turn, even one that never waits, such as hyper's while interim
/// answers come.
#[derive(Debug)]
pub(super) struct CountedSocket<T> {
    socket: T,
    counters: Arc<SocketCounters>,
    turn: Turn,
}

impl<T: AsFd> CountedSocket<T> {
    pub(super) fn new(socket: T) -> (Self, Arc<SocketCounters>) {
        let counters = Arc::<SocketCounters>::default();
        let counted = Self {
            socket,
            counters: counters.clone(),
            turn: Turn::new(),
        };
        (counted, counters)
    }

    fn count(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &written {
            self.counters.written.fetch_add(*bytes as u64, Ordering::Relaxed);
        }
        written
    }
}

impl<T: AsyncRead + AsFd + Unpin> AsyncRead for CountedSocket<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        std::task::ready!(self.turn.poll_over(cx));
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(cx, buffer);
        if read.is_ready() {
            let came = buffer.filled().len() - before;
            self.turn.count_bytes(came);
            self.counters.read.fetch_add(came as u64, Ordering::Relaxed);
            return read;
        }
        self.turn = Turn::new();
        if !self.counters.look.swap(false, Ordering::Relaxed) {
            return read;
        }
        // The runtime has set the socket to non-blocking, and wakes this task when there is something to read.
        // One byte says as much as many, and there is mostly none: no room has to be made for more.
        let room = buffer.remaining().min(1);
        match rustix::io::read(&self.socket, buffer.initialize_unfilled_to(room)) {
            Ok(bytes) => {
                buffer.advance(bytes);
                Poll::Ready(Ok(()))
            }
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error.into())),
        }
    }
}

impl<T: AsyncWrite + AsFd + Unpin> AsyncWrite for CountedSocket<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.count(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, pieces);
        self.count(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
