//! A session outlives the servers behind it.

use std::time::Duration;

use mainstay::lifecycle::Bucket;
use mainstay::{Fleet, Policy, ServerConfig};
use mainstay_gateway::HttpDoor;
use mainstay_testkit::FaultyServer;
use serde_json::json;

use crate::http::support::{World, text};

#[tokio::test(start_paused = true)]
async fn a_session_calls_again_when_its_server_was_lost_and_lists_all_the_time() {
    let world = World::open(HttpDoor::new()).await;
    let session = world.session("/mcp/one").await;
    for round in 0..3 {
        world.server.set_down(true);
        world.server.side().cut();
        let listed = session.ask(1, "tools/list", json!({})).await.json().await;
        assert!(
            !listed["result"]["tools"].as_array().unwrap().is_empty(),
            "{round}"
        );
        let calling = session.call(2, "echo", json!({ "round": round }));
        let back = async {
            // The call waits for a server that has refused a connection at least once.
            let server = world.gateway.fleet().server("one").unwrap();
            let refused = server.wait_until(Duration::from_secs(60), |status| status.attempt > 0);
            refused.await.expect("it is tried again");
            world.server.set_down(false);
        };
        let (called, ()) = tokio::join!(calling, back);
        assert_eq!(text(&called.json().await), format!(r#"{{"round":{round}}}"#));
    }
}

#[tokio::test]
async fn a_session_calls_again_when_the_process_of_its_server_was_killed() {
    let process = FaultyServer::new();
    let mut config = ServerConfig::stdio("one", process.command()).args(process.args());
    for (name, value) in process.env() {
        config = config.env(name, value);
    }
    let world = World::before(HttpDoor::new(), Fleet::builder(), config.build().unwrap()).await;
    let session = world.session("/mcp/one").await;
    let before = session.call(1, "pid", json!({})).await.json().await;
    let killed = session
        .call(2, "crash", json!({ "kill": true }))
        .await
        .json()
        .await;
    assert_eq!(killed["result"]["isError"], true);
    assert!(text(&killed).contains("may have run"), "{killed}");
    let after = session.call(3, "pid", json!({})).await.json().await;
    assert_ne!(text(&before), text(&after));
}

#[tokio::test(start_paused = true)]
async fn losses_leave_no_task_behind() {
    /// Losses that are counted, and those before them, after which every task runs that stays.
    const LOSSES: usize = 50;
    const WARM_UP: usize = 3;
    let bucket = Bucket {
        size: 1000.try_into().unwrap(),
        ..Bucket::default()
    };
    let policy = Policy {
        bucket,
        ..Policy::default()
    };
    let world = World::with_policy(HttpDoor::new(), policy).await;
    let session = world.session("/mcp/one").await;
    let _standing = session.listen(None).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let mut before = 0;
    for round in 0..WARM_UP + LOSSES {
        let called = session
            .call(1, "echo", json!({ "round": round }))
            .await
            .json()
            .await;
        assert_eq!(text(&called), format!(r#"{{"round":{round}}}"#));
        if round == WARM_UP {
            before = tasks();
        }
        world.server.side().cut();
    }
    let called = session.call(1, "pid", json!({})).await;
    assert_eq!(called.status, 200);
    drop(called);
    // The last loss leaves some work, which ends within a moment without an event.
    let settled = async {
        while tasks() > before {
            tokio::task::yield_now().await;
        }
    };
    let settled = tokio::time::timeout(Duration::from_secs(60), settled).await;
    assert!(settled.is_ok(), "{before} tasks before, {} after", tasks());
}
