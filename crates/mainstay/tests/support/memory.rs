//! What tests of calls and of the catalog share: a server in memory whose every connection can be watched and cut, and a
//! handler that notes what it is asked and told.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mainstay::config::{CustomTarget, ServerBuilder, Target};
use mainstay::handler::{Answer, ClientCapabilities, ServerNotification, ServerRequest};
use mainstay::transport::{Connecting, Connector, Limits, Lines, Transport};
use mainstay::{ClientHandler, Fleet, RawJson, Server, ServerConfig, Status};
use mainstay_testkit::Script;
use mainstay_testkit::memory::MemoryServer;
use mainstay_testkit::poll;
use tokio::sync::watch;

/// Longer than anything takes on a busy machine; reached only by a test that fails.
pub(crate) const LONG: Duration = poll::LIMIT;

/// What fits into the pipes to and from a server in memory.
const PIPE: usize = 64 * 1024;

/// A server in memory: plays its script anew on each connection, as long as it is up.
pub(crate) struct Memory {
    /// What the connections to come are played from.
    pub(crate) script: Mutex<Script>,
    down: AtomicBool,
    sides: watch::Sender<Vec<MemoryServer>>,
}

impl Memory {
    pub(crate) fn new(script: Script) -> Arc<Self> {
        Arc::new(Self {
            script: Mutex::new(script),
            down: AtomicBool::new(false),
            sides: watch::Sender::default(),
        })
    }

    /// Its configuration, under a name that is also its identity.
    pub(crate) fn config(self: &Arc<Self>, name: &str) -> ServerBuilder<CustomTarget> {
        ServerConfig::custom(name, name, self.clone())
    }

    /// Refuses connections from now on, or takes them again.
    pub(crate) fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::Relaxed);
    }

    /// The remote peer of the connection with this number, from 1, once there is one.
    pub(crate) async fn side(&self, number: usize) -> MemoryServer {
        let mut sides = self.sides.subscribe();
        let there = sides.wait_for(|sides| sides.len() >= number);
        let sides = tokio::time::timeout(LONG, there).await.expect("a connection");
        sides.unwrap()[number - 1].clone()
    }
}

impl Connector for Memory {
    fn connect(&self) -> Connecting<'_> {
        Box::pin(async {
            if self.down.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let (near, remote) = tokio::io::duplex(PIPE);
            let side = MemoryServer::spawn(remote, self.script.lock().unwrap().clone());
            self.sides.send_modify(|sides| sides.push(side));
            let (reader, writer) = tokio::io::split(near);
            let lines: Box<dyn Transport> = Box::new(Lines::new(reader, writer, Limits::default()));
            Ok(lines)
        })
    }
}

/// A fleet of one server.
pub(crate) fn fleet_of(server: ServerBuilder<impl Into<Target>>) -> (Fleet, Server) {
    fleet_with(Fleet::builder(), server)
}

/// A fleet of one server, made in a certain way.
pub(crate) fn fleet_with(
    builder: mainstay::FleetBuilder,
    server: ServerBuilder<impl Into<Target>>,
) -> (Fleet, Server) {
    let config = server.build().expect("a valid configuration");
    let name = config.name().to_owned();
    let fleet = builder.start([config]);
    let server = fleet.server(&name).expect("it was just configured");
    (fleet, server)
}

/// The status of the server once it is connected.
pub(crate) async fn connected(server: &Server) -> Status {
    server.wait_connected(LONG).await.expect("connected")
}

/// JSON text as it is.
pub(crate) fn raw(text: &str) -> RawJson {
    RawJson::from_text(text).expect("valid JSON")
}

/// A handler that notes what it is asked and told, and answers all it is asked with the same.
pub(crate) struct Notes {
    answer: RawJson,
    asked: watch::Sender<Vec<ServerRequest>>,
    told: watch::Sender<Vec<ServerNotification>>,
}

impl Notes {
    pub(crate) fn answering(answer: &str) -> Arc<Self> {
        Arc::new(Self {
            answer: raw(answer),
            asked: watch::Sender::default(),
            told: watch::Sender::default(),
        })
    }

    /// The methods of the requests so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked
            .borrow()
            .iter()
            .map(|request| request.method.clone())
            .collect()
    }

    /// The notifications of this method, once there are so many.
    pub(crate) async fn told(&self, method: &str, count: usize) -> Vec<ServerNotification> {
        let of_method = |told: &[ServerNotification]| -> Vec<ServerNotification> {
            let told = told.iter().filter(|notification| notification.method == method);
            told.cloned().collect()
        };
        let mut told = self.told.subscribe();
        let enough = told.wait_for(|told| of_method(told).len() >= count);
        let told = tokio::time::timeout(LONG, enough).await.expect("to be told");
        of_method(&told.unwrap())
    }
}

impl ClientHandler for Notes {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities {
            sampling: true,
            elicitation: true,
            roots: true,
            ..ClientCapabilities::default()
        }
    }

    fn request(&self, request: ServerRequest) -> Answer<'_> {
        self.asked.send_modify(|asked| asked.push(request));
        Box::pin(async { Ok(self.answer.clone()) })
    }

    fn notification(&self, notification: ServerNotification) {
        self.told.send_modify(|told| told.push(notification));
    }
}
