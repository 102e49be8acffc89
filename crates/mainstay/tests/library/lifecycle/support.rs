//! What the tests of a server's life share: fleets of real processes, servers in memory, and waits for events.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mainstay::config::{CustomTarget, ServerBuilder, StdioTarget, Target};
use mainstay::event::EventOrLag;
use mainstay::transport::{Connecting, Connector, Limits, Lines};
use mainstay::{CallError, CallOptions, Event, Events, Fleet, Reply, Server, ServerConfig, StateKind};
use mainstay_testkit::memory::MemoryServer;
use mainstay_testkit::procfs::is_alive;
use mainstay_testkit::{FaultyServer, Ledger, Script, poll};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::time::{Instant, timeout};

/// Longer than anything that is under way ever takes, even on a machine with too much to do.
pub(crate) const SOON: Duration = poll::LIMIT;

/// Longer than any pause of a policy. For paused time only, where it costs nothing.
pub(crate) const LONG: Duration = Duration::from_secs(24 * 60 * 60);

/// How long to wait for what must come: a day where time is paused, and so costs nothing.
pub(crate) fn patience() -> Duration {
    let before = Instant::now();
    std::thread::sleep(Duration::from_micros(1));
    let is_paused = Instant::now() == before;
    if is_paused { LONG } else { SOON }
}

/// The configuration of a scripted process.
pub(crate) fn stdio(name: &str, server: &FaultyServer) -> ServerBuilder<StdioTarget> {
    let builder = ServerConfig::stdio(name, server.command()).args(server.args());
    server
        .env()
        .into_iter()
        .fold(builder, |builder, (key, value)| builder.env(key, value))
}

/// A fleet of these servers.
pub(crate) fn fleet<T: Into<Target>>(servers: impl IntoIterator<Item = ServerBuilder<T>>) -> Fleet {
    Fleet::builder().start(built(servers))
}

/// The finished configurations.
pub(crate) fn built<T: Into<Target>>(
    servers: impl IntoIterator<Item = ServerBuilder<T>>,
) -> Vec<ServerConfig> {
    let build = |server: ServerBuilder<T>| server.build().expect("a valid server");
    servers.into_iter().map(build).collect()
}

/// A fleet of one server, and its handle.
pub(crate) fn keep(server: ServerBuilder<impl Into<Target>>) -> (Fleet, Server) {
    let fleet = fleet([server]);
    let server = fleet.servers().remove(0);
    (fleet, server)
}

/// The generation of a connected server.
///
/// The pauses before it depend on the generations, which all tests of a process draw from one counter.
pub(crate) async fn connected(server: &Server) -> u64 {
    let status = server.wait_connected(patience()).await.expect("connected");
    status.generation.expect("a connected server has a generation").0
}

/// The process of a connected server.
pub(crate) async fn connected_pid(server: &Server) -> i32 {
    let status = server.wait_connected(SOON).await.expect("connected");
    status.pid.expect("a connected process has an id")
}

/// Waits until the server is in this state.
pub(crate) async fn reaches(server: &Server, state: StateKind) -> mainstay::Status {
    let reached = server
        .wait_until(patience(), |status| status.state == state)
        .await;
    reached.unwrap_or_else(|| panic!("never {state}: {:?}", server.status()))
}

/// Calls `echo`, with these options.
pub(crate) async fn echo(server: &Server, options: CallOptions) -> Result<Reply, CallError> {
    server.call("echo", &json!({ "key": "k" })).options(options).await
}

/// The next event that is accepted.
pub(crate) async fn next_event(events: &mut Events, mut accept: impl FnMut(&Event) -> bool) -> Event {
    let found = async {
        loop {
            match events.next().await.expect("the fleet is there") {
                EventOrLag::Event(event) if accept(&event) => return *event,
                EventOrLag::Event(_) => {}
                EventOrLag::Lagged(lost) => panic!("{lost} events were missed"),
            }
        }
    };
    timeout(patience(), found).await.expect("the event came")
}

/// Sends a signal to a process.
pub(crate) fn signal(pid: i32, signal: Signal) {
    let pid = Pid::from_raw(pid).expect("the id of a process");
    kill_process(pid, signal).expect("the process is there");
}

/// Whether every process that this ledger knows comes to its end.
pub(crate) async fn all_gone(ledger: &Ledger) -> bool {
    let gone = || !ledger.pids().into_iter().chain(ledger.children()).any(is_alive);
    poll::comes_true_async(poll::LIMIT, gone).await
}

/// Drops `future` once it is ready, or once the other tasks had so many turns.
pub(crate) async fn dropped_after(turns: usize, future: impl Future) {
    tokio::select! {
        biased;
        _ = future => {}
        () = async { for _ in 0..turns { tokio::task::yield_now().await; } } => {}
    }
}

/// A server in memory: each connection plays the script that is chosen for its number, from 1; none refuses it.
pub(crate) struct InMemory {
    choose: Box<dyn Fn(usize) -> Option<Script> + Send + Sync>,
    dialled: Mutex<Dialled>,
}

#[derive(Default)]
struct Dialled {
    attempts: usize,
    memory_servers: Vec<MemoryServer>,
}

impl InMemory {
    /// One that plays the same script on each connection.
    pub(crate) fn playing(script: Script) -> Arc<Self> {
        Self::choosing(move |_| Some(script.clone()))
    }

    /// One that plays, or refuses, as chosen for each attempt.
    pub(crate) fn choosing(choose: impl Fn(usize) -> Option<Script> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            choose: Box::new(choose),
            dialled: Mutex::default(),
        })
    }

    /// Its configuration, with its name as its identity.
    pub(crate) fn config(self: &Arc<Self>, name: &str) -> ServerBuilder<CustomTarget> {
        self.config_as(name, name)
    }

    /// Its configuration, with an identity of its own.
    pub(crate) fn config_as(self: &Arc<Self>, name: &str, identity: &str) -> ServerBuilder<CustomTarget> {
        ServerConfig::custom(name, identity, self.clone())
    }

    /// How often it was dialled.
    pub(crate) fn attempts(&self) -> usize {
        self.dialled().attempts
    }

    /// The remote peer of the last connection.
    pub(crate) fn last(&self) -> MemoryServer {
        self.dialled()
            .memory_servers
            .last()
            .expect("a connection")
            .clone()
    }

    /// The remote peers of all connections.
    pub(crate) fn memory_servers(&self) -> Vec<MemoryServer> {
        self.dialled().memory_servers.clone()
    }

    fn dialled(&self) -> std::sync::MutexGuard<'_, Dialled> {
        self.dialled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connector for InMemory {
    fn connect(&self) -> Connecting<'_> {
        let mut dialled = self.dialled();
        dialled.attempts += 1;
        let Some(script) = (self.choose)(dialled.attempts) else {
            return Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) });
        };
        let (near, remote) = tokio::io::duplex(64 * 1024);
        dialled.memory_servers.push(MemoryServer::spawn(remote, script));
        let (reader, writer) = tokio::io::split(near);
        let lines = Lines::new(reader, writer, Limits::default());
        Box::pin(async { Ok(Box::new(lines) as Box<_>) })
    }
}
