//! Connections: how they are accepted, limited, and ended.

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::guard::HttpCaller;
use super::limits::{ActiveRequest, ConnectionActivity, ConnectionLimiter, LogLimiter};
use super::options::{DoorError, HttpDoor};
use super::response::ResponseBody;
use super::service::HttpService;
use super::timeouts::{HeadTimer, UnreadOutput, WriteTimeout};
use crate::budget::Reclaim;
use crate::gateway::Gateway;

/// How long the TLS handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long connections may take to send finished answers, when everything else has ended.
const LAST_ANSWERS_GRACE: Duration = Duration::from_secs(1);

/// A closing connection that has sent nothing for this long has nothing more to send.
const SENT_GRACE: Duration = Duration::from_millis(100);

/// How long to wait after the system could not accept a connection, for lack of descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// How long the answer on a connection above the limit may take. It fits into the empty buffer of a new connection.
const REFUSAL_TIMEOUT: Duration = Duration::from_millis(100);

/// The answer on a connection above the limit. Nothing was read from it, so no request has run.
const TOO_MANY_CONNECTIONS: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\nconnection: close\r\n\
    content-type: application/json\r\ncontent-length: 142\r\n\r\n\
    {\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32000,\"message\":\"too many connections to the gateway\",\
    \"data\":{\"mainstay\":{\"outcome\":\"not_sent\"}}}}";

/// Where clients connect to the HTTP door: a [`TcpListener`], or anything else that yields streams of bytes.
pub trait HttpListener: Send {
    /// The connection of one client.
    type Connection: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Waits for the next connection. The address is that of its client, by which the door limits clients.
    ///
    /// Cancel safety: a future that is dropped must lose no connection.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Connection, SocketAddr)>> + Send;

    /// Where clients connect. The door checks names in `Host` and needs a token depending on it.
    fn local_addr(&self) -> io::Result<SocketAddr>;
}

impl HttpListener for TcpListener {
    type Connection = TcpStream;

    async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, peer) = Self::accept(self).await?;
        // Otherwise small answers wait for the acknowledgement of earlier ones. If it fails, the connection is gone already,
        // which its first read reports.
        let _ = stream.set_nodelay(true);
        Ok((stream, peer))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Self::local_addr(self)
    }
}

impl Gateway {
    /// Serves clients over HTTP until `shutdown` completes. Then it refuses new requests, and returns when the running ones
    /// have ended or run out of time.
    ///
    /// `/mcp` is all servers as one, `/mcp/SERVER` is one of them, for Streamable HTTP in both eras; `/sse` and
    /// `/sse/SERVER` are the same for clients of HTTP+SSE.
    ///
    /// Cancel safety: dropping the future ends all connections, requests and sessions at once.
    pub async fn serve_http(
        &self,
        mut listener: impl HttpListener,
        door: HttpDoor,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), DoorError> {
        let address = listener.local_addr()?;
        door.check(address)?;
        let service = Arc::new(HttpService::new(self.0.clone(), &door, address));
        let reclaim: Weak<dyn Reclaim> = Arc::<HttpService>::downgrade(&service);
        self.0.budget.reclaim_from(reclaim);
        let limits = &door.limits;
        let limiter = ConnectionLimiter::new(limits.connections, limits.connections_per_peer);
        let mut connections = Connections {
            tls: door.tls.map(TlsAcceptor::from),
            service,
            limiter: Arc::new(limiter),
            refusals: LogLimiter::default(),
            evictions: LogLimiter::default(),
            tasks: JoinSet::new(),
        };
        connections.accept_until(&mut listener, shutdown).await;
        connections.service.drain();
        let finished = {
            let service = connections.service.clone();
            async move { service.idle().await }
        };
        let within = connections.service.limits.drain;
        let _ = timeout(within, connections.accept_until(&mut listener, finished)).await;
        connections.end().await;
        Ok(())
    }
}

struct Connections {
    service: Arc<HttpService>,
    tls: Option<TlsAcceptor>,
    limiter: Arc<ConnectionLimiter>,
    refusals: LogLimiter,
    evictions: LogLimiter,
    tasks: JoinSet<()>,
}

impl Connections {
    async fn accept_until(&mut self, listener: &mut impl HttpListener, end: impl Future<Output = ()>) {
        let mut end = pin!(end);
        let mut sweep = interval(sweep_interval(self.service.limits.session_idle));
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut tokens = self.service.guard.tokens.changes();
        loop {
            tokio::select! {
                // A connection that has ended makes room before the next is accepted.
                biased;
                () = &mut end => return,
                Some(_) = self.tasks.join_next() => {}
                Ok(()) = tokens.changed() => self.service.end_revoked(),
                _ = sweep.tick() => self.service.sessions.sweep(Instant::now()),
                (stream, peer) = accept(listener) => self.start(stream, peer).await,
            }
        }
    }

