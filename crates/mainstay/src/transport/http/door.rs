//! Whether somebody is there: a connection that is made and closed at once, and nothing said on it.
//!
//! Nothing tells a client that a port listens again, so it knocks: often at first, since a server that restarts is back
//! in milliseconds, and ever less often while that is vain.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, sleep, timeout};

use super::pace::fraction;

/// The shortest pause between two knocks: a vain one on the same machine takes some 0.1 ms.
const SHORTEST: Duration = Duration::from_millis(5);

/// The longest pause between two knocks: a connection a second that is refused costs a host next to nothing.
const LONGEST: Duration = Duration::from_secs(1);

/// Whoever was away so many times as long as a pause is not kept waiting by it: what a return costs is a small share of
/// the time that the server was away.
const SHARE: u32 = 20;

/// How long one knock may take. What takes longer was not refused, and is left to the dial.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where a server lets its clients in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Door {
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

impl Door {
    /// Knocks until it is opened. `since` is when nobody was there for the first time.
    ///
    /// Cancel safety: dropping it ends the knocking.
    pub(crate) async fn opens(&self, since: Instant) {
        loop {
            sleep(pause(since.elapsed())).await;
            if timeout(PATIENCE, self.knock())
                .await
                .is_ok_and(|knock| knock.is_ok())
            {
                return;
            }
        }
    }

    async fn knock(&self) -> io::Result<()> {
        match self {
            Self::Port { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                not_to_itself(stream).map(drop)
            }
            Self::Socket(path) => UnixStream::connect(path).await.map(drop),
        }
    }
}

/// The connection, unless it was made to itself: then there is nobody, as when it is refused. On one machine the system may
/// choose as a client's own port the very port that it wants to reach, when nobody listens there.
pub(super) fn not_to_itself(stream: TcpStream) -> io::Result<TcpStream> {
    if stream.local_addr()? == stream.peer_addr()? {
        // Left to close in its own time, it would keep the port from the server for a minute.
        stream.set_zero_linger()?;
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    Ok(stream)
}

/// The pause before the next knock at a door that has been shut for so long: half of it is left to chance, so that a herd
/// of clients spreads.
fn pause(shut: Duration) -> Duration {
    let longest = (shut / SHARE).clamp(SHORTEST, LONGEST);
    longest.mul_f64(0.5 + fraction() / 2.0)
}

#[cfg(test)]
mod tests {
    use mainstay_testkit::http::Port;
    use tokio::net::{TcpListener, UnixListener};

    use super::*;

    #[test]
    fn knocks_are_a_share_of_the_absence_apart_and_no_less_often_than_once_a_second() {
        for (shut, longest) in [
            (Duration::ZERO, SHORTEST),
            (Duration::from_secs(2), Duration::from_millis(100)),
            (Duration::from_secs(20), LONGEST),
            (Duration::from_secs(86_400), LONGEST),
        ] {
            for _ in 0..100 {
                let pause = pause(shut);
                assert!(
                    longest / 2 <= pause && pause <= longest,
                    "{pause:?} after {shut:?}"
                );
            }
        }
    }

    #[tokio::test]
    async fn a_door_opens_when_somebody_listens() {
        let port = Port::free().unwrap();
        let door = Door::Port {
            host: "127.0.0.1".to_owned(),
            port: port.number(),
        };
        assert_eq!(
            door.knock().await.unwrap_err().kind(),
            io::ErrorKind::ConnectionRefused
        );
        let opens = tokio::spawn(async move { door.opens(Instant::now()).await });
        let listener = TcpListener::bind(port.address()).await.unwrap();
        listener.accept().await.unwrap();
        opens.await.unwrap();
    }

    #[tokio::test]
    async fn a_socket_that_is_not_there_yet_is_a_shut_door() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mcp.sock");
        let door = Door::Socket(path.clone());
        assert_eq!(door.knock().await.unwrap_err().kind(), io::ErrorKind::NotFound);
        let _listener = UnixListener::bind(path).unwrap();
        door.opens(Instant::now()).await;
    }

    #[tokio::test]
    async fn a_connection_to_itself_is_nobody_there() {
        // The system would choose so by chance; here it is told to.
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let own = socket.local_addr().unwrap();
        let itself = not_to_itself(socket.connect(own).await.unwrap());
        assert_eq!(itself.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);

        let listener = TcpListener::bind(own).await.expect("the port is free at once");
        let another = TcpStream::connect(listener.local_addr().unwrap()).await;
        assert!(not_to_itself(another.unwrap()).is_ok());
    }
}
