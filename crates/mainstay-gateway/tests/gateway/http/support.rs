//! A gateway behind its HTTP door, in front of servers in memory. Its clients connect in memory too, and time is paused, unless a
//! test is about sockets.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mainstay::config::{CustomTarget, ServerBuilder};
use mainstay::transport::{Connecting, Connector, Limits, Lines, Transport};
use mainstay::{Fleet, FleetBuilder, Policy, ServerConfig};
use mainstay_gateway::{DoorError, Gateway, HttpDoor, HttpListener};
use mainstay_testkit::Script;
use mainstay_testkit::client::{Connection, MemoryListener, MemoryPort, Peer};
use mainstay_testkit::memory::MemoryServer;
use tokio::io::{AsyncWriteExt, BufReader, DuplexStream};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

pub(crate) use mainstay_testkit::client::{Ask, LONG, Reply, Session, initialize, modern, request, text};

/// What fits into the pipes to and from a server.
const PIPE: usize = 64 * 1024;

/// What fits into a connection whose client reads nothing.
const SMALL_PIPE: usize = 4096;

/// A gateway that serves.
pub(crate) struct World {
    pub(crate) gateway: Gateway,
    pub(crate) server: Arc<Memory>,
    pub(crate) door: Peer,
    stop: Option<oneshot::Sender<()>>,
    pub(crate) serving: JoinHandle<Result<(), DoorError>>,
}

impl World {
    /// One server, `one`, behind this door; it is connected.
    pub(crate) async fn open(door: HttpDoor) -> Self {
        Self::with(door, Script::new()).await
    }

    pub(crate) async fn with(door: HttpDoor, script: Script) -> Self {
        let server = Memory::new(script);
        let config = ServerConfig::custom("one", "one", server.clone());
        Self::in_memory(door, server, config).await
    }

    /// The same, with a server that is kept by this policy.
    pub(crate) async fn with_policy(door: HttpDoor, policy: Policy) -> Self {
        let server = Memory::new(Script::new());
        let config = ServerConfig::custom("one", "one", server.clone());
        Self::in_memory(door, server, config.policy(policy)).await
    }

    async fn in_memory(door: HttpDoor, server: Arc<Memory>, config: ServerBuilder<CustomTarget>) -> Self {
        let world = Self::before(door, Fleet::builder(), config.build().unwrap());
        Self {
            server,
            ..world.await
        }
    }

    /// Before this server, whose name is `one`.
    pub(crate) async fn before(door: HttpDoor, fleet: FleetBuilder, config: ServerConfig) -> Self {
        let gateway = Gateway::start(fleet, [config]);
        let handle = gateway.fleet().server("one").unwrap();
        handle.wait_connected(LONG).await.expect("connected");
        Self::serving(door, gateway)
    }

    /// This gateway, behind this door.
    pub(crate) fn serving(door: HttpDoor, gateway: Gateway) -> Self {
        let (port, listener) = MemoryPort::open();
        Self::listening(Peer::Memory(port), Accepting(listener), door, gateway)
    }

    /// A server that plays this script, behind this door at a port of this machine, in real time.
    pub(crate) async fn on_a_port(door: HttpDoor, script: Script) -> Self {
        let world = Self::with(HttpDoor::new(), script).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let there = Self::listening(address.into(), listener, door, world.gateway);
        Self {
            server: world.server,
            ..there
        }
    }

    fn listening(
        peer: Peer,
        listener: impl HttpListener + 'static,
        door: HttpDoor,
        gateway: Gateway,
    ) -> Self {
        let (stop, stopped) = oneshot::channel();
        let serves = gateway.clone();
        let serving = tokio::spawn(async move {
            let shutdown = async {
                if stopped.await.is_err() {
                    pending::<()>().await;
                }
            };
            serves.serve_http(listener, door, shutdown).await
        });
        Self {
            gateway,
            server: Memory::new(Script::new()),
            door: peer,
            stop: Some(stop),
            serving,
        }
    }

    pub(crate) async fn send(&self, ask: Ask) -> Reply {
        ask.send(&self.door).await
    }

    /// A connection to the door.
    pub(crate) async fn connect(&self) -> Connection {
        self.door.connect().await.expect("a connection")
    }

    /// Sends a request on a connection that holds little, and reads nothing of what comes back.
    pub(crate) async fn send_unread(&self, ask: &Ask) -> Connection {
        let Peer::Memory(port) = &self.door else {
            panic!("a socket holds more");
        };
        let small = Peer::Memory(port.clone().holding(SMALL_PIPE));
        let mut connection = small.connect().await.expect("a connection");
        let text = ask.text(&self.door);
        connection.write_all(text.as_bytes()).await.expect("written");
        connection
    }

    /// Sends what may be no proper request.
    pub(crate) async fn send_text(&self, text: &str) -> Reply {
        let mut stream = self.connect().await;
        stream.write_all(text.as_bytes()).await.expect("written");
        Reply::read(BufReader::new(stream)).await
    }

    /// Asks the gateway to close its door.
    pub(crate) fn stop(&mut self) {
        let _ = self.stop.take().expect("stopped once").send(());
    }

    /// A legacy client with a session at this path.
    pub(crate) async fn session(&self, path: &'static str) -> Session {
        Session::open(&self.door, path).await
    }
}

/// Accepts connections in memory.
struct Accepting(MemoryListener);

impl HttpListener for Accepting {
    type Connection = DuplexStream;

    async fn accept(&mut self) -> io::Result<(DuplexStream, SocketAddr)> {
        Ok(self.0.accept().await)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(MemoryPort::ADDRESS)
    }
}

/// A server in memory, which plays its script on each connection from the beginning.
pub(crate) struct Memory {
    script: Script,
    down: AtomicBool,
    sides: watch::Sender<Vec<MemoryServer>>,
}

impl Memory {
    pub(crate) fn new(script: Script) -> Arc<Self> {
        Arc::new(Self {
            script,
            down: AtomicBool::new(false),
            sides: watch::Sender::default(),
        })
    }

    /// Refuses connections from now on, or takes them again.
    pub(crate) fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::Relaxed);
    }

    /// The connection that there is now.
    pub(crate) fn side(&self) -> MemoryServer {
        self.sides.borrow().last().cloned().expect("a connection")
    }
}

impl Connector for Memory {
    fn connect(&self) -> Connecting<'_> {
        Box::pin(async {
            if self.down.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let (near, remote) = tokio::io::duplex(PIPE);
            let side = MemoryServer::spawn(remote, self.script.clone());
            self.sides.send_modify(|sides| sides.push(side));
            let (reader, writer) = tokio::io::split(near);
            let lines: Box<dyn Transport> = Box::new(Lines::new(reader, writer, Limits::default()));
            Ok(lines)
        })
    }
}
