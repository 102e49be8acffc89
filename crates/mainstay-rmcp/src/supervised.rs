//! The public side: the settings of a supervised server, and the transport that rmcp makes of them.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use mainstay::transport::Limits;
use mainstay::{Server, ServerConfig};
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::{IntoTransport, Transport};
use tokio::io::{DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::session::Session;

/// Enough for the whole stop schedule: close the input, 2 s, SIGTERM, 2 s, SIGKILL, and the sweep.
const DEFAULT_CLOSE_TIMEOUT: Duration = Duration::from_secs(6);

/// How many bytes may wait between the client and the session in each direction. A side that does not read stops the other one.
const BUFFER_SIZE: usize = 64 * 1024;

/// The longest message to the client. rmcp drops a longer one without an answer, so the limit is above that of servers: the gateway
/// adds an id and a few fields of `_meta` to what a server sends.
const MESSAGE_LIMIT: usize = Limits::DEFAULT_MESSAGE + 64 * 1024;

/// A supervised server, to be served by an rmcp client.
#[must_use = "nothing is started before a client serves it"]
pub struct Supervised {
    config: ServerConfig,
    store: Option<PathBuf>,
    close_timeout: Duration,
    started: watch::Sender<Option<Server>>,
}

/// Makes a server a transport for rmcp: `().serve(supervised(config))`.
///
/// The server is started when the client has sent its first request, because Mainstay introduces the client to it by its own name and
/// capabilities.
pub fn supervised(config: impl Into<ServerConfig>) -> Supervised {
    Supervised {
        config: config.into(),
        store: None,
        close_timeout: DEFAULT_CLOSE_TIMEOUT,
        started: watch::Sender::new(None),
    }
}

impl Supervised {
    /// Where the server's catalog and era are kept from one start to the next. Without it, nothing is kept on disk.
    pub fn store(mut self, directory: impl Into<PathBuf>) -> Self {
        self.store = Some(directory.into());
        self
    }

    /// How long the server may take to stop when the client closes the transport (default: 6 s). In less time than the stop
    /// schedule needs, every step of it comes sooner, as [`Fleet::close`](mainstay::Fleet::close) says.
    pub fn close_timeout(mut self, timeout: Duration) -> Self {
        self.close_timeout = timeout;
        self
    }

    /// Access to the server beside the client's session: its status, its stderr, a restart.
    ///
    /// The client has the server to itself in any case. With [`Isolation::Session`](mainstay::config::Isolation::Session) in its
    /// configuration, the handle is that of a second process, which only lists what the server offers.
    pub fn server(&self) -> ServerHandle {
        ServerHandle(self.started.subscribe())
    }
}

impl std::fmt::Debug for Supervised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Supervised")
            .field("server", &self.config.name())
            .field("store", &self.store)
            .field("close_timeout", &self.close_timeout)
            .finish_non_exhaustive()
    }
}

/// Access to a supervised server beside the client's session. It does not keep the server running.
#[derive(Clone, Debug)]
pub struct ServerHandle(watch::Receiver<Option<Server>>);

impl ServerHandle {
    /// The server. `None` until the client's first request, so never after [`serve`](rmcp::ServiceExt::serve) has returned a client.
    pub fn get(&self) -> Option<Server> {
        self.0.borrow().clone()
    }

    /// Waits until the client has sent its first request. `None` if the client is gone and has sent none.
    ///
    /// Cancel safety: dropping the future changes nothing.
    pub async fn started(&self) -> Option<Server> {
        let mut started = self.0.clone();
        let server = started.wait_for(Option::is_some).await;
        server.ok().and_then(|server| server.clone())
    }
}

/// Names the way from [`Supervised`] to a transport. rmcp tells conversions apart by such types.
#[doc(hidden)]
#[non_exhaustive]
pub enum SupervisedAdapter {}

impl IntoTransport<RoleClient, io::Error, SupervisedAdapter> for Supervised {
    /// # Panics
    /// Outside of a tokio runtime.
    fn into_transport(self) -> impl Transport<RoleClient, Error = io::Error> + 'static {
        SupervisedTransport::open(self)
    }
}

/// The client's end of a session. The session ends when this is closed or dropped.
struct SupervisedTransport {
    messages: AsyncRwTransport<RoleClient, ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>,
    /// Dropping the sender ends the session.
    open: Option<oneshot::Sender<()>>,
    session: Option<JoinHandle<()>>,
}

impl SupervisedTransport {
    fn open(supervised: Supervised) -> Self {
        let (near, remote) = duplex(BUFFER_SIZE);
        let (open, closed) = oneshot::channel();
        let session = Session {
            config: supervised.config,
            store: supervised.store,
            close_timeout: supervised.close_timeout,
            started: supervised.started,
        };
        let session = tokio::spawn(session.run(remote, closed));
        let (read, write) = split(near);
        Self {
            messages: AsyncRwTransport::new(read, write).with_max_line_length(MESSAGE_LIMIT),
            open: Some(open),
            session: Some(session),
        }
    }
}

impl Transport<RoleClient> for SupervisedTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.messages.send(message)
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleClient>>> + Send {
        self.messages.receive()
    }

    /// Stops the server, and waits until none of its processes is left.
    ///
    /// Cancel safety: dropped, the server goes on stopping.
    async fn close(&mut self) -> io::Result<()> {
        self.open = None;
        match self.session.take() {
            Some(session) => session.await.map_err(io::Error::other),
            None => Ok(()),
        }
    }
}
