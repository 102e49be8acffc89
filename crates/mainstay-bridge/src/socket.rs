//! Connections to the daemon's socket.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

/// Connects, or fails at once. A daemon that is stopped accepts no connections: when its queue is full, this fails with
/// [`WouldBlock`](io::ErrorKind::WouldBlock), where a plain connect would wait for ever.
pub(crate) fn connect(path: &Path) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(true)?;
    rustix::net::connect(&stream, &address)?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Whether a process listens there, even if it accepts nothing now.
pub fn is_listening(path: &Path) -> bool {
    match connect(path) {
        Ok(_) => true,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{bind, listen};

    use super::*;

    #[test]
    fn a_full_queue_refuses_at_once_and_counts_as_listening() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        assert!(!is_listening(&path));
        let listener = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&listener, 1).unwrap();
        let mut queued = Vec::new();
        let refused = loop {
            match connect(&path) {
                Ok(stream) => queued.push(stream),
                Err(error) => break error,
            }
            assert!(queued.len() < 1000);
        };
        #[cfg(target_os = "linux")]
        {
            assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
            assert!(is_listening(&path));
        }
        #[cfg(not(target_os = "linux"))]
        drop(refused);
    }
}
