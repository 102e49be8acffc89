//! What awaken sees while its server dies, fails and refuses. Its own reconnect is tried after three failures in a row.

use std::sync::Arc;

use crate::orders::{Orders, Way, call, status};

const PARALLEL: usize = 10;

/// More failures in a row than awaken bears.
const FAILURES: usize = 5;

/// As many calls at once: how many are answered.
async fn answered(manager: &Arc<awaken_ext_mcp::McpToolRegistryManager>) -> usize {
    let calls: Vec<_> = (0..PARALLEL)
        .map(|n| {
            let manager = Arc::clone(manager);
            tokio::spawn(async move { call(&manager, "lookup", &format!("k{n}")).await })
        })
        .collect();
    let mut answered = 0;
    for (n, called) in calls.into_iter().enumerate() {
        match called.await.expect("it ends") {
            Ok(text) if text.contains(&format!("k{n}")) => answered += 1,
            Ok(text) => panic!("another call's answer: {text}"),
            Err(error) => eprintln!("call {n}: {error}"),
        }
    }
    answered
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_calls_after_a_kill_cost_one_start_and_are_all_answered() {
    let orders = Orders::new();
    let manager = Arc::new(orders.connect(Way::Connect).await.expect("it connects"));
    call(&manager, "lookup", "first").await.expect("an answer");
    orders.kill().await;
    assert_eq!(answered(&manager).await, PARALLEL);
    assert_eq!(
        orders.count("start "),
        2,
        "one start, and one after it was killed"
    );
    assert_eq!(orders.count("call lookup "), 1 + PARALLEL, "each call ran once");
    let status = status(&manager).await;
    assert!(
        status.connected && !status.reconnecting && !status.permanently_failed,
        "{status:?}"
    );
    assert_eq!(
        (status.transport_reconnect_count, status.consecutive_failures),
        (0, 0),
        "{status:?}"
    );
    manager.close_all().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_the_server_refuses_restart_nothing_and_run_once_each() {
    let orders = Orders::new();
    let manager = orders.connect(Way::Connect).await.expect("it connects");
    for n in 1..=FAILURES {
        let refused = call(&manager, "order", "k").await.expect_err("refused");
        assert!(refused.contains("no such order"), "{refused}");
        assert_eq!(orders.count("call order "), n);
    }
    assert_eq!(orders.count("start "), 1);
    let status = status(&manager).await;
    assert_eq!(
        (status.transport_reconnect_count, status.consecutive_failures),
        (0, 0),
        "{status:?}"
    );
    manager.close_all().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_end_the_server_run_once_each_and_leave_the_restart_to_mainstay() {
    let orders = Orders::new();
    let manager = orders.connect(Way::Connect).await.expect("it connects");
    for n in 1..=FAILURES {
        let lost = call(&manager, "fatal", "k").await.expect_err("lost");
        assert!(lost.contains("may have run"), "{lost}");
        assert_eq!(
            orders.count("call fatal "),
            n,
            "a call that may have run is not repeated"
        );
        call(&manager, "lookup", "k")
            .await
            .expect("the next call is answered");
    }
    assert_eq!(orders.count("start "), 1 + FAILURES);
    let status = status(&manager).await;
    assert_eq!(
        (status.transport_reconnect_count, status.consecutive_failures),
        (0, 0),
        "{status:?}"
    );
    manager.close_all().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn awaken_alone_answers_no_call_that_is_made_after_a_kill() {
    let orders = Orders::new();
    let manager = Arc::new(orders.connect(Way::Alone).await.expect("it connects"));
    call(&manager, "lookup", "first").await.expect("an answer");
    orders.kill().await;
    assert_eq!(answered(&manager).await, 0);
    assert_eq!(orders.count("start "), 2);
    assert_eq!(status(&manager).await.transport_reconnect_count, 1);
    manager.close_all().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_an_older_version_is_refused_by_awaken_and_works_behind_mainstay() {
    let orders = Orders::of_version("2025-06-18");
    let refused = orders
        .connect(Way::Alone)
        .await
        .err()
        .expect("awaken wants its own version");
    assert!(refused.to_string().contains("2025-06-18"), "{refused}");
    let manager = orders.connect(Way::Connect).await.expect("it connects");
    call(&manager, "lookup", "k").await.expect("an answer");
    manager.close_all().await.expect("closed");
}
