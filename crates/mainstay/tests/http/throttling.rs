//! Calls over HTTP: what a server refuses on a live connection is not sent to it again.

use std::sync::Arc;
use std::time::Duration;

use mainstay::transport::{HttpConnector, HttpOptions};
use mainstay::{CallError, CallOptions, Fleet, Outcome, ServerConfig};
use mainstay_testkit::Script;
use mainstay_testkit::http::{FaultyHttpServer, HttpFault, HttpScript};
use serde_json::json;

#[tokio::test]
async fn a_call_that_the_server_throttles_is_refused_once_and_costs_no_connection() {
    let script = HttpScript::new().on("tools/call", HttpFault::retry_after(429, "7"));
    let far = FaultyHttpServer::start(Script::new(), script).await.unwrap();
    let connector = Arc::new(HttpConnector::new(far.url("/mcp"), HttpOptions::new()).unwrap());
    let config = ServerConfig::custom("web", far.url("/mcp"), connector);
    let fleet = Fleet::builder().start([config.build().unwrap()]);
    let server = fleet.server("web").unwrap();
    let generation = server
        .wait_connected(Duration::from_secs(30))
        .await
        .unwrap()
        .generation;

    let posts = || far.traffic(|traffic| traffic.requests("POST"));
    let before = posts();
    let error = server
        .call("echo", &json!({}), CallOptions::default())
        .await
        .unwrap_err();
    assert!(matches!(error, CallError::Throttled { .. }), "{error:?}");
    assert_eq!(error.outcome(), Outcome::Refused);
    assert_eq!(posts(), before + 1, "sent once");
    assert_eq!(server.status().generation, generation);
    fleet.close(Duration::from_secs(10)).await;
}
