//! HTTP+SSE, where the stream is the connection.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mainstay::config::{HttpKind, HttpTarget, Replay, ServerBuilder};
use mainstay::lifecycle::Cause;
use mainstay::server::Reason;
use mainstay::transport::http::BearerToken;
use mainstay::{CallErrorKind, CallOptions, Fleet, Outcome, StateKind};
use mainstay_testkit::http::{
    FaultyHttpProcess, FaultyHttpServer, HttpFault, HttpRule, HttpScript, HttpStep, Serves,
};
use mainstay_testkit::{Ledger, Occurrence, Script, clock};
use serde_json::json;

use crate::http::support::{
    Notes, SOON, beyond, call, connected, echo, keep, keep_with, next_event, probing, seen, serve, web,
};

const KINDS: [HttpKind; 2] = [HttpKind::Auto, HttpKind::Sse];

fn sse() -> HttpScript {
    HttpScript::new().serves(Serves::Sse)
}

fn at(remote: &FaultyHttpServer, kind: HttpKind) -> ServerBuilder<HttpTarget> {
    web("web", &remote.url("/sse")).http_kind(kind)
}

#[tokio::test]
async fn a_killed_process_is_missed_by_its_stream_and_its_pending_call_fails_at_once() {
    let ledger = Ledger::temporary();
    let script = Script {
        ledger: Some(ledger.path().to_owned()),
        ..Script::new()
    };
    let mut process = FaultyHttpProcess::start(0, &script, &sse());
    let (fleet, server) = keep(web("web", &process.url("/sse")).http_kind(HttpKind::Sse));
    let first = connected(&server).await;
    let mut events = fleet.events();
    let options = CallOptions::default().replay(Replay::Never);
    let calling = tokio::spawn({
        let server = server.clone();
        async move {
            server
                .call("sleep_ms", &json!({ "ms": 60_000 }))
                .options(options)
                .await
        }
    });
    let is_called = ledger.wait_for_async(|ledger| ledger.count("call sleep_ms") == 1, SOON);
    assert!(is_called.await, "{:?}", ledger.lines());
    process.kill();
    let told = clock::within(Duration::from_secs(5), calling).await;
    let error = told.unwrap().expect_err("its server is dead");
    assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
    assert!(matches!(error.kind, CallErrorKind::Lost { .. }), "{error:?}");
    let lost = next_event(&mut events, |event| event.from == StateKind::Connected).await;
    assert_eq!(lost.cause, Cause::Lost);

    let _process = FaultyHttpProcess::start(process.port(), &script, &sse());
    beyond(&server, first).await;
    assert!(echo(&server).await.is_ok());
}

#[tokio::test]
async fn a_login_that_the_stream_asks_for_is_waited_for_and_brings_the_server_back() {
    for kind in KINDS {
        let remote = serve(Script::new(), sse().bearer("good")).await;
        let token = Arc::new(BearerToken::new("expired"));
        let (_fleet, server) = keep(at(&remote, kind).credentials(token.clone()));
        let asks = server.wait_until(SOON, |status| status.reason == Some(Reason::AuthRequired));
        let status = asks.await.expect("a login is wanted");
        assert_eq!(status.attempt, 0);
        let challenge = status.last_error.unwrap().challenge.clone().expect("what for");
        assert_eq!(challenge.scopes, ["mcp"]);
        token.set("good");
        connected(&server).await;
        assert!(echo(&server).await.is_ok());
    }
}

#[tokio::test]
async fn what_the_stream_answers_counts_when_only_the_stream_is_guarded() {
    for kind in KINDS {
        let guard = HttpFault::unauthorized("http://127.0.0.1/metadata", "mcp");
        let remote = serve(Script::new(), sse().at(HttpStep::Sse, guard)).await;
        let (_fleet, server) = keep(at(&remote, kind));
        let asks = server.wait_until(SOON, |status| status.reason == Some(Reason::AuthRequired));
        assert!(asks.await.is_some(), "{kind:?}: {:?}", server.status());

        remote.edit_http(|http| http.rules = vec![busy()]);
        server.logged_in();
        let waits = server
            .wait_until(SOON, |status| status.next_retry.is_some())
            .await;
        let pause = waits
            .expect("it waits")
            .next_retry
            .unwrap()
            .duration_since(SystemTime::now());
        assert!(pause.unwrap() > Duration::from_secs(200), "{kind:?}");
    }
    fn busy() -> HttpRule {
        HttpRule::new(HttpStep::Sse, HttpFault::retry_after(503, "3000"))
    }
}

#[tokio::test]
async fn a_stream_that_ends_is_a_connection_lost_and_wishes_live_on() {
    let ends = HttpRule::new(HttpStep::Sse, HttpFault::EndAfterEvents(12)).occurrence(Occurrence::Nth(1));
    let remote = serve(Script::new(), sse().rule(ends)).await;
    let notes = Notes::new();
    let builder = Fleet::builder().handler(notes.clone());
    let (_fleet, server) = keep_with(builder, at(&remote, HttpKind::Sse));
    let first = connected(&server).await;
    server.subscribe("mem://one").await.unwrap();
    while server
        .status()
        .generation
        .is_some_and(|generation| generation.0 == first)
    {
        let _answered_or_lost = echo(&server).await;
    }
    let second = beyond(&server, first).await;
    seen(&remote, |traffic| traffic.noted("subscribe mem://one") == 2).await;
    call(&server, "touch", json!({ "uri": "mem://one" }))
        .await
        .unwrap();
    let told = notes.told("notifications/resources/updated", 1).await;
    assert_eq!(told[0].generation.0, second);
}

#[tokio::test]
async fn a_frozen_process_is_given_up_and_taken_up_again() {
    let process = FaultyHttpProcess::start(0, &Script::new(), &sse());
    let config = web("web", &process.url("/sse"))
        .policy(probing(300, 1000, 2))
        .startup_timeout(Duration::from_secs(1));
    let (fleet, server) = keep(config);
    let first = connected(&server).await;
    let mut events = fleet.events();
    process.freeze();
    let lost = next_event(&mut events, |event| event.from == StateKind::Connected).await;
    assert_eq!(lost.cause, Cause::ProbesMissed);
    process.thaw();
    beyond(&server, first).await;
    assert!(echo(&server).await.is_ok());
}

#[tokio::test]
async fn a_timeout_cancels_at_the_server_and_keeps_the_connection() {
    let remote = serve(Script::new(), sse()).await;
    let (_fleet, server) = keep(at(&remote, HttpKind::Auto));
    let generation = connected(&server).await;
    let options = CallOptions::default().idle_timeout(Duration::from_millis(200));
    assert!(
        server
            .call("sleep_ms", &json!({ "ms": 60_000 }))
            .options(options)
            .await
            .is_err()
    );
    let call = remote.traffic(|traffic| traffic.last_id("tools/call")).unwrap();
    seen(&remote, |traffic| {
        traffic.noted(&format!("cancelled {call}")) == 1
    })
    .await;
    assert_eq!(echo(&server).await.unwrap().generation.0, generation);
}