    /// Starts the task of a new connection, unless there are too many.
    async fn start<S>(&mut self, mut stream: S, peer: SocketAddr)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let limits = &self.service.limits;
        let (limit, per_address) = (limits.connections, limits.connections_per_peer);
        let Ok(permit) = self.limiter.admit(HttpCaller::from_peer(peer.ip())) else {
            if let Some(refused) = self.refusals.count(Instant::now()) {
                let connections = self.limiter.count();
                tracing::warn!(%peer, connections, limit, per_address, refused, "too many connections: refused a new one");
            }
            if self.tls.is_none() {
                let _ = timeout(REFUSAL_TIMEOUT, stream.write_all(TOO_MANY_CONNECTIONS)).await;
            }
            return;
        };
        if permit.evicted_another
            && let Some(evicted) = self.evictions.count(Instant::now())
        {
            tracing::warn!(
                %peer,
                limit,
                per_address,
                evicted,
                "too many connections: the longest idle one was closed"
            );
        }
        let (service, tls) = (self.service.clone(), self.tls.clone());
        self.tasks.spawn(async move {
            let activity = &permit.activity;
            let serving = async {
                match tls {
                    None => serve(service, stream, peer.ip(), activity).await,
                    // Boxed, as it is far larger: plain connections need not reserve its size.
                    Some(tls) => Box::pin(serve_tls(tls, service, stream, peer, activity)).await,
                }
            };
            tokio::select! {
                biased;
                () = activity.evicted() => tracing::debug!(%peer, "an idle connection was closed for another"),
                () = serving => {}
            }
        });
    }

    /// Cuts what still runs, and ends all sessions and connections.
    async fn end(mut self) {
        self.service.close();
        let last_answers = async {
            // Each request is answered before its session ends, which would cancel it.
            self.service.idle().await;
            self.service.sessions.end_all();
            while self.tasks.join_next().await.is_some() {}
        };
        if timeout(LAST_ANSWERS_GRACE, last_answers).await.is_err() {
            self.tasks.shutdown().await;
        }
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        self.service.sessions.end_all();
    }
}

/// Serves one client over TLS.
async fn serve_tls<S>(
    tls: TlsAcceptor,
    service: Arc<HttpService>,
    stream: S,
    peer: SocketAddr,
    activity: &Arc<ConnectionActivity>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let handshake = tokio::select! {
        handshake = timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)) => handshake,
        () = service.closing() => return,
    };
    match handshake {
        Ok(Ok(stream)) => serve(service, stream, peer.ip(), activity).await,
        Ok(Err(error)) => tracing::debug!(%peer, %error, "the TLS handshake failed"),
        Err(_) => tracing::debug!(%peer, "the TLS handshake timed out"),
    }
}

/// Serves one client over HTTP.
async fn serve<S>(service: Arc<HttpService>, stream: S, peer: IpAddr, activity: &Arc<ConnectionActivity>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let head_timer = Arc::<HeadTimer>::default();
    let handler = service_fn(|request| {
        // Begun here, as hyper reads once more before it polls the handler: the head has arrived, and needs no timer.
        let active = activity.begin_request();
        // Boxed, so that a connection needs memory for a request only while there is one.
        let handled = Box::pin(handle(service.clone(), peer, active, head_timer.clone(), request));
        async move { Ok::<_, Infallible>(handled.await) }
    });
    let stream = WriteTimeout::new(stream, activity.clone());
    let unread = stream.unread();
    let connection = http1::Builder::new()
        // The stream has timers of its own for this.
        .header_read_timeout(None)
        // hyper's panics at a time that has no HTTP date, such as one after the year 9999. The service adds one that does not.
        .auto_date_header(false)
        .serve_connection(TokioIo::new(stream), handler);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = service.closing() => {
            // Finished answers are still sent.
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection => ended,
                () = wait_until_sent(&service, &unread) => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "a connection broke");
    }
}

/// Answers one request. Its connection is not idle meanwhile, nor while a stream that answers it is open. On an evicted
/// connection, which has no active request and is about to end, this never returns.
async fn handle(
    service: Arc<HttpService>,
    peer: IpAddr,
    active: Option<ActiveRequest>,
    head_timer: Arc<HeadTimer>,
    request: Request<Incoming>,
) -> Response<ResponseBody> {
    let Some(active) = active else {
        return std::future::pending().await;
    };
    let mut response = service.handle(peer, head_timer, request).await;
    response.body_mut().keep_active(active);
    response
}

/// Waits until a closing connection has nothing more to send. It may still wait for the rest of a request, which would be
/// refused.
async fn wait_until_sent(service: &HttpService, unread: &UnreadOutput) {
    service.idle().await;
    loop {
        sleep(SENT_GRACE).await;
        if !unread.is_some() {
            return;
        }
    }
}

async fn accept<L: HttpListener>(listener: &mut L) -> (L::Connection, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

/// How often to look for idle sessions: often enough that none lives much longer than it may.
fn sweep_interval(idle: Duration) -> Duration {
    (idle / 4).clamp(Duration::from_millis(10), Duration::from_secs(60))
}
