//! Large payloads are taken apart on threads that may block, and never on the runtime's own.

use std::pin::pin;

use mainstay::config::ToolView;
use mainstay::{CallOptions, Server};
use mainstay_testkit::blocking::{BusyThread, with_one_blocking_thread};
use mainstay_testkit::{AnswerFault, Fault, Rule, Script, Step, clock};
use serde_json::{Value, json};
use tokio::time::timeout;

use mainstay_testkit::fleet::{LONG, Memory, connected, fleet_of};

/// More than is taken apart where it comes.
const LARGE: usize = 2 * mainstay::gateway::message::INLINE_LIMIT;

async fn call(server: &Server, tool: &str, arguments: &Value) -> bool {
    let options = CallOptions::default().timeout(LONG);
    server.call(tool, arguments).options(options).await.is_ok()
}

#[test]
fn large_parameters_and_large_results_wait_for_a_thread_that_may_block_and_small_ones_do_not() {
    with_one_blocking_thread(async {
        let huge = Rule::new(Step::Call, Fault::Answer(AnswerFault::Huge(LARGE))).named("pid");
        let memory = Memory::new(Script::new().rule(huge));
        let (_fleet, server) = fleet_of(memory.config("s"));
        connected(&server).await;
        let (small, large) = (json!({ "key": "k" }), json!({ "key": "k".repeat(LARGE) }));

        let busy = BusyThread::start();
        assert!(call(&server, "echo", &small).await);
        for (tool, arguments) in [("echo", &large), ("pid", &small)] {
            let waits = clock::keeps_waiting(&mut pin!(call(&server, tool, arguments))).await;
            assert!(waits, "{tool}: taken apart on the runtime's own thread");
        }
        drop(busy);
        assert!(call(&server, "echo", &large).await);
        assert!(call(&server, "pid", &small).await);
    });
}

#[test]
fn a_large_listing_waits_for_a_thread_that_may_block_and_a_small_one_does_not() {
    with_one_blocking_thread(async {
        let busy = BusyThread::start();
        let small = Memory::new(Script::new());
        let (_fleet, server) = fleet_of(small.config("small"));
        connected(&server).await;

        // Each page is small, and all of them together are large.
        let pages = 8;
        let script = (0..pages).fold(Script::new().without_builtin_tools().page_size(1), |script, n| {
            let text = "x".repeat(LARGE / pages);
            script.tool_json(json!({ "name": format!("t{n}"), "description": text, "inputSchema": {} }))
        });
        let large = Memory::new(script);
        let (fleet, server) = fleet_of(large.config("large"));
        let waits = clock::keeps_waiting(&mut pin!(connected(&server))).await;
        assert!(waits, "digested on the runtime's own thread");
        drop(busy);
        connected(&server).await;
        assert_eq!(fleet.catalog().tools().len(), pages);
    });
}

#[test]
fn another_view_of_a_large_catalog_is_prepared_by_a_thread_that_may_block() {
    with_one_blocking_thread(async {
        let text = "x".repeat(LARGE);
        let tool = json!({ "name": "t", "description": text, "inputSchema": {} });
        let memory = Memory::new(Script::new().without_builtin_tools().tool_json(tool));
        let (fleet, server) = fleet_of(memory.config("large"));
        connected(&server).await;
        assert!(fleet.catalog().tool("large__t").is_some());

        let mut changes = fleet.catalog_reader();
        let busy = BusyThread::start();
        let renamed = memory.config("large").tools(ToolView::default().rename("t", "u"));
        fleet.apply([renamed.build().unwrap()]).await;
        assert!(
            fleet.catalog().tool("large__t").is_some(),
            "what was published stays until then"
        );
        drop(busy);
        let changed = timeout(LONG, changes.changed()).await.unwrap().unwrap();
        assert!(changed.tool("large__u").is_some() && changed.tool("large__t").is_none());
    });
}
