//! What says nothing against a server: its answers, whatever they are, and its callers' own doing.

use std::time::Duration;

use mainstay::{CallErrorKind, CallOptions, Outcome, StateKind};
use mainstay_testkit::Script;
use serde_json::json;

use mainstay_testkit::fleet::{Memory, connected, fleet_of};

#[tokio::test(start_paused = true)]
async fn errors_failures_bad_arguments_and_cancellations_never_cost_a_server_its_health() {
    let memory = Memory::new(Script::new());
    let (_fleet, server) = fleet_of(memory.config("s"));
    let before = connected(&server).await;
    let options = CallOptions::default;
    for code in [-32603, -32000, -32602, -32601, 1] {
        for _ in 0..4 {
            let refused = server
                .call("refuse", &json!({ "code": code }))
                .options(options())
                .await;
            let error = refused.expect_err("refused");
            assert!(
                matches!(&error.kind, CallErrorKind::Rpc(error) if error.code() == code),
                "{error}"
            );
            assert_eq!(error.outcome(), Outcome::Answered);
        }
    }
    for _ in 0..10 {
        let failed = server.call("fail", &json!({})).options(options()).await;
        assert_eq!(
            failed.expect("an answer").tool_result().unwrap().is_error,
            Some(true)
        );
    }
    for _ in 0..10 {
        let bad = server
            .prompt("no such prompt", &json!({}))
            .options(options())
            .await;
        assert!(matches!(&bad, Err(error) if matches!(error.kind, CallErrorKind::Rpc(_))));
    }
    for _ in 0..10 {
        let arguments = json!({ "ms": 60_000 });
        let call = server.call("sleep_ms", &arguments).options(options());
        assert!(
            tokio::time::timeout(Duration::from_millis(10), call)
                .await
                .is_err()
        );
    }
    let unwritable = std::collections::BTreeMap::from([((1, 2), 3)]);
    let bad = server.call("echo", &unwritable).options(options()).await;
    assert!(
        matches!(&bad, Err(error) if matches!(error.kind, CallErrorKind::BadArguments(_))),
        "{bad:?}"
    );

    tokio::time::sleep(Duration::from_secs(600)).await;
    let after = server.status();
    assert_eq!(after.state, StateKind::Connected);
    assert_eq!((after.generation, after.starts), (before.generation, 1));
    assert!(after.last_error.is_none(), "{:?}", after.last_error);
}

#[tokio::test(start_paused = true)]
async fn answers_between_timeouts_keep_a_slow_server_alive_and_timeouts_in_a_row_replace_it() {
    let memory = Memory::new(Script::new());
    let (_fleet, server) = fleet_of(memory.config("s"));
    let before = connected(&server).await;
    let too_slow = async || {
        let options = CallOptions::default().idle_timeout(Duration::from_secs(1));
        let late = server
            .call("sleep_ms", &json!({ "ms": 60_000 }))
            .options(options)
            .await;
        assert!(
            matches!(&late, Err(error) if matches!(error.kind, CallErrorKind::TimedOut { .. })),
            "{late:?}"
        );
    };
    for _ in 0..5 {
        too_slow().await;
        too_slow().await;
        let reply = server.call("echo", &json!({})).await;
        assert_eq!(Some(reply.unwrap().generation), before.generation);
    }
    for _ in 0..3 {
        too_slow().await;
    }
    let reply = server.call("echo", &json!({})).await;
    assert!(Some(reply.unwrap().generation) > before.generation);
}
