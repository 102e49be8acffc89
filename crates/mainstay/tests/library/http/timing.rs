//! The time of a call over HTTP: what ends it, what extends it, and what its server hears of it. The ways to answer are tried side
//! by side.

use std::time::Duration;

use mainstay::server::TimeoutKind;
use mainstay::{CallErrorKind, CallOptions, Outcome};
use mainstay_testkit::http::{FaultyHttpServer, HttpScript};
use mainstay_testkit::{Script, Speaks};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::http::support::{ERAS, SOON, call, connected, keep, seen, serve, web, web_at};

const MOMENT: Duration = Duration::from_millis(200);

/// Both eras, and both forms of an answer.
fn stages() -> impl Iterator<Item = (Speaks, HttpScript)> {
    let forms = || [HttpScript::new(), HttpScript::new().streams()];
    ERAS.into_iter()
        .flat_map(move |speaks| forms().map(|http| (speaks, http)))
}

/// The server hears of the cancellation of its last call in the way of its era.
async fn assert_cancelled(remote: &FaultyHttpServer, speaks: Speaks) {
    let call = remote
        .traffic(|traffic| traffic.last_id("tools/call"))
        .expect("a call");
    seen(remote, |traffic| traffic.noted(&format!("cancelled {call}")) == 1).await;
    let told = remote.traffic(|traffic| traffic.count("notifications/cancelled"));
    match speaks {
        Speaks::Legacy => {
            assert_eq!(told, 1);
            let session = |method: &str| {
                remote.traffic(|traffic| traffic.last_header(method, "mcp-session-id").map(str::to_owned))
            };
            assert!(session("tools/call").is_some());
            assert_eq!(session("notifications/cancelled"), session("tools/call"));
        }
        // The end of the stream says it.
        Speaks::Modern | Speaks::Both => assert_eq!(told, 0),
    }
}

#[tokio::test]
async fn a_timeout_cancels_at_the_server_keeps_the_connection_and_drops_the_late_answer() {
    let mut all = JoinSet::new();
    for (speaks, http) in stages() {
        all.spawn(async move {
            let remote = serve(Script::new().speaks(speaks), http).await;
            let (_fleet, server) = keep(web_at(&remote));
            let generation = connected(&server).await;
            let options = CallOptions::default().idle_timeout(MOMENT);
            let error = server
                .call("slow_then_answer", &json!({ "ms": 3000 }))
                .options(options)
                .await;
            let error = error.expect_err("too slow");
            let idle = TimeoutKind::Idle;
            assert!(
                matches!(error.kind, CallErrorKind::TimedOut { timeout: kind, .. } if kind == idle),
                "{error:?}"
            );
            assert_eq!(error.outcome(), Outcome::Unknown);
            assert_cancelled(&remote, speaks).await;

            // The late answer would come while another call waits.
            let reply = call(&server, "sleep_ms", json!({ "ms": 3500 }))
                .await
                .expect("its own answer");
            assert!(reply.result.as_str().contains("slept"), "{}", reply.result);
            assert_eq!(reply.generation.0, generation);
            assert_eq!(server.status().starts, 1);
        });
    }
    all.join_all().await;
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled_at_the_server() {
    for (speaks, http) in stages() {
        let remote = serve(Script::new().speaks(speaks), http).await;
        let (_fleet, server) = keep(web_at(&remote));
        let generation = connected(&server).await;
        let calling = tokio::spawn({
            let server = server.clone();
            async move { call(&server, "sleep_ms", json!({ "ms": 60_000 })).await }
        });
        seen(&remote, |traffic| traffic.count("tools/call") == 1).await;
        calling.abort();
        assert_cancelled(&remote, speaks).await;
        assert_eq!(connected(&server).await, generation);
    }
}

#[tokio::test]
async fn calls_that_are_dropped_at_once_are_all_cancelled_and_their_places_are_free() {
    // Requests under way at once; the others wait, and were never sent.
    const UNDER_WAY: usize = 256;
    for (calls, sse) in [(150, false), (1000, false), (150, true), (1000, true)] {
        let remote = serve(Script::new(), HttpScript::new()).await;
        let path = if sse { "/sse" } else { "/mcp" };
        let (_fleet, server) = keep(web("web", &remote.url(path)));
        let generation = connected(&server).await;
        let mut calling = JoinSet::new();
        for _ in 0..calls {
            let server = server.clone();
            calling.spawn(async move { call(&server, "sleep_ms", json!({ "ms": 600_000 })).await });
        }
        // A message is accepted at once over HTTP+SSE, and frees its place then.
        let sent = if sse { calls } else { calls.min(UNDER_WAY) };
        seen(&remote, |traffic| traffic.count("tools/call") == sent).await;
        drop(calling);
        seen(&remote, |traffic| {
            traffic.count("notifications/cancelled") == sent && traffic.noted("cancelled") == sent
        })
        .await;
        let after = call(&server, "echo", json!({})).await.expect("there is room");
        assert_eq!(after.generation.0, generation);
        assert_eq!(remote.traffic(|traffic| traffic.count("tools/call")), sent + 1);
    }
}

#[tokio::test]
async fn progress_extends_the_idle_timeout_and_reaches_the_caller() {
    let mut all = JoinSet::new();
    for (speaks, http) in stages() {
        all.spawn(async move {
            // A modern server can tell of progress on the stream of the call only.
            let http = match speaks {
                Speaks::Legacy => http,
                Speaks::Modern | Speaks::Both => http.streams(),
            };
            let remote = serve(Script::new().speaks(speaks), http).await;
            let (_fleet, server) = keep(web_at(&remote));
            connected(&server).await;
            seen(&remote, |traffic| traffic.live_streams() > 0).await;
            let (progress, mut steps) = mpsc::channel(64);
            let options = CallOptions::default()
                .idle_timeout(Duration::from_secs(3))
                .timeout(SOON);
            let arguments = json!({ "steps": 8, "interval_ms": 500 });
            let reply = server
                .call("progress", &arguments)
                .options(options.progress(progress))
                .await;
            assert!(
                reply
                    .expect("it worked all along")
                    .result
                    .as_str()
                    .contains("finished")
            );
            let mut told = 0;
            while steps.try_recv().is_ok() {
                told += 1;
            }
            assert_eq!(told, 8);
        });
    }
    all.join_all().await;
}

#[tokio::test]
async fn progress_never_extends_the_total_timeout() {
    for speaks in ERAS {
        let remote = serve(Script::new().speaks(speaks), HttpScript::new().streams()).await;
        let (_fleet, server) = keep(web_at(&remote));
        connected(&server).await;
        let options = CallOptions::default().idle_timeout(SOON).timeout(2 * MOMENT);
        let arguments = json!({ "steps": 1000, "interval_ms": 20 });
        let error = server
            .call("progress", &arguments)
            .options(options)
            .await
            .expect_err("too long");
        let total = TimeoutKind::Total;
        assert!(
            matches!(error.kind, CallErrorKind::TimedOut { timeout: kind, .. } if kind == total),
            "{error:?}"
        );
        assert_cancelled(&remote, speaks).await;
    }
}
