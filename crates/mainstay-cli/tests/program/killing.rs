//! A server that is killed again and again costs its clients nothing, and the gateway nothing that is not given back.

use mainstay_testkit::client::Session;
use mainstay_testkit::{poll, procfs};
use serde_json::{Value, json};

use crate::behind::Behind;
use crate::host::Host;
use crate::sandbox::Sandbox;
use crate::serving::{LONG, Serving, Visitor};

/// Kills in a row, and those before them, after which everything is open that stays.
const KILLS: usize = 50;
const WARM_UP: usize = 3;

/// Threads that come and go: the runtime keeps those that wrote to the disk for a while.
const THREADS: usize = 2;

/// A server that may be started often, but is given up as soon as it is lost before it has proved itself.
fn precious(sandbox: &Sandbox) -> Behind {
    let server = Behind::child(sandbox);
    let mut config = server.config();
    config["restart"] = json!({ "budget": 1, "when_spent": "give_up", "bucket": { "size": 1000 } });
    sandbox.configure(&json!({ "one": config }));
    server
}

fn assert_echoed(result: &Value, round: usize) {
    assert_eq!(result["structuredContent"]["round"], round, "{result}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_kills_in_a_row_cost_clients_over_http_nothing_and_leave_nothing() {
    let sandbox = Sandbox::new();
    let mut server = precious(&sandbox);
    let serving = Serving::start(&sandbox, &[]);
    let visitors = [
        (Visitor::legacy(serving.address, "/mcp").await, "one__echo"),
        (Visitor::legacy(serving.address, "/mcp/one").await, "echo"),
        (Visitor::modern(serving.address, "/mcp"), "one__echo"),
    ];
    visitors[0].0.lists("one__echo").await;
    let tools = visitors[0].0.tools().await;
    let watcher = Session::open(serving.address, "/mcp").await;
    let mut standing = watcher.listen(None).await;
    let mut before = None;
    for round in 0..WARM_UP + KILLS {
        for (visitor, echo) in &visitors {
            assert_echoed(&visitor.call(echo, json!({ "round": round })).await, round);
        }
        if round == WARM_UP {
            before = Some(Held::at_rest(serving.pid()));
        }
        server.kill();
        assert_eq!(visitors[0].0.tools().await, tools);
    }
    let last = WARM_UP + KILLS;
    for (visitor, echo) in &visitors {
        assert_echoed(&visitor.call(echo, json!({ "round": last })).await, last);
    }
    before.expect("measured").assert_held(serving.pid());
    assert_eq!(server.ledger.pids().len(), last + 1, "one start for each kill");
    assert_eq!(watcher.end().await.status, 204, "its session lives");
    assert_eq!(standing.event().await, None, "and its stream did until now");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_restarts_of_a_server_over_http_leave_no_connection_behind() {
    let mut server = Behind::web();
    let mut config = server.config();
    config["restart"] = json!({ "bucket": { "size": 1000 } });
    let sandbox = Sandbox::with(&json!({ "one": config }));
    let serving = Serving::start(&sandbox, &[]);
    let visitor = Visitor::legacy(serving.address, "/mcp").await;
    visitor.lists("one__echo").await;
    let tools = visitor.tools().await;
    let mut before = None;
    for round in 0..=WARM_UP + KILLS {
        assert_echoed(&visitor.call("one__echo", json!({ "round": round })).await, round);
        if round == WARM_UP {
            before = Some(Held::at_rest(serving.pid()));
        }
        if round < WARM_UP + KILLS {
            server.kill();
            server.give_back();
            assert_eq!(visitor.tools().await, tools);
        }
    }
    before.expect("measured").assert_held(serving.pid());
}

#[test]
fn fifty_kills_in_a_row_cost_a_host_on_stdio_nothing_and_leave_nothing() {
    let sandbox = Sandbox::new();
    let mut server = precious(&sandbox);
    let mut host = Host::start(&sandbox, &["serve", "--stdio", "--quiet"]);
    let pid = i32::try_from(host.child.id()).expect("a process id fits");
    host.lists("one__echo");
    let tools = host.tools();
    let mut before = None;
    for round in 0..WARM_UP + KILLS {
        assert_echoed(&host.call("one__echo", &json!({ "round": round })), round);
        if round == WARM_UP {
            before = Some(Held::at_rest(pid));
        }
        server.kill();
        assert_eq!(host.tools(), tools);
    }
    let last = WARM_UP + KILLS;
    assert_echoed(&host.call("one__echo", &json!({ "round": last })), last);
    before.expect("measured").assert_held(pid);
    assert_eq!(server.ledger.pids().len(), last + 1, "one start for each kill");
    host.leave().exits(0);
    sandbox.assert_nothing_is_left();
}

/// What the gateway holds.
#[derive(Debug, PartialEq)]
struct Held {
    descriptors: usize,
    threads: usize,
    zombies: usize,
}

impl Held {
    fn now(pid: i32) -> Self {
        Self {
            descriptors: procfs::descriptors_of(pid),
            threads: procfs::threads_of(pid),
            zombies: procfs::zombies_of(pid).len(),
        }
    }

    /// What is held when nothing is being closed any more: the same at several looks in a row.
    fn at_rest(pid: i32) -> Self {
        let mut held = Self::now(pid);
        let mut same = 0;
        let rests = poll::comes_true(LONG, || {
            let now = Self::now(pid);
            same = if now == held { same + 1 } else { 0 };
            held = now;
            same >= 20
        });
        assert!(rests, "it never rests: {held:?}");
        held
    }

    /// Comes back when no more is held than this.
    fn assert_held(&self, pid: i32) {
        let mut now = Self::now(pid);
        let is_given_back = poll::comes_true(LONG, || {
            now = Self::now(pid);
            let is_flat = now.descriptors <= self.descriptors && now.threads <= self.threads + THREADS;
            is_flat && now.zombies == 0
        });
        println!("{self:?} before, {now:?} after {KILLS} kills");
        assert!(is_given_back, "{self:?} before, {now:?} after {KILLS} kills");
    }
}
