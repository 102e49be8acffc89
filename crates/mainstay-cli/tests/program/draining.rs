//! How the program ends when it is told to: what runs is finished, nothing new begins, and who asks twice does not wait.

use mainstay_testkit::client::{Ask, Reply, Session, initialize, modern, text};
use mainstay_testkit::{Fault, FaultyServer, Flood, Ledger, Step, poll};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::host::Host;
use crate::leaving::wait_for;
use crate::sandbox::{Sandbox, finish};
use crate::serving::{LONG, Serving};

fn one(server: &FaultyServer) -> Sandbox {
    Sandbox::with(&json!({ "one": server.config() }))
}

/// A call that runs until its client has answered, and the question.
async fn asking(serving: &Serving) -> (Session, Reply, Value) {
    let session = Session::open(serving.address, "/mcp/one").await;
    let mut running = session.call(1, "ask", json!({ "kind": "elicitation" })).await;
    let asked = running.message().await;
    (session, running, asked)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_runs_over_http_is_finished_and_nothing_new_begins() {
    let sandbox = one(&FaultyServer::new());
    let serving = Serving::start(&sandbox, &[]);
    let (session, mut running, asked) = asking(&serving).await;
    serving.signal(Signal::TERM);
    serving.hears("finishing what runs");
    let hello = || Ask::post("/mcp", &initialize(json!({})));
    // It says so a moment before it does so.
    let closed = poll::ask_for(LONG, async || {
        (hello().send(serving.address).await.status != 200).then_some(())
    });
    closed.await.expect("the door is closed");
    for refused in [
        hello().send(serving.address).await,
        modern("/mcp", 1, "tools/list", json!({}))
            .send(serving.address)
            .await,
        session.call(2, "echo", json!({})).await,
    ] {
        assert!(refused.header("retry-after").is_some());
        assert_eq!(refused.refusal().await, (503, -32000));
    }
    let content = json!({ "action": "accept", "content": { "name": "Ada" } });
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": content });
    assert_eq!(session.post(&answer).await.status, 202);
    assert!(text(&running.message().await).contains("Ada"), "it is finished");
    serving.ended().exits(143);
    sandbox.assert_nothing_is_left();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_finished_in_time_over_http_is_answered_with_its_outcome() {
    let ledger = Ledger::temporary();
    let sandbox = one(&FaultyServer::new().ledger(&ledger));
    let serving = Serving::start(&sandbox, &["--drain", "100ms"]);
    let (_session, mut running, _asked) = asking(&serving).await;
    let call = json!({ "name": "sleep_ms", "arguments": { "ms": 600_000 } });
    let call = modern("/mcp/one", 2, "tools/call", call).send(serving.address);
    let held_back = tokio::spawn(call);
    let began = || ledger.wait_for(|ledger| ledger.count("call") > 1, LONG);
    assert!(tokio::task::block_in_place(began));
    serving.signal(Signal::TERM);
    let cut = |answer: &Value| answer["result"]["_meta"]["mainstay"]["outcome"].clone();
    let mut last = running.message().await;
    while last.get("method").is_some() {
        last = running.message().await;
    }
    assert_eq!(cut(&last), "unknown", "{last}");
    assert_eq!(running.event().await, None);
    let answer = held_back.await.unwrap().json().await;
    assert_eq!(cut(&answer), "unknown", "{answer}");
    serving.ended().exits(143);
    sandbox.assert_nothing_is_left();
}

/// Starts the program for a host in either way, with the name that a tool has there.
fn hosts(server: &FaultyServer) -> [(Sandbox, Vec<String>, &'static str); 2] {
    let mut wrap = vec!["wrap".to_owned(), "--".to_owned(), server.command()];
    wrap.extend(server.args());
    let serve = ["serve", "--stdio"].map(str::to_owned).to_vec();
    [(one(server), serve, "one__"), (Sandbox::new(), wrap, "")]
}

fn start(sandbox: &Sandbox, arguments: &[String]) -> Host {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut host = Host::start(sandbox, &arguments);
    assert!(!host.tools().is_empty());
    host
}

#[test]
fn what_is_nearly_done_on_stdio_is_answered() {
    let ledger = Ledger::temporary();
    for (sandbox, arguments, prefix) in hosts(&FaultyServer::new().ledger(&ledger)) {
        let mut host = start(&sandbox, &arguments);
        let before = ledger.count("call");
        let call = host.begin_call(&format!("{prefix}slow_then_answer"), &json!({ "ms": 100 }));
        assert!(ledger.wait_for(|ledger| ledger.count("call") > before, LONG));
        kill_process(Pid::from_child(&host.child), Signal::TERM).unwrap();
        assert_eq!(text(&host.answer(call)), "late");
        finish(host.child).exits(143);
        sandbox.assert_nothing_is_left();
    }
}

#[test]
fn what_is_not_finished_in_time_on_stdio_is_answered_with_its_outcome() {
    let ledger = Ledger::temporary();
    for (sandbox, arguments, prefix) in hosts(&FaultyServer::new().ledger(&ledger)) {
        let mut host = start(&sandbox, &arguments);
        let before = ledger.count("call");
        let call = host.begin_call(&format!("{prefix}sleep_ms"), &json!({ "ms": 600_000 }));
        assert!(ledger.wait_for(|ledger| ledger.count("call") > before, LONG));
        kill_process(Pid::from_child(&host.child), Signal::TERM).unwrap();
        let cut = host.answer(call);
        assert_eq!(cut["result"]["_meta"]["mainstay"]["outcome"], "unknown", "{cut}");
        finish(host.child).exits(143);
        sandbox.assert_nothing_is_left();
    }
}

/// What only time shows.
mod timing {
    use std::time::{Duration, Instant};

    use super::*;

    /// Less than what the program waits for: 30 s for what runs, and 4 s for a server that ignores everything, where it is
    /// given the time.
    const AT_ONCE: Duration = Duration::from_millis(3500);

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_second_signal_ends_what_runs_over_http_at_once() {
        let sandbox = one(&FaultyServer::new().on(Step::Eof, Fault::Hang).ignores_term());
        let serving = Serving::start(&sandbox, &["--stop-within", "1m"]);
        let (_session, mut running, _asked) = asking(&serving).await;
        serving.signal(Signal::TERM);
        serving.hears("finishing what runs");
        let began = Instant::now();
        serving.signal(Signal::TERM);
        serving.ended().exits(143);
        assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
        assert_eq!(running.event().await, None);
        sandbox.assert_nothing_is_left();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_signal_ends_the_program_in_time_though_a_server_floods_and_clients_do_not_read() {
        const STREAMS: usize = 20;
        let flood = |of| Fault::Flood { of, count: u64::MAX };
        let server = FaultyServer::new()
            .on(Step::Call, flood(Flood::Updated))
            .on(Step::Eof, Fault::Hang);
        let sandbox = one(&server);
        let serving = Serving::start(&sandbox, &["--stop-within", "2s", "--drain", "1s"]);
        let session = Session::open(serving.address, "/mcp/one").await;
        let mut unread = Vec::new();
        for _ in 0..STREAMS {
            let listens = Session::open(serving.address, "/mcp/one").await;
            unread.push(listens.listen(None).await);
            let subscribed = listens.ask(1, "resources/subscribe", json!({ "uri": "mem://one" }));
            let answer = subscribed.await.json().await;
            assert!(answer["result"].is_object(), "{answer}");
        }
        // The call never ends: its server floods first. The clients read one update each, and then nothing.
        let running = tokio::spawn(async move { session.call(1, "echo", json!({})).await });
        for stream in &mut unread {
            let update = stream.message().await;
            assert_eq!(update["method"], "notifications/resources/updated", "{update}");
        }
        let began = Instant::now();
        serving.signal(Signal::TERM);
        serving.ended().exits(143);
        // A second for what runs, two for the server, and one for what is answered already.
        let within = Duration::from_secs(4) + AT_ONCE;
        assert!(began.elapsed() < within, "{:?}", began.elapsed());
        running.abort();
        sandbox.assert_nothing_is_left();
    }

    #[test]
    fn a_second_signal_ends_the_program_on_stdio_at_once() {
        let stubborn = FaultyServer::new().on(Step::Eof, Fault::Hang).ignores_term();
        for (sandbox, mut arguments, _) in hosts(&stubborn) {
            arguments.splice(1..1, ["--stop-within", "1m"].map(str::to_owned));
            let mut host = start(&sandbox, &arguments);
            kill_process(Pid::from_child(&host.child), Signal::TERM).unwrap();
            wait_for(&mut host.child, "stopping the servers");
            let began = Instant::now();
            kill_process(Pid::from_child(&host.child), Signal::TERM).unwrap();
            finish(host.child).exits(143);
            assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
            sandbox.assert_nothing_is_left();
        }
    }
}
