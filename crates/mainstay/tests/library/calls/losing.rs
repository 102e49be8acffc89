//! Connections lost under a call: the call fails at once and says what is known of it; only what may be repeated is.

use std::time::Duration;

use mainstay::config::{Replay, ServerBuilder, StdioTarget};
use mainstay::{CallError, CallErrorKind, CallOptions, Outcome, Server, ServerConfig};
use mainstay_testkit::{Child, Fault, FaultyServer, Ledger, Rule, Script, Signal, Step, clock};
use serde_json::json;

use mainstay_testkit::fleet::{LONG, Memory, connected, fleet_of};

/// No timer that is due later is waited for.
const AT_ONCE: Duration = Duration::from_millis(100);

fn process(server: &FaultyServer) -> ServerBuilder<StdioTarget> {
    ServerConfig::stdio("s", server.command()).args(server.args())
}

/// A server whose first processes die of every call of this tool, after they have noted it.
fn deadly(tool: &str, ledger: &Ledger, starts: u64) -> FaultyServer {
    let rule = Rule::new(Step::Call, Fault::Exit(3)).named(tool);
    FaultyServer::new().ledger(ledger).rule(rule.first_starts(starts))
}

async fn call(server: &Server, tool: &str) -> Result<mainstay::Reply, CallError> {
    let options = CallOptions::default().timeout(LONG);
    server.call(tool, &json!({ "key": "k" })).options(options).await
}

