//! Requests of modern clients at a server that speaks both eras over HTTP and has a session.

use std::sync::Arc;

use mainstay::gateway::message::{Params, RawJson, RpcError};
use mainstay::gateway::{ServerExt as _, of_modern_client};
use mainstay::handler::{Answer, ClientCapabilities, ServerRequest};
use mainstay::{CallError, CallErrorKind, CallOptions, ClientHandler, Era, Reply, Server};
use mainstay_testkit::http::{FaultyHttpServer, HttpFault, HttpRule, HttpScript, Traffic};
use mainstay_testkit::{MODERN_VERSION, Occurrence, Script, Speaks};
use serde_json::{Value, json};

use crate::http::support::{SOON, beyond, connected, echo, keep, seen, sent, serve, web_at, well};

/// A call of a modern client of a gateway.
async fn modern(server: &Server, params: Value) -> Result<Reply, CallError> {
    let options = of_modern_client(CallOptions::default().timeout(SOON));
    let params = RawJson::from_value(&params).ok();
    server.forward("tools/call", Params::new(params), options).await
}

fn echoing() -> Value {
    json!({ "name": "echo", "arguments": { "key": "k" } })
}

fn header_of_last_call(remote: &FaultyHttpServer, name: &str) -> Option<String> {
    remote.traffic(|traffic| traffic.last_header("tools/call", name).map(str::to_owned))
}

#[tokio::test]
async fn a_modern_clients_request_is_one_of_the_modern_era_and_others_are_of_the_session() {
    let remote = well(Speaks::Both).await;
    let (_fleet, server) = keep(web_at(&remote));
    connected(&server).await;
    modern(&server, echoing()).await.expect("an answer");
    assert_eq!(
        header_of_last_call(&remote, "mcp-protocol-version").as_deref(),
        Some(MODERN_VERSION)
    );
    assert_eq!(
        header_of_last_call(&remote, "mcp-method").as_deref(),
        Some("tools/call")
    );
    assert_eq!(header_of_last_call(&remote, "mcp-session-id"), None);
    let params = remote
        .traffic(|traffic| traffic.last_params("tools/call"))
        .unwrap();
    assert!(params["_meta"]["io.modelcontextprotocol/clientCapabilities"].is_object());

    echo(&server).await.expect("an answer");
    assert_eq!(
        header_of_last_call(&remote, "mcp-protocol-version").as_deref(),
        Some("2025-11-25")
    );
    assert!(header_of_last_call(&remote, "mcp-session-id").is_some());
    assert_eq!(server.status().protocol.unwrap().0, Era::Legacy);
}

#[tokio::test]
async fn a_refused_modern_request_says_nothing_of_the_session() {
    for fault in [HttpFault::status(404), HttpFault::session_lost_as_400()] {
        let http = HttpScript::new().rule(HttpRule::on("tools/call", fault).occurrence(Occurrence::Until(1)));
        let remote = serve(Script::new().speaks(Speaks::Both), http).await;
        let (_fleet, server) = keep(web_at(&remote));
        let generation = connected(&server).await;
        modern(&server, echoing()).await.expect_err("it is refused");
        let reply = echo(&server).await.expect("the session goes on");
        assert_eq!(reply.generation.0, generation);
        assert_eq!(remote.traffic(Traffic::sessions_opened), 1);
    }
}

#[tokio::test]
async fn a_legacy_server_is_asked_once_for_each_connection_and_serves_modern_clients_in_its_session() {
    let remote = well(Speaks::Legacy).await;
    let (_fleet, server) = keep(web_at(&remote));
    let first = connected(&server).await;
    server.refresh().await.unwrap();
    assert_eq!(sent(&remote, "server/discover"), 1);
    modern(&server, echoing()).await.expect("an answer");
    assert!(header_of_last_call(&remote, "mcp-session-id").is_some());
    server.restart().await.unwrap();
    beyond(&server, first).await;
    assert_eq!(sent(&remote, "server/discover"), 2);
}

/// It would ignore the state, and run the call from its start.
#[tokio::test]
async fn a_retry_whose_state_no_session_knows_is_refused_before_it_is_sent() {
    let remote = well(Speaks::Legacy).await;
    let (_fleet, server) = keep(web_at(&remote));
    connected(&server).await;
    let mut retry = echoing();
    retry["requestState"] = json!("of an earlier connection");
    let refused = modern(&server, retry).await.expect_err("it is refused");
    let CallErrorKind::Rpc(error) = &refused.kind else {
        panic!("{refused:?}")
    };
    assert_eq!(error.code(), RpcError::INVALID_PARAMS);
    assert_eq!(sent(&remote, "tools/call"), 0);
}

#[tokio::test]
async fn changes_that_a_server_reports_in_the_modern_era_alone_are_heard() {
    let remote = well(Speaks::Both).await;
    let (_fleet, server) = keep(web_at(&remote));
    connected(&server).await;
    seen(&remote, |traffic| traffic.count("subscriptions/listen") == 1).await;
    server.subscribe("test://one").await.unwrap();
    let is_named = |traffic: &Traffic| {
        let params = traffic.last_params("subscriptions/listen").unwrap_or_default();
        params["notifications"]["resourceSubscriptions"] == json!(["test://one"])
    };
    seen(&remote, is_named).await;
}

/// As servers on the TypeScript SDK 2 are by default: they answer `initialize`, and open no session.
#[tokio::test]
async fn a_server_without_a_session_asks_legacy_callers_too_in_the_modern_era() {
    let http = HttpScript::new().without_sessions().without_standalone_stream();
    let remote = serve(Script::new().speaks(Speaks::Both), http).await;
    let (_fleet, server) = keep(web_at(&remote));
    connected(&server).await;
    let options = CallOptions::default().timeout(SOON).handler(Arc::new(Ann));
    let asking = json!({ "kind": "elicitation", "key": "name" });
    let answered = server.call("ask", &asking).options(options).await;
    let reply = answered.expect("an answer");
    assert!(reply.result.as_str().contains("Ann"), "{}", reply.result);
    assert_eq!(
        header_of_last_call(&remote, "mcp-protocol-version").as_deref(),
        Some(MODERN_VERSION)
    );
}

/// Answers every question with one name.
struct Ann;

impl ClientHandler for Ann {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities {
            elicitation: true,
            ..ClientCapabilities::default()
        }
    }

    fn request(&self, request: ServerRequest) -> Answer<'_> {
        assert_eq!(request.method, "elicitation/create");
        let ann = json!({ "action": "accept", "content": { "name": "Ann" } });
        Box::pin(async move { Ok(RawJson::from_value(&ann).unwrap()) })
    }
}
