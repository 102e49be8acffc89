//! A session's own server meets the client of that session.

use mainstay_gateway::Scope;
use mainstay_testkit::Speaks;
use mainstay_testkit::memory::MemoryServer;
use serde_json::json;

use crate::isolation::{call, gateway, server, speaking};
use crate::router::client::Client;

const CAPABILITIES: &str = r#"{"x-new":{"n":1.0},"elicitation":{}}"#;
const INFO: &str = r#"{"version":"\u0031","name":"odd","x-more":[ ]}"#;

/// A client of this era on the stdio door, and how it calls `echo` of its own server.
fn caller(modern: bool) -> [String; 2] {
    if modern {
        let meta = format!(
            r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{CAPABILITIES},"io.modelcontextprotocol/clientInfo":{INFO}"#
        );
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"echo","arguments":{{}},"_meta":{{{meta}}}}}}}"#
        );
        let ask = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{{"_meta":{{{meta}}}}}}}"#
        );
        return [ask, call];
    }
    let ask = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"2025-03-26","capabilities":{CAPABILITIES},"clientInfo":{INFO}}}}}"#
    );
    let call =
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call("echo", json!({})) });
    [ask, call.to_string()]
}

/// The params of the first request of this method, as they came.
fn received(side: &MemoryServer, method: &str) -> String {
    let received = side.received();
    let request = received.iter().find(|message| message.method() == method);
    request.expect("it was asked").raw_params().to_owned()
}

#[tokio::test]
async fn a_session_s_own_server_gets_the_client_s_introduction_and_again_after_a_crash() {
    for (modern, version) in [(false, "2025-03-26"), (true, "2025-11-25")] {
        let (own, all) = (server(), server());
        let gateway = gateway(&own, &all).await;
        let mut client = Client::connect(&gateway, Scope::Server("own".into()));
        let [ask, call] = caller(modern);
        client.write(&ask).await;
        client.answer(1).await;
        let expected =
            format!(r#"{{"protocolVersion":"{version}","capabilities":{CAPABILITIES},"clientInfo":{INFO}}}"#);
        for connection in 2..=3 {
            client.write(&call).await;
            client.answer(2).await;
            let side = own.side(connection).await;
            assert_eq!(received(&side, "initialize"), expected);
            side.cut();
        }
        for met in [own.side(1).await, all.side(1).await] {
            let params = received(&met, "initialize");
            assert!(params.contains(r#""clientInfo":{"name":"mainstay""#), "{params}");
            assert!(params.contains(r#""sampling""#), "{params}");
        }
        client.leave().await;
    }
}

#[tokio::test]
async fn a_session_s_own_modern_server_gets_the_client_s_introduction_with_each_request() {
    for (speaks, modern) in [
        (Speaks::Modern, false),
        (Speaks::Modern, true),
        (Speaks::Both, true),
    ] {
        let (own, all) = (speaking(speaks), server());
        let gateway = gateway(&own, &all).await;
        let mut client = Client::connect(&gateway, Scope::Server("own".into()));
        let [ask, call] = caller(modern);
        client.write(&ask).await;
        client.answer(1).await;
        client.write(&call).await;
        client.answer(2).await;
        let side = own.side(2).await;
        let expected = format!(
            r#""io.modelcontextprotocol/clientCapabilities":{CAPABILITIES},"io.modelcontextprotocol/clientInfo":{INFO}"#
        );
        for method in ["server/discover", "tools/list", "tools/call"] {
            let params = received(&side, method);
            assert!(params.contains(&expected), "{method} {params}");
        }
        client.leave().await;
    }
}
