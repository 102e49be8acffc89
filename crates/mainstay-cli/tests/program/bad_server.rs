//! One bad server beside a good one: nobody waits for it, and nobody makes it start more often than it may.

use std::net::SocketAddr;

use mainstay_testkit::{Fault, FaultyServer, Ledger, Rule, Step};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::sandbox::{Sandbox, shell};
use crate::serving::{Serving, Visitor};

/// Clients that ask at the same time, and how often each asks when the server is given up.
const CLIENTS: usize = 24;
const MORE: usize = 20;

/// Failures in a row that are answered with another attempt.
const BUDGET: usize = 3;

/// What it writes is garbage, but as long as it works it may still be starting.
const WORKS_FOR_EVER: &str = "prints garbage for ever";

/// Servers that never come up, each with what it does once it has noted its start.
const BAD: [(&str, &str); 4] = [
    ("never answers", "exec cat >/dev/null"),
    ("exits at once", "exit 3"),
    (
        "prints garbage and exits",
        r"printf '\377\376{\nno json\n[]\n'; exit 0",
    ),
    (
        WORKS_FOR_EVER,
        r"while printf '\377\376 no json\n'; do sleep 0.01; done",
    ),
];

/// A server that notes its start, and then does this.
fn bad(ledger: &Ledger, script: &str) -> Value {
    shell(&format!(
        "echo start $$ >> '{}'; {script}",
        ledger.path().display()
    ))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn greetings_and_lists_of_the_union_wait_for_no_server_that_is_not_up() {
    let (starts, good) = (Ledger::temporary(), FaultyServer::new());
    let sandbox = Sandbox::with(&json!({ "bad": bad(&starts, BAD[0].1), "good": good.config() }));
    let serving = Serving::start(&sandbox, &[]);
    // The bad one is never ready, so that whatever answers has not waited for it.
    let modern = Visitor::modern(serving.address, "/mcp");
    let discovered = modern.ask("server/discover", json!({})).await;
    assert!(discovered["result"]["capabilities"]["tools"].is_object());
    let union = Visitor::legacy(serving.address, "/mcp").await;
    for (method, offered) in [
        ("tools/list", "good__echo"),
        ("prompts/list", "good__greet"),
        ("resources/list", "mem://one"),
        ("resources/templates/list", "mem://{name}"),
    ] {
        let listed = union.ask(method, json!({})).await;
        assert!(listed["result"].to_string().contains(offered), "{listed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_server_is_started_no_more_often_than_its_budget_allows_however_hard_clients_ask() {
    // A server that is at work without end is given up too, but only at the limit of a whole start: minutes.
    let given_up_soon = BAD.iter().filter(|(what, _)| *what != WORKS_FOR_EVER);
    for (what, script) in given_up_soon {
        let starts = Ledger::temporary();
        let mut config = bad(&starts, script);
        // Time for each start to be noted.
        config["startup_timeout"] = json!("1s");
        config["restart"] = json!({
            "budget": BUDGET, "backoff": { "first": "10ms", "ceiling": "50ms" }, "slow_probe": "1h",
        });
        let sandbox = Sandbox::with(&json!({ "bad": config, "good": FaultyServer::new().config() }));
        let serving = Serving::start(&sandbox, &[]);
        let mut hammering = JoinSet::new();
        for _ in 0..CLIENTS {
            hammering.spawn(hammer(serving.address));
        }
        hammering.join_all().await;
        let began = starts.count("start");
        assert_eq!(began, BUDGET, "{what}");
    }
}

/// Asks for everything that the bad server could be wanted for, and calls the good one, until the bad one is given up, and
/// then some more.
async fn hammer(address: SocketAddr) {
    let union = Visitor::modern(address, "/mcp");
    let bad = Visitor::modern(address, "/mcp/bad");
    let mut given_up = 0;
    while given_up < MORE {
        let refused = bad.call("echo", json!({})).await;
        assert_eq!(refused["isError"], true, "{refused}");
        given_up += usize::from(refused["_meta"]["mainstay"]["reason"] == "budget_spent");
        let listed = bad.ask("tools/list", json!({})).await;
        assert_eq!(listed["error"]["data"]["mainstay"]["server"], "bad", "{listed}");
        assert!(union.tools().await.contains(&"good__echo".to_owned()));
        let result = union.call("good__echo", json!({ "a": 1 })).await;
        assert_eq!(result["structuredContent"]["a"], 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_at_each_call_is_started_no_more_often_than_its_bucket_allows() {
    const BUCKET: usize = 3;
    let ledger = Ledger::temporary();
    let dies = Rule::new(Step::Call, Fault::Exit(9));
    let mut config = FaultyServer::new().ledger(&ledger).rule(dies).config();
    // Longer than a start takes, so that a call which is not answered waits for the bucket.
    config["call_timeout"] = json!("5s");
    config["restart"] = json!({ "bucket": { "size": BUCKET, "refill_every": "1h" } });
    let sandbox = Sandbox::with(&json!({ "dies": config }));
    let serving = Serving::start(&sandbox, &[]);
    let mut calling = JoinSet::new();
    for _ in 0..CLIENTS {
        let visitor = Visitor::modern(serving.address, "/mcp/dies");
        calling.spawn(async move {
            // Until one finds the bucket empty.
            while visitor.call("append", json!({})).await["_meta"]["mainstay"]["attempt"] == Value::Null {}
            assert!(
                visitor.tools().await.contains(&"append".to_owned()),
                "the last good list"
            );
        });
    }
    calling.join_all().await;
    assert_eq!(ledger.pids().len(), 1 + BUCKET);
}

/// What only time shows.
mod timing {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::serving::LONG;

    /// How soon a good server can be called once it has been listed: 50 ms on a quiet machine; the rest is for a busy one.
    /// Who waits for the bad one waits for 15 s or longer.
    const SOON: Duration = Duration::from_secs(5);

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_good_server_is_usable_as_soon_as_it_is_ready_whatever_the_one_beside_it_does() {
        for (what, script) in BAD {
            let (good, starts) = (Ledger::temporary(), Ledger::temporary());
            let slow = Fault::Delay { ms: 300 };
            let server = FaultyServer::new().ledger(&good).on(Step::Initialize, slow);
            let sandbox = Sandbox::with(&json!({ "bad": bad(&starts, script), "good": server.config() }));
            let serving = Serving::start(&sandbox, &[]);
            let client = async {
                let visitor = Visitor::legacy(serving.address, "/mcp").await;
                let tools = visitor.tools().await;
                assert!(tools.contains(&"good__echo".to_owned()), "{what}: {tools:?}");
                let result = visitor.call("good__echo", json!({ "a": 1 })).await;
                assert_eq!(result["structuredContent"]["a"], 1, "{what}");
                Instant::now()
            };
            let (usable, ready) = tokio::join!(client, listed(&good));
            let took = usable.saturating_duration_since(ready);
            println!("{what}: called {took:?} after the first listing");
            assert!(took < SOON, "{what}: {took:?}");
        }
    }

    /// Comes back when the server is asked for its tools for the first time.
    async fn listed(ledger: &Ledger) -> Instant {
        let is_listed = ledger.wait_for_async(|ledger| ledger.count("list tools") > 0, LONG);
        assert!(is_listed.await, "it is listed");
        Instant::now()
    }
}
