//! What the tests over HTTP share: fleets of servers reached by address, quick policies, and waits for what must come.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use mainstay::config::{HttpTarget, ServerBuilder};
use mainstay::event::EventOrLag;
use mainstay::handler::ServerNotification;
use mainstay::lifecycle::{Backoff, Bucket, Probe};
use mainstay::{
    CallError, CallOptions, ClientHandler, Event, Events, Fleet, FleetBuilder, Policy, Reply, Server,
    ServerConfig, StateKind, Status,
};
use mainstay_testkit::http::{FaultyHttpServer, HttpScript, Traffic};
use mainstay_testkit::{Script, Speaks, poll};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Longer than anything that is under way ever takes, even on a machine with too much to do.
pub(crate) const SOON: Duration = poll::LIMIT;

pub(crate) const ERAS: [Speaks; 2] = [Speaks::Legacy, Speaks::Modern];

/// A server of the test's own runtime.
pub(crate) async fn serve(script: Script, http: HttpScript) -> FaultyHttpServer {
    FaultyHttpServer::start(script, http).await.expect("a free port")
}

/// A call that its server has begun to work on: `append` with the key `once`.
pub(crate) async fn running_append(
    server: &Server,
    remote: &FaultyHttpServer,
) -> JoinHandle<Result<Reply, CallError>> {
    let caller = server.clone();
    let running = tokio::spawn(async move { call(&caller, "append", json!({ "key": "once" })).await });
    seen(remote, |traffic| traffic.noted("call append once") == 1).await;
    running
}

/// A well-behaved server of this era.
pub(crate) async fn well(speaks: Speaks) -> FaultyHttpServer {
    serve(Script::new().speaks(speaks), HttpScript::new()).await
}

/// The default policy, but for pauses that a test need not wait for, and with no probe.
pub(crate) fn quick() -> Policy {
    Policy {
        backoff: Backoff::new(Duration::from_millis(10), Duration::from_millis(100)),
        bucket: Bucket {
            size: NonZeroU32::new(1000).expect("not zero"),
            ..Bucket::default()
        },
        relist_pause: Duration::from_millis(50),
        probe: None,
        ..Policy::default()
    }
}

/// The quick policy, which looks after a silent server: in milliseconds, how soon, and how long it may take to answer.
pub(crate) fn probing(after_silence: u64, timeout: u64, misses: u32) -> Policy {
    Policy {
        probe: Some(Probe {
            after_silence: Duration::from_millis(after_silence),
            timeout: Duration::from_millis(timeout),
            misses: NonZeroU32::new(misses).expect("not zero"),
        }),
        ..quick()
    }
}

/// The configuration of a server at this address, kept quickly.
pub(crate) fn web(name: &str, url: &str) -> ServerBuilder<HttpTarget> {
    ServerConfig::http(name, url).policy(quick())
}

/// The same at the endpoint of Streamable HTTP of a server of the test's own.
pub(crate) fn web_at(remote: &FaultyHttpServer) -> ServerBuilder<HttpTarget> {
    web("web", &remote.url("/mcp"))
}

pub(crate) fn fleet(servers: impl IntoIterator<Item = ServerBuilder<HttpTarget>>) -> Fleet {
    let build = |server: ServerBuilder<HttpTarget>| server.build().expect("a valid server");
    Fleet::builder().start(servers.into_iter().map(build))
}

/// A fleet of one server, and its handle.
pub(crate) fn keep(server: ServerBuilder<HttpTarget>) -> (Fleet, Server) {
    keep_with(Fleet::builder(), server)
}

/// A fleet of one server, made in a certain way.
pub(crate) fn keep_with(builder: FleetBuilder, server: ServerBuilder<HttpTarget>) -> (Fleet, Server) {
    let fleet = builder.start([server.build().expect("a valid server")]);
    let server = fleet.servers().remove(0);
    (fleet, server)
}

/// The generation of a connected server.
pub(crate) async fn connected(server: &Server) -> u64 {
    beyond(server, 0).await
}

/// Waits until the server is connected by a later generation than this one.
pub(crate) async fn beyond(server: &Server, generation: u64) -> u64 {
    let newer = |status: &Status| {
        status.state == StateKind::Connected && status.generation.is_some_and(|newer| newer.0 > generation)
    };
    match server.wait_until(SOON, newer).await {
        Some(status) => generation_of(&status),
        None => panic!("never connected again: {:?}", server.status()),
    }
}

/// The generation of a status that has one.
pub(crate) fn generation_of(status: &Status) -> u64 {
    status.generation.expect("a generation").0
}

/// Waits until the server is in this state.
pub(crate) async fn reaches(server: &Server, state: StateKind) -> Status {
    let reached = server.wait_until(SOON, |status| status.state == state).await;
    reached.unwrap_or_else(|| panic!("never {state}: {:?}", server.status()))
}

/// Calls a tool, with a deadline that only a call that hangs meets.
pub(crate) async fn call(server: &Server, tool: &str, arguments: Value) -> Result<Reply, CallError> {
    let options = CallOptions::default().timeout(SOON);
    server.call(tool, &arguments).options(options).await
}

pub(crate) async fn echo(server: &Server) -> Result<Reply, CallError> {
    call(server, "echo", json!({ "key": "k" })).await
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
    timeout(SOON, found).await.expect("the event came")
}

/// Waits until what has reached the remote peer satisfies this.
pub(crate) async fn seen(remote: &FaultyHttpServer, holds: impl FnMut(&Traffic) -> bool) {
    assert!(
        remote.wait_until(SOON, holds).await,
        "{:?}",
        remote.traffic(|t| format!("{t:?}"))
    );
}

/// How many messages of this method were sent so far, refused ones included.
pub(crate) fn sent(remote: &FaultyHttpServer, method: &str) -> usize {
    remote.traffic(|traffic| traffic.sent(method))
}

/// A handler that notes what it is told.
#[derive(Default)]
pub(crate) struct Notes(watch::Sender<Vec<ServerNotification>>);

impl Notes {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// The notifications of this method, once there are so many.
    pub(crate) async fn told(&self, method: &str, count: usize) -> Vec<ServerNotification> {
        let mut told = self.0.subscribe();
        let enough = told.wait_for(|told| of_method(told, method).len() >= count);
        let told = timeout(SOON, enough).await.expect("to be told");
        of_method(&told.expect("the sender is here"), method)
    }
}

fn of_method(told: &[ServerNotification], method: &str) -> Vec<ServerNotification> {
    let told = told.iter().filter(|notification| notification.method == method);
    told.cloned().collect()
}

impl ClientHandler for Notes {
    fn notification(&self, notification: ServerNotification) {
        self.0.send_modify(|told| told.push(notification));
    }
}
