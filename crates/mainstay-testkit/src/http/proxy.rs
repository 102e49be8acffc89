//! A loopback TCP proxy: the network between a client and a server, in the hands of a test.
//!
//! It forwards bytes and knows nothing of HTTP. Each setting holds for open connections and for later ones.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Bytes forwarded at a time; small enough for a hold to strike in the middle of a large answer.
const PIECE: usize = 4 * 1024;

/// A proxy in front of one loopback port. Dropping it closes its listener and cuts its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a free loopback port and forwards to `target`, which need not listen yet.
    ///
    /// # Errors
    /// When no port can be bound.
    ///
    /// # Cancel safety
    /// Safe: a proxy that is not returned does not exist.
    pub async fn start(target: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            network: watch::Sender::new(Network::default()),
            counts: watch::Sender::new(ProxyCounts::default()),
        });
        let accepting = tokio::spawn(accept(listener, target, Arc::clone(&shared)));
        Ok(Self {
            address,
            shared,
            accepting,
        })
    }

    /// The port it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// `http://127.0.0.1:PORT` with this path.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Closes all open connections, on both sides. New ones are accepted as before.
    pub fn cut(&self) {
        self.shared.network.send_modify(|network| network.cuts += 1);
    }

    /// Whether new connections are closed as soon as they are accepted. Open ones go on.
    pub fn refuse(&self, refuse: bool) {
        self.shared.network.send_modify(|network| network.refuse = refuse);
    }

    /// Whether bytes are kept back, in both directions, on connections that stay open: a network gone silent.
    pub fn hold(&self, hold: bool) {
        self.shared.network.send_modify(|network| network.hold = hold);
    }

    /// How long each piece takes on its way, in either direction.
    pub fn delay(&self, delay: Duration) {
        self.shared.network.send_modify(|network| network.delay = delay);
    }

    /// What has passed so far.
    #[must_use]
    pub fn counts(&self) -> ProxyCounts {
        *self.shared.counts.borrow()
    }

    /// Waits until the counts satisfy `holds`; `false` when `limit` has passed first.
    ///
    /// # Cancel safety
    /// Safe: it only looks.
    pub async fn wait_until(&self, limit: Duration, mut holds: impl FnMut(&ProxyCounts) -> bool) -> bool {
        let mut counts = self.shared.counts.subscribe();
        let reached = counts.wait_for(|counts| holds(counts));
        matches!(tokio::time::timeout(limit, reached).await, Ok(Ok(_)))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

/// What a proxy has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProxyCounts {
    /// Connections accepted and forwarded.
    pub accepted: usize,
    /// Connections closed unserved, because the proxy refuses or its target does.
    pub refused: usize,
    /// Connections open now.
    pub open: usize,
    /// Bytes forwarded from clients to the server.
    pub to_server: u64,
    /// Bytes forwarded from the server to clients.
    pub to_client: u64,
}

#[derive(Debug)]
struct Shared {
    network: watch::Sender<Network>,
    counts: watch::Sender<ProxyCounts>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Network {
    /// How many cuts there were; a connection ends when it sees one more than at its start.
    cuts: u64,
    refuse: bool,
    hold: bool,
    delay: Duration,
}

async fn accept(listener: TcpListener, target: u16, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let network = *shared.network.borrow();
        if network.refuse {
            shared.counts.send_modify(|counts| counts.refused += 1);
            continue;
        }
        tokio::spawn(forward(client, target, network.cuts, Arc::clone(&shared)));
    }
}

async fn forward(client: TcpStream, target: u16, cuts: u64, shared: Arc<Shared>) {
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)).await else {
        shared.counts.send_modify(|counts| counts.refused += 1);
        return;
    };
    // A delay of the kernel's own making would be mistaken for one of the test's.
    let _plain = client.set_nodelay(true).and_then(|()| server.set_nodelay(true));
    shared.counts.send_modify(|counts| {
        counts.accepted += 1;
        counts.open += 1;
    });
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let mut network = shared.network.subscribe();
    tokio::select! {
        _ = network.wait_for(|network| network.cuts > cuts) => {}
        ((), ()) = async {
            tokio::join!(
                pump(from_client, to_server, &shared, |counts, bytes| counts.to_server += bytes),
                pump(from_server, to_client, &shared, |counts, bytes| counts.to_client += bytes),
            )
        } => {}
    }
    shared.counts.send_modify(|counts| counts.open -= 1);
}

/// Forwards one direction to its end, and then closes it: the other direction may go on.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: &Shared,
    count: fn(&mut ProxyCounts, u64),
) {
    let mut network = shared.network.subscribe();
    let mut piece = [0; PIECE];
    loop {
        let read = from.read(&mut piece).await.unwrap_or(0);
        let delay = network.borrow().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        // The sender is in `shared`, so the wait cannot fail; what it yields is a lock, not to be kept.
        let _ = network.wait_for(|network| !network.hold).await;
        if read == 0 || to.write_all(&piece[..read]).await.is_err() {
            return;
        }
        shared.counts.send_modify(|counts| count(counts, read as u64));
    }
}

#[cfg(test)]
mod tests;
