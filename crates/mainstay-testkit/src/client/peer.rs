//! Where a gateway listens: a port of this machine, or one in memory.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, duplex};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// What fits into each direction of a connection in memory: about as much as a socket of this machine holds.
const PIPE: usize = 64 * 1024;

/// A stream of bytes in both directions.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection to a gateway.
pub type Connection = Box<dyn Stream>;

/// Where a gateway listens.
#[derive(Clone, Debug)]
pub enum Peer {
    /// A port of this machine.
    Port(SocketAddr),
    /// A port in memory.
    Memory(MemoryPort),
}

impl Peer {
    /// Opens a connection.
    pub async fn connect(&self) -> io::Result<Connection> {
        match self {
            Self::Port(address) => Ok(Box::new(TcpStream::connect(address).await?)),
            Self::Memory(port) => Ok(Box::new(port.connect()?)),
        }
    }
}

/// As the `Host` header names it.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(address) => write!(f, "{address}"),
            Self::Memory(_) => write!(f, "{}", MemoryPort::ADDRESS),
        }
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Self::Port(address)
    }
}

impl From<&Self> for Peer {
    fn from(peer: &Self) -> Self {
        peer.clone()
    }
}

/// Opens connections to a [`MemoryListener`].
#[derive(Clone, Debug)]
pub struct MemoryPort {
    pipe: usize,
    connections: mpsc::UnboundedSender<DuplexStream>,
}

impl MemoryPort {
    /// Where listeners in memory say that they listen, and where their clients seem to come from.
    pub const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7332);

    /// A port and its listener. Each direction of a connection holds as much as a socket of this machine.
    #[must_use]
    pub fn open() -> (Self, MemoryListener) {
        let (connections, accepted) = mpsc::unbounded_channel();
        let port = Self {
            pipe: PIPE,
            connections,
        };
        (port, MemoryListener(accepted))
    }

    /// The same port for a client that takes so many bytes off the gateway's hands before it reads.
    #[must_use]
    pub fn holding(mut self, pipe: usize) -> Self {
        self.pipe = pipe;
        self
    }

    fn connect(&self) -> io::Result<DuplexStream> {
        let (near, remote) = duplex(self.pipe);
        match self.connections.send(remote) {
            Ok(()) => Ok(near),
            Err(_) => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }
}

/// Accepts the connections of a [`MemoryPort`].
#[derive(Debug)]
pub struct MemoryListener(mpsc::UnboundedReceiver<DuplexStream>);

impl MemoryListener {
    /// The next connection, with the address of its client. Waits for ever if every port was dropped.
    pub async fn accept(&mut self) -> (DuplexStream, SocketAddr) {
        match self.0.recv().await {
            Some(connection) => (connection, MemoryPort::ADDRESS),
            None => std::future::pending().await,
        }
    }
}
