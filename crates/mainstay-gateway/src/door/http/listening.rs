//! Connections: how they are accepted, bounded, and ended.

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;

use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::entrance::Entrance;
use super::guard::Caller;
use super::hold_back::HoldBack;
use super::options::{DoorError, HttpDoor};
use super::patient::{Patient, Unread};
use super::peers::Peers;
use super::seldom::Seldom;
use crate::gateway::Gateway;

/// How long a connection may be open without a request on it: a client that is slow to send one, or that keeps the
/// connection for the next.
const BETWEEN_REQUESTS: Duration = Duration::from_secs(60);

/// How long a client may take to shake hands.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How long connections may take to send what is answered already, when everything else has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How long a connection that sends nothing then is taken to be sending yet. What it waits for is a client that has not
/// finished asking, and would be refused.
const MOMENT: Duration = Duration::from_millis(100);

/// Pause when the system has no connection to give: it is short of descriptors, and others must end first.
const NO_CONNECTION: Duration = Duration::from_millis(100);

/// What a client that finds no room is told.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

impl Gateway {
    /// Serves clients over HTTP, until `shutdown` is done and what runs then has ended, or has run out of time.
    ///
    /// `/mcp` is all servers as one, `/mcp/SERVER` is one of them, for Streamable HTTP in both eras; `/sse` and
    /// `/sse/SERVER` are the same for clients of HTTP+SSE.
    ///
    /// Cancel safety: dropping it ends all connections and whatever runs for them at once; sessions are lost.
    pub async fn serve_http(
        &self,
        listener: TcpListener,
        door: HttpDoor,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), DoorError> {
        let address = listener.local_addr()?;
        door.check(address)?;
        let entrance = Arc::new(Entrance::new(self.0.clone(), &door, address.ip()));
        let mut connections = Connections {
            tls: door.tls.map(TlsAcceptor::from),
            entrance,
            peers: Arc::default(),
            refused: Seldom::default(),
            tasks: JoinSet::new(),
        };
        connections.accept_until(&listener, shutdown).await;
        connections.entrance.drain();
        let finished = {
            let entrance = connections.entrance.clone();
            async move { entrance.busy.idle().await }
        };
        let within = connections.entrance.bounds.drain;
        let _ = timeout(within, connections.accept_until(&listener, finished)).await;
        connections.end().await;
        Ok(())
    }
}

struct Connections {
    entrance: Arc<Entrance>,
    tls: Option<TlsAcceptor>,
    peers: Arc<Peers>,
    refused: Seldom,
    tasks: JoinSet<()>,
}

impl Connections {
    async fn accept_until(&mut self, listener: &TcpListener, end: impl Future<Output = ()>) {
        let mut end = pin!(end);
        let mut sweep = interval(sweep_each(self.entrance.bounds.session_idle));
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                // A connection that has ended makes room before another is let in.
                biased;
                () = &mut end => return,
                Some(_) = self.tasks.join_next() => {}
                _ = sweep.tick() => self.entrance.sessions.sweep(Instant::now()),
                (stream, peer) = accept(listener) => self.take(stream, peer),
            }
        }
    }

    fn take(&mut self, stream: TcpStream, peer: SocketAddr) {
        let bounds = &self.entrance.bounds;
        let has_room = self.tasks.len() < bounds.connections;
        let seat = has_room.then(|| {
            self.peers
                .seat(Caller::from_peer(peer.ip()), bounds.connections_of_peer)
        });
        let Some(seat) = seat.flatten() else {
            if let Some(refused) = self.refused.count(Instant::now()) {
                let (limit, of_one) = (bounds.connections, bounds.connections_of_peer);
                let connections = self.tasks.len();
                tracing::warn!(%peer, connections, limit, per_address = of_one, refused, "no room for another connection");
            }
            if self.tls.is_none() {
                // It fits into the empty buffer of a new connection, or is lost.
                let _ = stream.try_write(FULL);
            }
            return;
        };
        // Without it small answers wait for the acknowledgement of what went before.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "the connection is gone already");
            return;
        }
        let (entrance, tls) = (self.entrance.clone(), self.tls.clone());
        self.tasks.spawn(async move {
            let _seat = seat;
            match tls {
                None => talk(entrance, stream, peer.ip()).await,
                // Boxed, as it is the larger by far: a connection without it is to take no more than it needs.
                Some(tls) => Box::pin(talk_secretly(tls, entrance, stream, peer)).await,
            }
        });
    }

    /// Ends everything that is left.
    async fn end(mut self) {
        self.entrance.close();
        self.entrance.sessions.end_all();
        let last_words = async {
            while self.tasks.join_next().await.is_some() {}
            // What ran for a session was cancelled, and needs a moment to notice.
            self.entrance.busy.idle().await;
        };
        if timeout(LAST_WORDS, last_words).await.is_err() {
            self.tasks.shutdown().await;
        }
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        self.entrance.sessions.end_all();
    }
}

/// Shakes hands with one client, and talks HTTP with it.
async fn talk_secretly(tls: TlsAcceptor, entrance: Arc<Entrance>, stream: TcpStream, peer: SocketAddr) {
    let shaken = tokio::select! {
        shaken = timeout(HANDSHAKE, tls.accept(stream)) => shaken,
        () = entrance.closing() => return,
    };
    match shaken {
        Ok(Ok(stream)) => talk(entrance, stream, peer.ip()).await,
        Ok(Err(error)) => tracing::debug!(%peer, %error, "no handshake"),
        Err(_) => tracing::debug!(%peer, "no handshake in time"),
    }
}

/// Talks HTTP with one client.
async fn talk<S>(entrance: Arc<Entrance>, stream: S, peer: IpAddr)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let hold_back = Arc::<HoldBack>::default();
    let service = service_fn(|request| {
        // Boxed, so that a connection holds room for a request only while there is one.
        let handled = Box::pin(entrance.clone().handle(peer, hold_back.clone(), request));
        async move { Ok::<_, Infallible>(handled.await) }
    });
    let stream = Patient::new(stream);
    let unread = stream.unread();
    let talk = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(BETWEEN_REQUESTS)
        .serve_connection(TokioIo::new(stream), service);
    let mut talk = pin!(talk);
    let over = tokio::select! {
        over = talk.as_mut() => over,
        () = entrance.closing() => {
            // What is answered already is still sent.
            talk.as_mut().graceful_shutdown();
            tokio::select! {
                over = talk => over,
                () = all_is_said(&entrance, &unread) => return,
            }
        }
    };
    if let Err(error) = over {
        tracing::debug!(%peer, %error, "a connection broke");
    }
}

/// Comes back when a connection that ends has nothing left to send.
async fn all_is_said(entrance: &Entrance, unread: &Unread) {
    entrance.busy.idle().await;
    loop {
        sleep(MOMENT).await;
        if !unread.is_some() {
            return;
        }
    }
}

async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                sleep(NO_CONNECTION).await;
            }
        }
    }
}

/// How often all sessions are looked at: often enough that none lives much longer than it may.
fn sweep_each(idle: Duration) -> Duration {
    (idle / 4).clamp(Duration::from_millis(10), Duration::from_secs(60))
}
