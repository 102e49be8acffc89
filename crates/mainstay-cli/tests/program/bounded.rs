//! What `mainstay serve` bounds because it was told to.

use serde_json::json;

use crate::clients::initialize;
use crate::sandbox::Sandbox;
use crate::serving::Serving;
use crate::wire::Ask;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_asks_too_often_is_told_when_to_come_back() {
    let sandbox = Sandbox::with(&json!({}));
    let serving = Serving::start(&sandbox, &["--rate", "1"]);
    let hello = || Ask::post("/mcp", &initialize(json!({})));
    let first = hello().send(serving.address).await;
    assert_eq!(first.status, 200);
    // Far faster than one a second, however busy the machine is: one of them comes too soon.
    let mut refused = None;
    for _ in 0..100 {
        let next = hello().send(serving.address).await;
        if next.status != 200 {
            refused = Some(next);
            break;
        }
    }
    let refused = refused.expect("a bound");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(refused.refusal().await, (429, -32000));
}
