//! The connections of the daemon: a stream of which the first bytes were read, and an input that ends when the daemon does.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::watch;

use mainstay_bridge::hello::{EndReason, LINE_LIMIT};

/// How much is read at once.
const READ_SIZE: usize = 8 * 1024;

/// A connection whose first bytes were looked at. Reading it begins with them.
pub(super) struct PeekedStream {
    head: BytesMut,
    stream: UnixStream,
}

impl PeekedStream {
    /// Reads the first bytes; `None` if there are none.
    pub(super) async fn peek(mut stream: UnixStream) -> io::Result<Option<Self>> {
        let mut head = BytesMut::with_capacity(READ_SIZE);
        let read = stream.read_buf(&mut head).await?;
        Ok((read > 0).then_some(Self { head, stream }))
    }

    pub(super) fn first_byte(&self) -> Option<u8> {
        self.head.first().copied()
    }

    /// Takes the first line.
    pub(super) async fn read_line(&mut self) -> io::Result<Vec<u8>> {
        let mut searched = 0;
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.head[searched..]) {
                let mut line = self.head.split_to(searched + at + 1).to_vec();
                line.pop();
                return Ok(line);
            }
            searched = self.head.len();
            if searched > LINE_LIMIT {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.head.reserve(READ_SIZE);
            if self.stream.read_buf(&mut self.head).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    pub(super) fn into_parts(self) -> (BytesMut, UnixStream) {
        (self.head, self.stream)
    }

    pub(super) fn get_mut(&mut self) -> &mut UnixStream {
        &mut self.stream
    }
}

impl AsyncRead for PeekedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.head.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        take(&mut self.head, buffer);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for PeekedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

fn take(head: &mut BytesMut, buffer: &mut ReadBuf<'_>) {
    let length = head.len().min(buffer.remaining());
    buffer.put_slice(&head[..length]);
    head.advance(length);
    if head.is_empty() {
        *head = BytesMut::new();
    }
}

/// What a bridge sends after its first line, until the bridge closes its side or the daemon ends. The end of the daemon is an error: the
/// line that is being read goes to the next daemon as a whole.
pub(super) struct BridgeInput<R> {
    head: BytesMut,
    input: R,
    ending: Pin<Box<dyn Future<Output = ()> + Send>>,
    is_ended: bool,
}

impl<R> BridgeInput<R> {
    pub(super) fn new(head: BytesMut, input: R, mut ending: watch::Receiver<Option<EndReason>>) -> Self {
        Self {
            head,
            input,
            ending: Box::pin(async move {
                let _ = ending.wait_for(Option::is_some).await;
            }),
            is_ended: false,
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for BridgeInput<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_ended || self.ending.as_mut().poll(context).is_ready() {
            self.is_ended = true;
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        if !self.head.is_empty() {
            take(&mut self.head, buffer);
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.input).poll_read(context, buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_of_the_daemon_is_not_taken_for_the_end_of_what_a_bridge_sends() {
        let (ending, ended) = watch::channel(None);
        let mut input = BridgeInput::new(BytesMut::from(&b"{\"half"[..]), tokio::io::empty(), ended);
        let mut read = [0; 64];
        assert_eq!(input.read(&mut read).await.unwrap(), 6);
        assert_eq!(
            input.read(&mut read).await.unwrap(),
            0,
            "the bridge has closed its side"
        );
        ending.send_replace(Some(EndReason::Restart));
        for _ in 0..2 {
            assert!(input.read(&mut read).await.is_err());
        }
    }
}
