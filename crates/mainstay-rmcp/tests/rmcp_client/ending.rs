//! The end of a session, and starts that fail: no process is left.

use std::time::Duration;

use mainstay::ServerConfig;
use mainstay_rmcp::supervised;
use mainstay_testkit::procfs::ProcTree;
use mainstay_testkit::store::catalogs_are_stored;
use mainstay_testkit::{Fault, FaultyServer, Step, clock, poll};
use rmcp::ServiceExt;
use serde_json::json;
use tokio::time::timeout;

use crate::client::{Begins, LIMIT, call_text, close, connect, scripted, try_connect};

/// A server that ends only when it is killed.
fn stubborn() -> FaultyServer {
    FaultyServer::new().on(Step::Eof, Fault::Hang).ignores_term()
}

/// Another one in each run: another run may have left something.
fn mark(test: &str) -> String {
    format!("{test}-{}", std::process::id())
}

fn tree(mark: &str) -> ProcTree {
    ProcTree::marked("TESTKIT_MARK", mark)
}

#[tokio::test]
async fn closing_the_client_waits_until_no_process_is_left() {
    let mark = &mark("rmcp-closing");
    let config = scripted(&stubborn(), mark);
    let transport = supervised(config).close_timeout(Duration::from_millis(800));
    let (client, _) = connect(Begins::Legacy, transport).await;
    assert!(!tree(mark).pids().is_empty());
    // Less than the 4 s after which the server would be killed if there were time.
    clock::within(Duration::from_secs(3), close(client)).await;
    assert_eq!(tree(mark).pids(), [0; 0]);
}

#[tokio::test]
async fn dropping_the_client_leaves_no_process() {
    for begins in Begins::ALL {
        let mark = &mark("rmcp-dropping");
        let (client, _) = connect(begins, supervised(scripted(&FaultyServer::new(), mark))).await;
        assert!(!tree(mark).pids().is_empty());
        drop(client);
        assert!(tree(mark).wait_until_gone_async(LIMIT).await, "{begins:?}");
    }
}

#[test]
fn dropping_the_runtime_leaves_no_process() {
    let mark = &mark("rmcp-runtime");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let config = scripted(&stubborn(), mark);
    let client = runtime.block_on(connect(Begins::Legacy, supervised(config)));
    assert!(!tree(mark).pids().is_empty());
    drop(runtime);
    assert!(tree(mark).wait_until_gone(LIMIT));
    drop(client);
}

#[tokio::test]
async fn giving_up_on_a_server_that_does_not_answer_leaves_no_process() {
    let mark = &mark("rmcp-giving-up");
    let unresponsive = FaultyServer::new()
        .on(Step::Discover, Fault::Hang)
        .on(Step::Initialize, Fault::Hang);
    let transport = supervised(scripted(&unresponsive, mark));
    let handle = transport.server();
    let connecting = ().serve(transport);
    let started = async {
        let server = handle.started().await.expect("a server that starts");
        // `/proc` gives no event when a process starts.
        assert!(poll::comes_true_async(LIMIT, || !tree(mark).pids().is_empty()).await);
        server
    };
    let server = tokio::select! {
        connected = connecting => panic!("{connected:?}"),
        started = timeout(LIMIT, started) => started.expect("a process in time"),
    };
    let ended = server.wait_until(LIMIT, |status| status.removed).await;
    ended.expect("the session ends with its client");
    assert!(tree(mark).wait_until_gone_async(LIMIT).await);
}

#[tokio::test]
async fn a_server_that_cannot_start_is_an_error_that_says_why() {
    for begins in Begins::ALL {
        let config = ServerConfig::stdio("missing", "/no/such/program").build();
        let (connected, _) = try_connect(begins, supervised(config.expect("a valid server"))).await;
        let error = format!("{:?}", connected.expect_err("no server"));
        assert!(error.contains("/no/such/program"), "{begins:?}: {error}");
    }
}

#[tokio::test]
async fn a_transport_that_no_client_uses_starts_nothing() {
    let mark = &mark("rmcp-unused");
    let transport = supervised(scripted(&FaultyServer::new(), mark));
    let handle = transport.server();
    drop(transport);
    assert!(handle.started().await.is_none());
    assert_eq!(tree(mark).pids(), [0; 0]);
}

#[tokio::test]
async fn a_store_keeps_what_the_server_offers() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = scripted(&FaultyServer::new(), &mark("rmcp-store"));
    let (client, _) = connect(Begins::Legacy, supervised(config).store(directory.path())).await;
    call_text(&client, "echo", json!({})).await;
    catalogs_are_stored(directory.path(), 1).await;
    close(client).await;
    let kept = std::fs::read_dir(directory.path()).expect("a directory").count();
    assert!(kept > 0);
}
