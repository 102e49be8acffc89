//! Standard input and output, without a thread between them and the runtime where that can be.
//!
//! Hosts start servers with pipes or, as Node does, with sockets; both can be polled. Anything else, a terminal or a
//! file, is read and written by threads of the runtime.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::fs::FileType;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;

/// Where the client writes.
pub(crate) type StandardInput = Box<dyn AsyncRead + Send + Unpin>;

pub(crate) fn input() -> StandardInput {
    let stdin = io::stdin();
    if let Some(pipe) =
        owned(&stdin, FileType::Fifo).and_then(|fd| pipe::Receiver::from_file(File::from(fd)).ok())
    {
        return Box::new(pipe);
    }
    match owned(&stdin, FileType::Socket).and_then(stream) {
        Some(stream) => Box::new(stream),
        None => Box::new(tokio::io::stdin()),
    }
}

/// Where the client reads.
pub(crate) fn output() -> Box<dyn AsyncWrite + Send + Unpin> {
    let stdout = io::stdout();
    if let Some(pipe) =
        owned(&stdout, FileType::Fifo).and_then(|fd| pipe::Sender::from_file(File::from(fd)).ok())
    {
        return Box::new(pipe);
    }
    match owned(&stdout, FileType::Socket).and_then(stream) {
        Some(stream) => Box::new(stream),
        None => Box::new(tokio::io::stdout()),
    }
}

/// An input that ends at its end of file, or as soon as `end` is signalled.
pub(crate) struct EndsEarly<R> {
    input: R,
    /// Signalled, or dropped, when nothing more is to be read.
    end: oneshot::Receiver<()>,
    ended: bool,
}

impl<R> EndsEarly<R> {
    pub(crate) fn new(input: R, end: oneshot::Receiver<()>) -> Self {
        Self {
            input,
            end,
            ended: false,
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for EndsEarly<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // A receiver must not be polled again after it completed.
        if self.ended || Pin::new(&mut self.end).poll(context).is_ready() {
            self.ended = true;
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.input).poll_read(context, buffer)
    }
}

/// A descriptor of its own for what is of this kind.
fn owned(standard: &impl AsFd, kind: FileType) -> Option<OwnedFd> {
    let fd = standard.as_fd();
    let status = rustix::fs::fstat(fd).ok()?;
    (FileType::from_raw_mode(status.st_mode) == kind).then(|| fd.try_clone_to_owned().ok())?
}

fn stream(fd: OwnedFd) -> Option<UnixStream> {
    let stream = StdStream::from(fd);
    stream.set_nonblocking(true).ok()?;
    UnixStream::from_std(stream).ok()
}
