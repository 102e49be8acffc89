//! A thread that may block takes large payloads apart, and never a thread of the runtime.

use std::pin::pin;

use mainstay_testkit::blocking::{BusyThread, with_one_blocking_thread};
use mainstay_testkit::fleet::Memory;
use mainstay_testkit::{Script, clock};
use serde_json::{Value, json};

use crate::router::client::{Client, modern};
use crate::router::{gateway, one};

/// More than the runtime's own thread takes apart.
const LARGE: usize = 2 * mainstay::gateway::message::INLINE_LIMIT;

/// The number of tools that this client sees.
async fn tools(client: &mut Client, meta: Option<&Value>) -> usize {
    let params = meta.map_or_else(|| json!({}), |meta| json!({ "_meta": meta }));
    let answer = client.ask("tools/list", params).await;
    answer["result"]["tools"].as_array().expect("a list").len()
}

#[test]
fn a_thread_that_may_block_writes_large_lists() {
    with_one_blocking_thread(async {
        let tools_of = |count: usize| {
            (0..count).fold(Script::new().without_builtin_tools(), |script, n| {
                let text = "x".repeat(LARGE / 8);
                script.tool_json(json!({ "name": format!("t{n}"), "description": text, "inputSchema": {} }))
            })
        };
        let (small, large) = (Memory::new(tools_of(1)), Memory::new(tools_of(8)));
        let gateway = gateway(&[("small", &small), ("large", &large)]).await;
        let mut of_small = Client::connect(&gateway, one("small"));
        let mut of_large = Client::connect(&gateway, one("large"));
        let busy = BusyThread::start();
        assert_eq!(tools(&mut of_small, None).await, 1);
        assert!(
            clock::keeps_waiting(&mut pin!(tools(&mut of_large, None))).await,
            "written on the runtime's own thread"
        );
        drop(busy);
        let answer = of_large.answer(1).await;
        assert_eq!(answer["result"]["tools"].as_array().unwrap().len(), 8);
        // What was written is sent as it is.
        let _busy = BusyThread::start();
        assert_eq!(tools(&mut of_large, None).await, 8);
        let meta = modern(&json!({}));
        assert!(
            clock::keeps_waiting(&mut pin!(tools(&mut of_large, Some(&meta)))).await,
            "the other era has a list of its own"
        );
    });
}
