//! The library without its cargo features: `cargo test -p mainstay --no-default-features --test bare`.

#![cfg(not(feature = "http"))]

use std::time::Duration;

use mainstay::{Fleet, ServerConfig};
use mainstay_testkit::FaultyServer;
use serde_json::json;

#[test]
fn an_address_is_refused_and_the_error_names_the_feature() {
    let refused = ServerConfig::http("web", "http://127.0.0.1:1/mcp")
        .build()
        .unwrap_err();
    assert!(refused.to_string().contains("cargo feature `http`"), "{refused}");
}

#[tokio::test]
async fn a_process_is_called_without_any_feature() {
    let server = FaultyServer::new();
    let config = ServerConfig::stdio("s", server.command())
        .args(server.args())
        .build()
        .unwrap();
    let fleet = Fleet::builder().start([config]);
    fleet.wait_settled(Duration::from_secs(30)).await;
    let tool = fleet.tool("s__echo").expect("the server is up");
    let reply = tool.call(&json!({ "text": "hi" })).await.unwrap();
    assert!(reply.text().contains("hi"), "{}", reply.text());
    fleet.close(Duration::from_secs(10)).await;
}
