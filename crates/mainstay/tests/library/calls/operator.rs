//! What an operator sees of calls, and does to them: those that wait, one that is cancelled, and the recorder.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mainstay::recorder::{Direction, RecordedKind, RecorderOptions};
use mainstay::server::PendingCallId;
use mainstay::{CallErrorKind, ClientHandler, Fleet, Outcome, StateKind};
use mainstay_testkit::Script;
use serde_json::json;

use mainstay_testkit::fleet::{Memory, connected, fleet_of};

const HOUR: Duration = Duration::from_secs(3600);

/// A handler of the client with this number.
struct OfClient(u64);

impl ClientHandler for OfClient {
    fn client(&self) -> Option<u64> {
        Some(self.0)
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_an_operator_cancels_fails_at_once_and_its_connection_stays() {
    let memory = Memory::new(Script::new());
    let (_fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    let side = memory.side(1).await;
    let before = server.status();
    assert!(server.pending_calls(10).is_empty());
    let (caller, other) = (server.clone(), server.clone());
    let call = tokio::spawn(async move {
        let arguments = json!({ "ms": 7_200_000 });
        caller
            .call("sleep_ms", &arguments)
            .handler(Arc::new(OfClient(7)))
            .timeout(3 * HOUR)
            .idle_timeout(3 * HOUR)
            .await
    });
    let kept = tokio::spawn(async move {
        let arguments = json!({ "ms": 600_000 });
        other
            .call("sleep_ms", &arguments)
            .timeout(3 * HOUR)
            .idle_timeout(3 * HOUR)
            .await
    });
    side.wait_for("tools/call", 2).await;
    let pending = server.pending_calls(10);
    assert_eq!(pending.len(), 2);
    let shown = &pending[0];
    assert_eq!(
        (shown.method.as_str(), shown.name.as_deref(), shown.client),
        ("tools/call", Some("sleep_ms"), Some(7))
    );
    assert_eq!(pending[1].client, None);
    assert_eq!(server.pending_calls(1)[0].id, shown.id, "the oldest first");
    tokio::time::advance(Duration::from_secs(60)).await;
    let since = server.pending_calls(1)[0].since;
    let waited = SystemTime::now().duration_since(since).expect("in the past");
    assert!(waited >= Duration::from_secs(60), "{waited:?}");

    assert!(server.cancel_call(shown.id));
    assert!(!server.cancel_call(shown.id), "once");
    let error = call.await.expect("no panic").expect_err("cancelled");
    assert!(matches!(error.kind, CallErrorKind::Cancelled), "{error}");
    assert_eq!(error.outcome(), Outcome::Unknown);
    side.wait_for("notifications/cancelled", 1).await;
    kept.await.expect("no panic").expect("the other call goes on");
    let after = server.status();
    assert_eq!(
        (after.state, after.generation, after.call_failures),
        (StateKind::Connected, before.generation, 0)
    );
    assert_eq!(server.call_counts().unknown, 1);
}

#[tokio::test(start_paused = true)]
async fn no_number_of_another_connection_and_no_request_of_mainstays_own_is_cancelled() {
    let memory = Memory::new(Script::new());
    let (_fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    for id in ["0.1", "18446744073709551615.1", "1.0", "1.1", "1.2", "1.999"] {
        let id: PendingCallId = id.parse().expect("an id");
        assert!(!server.cancel_call(id), "{id}");
    }
    for bad in ["", "1", "a.b", "1.2.3", "-1.2"] {
        assert!(bad.parse::<PendingCallId>().is_err(), "{bad}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_messages_of_a_lost_connection_are_kept_while_the_next_one_works() {
    let memory = Memory::new(Script::new());
    let config = memory.config("s").build().expect("valid");
    let fleet = Fleet::builder().start([config]);
    let server = fleet.server("s").expect("configured");
    connected(&server).await;
    let caller = server.clone();
    let call = tokio::spawn(async move { caller.call("sleep_ms", &json!({ "ms": 7_200_000 })).await });
    let side = memory.side(1).await;
    side.wait_for("tools/call", 1).await;
    side.cut();
    call.await.expect("no panic").expect_err("lost");
    connected(&server).await;
    for _ in 0..300 {
        server
            .call("echo", &json!({ "text": "again" }))
            .await
            .expect("answered");
    }
    let recording = server.recording();
    assert_eq!(recording.messages.len(), 256);
    assert!(recording.dropped > 0 && !recording.has_payloads);
    let lost = &recording.losses[0];
    assert!(
        recording
            .messages
            .iter()
            .all(|message| message.generation != lost.generation)
    );
    let last = lost.messages.last().expect("its last message");
    assert_eq!(
        (
            last.direction,
            last.kind,
            last.method.as_deref(),
            last.name.as_deref()
        ),
        (
            Direction::ToServer,
            RecordedKind::Request,
            Some("tools/call"),
            Some("sleep_ms")
        )
    );
    assert!(
        lost.messages
            .iter()
            .any(|message| message.method.as_deref() == Some("tools/list"))
    );
}

#[tokio::test(start_paused = true)]
async fn whole_messages_are_recorded_where_that_is_asked_for() {
    let memory = Memory::new(Script::new());
    let config = memory.config("s").build().expect("valid");
    let fleet = Fleet::builder()
        .recorder(RecorderOptions::payloads())
        .start([config]);
    let server = fleet.server("s").expect("configured");
    connected(&server).await;
    server
        .call("echo", &json!({ "text": "kept" }))
        .await
        .expect("answered");
    let recording = server.recording();
    let with = |text: &str| {
        let payloads = recording
            .messages
            .iter()
            .filter_map(|message| message.payload.as_deref());
        payloads.filter(|payload| payload.contains(text)).count()
    };
    assert_eq!(with("kept"), 2, "the arguments and the answer");
    assert!(
        with("\"initialize\"") + with("server/discover") > 0,
        "from the first message on"
    );
}
