//! Servers that send more than a client reads: its answers still come.

use mainstay_gateway::HttpDoor;
use mainstay_testkit::client::{Ask, Reply};
use serde_json::{Value, json};
use tokio::io::BufReader;

use crate::http::support::{World, modern, request};

/// Together far more than the gateway holds for a client that does not read.
const MESSAGES: usize = 3000;
const LENGTH: usize = 4096;

#[tokio::test(start_paused = true)]
async fn a_flood_of_progress_that_a_client_reads_late_does_not_cost_it_its_answer() {
    let world = World::open(HttpDoor::new()).await;
    let session = world.session("/mcp/one").await;
    let params =
        || json!({ "name": "sleep_ms", "arguments": { "ms": 600_000 }, "_meta": { "progressToken": 1 } });
    let asks = [
        modern("/mcp/one", 7, "tools/call", params()),
        session.sign(Ask::post("/mcp/one", &request(7, "tools/call", params()))),
    ];
    for (n, ask) in asks.into_iter().enumerate() {
        let stream = world.send_unread(&ask).await;
        let side = world.server.side();
        side.wait_for("tools/call", n + 1).await;
        let params = side.last_params("tools/call").unwrap();
        let token = &params["_meta"]["progressToken"];
        let padding = "x".repeat(LENGTH);
        for step in 1..=MESSAGES {
            let params = json!({ "progressToken": token, "progress": step, "message": padding });
            let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params });
            side.inject_message(&progress).await;
        }
        // The progress token is the id of the request.
        let answer = json!({ "jsonrpc": "2.0", "id": token, "result": { "content": [] } });
        side.inject_message(&answer).await;

        let mut reply = Reply::read(BufReader::new(stream)).await;
        let mut received = 0;
        let answer = loop {
            let message: Value = reply.message().await;
            if message["method"] != "notifications/progress" {
                break message;
            }
            received += 1;
            assert!(message["params"]["progress"].as_u64() >= Some(received));
        };
        assert_eq!(answer["id"], 7, "{answer}");
        assert!(received > 100, "only {received} of {MESSAGES} came");
        assert_eq!(reply.event().await, None, "the answer ends the stream");
    }
}
