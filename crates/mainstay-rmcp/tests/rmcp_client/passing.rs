//! What passes between client and server, in both eras.

use mainstay_rmcp::supervised;
use mainstay_testkit::{Fault, FaultyServer, Flood, Ledger, Script, Speaks, Step};
use rmcp::model::{
    LoggingLevel, RequestMetaObject, ServerNotification, SetLevelRequestParams, SubscriptionFilter,
};
use serde_json::json;
use tokio::time::timeout;

use crate::client::{
    Begins, LIMIT, Notified, asking_server, call, call_text, close, connect, params, rmcp_server, scripted,
    text,
};

#[tokio::test]
async fn a_client_sees_the_server_itself() {
    for begins in Begins::ALL {
        let (client, _) = connect(begins, supervised(rmcp_server())).await;
        let info = client.peer_info().and_then(|server| server.server_info.clone());
        let info = info.expect("a server that says its name");
        assert_eq!(
            (info.name.as_str(), info.version.as_str()),
            ("rmcp-server", env!("CARGO_PKG_VERSION")),
            "{begins:?}"
        );
        let tools = client.list_all_tools().await.expect("a list");
        assert!(
            tools.iter().any(|tool| tool.name == "echo"),
            "{begins:?}: {tools:?}"
        );
        assert_eq!(
            call_text(&client, "echo", json!({ "text": "hello" })).await,
            "hello"
        );
        close(client).await;
    }
}

