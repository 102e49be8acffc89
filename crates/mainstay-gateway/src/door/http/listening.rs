//! Connections: how they are accepted, bounded, and ended.

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;

use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::body::Body;
use super::guard::Caller;
use super::head_timer::HeadTimer;
use super::options::{DoorError, HttpDoor};
use super::peers::{Peers, Presence, Seated};
use super::seldom::Seldom;
use super::service::HttpService;
use super::write_timeout::{Unread, WriteTimeout};
use crate::budget::Reclaim;
use crate::gateway::Gateway;

/// How long a connection may be open without a request on it, while there is room: a client keeps it for its next request.
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
        let service = Arc::new(HttpService::new(self.0.clone(), &door, address.ip()));
        let keeper: Weak<dyn Reclaim> = Arc::<HttpService>::downgrade(&service);
        self.0.budget.reclaim_from(keeper);
        let bounds = &door.bounds;
        let peers = Arc::new(Peers::new(bounds.connections, bounds.connections_of_peer));
        let mut connections = Connections {
            tls: door.tls.map(TlsAcceptor::from),
            service,
            peers,
            refused: Seldom::default(),
            gave_way: Seldom::default(),
            tasks: JoinSet::new(),
        };
        connections.accept_until(&listener, shutdown).await;
        connections.service.drain();
        let finished = {
            let service = connections.service.clone();
            async move { service.busy.idle().await }
        };
        let within = connections.service.bounds.drain;
        let _ = timeout(within, connections.accept_until(&listener, finished)).await;
        connections.end().await;
        Ok(())
    }
}

struct Connections {
    service: Arc<HttpService>,
    tls: Option<TlsAcceptor>,
    peers: Arc<Peers>,
    refused: Seldom,
    gave_way: Seldom,
    tasks: JoinSet<()>,
}

impl Connections {
    async fn accept_until(&mut self, listener: &TcpListener, end: impl Future<Output = ()>) {
        let mut end = pin!(end);
        let mut sweep = interval(sweep_each(self.service.bounds.session_idle));
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                // A connection that has ended makes room before another is let in.
                biased;
                () = &mut end => return,
                Some(_) = self.tasks.join_next() => {}
                _ = sweep.tick() => self.service.sessions.sweep(Instant::now()),
                (stream, peer) = accept(listener) => self.take(stream, peer),
            }
        }
    }

    fn take(&mut self, stream: TcpStream, peer: SocketAddr) {
        let bounds = &self.service.bounds;
        let (limit, per_address) = (bounds.connections, bounds.connections_of_peer);
        let Ok(seated) = self.peers.seat(Caller::from_peer(peer.ip())) else {
            if let Some(refused) = self.refused.count(Instant::now()) {
                let connections = self.peers.count();
                tracing::warn!(%peer, connections, limit, per_address, refused, "no room for another connection");
            }
            if self.tls.is_none() {
                // It fits into the empty buffer of a new connection, or is lost.
                let _ = stream.try_write(FULL);
            }
            return;
        };
        let Seated {
            seat,
            another_gave_way,
        } = seated;
        if another_gave_way && let Some(given_way) = self.gave_way.count(Instant::now()) {
            tracing::warn!(
                %peer,
                limit,
                per_address,
                given_way,
                "as many connections are open as may be: the longest idle gives way to a new one"
            );
        }
        // Without it small answers wait for the acknowledgement of what went before.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "the connection is gone already");
            return;
        }
        let (service, tls) = (self.service.clone(), self.tls.clone());
        self.tasks.spawn(async move {
            let presence = seat.presence();
            let talking = async {
                match tls {
                    None => talk(service, stream, peer.ip(), presence).await,
                    // Boxed, as it is the larger by far: a connection without it is to take no more than it needs.
                    Some(tls) => Box::pin(serve_tls(tls, service, stream, peer, presence)).await,
                }
            };
            tokio::select! {
                biased;
                () = presence.gave_way() => tracing::debug!(%peer, "an idle connection gave way"),
                () = talking => {}
            }
        });
    }

    /// Ends everything that is left.
    async fn end(mut self) {
        self.service.close();
        self.service.sessions.end_all();
        let last_words = async {
            while self.tasks.join_next().await.is_some() {}
            // What ran for a session was cancelled, and needs a moment to notice.
            self.service.busy.idle().await;
        };
        if timeout(LAST_WORDS, last_words).await.is_err() {
            self.tasks.shutdown().await;
        }
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        self.service.sessions.end_all();
    }
}

/// Shakes hands with one client, and talks HTTP with it.
async fn serve_tls(
    tls: TlsAcceptor,
    service: Arc<HttpService>,
    stream: TcpStream,
    peer: SocketAddr,
    presence: &Arc<Presence>,
) {
    let shaken = tokio::select! {
        shaken = timeout(HANDSHAKE, tls.accept(stream)) => shaken,
        () = service.closing() => return,
    };
    match shaken {
        Ok(Ok(stream)) => talk(service, stream, peer.ip(), presence).await,
        Ok(Err(error)) => tracing::debug!(%peer, %error, "no handshake"),
        Err(_) => tracing::debug!(%peer, "no handshake in time"),
    }
}

/// Talks HTTP with one client.
async fn talk<S>(service: Arc<HttpService>, stream: S, peer: IpAddr, presence: &Arc<Presence>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let head_timer = Arc::<HeadTimer>::default();
    let handler = service_fn(|request| {
        // Boxed, so that a connection holds room for a request only while there is one.
        let handled = Box::pin(handle(
            service.clone(),
            peer,
            presence,
            head_timer.clone(),
            request,
        ));
        async move { Ok::<_, Infallible>(handled.await) }
    });
    let stream = WriteTimeout::new(stream, presence.clone());
    let unread = stream.unread();
    let talk = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(BETWEEN_REQUESTS)
        .serve_connection(TokioIo::new(stream), handler);
    let mut talk = pin!(talk);
    let over = tokio::select! {
        over = talk.as_mut() => over,
        () = service.closing() => {
            // What is answered already is still sent.
            talk.as_mut().graceful_shutdown();
            tokio::select! {
                over = talk => over,
                () = all_is_said(&service, &unread) => return,
            }
        }
    };
    if let Err(error) = over {
        tracing::debug!(%peer, %error, "a connection broke");
    }
}

/// Answers one request. Its connection gives way to no other meanwhile, and while the stream is open that it is answered
/// with.
async fn handle(
    service: Arc<HttpService>,
    peer: IpAddr,
    presence: &Arc<Presence>,
    head_timer: Arc<HeadTimer>,
    request: Request<Incoming>,
) -> Response<Body> {
    let exchange = presence.begin().await;
    let mut response = service.handle(peer, head_timer, request).await;
    if let Some(reading) = response.body_mut().events() {
        reading.keep_while_read(exchange);
    }
    response
}

/// Comes back when a connection that ends has nothing left to send.
async fn all_is_said(service: &HttpService, unread: &Unread) {
    service.busy.idle().await;
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
