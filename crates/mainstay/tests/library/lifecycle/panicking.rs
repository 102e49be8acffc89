//! A panic in a task that works for a server, an embedder's code included, is reported at once: nothing waits for a
//! report that cannot come.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mainstay::lifecycle::Cause;
use mainstay::transport::{Connecting, Connector, Frame, Inbound, NotQueued, Outbound, Sending, Transport};
use mainstay::{ServerConfig, StateKind};
use mainstay_testkit::Script;
use tokio::time::Instant;

use crate::lifecycle::support::{InMemory, built, connected, keep, next_event};

/// Shorter than the deadline of any task, and longer than any pause before a second attempt.
const AT_ONCE: Duration = Duration::from_secs(2);

/// A connector whose transport panics once: where it writes this text, or where it is closed.
struct Faulty {
    memory: Arc<InMemory>,
    fault: Arc<Fault>,
}

struct Fault {
    text: Option<&'static str>,
    is_due: AtomicBool,
}

struct FaultyTransport(Box<dyn Transport>, Arc<Fault>);

struct FaultyOutbound(Arc<dyn Outbound>, Arc<Fault>);

impl Faulty {
    fn new(text: Option<&'static str>) -> Arc<Self> {
        Arc::new(Self {
            memory: InMemory::playing(Script::new()),
            fault: Arc::new(Fault {
                text,
                is_due: AtomicBool::new(true),
            }),
        })
    }
}

impl Fault {
    fn is_in(&self, frame: &Frame) -> bool {
        let written = String::from_utf8_lossy(frame.bytes());
        self.text.is_some_and(|text| written.contains(text))
    }

    fn panic_if_due(&self, here: bool) {
        assert!(!(here && self.is_due.swap(false, Ordering::Relaxed)), "asked to");
    }
}

impl Connector for Faulty {
    fn connect(&self) -> Connecting<'_> {
        Box::pin(async {
            let transport = self.memory.connect().await?;
            Ok(Box::new(FaultyTransport(transport, self.fault.clone())) as Box<dyn Transport>)
        })
    }
}

impl Transport for FaultyTransport {
    fn outbound(&self) -> Arc<dyn Outbound> {
        Arc::new(FaultyOutbound(self.0.outbound(), self.1.clone()))
    }

    fn start(self: Box<Self>, inbound: Arc<dyn Inbound>) {
        self.0.start(inbound);
    }
}

impl Outbound for FaultyOutbound {
    fn send(&self, frame: Frame) -> Sending<'_> {
        self.1.panic_if_due(self.1.is_in(&frame));
        self.0.send(frame)
    }

    fn try_send(&self, frame: Frame) -> Result<(), NotQueued> {
        self.1.panic_if_due(self.1.is_in(&frame));
        self.0.try_send(frame)
    }

    fn close(&self) {
        self.1.panic_if_due(self.1.text.is_none());
        self.0.close();
    }
}

#[tokio::test(start_paused = true)]
async fn a_connector_that_panics_is_a_failed_attempt_at_once_and_is_tried_again() {
    let memory = InMemory::choosing(|attempt| {
        assert!(attempt > 1, "asked to");
        Some(Script::new())
    });
    let began = Instant::now();
    let (fleet, server) = keep(memory.config("panics"));
    let mut events = fleet.events();
    let failed = next_event(&mut events, |event| event.to == StateKind::Reconnecting).await;
    assert_eq!(failed.cause, Cause::OpenFailed);
    let error = failed.error.expect("it says why").message.clone();
    assert!(error.contains("panicked: asked to"), "{error}");
    connected(&server).await;
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    assert_eq!(memory.attempts(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_panics_has_failed_at_once_and_is_made_again() {
    let faulty = Faulty::new(Some("tools/list"));
    let began = Instant::now();
    let (_fleet, server) = keep(ServerConfig::custom("panics", "panics", faulty.clone()));
    connected(&server).await;
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    assert_eq!(faulty.memory.attempts(), 1, "the connection stays");
    let error = server.status().last_error.expect("it says why").message.clone();
    assert!(error.contains("panicked: asked to"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_panics_ends_the_connection_at_once() {
    let faulty = Faulty::new(Some("\"ping\""));
    let (fleet, server) = keep(ServerConfig::custom("panics", "panics", faulty.clone()));
    connected(&server).await;
    let mut events = fleet.events();
    let lost = next_event(&mut events, |_| true).await;
    assert_eq!((lost.to, lost.cause), (StateKind::Reconnecting, Cause::Lost));
    let error = lost.error.expect("it says why").message.clone();
    assert!(error.contains("panicked: asked to"), "{error}");
    connected(&server).await;
    assert_eq!(faulty.memory.attempts(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_close_that_panics_is_over_at_once_and_holds_no_next_connection_up() {
    let faulty = Faulty::new(None);
    let (fleet, server) = keep(ServerConfig::custom("panics", "old", faulty));
    let old = connected(&server).await;
    let began = Instant::now();
    let new = InMemory::playing(Script::new());
    fleet.apply(built([new.config_as("panics", "new")])).await;
    let renewed = server.wait_until(AT_ONCE, |status| {
        status.state == StateKind::Connected && status.generation.is_some_and(|new| new.0 > old)
    });
    renewed.await.expect("connected again");
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    assert_eq!(server.status().keeper_failures, 0, "the keeper goes on");
}
