//! The two halves of a bridge's socket.
//!
//! Tokio registers a `UnixStream` for reading and writing at once. The kernel then reports after every answer that the bridge has read
//! that the socket can be written: a wake-up of the daemon for nothing in each call. Here the reading half is registered for reading
//! only, and the writing half only while the socket is full. Tokio's ends of a pipe are registered so, and read and write any
//! descriptor.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::net::{SendFlags, Shutdown, send, shutdown};
use tokio::io::AsyncWrite;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// What a bridge sends.
pub(super) type SocketReader = pipe::Receiver;

/// Splits a socket.
pub(super) fn split(stream: UnixStream) -> io::Result<(SocketReader, SocketWriter)> {
    let socket = OwnedFd::from(stream.into_std()?);
    let writer = SocketWriter {
        socket: socket.try_clone()?,
        full: None,
    };
    Ok((SocketReader::from_owned_fd_unchecked(socket)?, writer))
}

/// What a bridge is sent.
#[derive(Debug)]
pub(super) struct SocketWriter {
    socket: OwnedFd,
    /// The socket again, registered while it is full.
    full: Option<pipe::Sender>,
}

impl AsyncWrite for SocketWriter {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let full = match &mut self.full {
            Some(full) => full,
            None => match send(&self.socket, bytes, SendFlags::NOSIGNAL).map_err(io::Error::from) {
                Err(error) if is_passing(&error) => {
                    // A descriptor of its own: one descriptor cannot be registered twice.
                    let socket = self.socket.try_clone()?;
                    self.full.insert(pipe::Sender::from_owned_fd_unchecked(socket)?)
                }
                ended => return Poll::Ready(ended),
            },
        };
        Pin::new(full).poll_write(context, bytes)
    }

    /// All that was written is with the kernel. No message waits, so the registration ends.
    fn poll_flush(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.full = None;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(shutdown(self.socket.as_fd(), Shutdown::Write).map_err(io::Error::from))
    }
}

/// The bridge sees the end of what it is sent, even while the reading half lives on.
impl Drop for SocketWriter {
    fn drop(&mut self) {
        let _is_closed_already = shutdown(self.socket.as_fd(), Shutdown::Write);
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::timeout;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn a_message_larger_than_the_socket_holds_arrives_whole_and_the_registration_ends() {
        let (socket, mut bridge) = UnixStream::pair().unwrap();
        let (_reader, mut writer) = split(socket).unwrap();
        let message: Vec<u8> = (0..4_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        let sent = message.clone();
        let writing = tokio::spawn(async move {
            writer.write_all(&sent).await.unwrap();
            assert!(writer.full.is_some(), "the socket was full");
            writer.flush().await.unwrap();
            assert!(writer.full.is_none());
            writer.write_all(b"end").await.unwrap();
            assert!(writer.full.is_none(), "a short message needs no registration");
            writer
        });
        let mut received = vec![0; message.len() + 3];
        let read = timeout(LIMIT, bridge.read_exact(&mut received)).await;
        read.expect("the rest is sent when there is room").unwrap();
        assert!(received[..message.len()] == message[..] && received.ends_with(b"end"));
        drop(writing.await.unwrap());
        let end = timeout(LIMIT, bridge.read(&mut [0])).await;
        assert_eq!(
            end.expect("the writer closed its side while the reader lives")
                .unwrap(),
            0
        );
    }

    #[tokio::test]
    async fn the_reader_gets_what_the_bridge_sends_until_it_closes() {
        let (socket, mut bridge) = UnixStream::pair().unwrap();
        let (mut reader, writer) = split(socket).unwrap();
        drop(writer);
        bridge.write_all(b"one").await.unwrap();
        let mut received = [0; 8];
        assert_eq!(reader.read(&mut received).await.unwrap(), 3);
        let reading = tokio::spawn(async move {
            let mut rest = Vec::new();
            reader.read_to_end(&mut rest).await.unwrap();
            rest
        });
        bridge.write_all(b"two").await.unwrap();
        drop(bridge);
        let rest = timeout(LIMIT, reading).await.expect("the end is seen").unwrap();
        assert_eq!(rest, b"two");
    }

    #[tokio::test]
    async fn writing_to_a_bridge_that_is_gone_is_an_error() {
        let (socket, bridge) = UnixStream::pair().unwrap();
        let (_reader, mut writer) = split(socket).unwrap();
        drop(bridge);
        let error = writer.write_all(b"late").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
