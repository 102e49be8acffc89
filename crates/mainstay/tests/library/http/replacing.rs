//! A server over HTTP that the configuration replaces: its running calls finish, and new ones do not wait for them.

use std::time::Duration;

use mainstay::{CallOptions, StateKind};
use mainstay_testkit::clock;
use serde_json::json;

use crate::http::support::{ERAS, SOON, beyond, connected, echo, keep, sent, web_at, well};

#[tokio::test]
async fn a_call_that_runs_when_a_token_is_rotated_holds_no_new_call_up() {
    for speaks in ERAS {
        let remote = well(speaks).await;
        let (fleet, server) = keep(web_at(&remote).bearer_token("one"));
        let old = connected(&server).await;
        let caller = server.clone();
        let running = tokio::spawn(async move {
            let options = CallOptions::default().timeout(SOON);
            let ms = json!({ "ms": 8_000 });
            caller.call("slow_then_answer", &ms).options(options).await
        });
        assert!(remote.wait_for("tools/call", 1, SOON).await);

        let rotated = web_at(&remote)
            .bearer_token("two")
            .build()
            .expect("a valid server");
        fleet.apply([rotated]).await;
        let reply = echo(&server).await.expect("answered by the new connection");
        assert!(reply.generation.0 > old, "{speaks:?}");
        assert!(!running.is_finished(), "the old call still runs");
        let reply = running.await.expect("no panic").expect("the old call may finish");
        assert_eq!(reply.generation.0, old, "{speaks:?}");
        assert_eq!(server.status().state, StateKind::Connected);
    }
}

#[tokio::test]
async fn calls_outlive_two_replacements_and_the_third_cuts_the_oldest() {
    let remote = well(mainstay_testkit::Speaks::Legacy).await;
    let (fleet, server) = keep(web_at(&remote).bearer_token("one"));
    let mut generation = connected(&server).await;
    let mut running = Vec::new();
    for (number, token) in ["two", "three", "four"].into_iter().enumerate() {
        let caller = server.clone();
        running.push(tokio::spawn(async move {
            let options = CallOptions::default().replay(mainstay::config::Replay::Never);
            caller
                .call("sleep_ms", &json!({ "ms": 600_000 }))
                .options(options)
                .await
        }));
        assert!(remote.wait_for("tools/call", number + 1, SOON).await);
        assert!(running.iter().all(|call| !call.is_finished()));
        let rotated = web_at(&remote)
            .bearer_token(token)
            .build()
            .expect("a valid server");
        fleet.apply([rotated]).await;
        generation = beyond(&server, generation).await;
    }
    // A drain takes 30 s.
    let cut = clock::within(Duration::from_secs(20), running.remove(0)).await;
    let cut = cut.expect("no panic");
    assert!(cut.expect_err("it was cut").may_have_run());
    assert!(running.iter().all(|call| !call.is_finished()), "the others go on");
    assert_eq!(sent(&remote, "tools/call"), 3);
}
