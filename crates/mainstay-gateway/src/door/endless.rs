//! A client that never stops writing, for tests.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::task::yield_now;

/// An input that is always ready, and counts its reads. Unlike the inputs of tokio it has no budget of its own.
pub(super) struct Endless {
    piece: Vec<u8>,
    reads: Arc<AtomicU32>,
}

impl Endless {
    /// Each read gives this piece, or as much of it as fits.
    pub(super) fn of(piece: impl Into<Vec<u8>>) -> Self {
        Self {
            piece: piece.into(),
            reads: Arc::default(),
        }
    }

    /// The most reads between two turns of another task, once there were so many. For a runtime of one thread, in which the
    /// reader runs as a task of its own.
    pub(super) fn most_reads_in_one_turn(&self, total: u32) -> impl Future<Output = u32> + use<> {
        let reads = self.reads.clone();
        async move {
            let (mut last, mut most) = (0, 0);
            while last < total {
                yield_now().await;
                let now = reads.load(Ordering::Relaxed);
                most = most.max(now - last);
                last = now;
            }
            most
        }
    }
}

impl AsyncRead for Endless {
    fn poll_read(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let length = self.piece.len().min(buffer.remaining());
        buffer.put_slice(&self.piece[..length]);
        Poll::Ready(Ok(()))
    }
}
