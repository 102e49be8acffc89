//! A gateway on a loopback port in front of servers in memory, and clients of both eras.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mainstay::transport::{Connecting, Connector, Limits, Lines, Transport};
use mainstay::{Fleet, FleetBuilder, ServerConfig};
use mainstay_gateway::{DoorError, Gateway, HttpDoor};
use mainstay_testkit::Script;
use mainstay_testkit::memory::FarSide;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::wire::{Ask, LONG, Reply};

/// What fits into the pipes to and from a server.
const PIPE: usize = 64 * 1024;

/// A gateway that serves.
pub(crate) struct World {
    pub(crate) gateway: Gateway,
    pub(crate) server: Arc<Memory>,
    pub(crate) address: SocketAddr,
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
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
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
            address,
            stop: Some(stop),
            serving,
        }
    }

    pub(crate) async fn send(&self, ask: Ask) -> Reply {
        ask.send(self.address).await
    }

    /// Sends what may be no proper request.
    pub(crate) async fn send_text(&self, text: &str) -> Reply {
        let mut stream = TcpStream::connect(self.address).await.expect("a connection");
        stream.write_all(text.as_bytes()).await.expect("written");
        Reply::read(BufReader::new(stream)).await
    }

    /// Asks the gateway to close its door.
    pub(crate) fn stop(&mut self) {
        let _ = self.stop.take().expect("stopped once").send(());
    }

    /// A legacy client with a session at this path.
    pub(crate) async fn session(&self, path: &'static str) -> Session {
        Session::open(self.address, path).await
    }
}

/// A legacy client.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) path: &'static str,
    pub(crate) id: String,
    address: SocketAddr,
}

impl Session {
    pub(crate) async fn open(address: SocketAddr, path: &'static str) -> Self {
        let capabilities = json!({ "elicitation": {}, "sampling": {}, "roots": {} });
        let reply = Ask::post(path, &initialize(capabilities)).send(address).await;
        assert_eq!(reply.status, 200);
        let id = reply.header("mcp-session-id").expect("a session").to_owned();
        let session = Self { path, id, address };
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(session.tell(&initialized).await.status, 202);
        session
    }

    /// A request as this client makes it.
    pub(crate) fn sign(&self, ask: Ask) -> Ask {
        ask.header("mcp-session-id", &self.id)
            .header("mcp-protocol-version", "2025-11-25")
    }

    pub(crate) async fn tell(&self, message: &Value) -> Reply {
        self.sign(Ask::post(self.path, message)).send(self.address).await
    }

    /// Asks, and waits for the head of the answer.
    pub(crate) async fn ask(&self, id: u64, method: &str, params: Value) -> Reply {
        self.tell(&request(id, method, params)).await
    }

    pub(crate) async fn call(&self, id: u64, tool: &str, arguments: Value) -> Reply {
        self.ask(id, "tools/call", json!({ "name": tool, "arguments": arguments }))
            .await
    }

    /// A call that reports its progress.
    pub(crate) async fn call_with_progress(&self, id: u64, tool: &str, arguments: Value) -> Reply {
        let params = json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": "p" } });
        self.ask(id, "tools/call", params).await
    }

    /// Opens a stream: the standing one, or the one that broke after this event.
    pub(crate) async fn listen(&self, last: Option<&str>) -> Reply {
        let ask = self.sign(Ask::new("GET", self.path).header("accept", "text/event-stream"));
        let ask = match last {
            Some(last) => ask.header("last-event-id", last),
            None => ask,
        };
        ask.send(self.address).await
    }

    pub(crate) async fn end(&self) -> Reply {
        self.sign(Ask::new("DELETE", self.path)).send(self.address).await
    }
}

/// A request of a modern client, with the headers that it must have.
pub(crate) fn modern(path: &str, id: u64, method: &str, mut params: Value) -> Ask {
    let name = ["name", "uri"]
        .iter()
        .find_map(|field| params[*field].as_str().map(str::to_owned));
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({ "elicitation": {} });
    let ask = Ask::post(path, &request(id, method, params))
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", method);
    match name {
        Some(name) => ask.header("mcp-name", &name),
        None => ask,
    }
}

pub(crate) fn request(id: u64, method: &str, params: Value) -> Value {
    let mut request = json!({ "jsonrpc": "2.0", "id": id, "method": method });
    request["params"] = params;
    request
}

pub(crate) fn initialize(capabilities: Value) -> Value {
    let client = json!({ "name": "test", "version": "1" });
    let mut params = json!({ "protocolVersion": "2025-11-25", "clientInfo": client });
    params["capabilities"] = capabilities;
    request(0, "initialize", params)
}

/// The text of a tool's answer.
pub(crate) fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().expect("a text")
}

/// A server in memory: plays its script anew on each connection.
pub(crate) struct Memory {
    script: Script,
    down: AtomicBool,
    sides: watch::Sender<Vec<FarSide>>,
}

impl Memory {
    fn new(script: Script) -> Arc<Self> {
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
    pub(crate) fn side(&self) -> FarSide {
        self.sides.borrow().last().cloned().expect("a connection")
    }
}

impl Connector for Memory {
    fn connect(&self) -> Connecting<'_> {
        Box::pin(async {
            if self.down.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let (near, far) = tokio::io::duplex(PIPE);
            let side = FarSide::spawn(far, self.script.clone());
            self.sides.send_modify(|sides| sides.push(side));
            let (reader, writer) = tokio::io::split(near);
            let lines: Box<dyn Transport> = Box::new(Lines::new(reader, writer, Limits::default()));
            Ok(lines)
        })
    }
}