#[tokio::test]
async fn a_pending_call_fails_the_moment_its_server_is_killed_and_says_how_it_died() {
    let ledger = Ledger::temporary();
    let (_fleet, server) = fleet_of(process(&FaultyServer::new().ledger(&ledger)));
    let status = connected(&server).await;
    let caller = server.clone();
    let pending = tokio::spawn(async move {
        let options = CallOptions::default().replay(Replay::Never);
        caller
            .call("sleep_ms", &json!({ "ms": 60_000 }))
            .options(options)
            .await
    });
    assert!(
        ledger
            .wait_for_async(|ledger| ledger.count("call sleep_ms") == 1, LONG)
            .await
    );
    let pid = rustix::process::Pid::from_raw(status.pid.expect("a process")).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let told = clock::within(AT_ONCE, pending).await;
    let error = told.unwrap().expect_err("its server is dead");
    assert_eq!(error.outcome(), Outcome::Unknown);
    let CallError {
        generation,
        kind: CallErrorKind::Lost { failure, .. },
        ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!(generation, status.generation);
    let exit = failure.expect("why is known").exit.expect("it had a process");
    assert_eq!(exit.signal, Some(rustix::process::Signal::KILL.as_raw()));
}

#[tokio::test]
async fn a_pending_call_fails_when_its_server_dies_though_a_child_keeps_its_pipes_open() {
    let ledger = Ledger::temporary();
    let child = Child {
        holds_pipes: true,
        ..Child::default()
    };
    let faulty = FaultyServer::new().on(Step::Start, Fault::Spawn(child));
    let (_fleet, server) = fleet_of(process(&faulty.ledger(&ledger)));
    connected(&server).await;
    let error = call(&server, "commit_then_die").await.expect_err("it died");
    assert!(matches!(error.kind, CallErrorKind::Lost { .. }), "{error}");
    assert_eq!(error.outcome(), Outcome::Unknown);
}

#[tokio::test]
async fn a_call_that_commits_before_its_server_dies_is_made_once() {
    let ledger = Ledger::temporary();
    let (_fleet, server) = fleet_of(process(&FaultyServer::new().ledger(&ledger)));
    let error = call(&server, "commit_then_die").await.expect_err("it died");
    assert_eq!(error.outcome(), Outcome::Unknown);
    assert!(matches!(error.kind, CallErrorKind::Lost { .. }), "{error}");
    // The next call runs on the next process; nothing was repeated there.
    call(&server, "append").await.unwrap();
    assert_eq!(
        (ledger.count("start"), ledger.count("call commit_then_die")),
        (2, 1)
    );
}

#[tokio::test]
async fn a_tool_hinted_read_only_or_idempotent_is_replayed_on_the_next_connection() {
    for tool in ["echo", "put"] {
        let ledger = Ledger::temporary();
        let (_fleet, server) = fleet_of(process(&deadly(tool, &ledger, 1)));
        let first = connected(&server).await;
        let reply = call(&server, tool).await.expect(tool);
        assert!(Some(reply.generation) > first.generation);
        assert_eq!(
            (ledger.count("start"), ledger.count(&format!("call {tool} k"))),
            (2, 2)
        );
    }
}

#[tokio::test]
async fn a_call_made_before_the_first_listing_is_replayed_by_the_hints_of_that_listing() {
    let ledger = Ledger::temporary();
    let (_fleet, server) = fleet_of(process(&deadly("echo", &ledger, 1)));
    call(&server, "echo").await.expect("replayed");
    assert_eq!(ledger.count("call echo"), 2);
}

#[tokio::test]
async fn a_tool_without_such_a_hint_is_never_replayed() {
    let ledger = Ledger::temporary();
    let (_fleet, server) = fleet_of(process(&deadly("append", &ledger, 1)));
    let error = call(&server, "append").await.expect_err("it died");
    assert_eq!(error.outcome(), Outcome::Unknown);
    call(&server, "echo").await.expect("the next process is well");
    assert_eq!(ledger.count("call append"), 1);
}

#[tokio::test]
async fn a_call_is_replayed_at_most_once() {
    let ledger = Ledger::temporary();
    let (_fleet, server) = fleet_of(process(&deadly("echo", &ledger, u64::MAX)));
    let error = call(&server, "echo").await.expect_err("it dies of it");
    assert_eq!(error.outcome(), Outcome::Unknown);
    call(&server, "pid").await.expect("of nothing else");
    assert_eq!(ledger.count("call echo"), 2);
}

#[tokio::test]
async fn no_call_is_replayed_where_the_caller_or_the_configuration_forbids_it() {
    let ledger = Ledger::temporary();
    let (_fleet, server) = fleet_of(process(&deadly("echo", &ledger, 1)));
    let options = CallOptions::default().replay(Replay::Never);
    server
        .call("echo", &json!({}))
        .options(options)
        .await
        .expect_err("lost");
    call(&server, "pid").await.unwrap();
    assert_eq!(ledger.count("call echo"), 1);

    let ledger = Ledger::temporary();
    let config = process(&deadly("echo", &ledger, 1)).replay(Replay::Never);
    let (_fleet, server) = fleet_of(config);
    call(&server, "echo").await.expect_err("lost");
    call(&server, "pid").await.unwrap();
    assert_eq!(ledger.count("call echo"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_replay_waits_no_longer_than_the_calls_own_deadline_and_then_tells_of_the_loss() {
    let dies = Rule::new(Step::Call, Fault::Signal(Signal::Kill));
    let memory = Memory::new(Script::new().rule(dies));
    let (_fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    memory.set_down(true);
    let began = tokio::time::Instant::now();
    let options = CallOptions::default().timeout(Duration::from_secs(5));
    let error = server
        .call("echo", &json!({}))
        .options(options)
        .await
        .expect_err("lost");
    assert!(
        matches!(error.kind, CallErrorKind::Lost { .. }),
        "the loss says more than the vain wait: {error}"
    );
    assert_eq!(error.outcome(), Outcome::Unknown);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(6), "{took:?}");
}

#[tokio::test]
async fn prompts_and_resources_only_read_and_are_replayed() {
    let ledger = Ledger::temporary();
    let dies = |method: &str| {
        Rule::new(Step::Other, Fault::Exit(3))
            .method(method)
            .first_starts(1)
    };
    let faulty = FaultyServer::new().ledger(&ledger).rule(dies("prompts/get"));
    let (_fleet, server) = fleet_of(process(&faulty));
    let reply = server
        .prompt("greet", &json!({ "who": "Ada" }))
        .await
        .expect("replayed");
    assert!(reply.result.as_str().contains("Greet Ada."));
    assert_eq!(ledger.count("get greet"), 2);
}

#[tokio::test(start_paused = true)]
async fn ten_calls_that_lose_one_connection_all_fail_and_cause_one_reconnect() {
    let memory = Memory::new(Script::new());
    let (_fleet, server) = fleet_of(memory.config("s"));
    let first = connected(&server).await;
    let calls: Vec<_> = (0..10)
        .map(|_| {
            let server = server.clone();
            tokio::spawn(async move {
                let arguments = json!({ "key": "k", "ms": 60_000 });
                let options = CallOptions::default().replay(Replay::Never);
                server.call("sleep_ms", &arguments).options(options).await
            })
        })
        .collect();
    let side = memory.side(1).await;
    side.wait_for("tools/call", 10).await;
    side.cut();
    for call in calls {
        let error = call.await.unwrap().expect_err("lost");
        assert!(matches!(error.kind, CallErrorKind::Lost { .. }), "{error}");
    }
    let back = connected(&server).await;
    assert!(back.generation > first.generation);
    assert_eq!(back.starts, 2);
}
