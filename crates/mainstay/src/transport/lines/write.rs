//! Takes frames from the lanes and writes them, as many at a time as are waiting.

use std::convert::Infallible;
use std::io;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::Receiver;

use super::lane::Lane;
use crate::transport::{Frame, Turn};

/// Small frames are gathered up to this many bytes, to go out in one write.
const GATHERED: usize = 16 * 1024;

/// A frame of this length or more is written from where it lies.
const LARGE: usize = 8 * 1024;

/// Writes until writing fails.
pub(super) async fn run<W: AsyncWrite + Unpin>(
    writer: W,
    ordered: &Lane,
    mut urgent: Receiver<Frame>,
) -> io::Result<Infallible> {
    let mut sink = Sink {
        writer,
        gathered: Vec::new(),
    };
    let mut turn = Turn::new();
    loop {
        let frame = tokio::select! {
            biased;
            Some(frame) = urgent.recv() => frame,
            frame = ordered.next() => frame,
        };
        sink.put(&frame).await?;
        turn.count_message();
        turn.count_bytes(frame.bytes().len());
        // One of each in turn: neither lane can starve the other.
        while !turn.is_over() {
            let waiting = [ordered.try_next(), urgent.try_recv().ok()];
            if waiting.iter().all(Option::is_none) {
                break;
            }
            for frame in waiting.iter().flatten() {
                sink.put(frame).await?;
                turn.count_message();
                turn.count_bytes(frame.bytes().len());
            }
        }
        // What has begun goes out before the others have their turn.
        sink.flush().await?;
        turn.yield_if_over().await;
    }
}

struct Sink<W> {
    writer: W,
    gathered: Vec<u8>,
}

impl<W: AsyncWrite + Unpin> Sink<W> {
    /// Adds one line. A frame begins when it is gathered, and what is gathered goes out before anything else is
    /// waited for.
    async fn put(&mut self, frame: &Frame) -> io::Result<()> {
        let bytes = frame.bytes();
        if self.gathered.len() + bytes.len() >= GATHERED || bytes.len() >= LARGE {
            self.write_gathered().await?;
        }
        if !frame.begin() {
            return Ok(());
        }
        if bytes.len() >= LARGE {
            self.writer.write_all(bytes).await?;
        } else {
            self.gathered.extend_from_slice(bytes);
        }
        self.gathered.push(b'\n');
        Ok(())
    }

    async fn flush(&mut self) -> io::Result<()> {
        self.write_gathered().await?;
        self.writer.flush().await
    }

    async fn write_gathered(&mut self) -> io::Result<()> {
        self.writer.write_all(&self.gathered).await?;
        self.gathered.clear();
        Ok(())
    }
}
