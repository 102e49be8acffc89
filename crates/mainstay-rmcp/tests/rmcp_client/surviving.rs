//! The client's session across the death of its server.

use mainstay::{Outcome, StateKind};
use mainstay_rmcp::{outcome, supervised};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::time::timeout;

use crate::client::{Begins, Client, LIMIT, Notified, call, call_text, close, connect, rmcp_server, text};

#[tokio::test]
async fn the_session_stays_when_the_server_is_killed_between_two_calls() {
    for begins in Begins::ALL {
        let transport = supervised(rmcp_server());
        let handle = transport.server();
        let (client, _) = connect(begins, transport).await;
        let server = handle.get().expect("a started server");
        let first = pid(&client).await;
        let generation = server.status().generation;
        kill(first);
        let second = pid(&client).await;
        assert_ne!(first, second, "{begins:?}");
        let status = server.status();
        assert_eq!(
            (status.state, status.pid),
            (StateKind::Connected, Some(second)),
            "{begins:?}"
        );
        assert!(status.generation > generation, "{begins:?}");
        assert!(!client.is_closed(), "{begins:?}");
        close(client).await;
    }
}

#[tokio::test]
async fn a_call_that_is_lost_with_its_server_says_that_it_may_have_run() {
    for begins in Begins::ALL {
        let (client, mut notifications) = connect(begins, supervised(rmcp_server())).await;
        let first = pid(&client).await;
        let sleeping = call(&client, "sleep", json!({ "millis": 600_000, "steps": 6_000 }));
        let killing = async {
            assert_eq!(notifications.next().await, Notified::Progress(1.0), "{begins:?}");
            kill(first);
        };
        let (lost, ()) = tokio::join!(sleeping, killing);
        assert_eq!(outcome(&lost), Some(Outcome::Unknown), "{begins:?}: {lost:?}");
        let lost = lost.expect("a result that a model can read");
        assert_eq!(lost.is_error, Some(true), "{begins:?}");
        assert!(text(&lost).contains("was lost"), "{begins:?}: {}", text(&lost));

        let echoed = call(&client, "echo", json!({ "text": "back" })).await;
        assert_eq!(outcome(&echoed), None, "{begins:?}");
        assert_eq!(text(&echoed.expect("a result")), "back", "{begins:?}");
        close(client).await;
    }
}

#[tokio::test]
async fn the_handle_restarts_the_server_under_the_session() {
    let transport = supervised(rmcp_server());
    let handle = transport.server();
    assert!(
        handle.get().is_none(),
        "nothing is started before the client's first request"
    );
    let (client, _) = connect(Begins::Legacy, transport).await;
    let server = timeout(LIMIT, handle.started())
        .await
        .expect("a start in time")
        .expect("a started server");
    let first = pid(&client).await;
    server.restart().await.expect("a restart");
    server.wait_connected(LIMIT).await.expect("a connection");
    assert_ne!(pid(&client).await, first);
    close(client).await;
}

async fn pid(client: &Client) -> i32 {
    let pid = call_text(client, "pid", json!({})).await;
    pid.parse().expect("a process id")
}

fn kill(pid: i32) {
    let pid = Pid::from_raw(pid).expect("a process id");
    kill_process(pid, Signal::KILL).expect("kill the server");
}
