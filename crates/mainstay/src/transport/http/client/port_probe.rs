//! Finds out whether a server's port or socket accepts connections, and when it does again.
//!
//! Nothing tells a client that a port listens again, so it is probed with connections that are closed at once: often at
//! first, since a server that restarts is back in milliseconds, and less often the longer it is unreachable.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, sleep, timeout};

use super::fraction;

/// The shortest pause between two probes. A refused one on the same machine takes some 0.1 ms.
const MIN_PROBE_INTERVAL: Duration = Duration::from_millis(5);

/// The longest pause between two probes. One refused connection a second costs a host next to nothing.
const MAX_PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// The pause is this fraction of the time that the server has been unreachable, so it prolongs an outage only a little.
const OUTAGE_FRACTION: u32 = 20;

/// How long one probe may take. A probe that takes longer was not refused, and is left to the dial.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Where a server accepts connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PortProbe {
    /// A port of a host.
    Port {
        /// The name or address of the host.
        host: String,
        /// The port.
        port: u16,
    },
    /// A unix-domain socket.
    Socket(PathBuf),
}

impl PortProbe {
    /// Probes until a connection is accepted. `since` is when the server was first found unreachable.
    ///
    /// Cancel safety: dropping it ends the probing.
    pub(crate) async fn wait_until_reachable(&self, since: Instant) {
        loop {
            sleep(pause(since.elapsed())).await;
            if let Ok(Ok(())) = timeout(PROBE_TIMEOUT, self.probe()).await {
                return;
            }
        }
    }

    /// Why the port or socket accepts no connection now, if it certainly does not.
    ///
    /// Cancel safety: dropping it ends the probe.
    pub(super) async fn refusal(&self) -> Option<io::Error> {
        let probed = timeout(PROBE_TIMEOUT, self.probe()).await.ok()?;
        probed
            .err()
            .filter(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    }

    async fn probe(&self) -> io::Result<()> {
        match self {
            Self::Port { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                refuse_self_connection(stream).map(drop)
            }
            Self::Socket(path) => UnixStream::connect(path).await.map(drop),
        }
    }
}

/// Refuses a connection that was made to itself. Where no process listens on a local port, the system may choose this very
/// port as the client's own, and the connection succeeds without a server.
pub(super) fn refuse_self_connection(stream: TcpStream) -> io::Result<TcpStream> {
    if stream.local_addr()? == stream.peer_addr()? {
        // Left to close in its own time, it would keep the port from the server for a minute.
        stream.set_zero_linger()?;
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    Ok(stream)
}

/// The pause before the next probe of a server that has been unreachable for so long. Half of it is random, so that many
/// clients do not probe at the same moment.
fn pause(unreachable: Duration) -> Duration {
    let longest = (unreachable / OUTAGE_FRACTION).clamp(MIN_PROBE_INTERVAL, MAX_PROBE_INTERVAL);
    longest.mul_f64(0.5 + fraction() / 2.0)
}

#[cfg(test)]
mod tests {
    use mainstay_testkit::http::Port;
    use tokio::net::{TcpListener, UnixListener};

    use super::*;

    #[test]
    fn the_pause_grows_with_the_outage_up_to_a_second() {
        for (unreachable, longest) in [
            (Duration::ZERO, MIN_PROBE_INTERVAL),
            (Duration::from_secs(2), Duration::from_millis(100)),
            (Duration::from_secs(20), MAX_PROBE_INTERVAL),
            (Duration::from_secs(86_400), MAX_PROBE_INTERVAL),
        ] {
            for _ in 0..100 {
                let pause = pause(unreachable);
                assert!(
                    longest / 2 <= pause && pause <= longest,
                    "{pause:?} after {unreachable:?}"
                );
            }
        }
    }

    #[tokio::test]
    async fn a_port_is_reachable_once_a_process_listens() {
        let port = Port::free().unwrap();
        let probe = PortProbe::Port {
            host: "127.0.0.1".to_owned(),
            port: port.number(),
        };
        assert_eq!(
            probe.probe().await.unwrap_err().kind(),
            io::ErrorKind::ConnectionRefused
        );
        let waiting = tokio::spawn(async move { probe.wait_until_reachable(Instant::now()).await });
        let listener = TcpListener::bind(port.address()).await.unwrap();
        listener.accept().await.unwrap();
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn a_socket_that_does_not_exist_yet_is_unreachable() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mcp.sock");
        let probe = PortProbe::Socket(path.clone());
        assert_eq!(probe.probe().await.unwrap_err().kind(), io::ErrorKind::NotFound);
        let _listener = UnixListener::bind(path).unwrap();
        probe.wait_until_reachable(Instant::now()).await;
    }

    #[tokio::test]
    async fn a_connection_to_itself_is_refused() {
        // The system may choose this port by chance; here the test binds it.
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let own = socket.local_addr().unwrap();
        let itself = refuse_self_connection(socket.connect(own).await.unwrap());
        assert_eq!(itself.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);

        let listener = TcpListener::bind(own).await.expect("the port is free at once");
        let another = TcpStream::connect(listener.local_addr().unwrap()).await;
        assert!(refuse_self_connection(another.unwrap()).is_ok());
    }
}
