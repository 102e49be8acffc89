//! Calls that come in the moment of an idle stop: after the machine has decided it, and before the keeper closes the connection.
//!
//! The keeper logs each effect just before it executes it. A subscriber of that log runs the test's code at exactly this point.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use mainstay::config::Replay;
use mainstay::lifecycle::Cause;
use mainstay::transport::{Frame, Inbound, Limits, Lines, NotQueued, Outbound, Sending, Transport};
use mainstay::{CallError, CallOptions, Policy, Reply, Server, ServerConfig, StateKind};
use mainstay_testkit::memory::MemoryServer;
use mainstay_testkit::{Fault, Script, Step};
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};

use crate::lifecycle::support::{connected, keep, next_event};

const IDLE_STOP: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn a_call_that_enters_between_the_decision_of_an_idle_stop_and_the_close_is_answered() {
    let memory_servers = Arc::<Mutex<Vec<MemoryServer>>>::default();
    let (fleet, server) = keep(eager_server(memory_servers.clone()).policy(Policy {
        idle_stop: Some(IDLE_STOP),
        ..Policy::default()
    }));
    let first = connected(&server).await;
    let mut events = fleet.events();

    let late = Arc::<Mutex<Option<Call>>>::default();
    let entering = {
        let (late, server) = (late.clone(), server.clone());
        AtEffect::new("Close(", move || {
            let mut call = call(&server);
            // It leases the connection, passes the gate, and its request is begun, all in one poll.
            let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending(), "{polled:?}");
            *late.lock().unwrap() = Some(call);
        })
    };
    let hook = tracing::subscriber::set_default(entering);
    let stopped = next_event(&mut events, |_| true).await;
    drop(hook);
    assert_eq!(
        (stopped.to, stopped.cause),
        (StateKind::Disconnected, Cause::WentIdle)
    );
    let call = late
        .lock()
        .unwrap()
        .take()
        .expect("the close was logged before it was made");

    let memory_server = memory_servers.lock().unwrap()[0].clone();
    memory_server.wait_for("tools/call", 1).await;
    let received = memory_server.received();
    let request = received.iter().find(|message| message.method() == "tools/call");
    let Some(request) = request else {
        panic!("its request did not arrive: {:?}", call.await);
    };
    let id = request.id().clone();
    let answer = json!({ "jsonrpc": "2.0", "id": id, "result": { "content": [] } });
    memory_server.inject_message(&answer).await;
    let reply = call.await.expect("the connection drains");
    assert_eq!(reply.generation.0, first);
    memory_server.over().await;
    assert_eq!(memory_servers.lock().unwrap().len(), 1);
}

type Call = Pin<Box<dyn Future<Output = Result<Reply, CallError>> + Send>>;

/// A call that is never repeated if it may have run.
fn call(server: &Server) -> Call {
    let options = CallOptions::default().replay(Replay::Never);
    let call = server.call("append", &json!({})).options(options);
    Box::pin(call.into_future())
}

/// A server in memory that leaves calls to the test. Its transport begins to write in the moment in which it is asked to send, as
/// one does whose queue is empty and whose writer runs on another thread.
fn eager_server(
    memory_servers: Arc<Mutex<Vec<MemoryServer>>>,
) -> mainstay::config::ServerBuilder<mainstay::config::CustomTarget> {
    let connector = move || {
        let (near, remote) = tokio::io::duplex(64 * 1024);
        let script = Script::new().on(Step::Call, Fault::NoAnswer);
        memory_servers
            .lock()
            .unwrap()
            .push(MemoryServer::spawn(remote, script));
        let (reader, writer) = tokio::io::split(near);
        let eager = Eager(Lines::new(reader, writer, Limits::default()));
        async { Ok(Box::new(eager) as Box<dyn Transport>) }
    };
    ServerConfig::custom("idle", "idle", Arc::new(connector))
}

struct Eager<T>(T);

impl<T: Transport> Transport for Eager<T> {
    fn outbound(&self) -> Arc<dyn Outbound> {
        Arc::new(EagerOutbound(self.0.outbound()))
    }

    fn start(self: Box<Self>, inbound: Arc<dyn Inbound>) {
        Box::new(self.0).start(inbound);
    }
}

struct EagerOutbound(Arc<dyn Outbound>);

impl Outbound for EagerOutbound {
    fn send(&self, frame: Frame) -> Sending<'_> {
        let _written = frame.begin();
        self.0.send(frame)
    }

    fn try_send(&self, frame: Frame) -> Result<(), NotQueued> {
        let _written = frame.begin();
        self.0.try_send(frame)
    }

    fn close(&self) {
        self.0.close();
    }
}

/// Runs something once, when the keeper is about to execute an effect that begins with these words.
struct AtEffect {
    words: &'static str,
    run: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl AtEffect {
    fn new(words: &'static str, run: impl FnOnce() + Send + 'static) -> Self {
        let run: Box<dyn FnOnce() + Send> = Box::new(run);
        Self {
            words,
            run: Mutex::new(Some(run)),
        }
    }
}

impl tracing::Subscriber for AtEffect {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().starts_with("mainstay::keeper")
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut is_it = IsEffect(self.words, false);
        event.record(&mut is_it);
        if let IsEffect(_, true) = is_it
            && let Some(run) = self.run.lock().unwrap().take()
        {
            run();
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct IsEffect(&'static str, bool);

impl Visit for IsEffect {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.1 |= field.name() == "effect" && format!("{value:?}").starts_with(self.0);
    }
}