#[tokio::test]
async fn a_server_sees_the_client_itself() {
    for begins in Begins::ALL {
        let ledger = Ledger::temporary();
        let script = Script {
            verbatim: true,
            ..Script::new().speaks(Speaks::Both)
        };
        let server = FaultyServer::from(script).ledger(&ledger);
        let (client, _) = connect(begins, supervised(scripted(&server, "sees-the-client"))).await;
        call_text(&client, "echo", json!({})).await;
        let lines = ledger.lines().join("\n");
        assert!(lines.contains(r#""name":"test-client""#), "{begins:?}: {lines}");
        assert!(lines.contains(r#""version":"7.8.9""#), "{begins:?}: {lines}");
        close(client).await;
    }
}

#[tokio::test]
async fn a_client_and_a_server_may_be_of_different_eras() {
    for (begins, speaks) in [(Begins::Legacy, Speaks::Modern), (Begins::Modern, Speaks::Legacy)] {
        let server = FaultyServer::new().script(|script| script.speaks(speaks));
        let (client, _) = connect(begins, supervised(scripted(&server, "other-era"))).await;
        let echoed = call_text(&client, "echo", json!({ "text": "hello" })).await;
        assert!(echoed.contains("hello"), "{begins:?}: {echoed}");
        close(client).await;
    }
}

#[tokio::test]
async fn the_client_answers_sampling_elicitation_and_roots() {
    for begins in Begins::ALL {
        let (client, _) = connect(begins, supervised(asking_server())).await;
        let sampled = call_text(&client, "test_sampling", json!({ "prompt": "Say something" })).await;
        assert!(sampled.contains("a sampled answer"), "{begins:?}: {sampled}");
        let elicited = call_text(&client, "test_elicitation", json!({ "message": "Who are you?" })).await;
        assert!(elicited.contains("ada@example.org"), "{begins:?}: {elicited}");
        let roots = call_text(&client, "test_input_required_result_list_roots", json!({})).await;
        assert!(roots.contains("file:///home/ada"), "{begins:?}: {roots}");
        close(client).await;
    }
}

#[tokio::test]
async fn progress_arrives_while_the_call_runs() {
    for begins in Begins::ALL {
        let (client, mut notifications) = connect(begins, supervised(rmcp_server())).await;
        let mut arrived = Vec::new();
        let mut sleeping = Box::pin(call(&client, "sleep", json!({ "millis": 400, "steps": 2 })));
        tokio::select! {
            _ = &mut sleeping => panic!("{begins:?}: the call ended before its progress"),
            first = notifications.next() => arrived.push(first),
        }
        assert_eq!(text(&sleeping.await.expect("a result")), "slept 400 ms");
        arrived.push(notifications.next().await);
        assert_eq!(
            arrived,
            [Notified::Progress(1.0), Notified::Progress(2.0)],
            "{begins:?}"
        );
        close(client).await;
    }
}

#[tokio::test]
async fn a_call_that_the_client_drops_is_cancelled_at_the_server() {
    for begins in Begins::ALL {
        let ledger = Ledger::temporary();
        let server = FaultyServer::from(Script::new().speaks(Speaks::Both)).ledger(&ledger);
        let (client, _) = connect(begins, supervised(scripted(&server, "cancelled"))).await;
        let sleeping = call(&client, "sleep_ms", json!({ "ms": 60_000 }));
        let running = ledger.wait_for_async(|ledger| ledger.count("call sleep_ms") == 1, LIMIT);
        tokio::select! {
            answer = sleeping => panic!("{begins:?}: {answer:?}"),
            running = running => assert!(running, "{begins:?}: the call arrives"),
        }
        assert_eq!(ledger.count("cancelled"), 0, "{begins:?}");
        let cancelled = ledger.wait_for_async(|ledger| ledger.count("cancelled") == 1, LIMIT);
        assert!(cancelled.await, "{begins:?}: {:?}", ledger.lines());
        close(client).await;
    }
}

#[tokio::test]
async fn log_messages_arrive_at_the_level_that_the_client_wants() {
    for begins in Begins::ALL {
        let (client, mut notifications) = connect(begins, supervised(asking_server())).await;
        let mut request = params("test_tool_with_logging", json!({}));
        if begins == Begins::Legacy {
            let level = SetLevelRequestParams::new(LoggingLevel::Info);
            client.set_level(level).await.expect("a level");
        } else {
            let mut meta = RequestMetaObject::default();
            meta.set_log_level(LoggingLevel::Info);
            request.meta = Some(meta);
        }
        client.call_tool(request).await.expect("a result");
        let first = notifications.next().await;
        assert_eq!(
            first,
            Notified::Logged(json!("Tool execution started")),
            "{begins:?}"
        );
        close(client).await;
    }
}

/// The server is this client's own, so what belongs to no call is for this client.
#[tokio::test]
async fn a_log_message_outside_of_calls_arrives() {
    let later = Fault::Flood {
        of: Flood::Log,
        count: 1,
    }
    .after_ms(300);
    let server = FaultyServer::new().on(Step::Call, later);
    let transport = supervised(scripted(&server, "outside"));
    let (client, mut notifications) = connect(Begins::Legacy, transport).await;
    call_text(&client, "echo", json!({})).await;
    assert_eq!(notifications.next().await, Notified::Logged(json!("flood")));
    close(client).await;
}

#[tokio::test]
async fn a_changed_list_is_announced_and_listed() {
    for begins in Begins::ALL {
        let (client, mut notifications) = connect(begins, supervised(rmcp_server())).await;
        let tools = client.list_all_tools().await.expect("a list");
        assert!(
            tools.iter().all(|tool| tool.name != "extra"),
            "{begins:?}: {tools:?}"
        );
        if begins == Begins::Legacy {
            call_text(&client, "toggle", json!({})).await;
            assert_eq!(notifications.next().await, Notified::ToolsChanged);
        } else {
            let filter = SubscriptionFilter::builder().tools_list_changed().build();
            let mut subscription = client.listen(filter).await.expect("a subscription");
            call_text(&client, "toggle", json!({})).await;
            let changed = timeout(LIMIT, subscription.next()).await.expect("news in time");
            let changed = changed.expect("a subscription that works");
            assert!(
                matches!(changed, Some(ServerNotification::ToolListChangedNotification(_))),
                "{begins:?}: {changed:?}"
            );
        }
        let tools = client.list_all_tools().await.expect("a list");
        assert!(
            tools.iter().any(|tool| tool.name == "extra"),
            "{begins:?}: {tools:?}"
        );
        close(client).await;
    }
}

/// rmcp's own limit for a line is 16 MiB.
#[tokio::test]
async fn an_answer_above_the_limit_of_rmcp_arrives() {
    const BYTES: usize = 17 * 1024 * 1024;
    let (client, _) = connect(
        Begins::Legacy,
        supervised(scripted(&FaultyServer::new(), "large")),
    )
    .await;
    let answer = call_text(&client, "big", json!({ "bytes": BYTES })).await;
    assert_eq!(answer.len(), BYTES);
    close(client).await;
}
