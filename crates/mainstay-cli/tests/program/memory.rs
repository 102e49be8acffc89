//! The memory of `mainstay serve`: what it holds for clients is bounded, and comes back to the system.

use std::fs;

use mainstay_testkit::client::{Ask, Connection, LONG, Reply, Session, initialize, modern, request};
use mainstay_testkit::http::{AnswerForm, FaultyHttpServer, HttpFault, HttpScript};
use mainstay_testkit::{Script, poll};
use serde_json::{Value, json};
use tokio::io::BufReader;
use tokio::net::{TcpSocket, TcpStream};

use crate::behind::Behind;
use crate::sandbox::Sandbox;
use crate::serving::Serving;

const MIB: u64 = 1024 * 1024;

/// What may be held for all clients.
const CLIENT_MEMORY: u64 = 64 * MIB;

const SESSIONS: usize = 20;

/// One answer. Those of all sessions are more than twice what may be held.
const ANSWER: u64 = 8 * MIB;

/// The resident memory of a process.
fn resident(pid: i32) -> u64 {
    in_status(pid, "VmRSS:")
}

fn in_status(pid: i32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.expect("a size") * 1024
}

/// How much more memory a process had at any moment than at the beginning.
struct Peak {
    pid: i32,
    before: u64,
}

impl Peak {
    fn begin(serving: &Serving) -> Self {
        let pid = serving.pid();
        // Forgets the highest resident memory so far.
        fs::write(format!("/proc/{pid}/clear_refs"), "5").expect("it runs");
        let before = resident(pid);
        Self { pid, before }
    }

    fn most(&self) -> u64 {
        in_status(self.pid, "VmHWM:").saturating_sub(self.before)
    }

    /// How much more it has now.
    fn left(&self) -> u64 {
        resident(self.pid).saturating_sub(self.before)
    }
}

/// Calls a tool with a large answer, and reads no more than the head of the answer.
async fn leave_answer(serving: &Serving, session: &Session) -> Reply {
    let params = json!({ "name": "big", "arguments": { "bytes": ANSWER } });
    let ask = Ask::post("/mcp/child", &request(1, "tools/call", params));
    let answered = session.sign(ask).send(serving.address).await;
    // The answers that do not fit are errors, each with a status of its own.
    assert!(matches!(answered.status, 200 | 429 | 503), "{}", answered.status);
    answered
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_sessions_leave_unread_take_no_more_than_may_be_held_and_their_memory_comes_back() {
    let sandbox = Sandbox::new();
    let child = Behind::child(&sandbox);
    sandbox.configure(&json!({ "child": child.config() }));
    let megabytes = (CLIENT_MEMORY / MIB).to_string();
    let serving = Serving::start(&sandbox, &["--client-memory", &megabytes]);
    // Once to the end, so that everything has been in use once.
    let first = Session::open(serving.address, "/mcp/child").await;
    let mut answer = first.call(1, "big", json!({ "bytes": ANSWER })).await;
    // A stream if the server took long to come up.
    let answer = match answer.is_events() {
        true => answer.message().await,
        false => answer.json().await,
    };
    assert!(answer["result"].is_object(), "{}", answer["error"]);
    let peak = Peak::begin(&serving);

    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        let session = Session::open(serving.address, "/mcp/child").await;
        let unread = leave_answer(&serving, &session).await;
        sessions.push((session, unread));
    }
    let most = peak.most();
    // One more answer, as read from the server and as taken apart, may be in memory at any moment.
    let bound = CLIENT_MEMORY + 3 * ANSWER;
    assert!(most <= bound, "{} MiB of {}", most / MIB, bound / MIB);

    for (session, unread) in sessions {
        drop(unread);
        session.end().await;
    }
    let is_given_back = poll::comes_true_async(LONG, || peak.left() <= CLIENT_MEMORY / 4).await;
    assert!(
        is_given_back,
        "{} MiB of {} are left",
        peak.left() / MIB,
        most / MIB
    );
}

/// The argument of one call. Those of all sessions are more than twice what may be held.
const ARGUMENT: usize = 4 * 1024 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_requests_that_run_take_no_more_than_may_be_held() {
    let sandbox = Sandbox::new();
    let web = Behind::web();
    sandbox.configure(&json!({ "web": web.config() }));
    let megabytes = (CLIENT_MEMORY / MIB).to_string();
    let serving = Serving::start(&sandbox, &["--client-memory", &megabytes]);
    let first = Session::open(serving.address, "/mcp/web").await;
    assert_eq!(first.call(1, "echo", json!({ "a": 1 })).await.status, 200);
    let peak = Peak::begin(&serving);

    let mut calls = Vec::new();
    for _ in 0..2 * SESSIONS {
        let session = Session::open(serving.address, "/mcp/web").await;
        let params = large_call();
        let ask = session.sign(Ask::post("/mcp/web", &request(1, "tools/call", params)));
        calls.push(ask);
    }
    let replies = send_all(&serving, calls).await;
    let running = replies.iter().filter(|reply| reply.is_events()).count();
    let most = peak.most();
    assert!((1..2 * SESSIONS).contains(&running), "{running} run");
    // The tasks and buffers of the sessions and connections.
    let bound = CLIENT_MEMORY + 16 * MIB;
    assert!(most <= bound, "{} MiB of {}", most / MIB, bound / MIB);
}

/// The parameters of a call that runs for long.
fn large_call() -> Value {
    let arguments = json!({ "ms": 600_000, "padding": "x".repeat(ARGUMENT) });
    json!({ "name": "sleep_ms", "arguments": arguments })
}

/// Sends all at the same time. A call that runs begins a stream after a while, and one that is refused is answered at once.
async fn send_all(serving: &Serving, calls: Vec<Ask>) -> Vec<Reply> {
    let sending = calls
        .into_iter()
        .map(|ask| tokio::spawn(ask.send(serving.address)));
    let mut replies = Vec::new();
    for sent in sending.collect::<Vec<_>>() {
        replies.push(sent.await.expect("sent"));
    }
    replies
}

/// How often all clients leave.
const ROUNDS: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_requests_whose_clients_leave_take_no_more_than_may_be_held() {
    let sandbox = Sandbox::new();
    let web = Behind::web();
    sandbox.configure(&json!({ "web": web.config() }));
    let megabytes = (CLIENT_MEMORY / MIB).to_string();
    let serving = Serving::start(&sandbox, &["--client-memory", &megabytes]);
    let first = Session::open(serving.address, "/mcp/web").await;
    assert_eq!(first.call(1, "echo", json!({ "a": 1 })).await.status, 200);
    let peak = Peak::begin(&serving);
    let bound = CLIENT_MEMORY + 16 * MIB;
    // The calls of a modern client end with its connection, and others get their room.
    for _ in 0..ROUNDS {
        let mut running = 0;
        let deadline = tokio::time::Instant::now() + LONG;
        while running == 0 && tokio::time::Instant::now() < deadline {
            let ask = |_| modern("/mcp/web", 1, "tools/call", large_call());
            let replies = send_all(&serving, (0..SESSIONS).map(ask).collect()).await;
            running = replies.iter().filter(|reply| reply.is_events()).count();
        }
        assert!(running > 0, "the room of those that left is free again");
    }
    // Those of a session run on.
    for _ in 0..ROUNDS {
        let mut calls = Vec::new();
        for _ in 0..SESSIONS {
            let session = Session::open(serving.address, "/mcp/web").await;
            calls.push(session.sign(Ask::post("/mcp/web", &request(1, "tools/call", large_call()))));
        }
        drop(send_all(&serving, calls).await);
    }
    let most = peak.most();
    assert!(most <= bound, "{} MiB of {}", most / MIB, bound / MIB);
    assert!(
        most >= CLIENT_MEMORY / 4,
        "{} MiB: hardly any were held",
        most / MIB
    );
}

/// What is received at the same time of large answers from one HTTP server.
const RECEIVING: u64 = 128 * MIB;

/// An answer of which two fit into that, and how much of it comes.
const STOPPED_ANSWER: usize = 60 * 1024 * 1024;
const STOPPED_AFTER: usize = STOPPED_ANSWER - 1024 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_stop_in_the_middle_of_their_answers_take_128_mib_each() {
    const CALLS: usize = 4;
    let stops = || {
        let http = HttpScript::new()
            .on("tools/call", HttpFault::Reply(AnswerForm::Json))
            .on("tools/call", HttpFault::StopAfter(STOPPED_AFTER));
        FaultyHttpServer::start(Script::new(), http)
    };
    let servers = [
        stops().await.expect("a free port"),
        stops().await.expect("a free port"),
    ];
    let [one, other] = servers
        .each_ref()
        .map(|server| json!({ "url": server.url("/mcp") }));
    let sandbox = Sandbox::with(&json!({ "one": one, "other": other }));
    let serving = Serving::start(&sandbox, &[]);
    serving.hears("connected");
    serving.hears("connected");
    let peak = Peak::begin(&serving);
    let mut calls = Vec::new();
    for path in ["/mcp/one", "/mcp/other"] {
        for _ in 0..CALLS {
            let params = json!({ "name": "big", "arguments": { "bytes": STOPPED_ANSWER } });
            calls.push(tokio::spawn(
                modern(path, 1, "tools/call", params).send(serving.address),
            ));
        }
    }
    for server in &servers {
        let asked = server.wait_for("tools/call", CALLS, LONG).await;
        assert!(asked, "all calls are sent");
    }
    // Two of each have come as far as they come.
    let arrived = 4 * STOPPED_AFTER as u64;
    let have_arrived = poll::comes_true_async(LONG, || peak.left() >= arrived).await;
    assert!(have_arrived, "{} MiB", peak.left() / MIB);
    // Whatever would come beside them comes while nothing else happens.
    let mut last = (0, 0);
    let rests = poll::comes_true_async(LONG, || {
        let now = peak.left();
        last = if now == last.0 {
            (now, last.1 + 1)
        } else {
            (now, 0)
        };
        last.1 == 20
    });
    assert!(rests.await, "{} MiB", peak.left() / MIB);
    // The buffers of the system are not the gateway's; those of the connections are.
    let bound = 2 * RECEIVING + 16 * MIB;
    let most = peak.most();
    assert!(most <= bound, "{} MiB of {}", most / MIB, bound / MIB);
    for call in calls {
        call.abort();
    }
}

fn held_by(socket: TcpStream) -> BufReader<Connection> {
    BufReader::new(Box::new(socket))
}

/// Streams that are not read, and small events for each of them: more than the sockets take, and then many times what may be held.
const STREAMS: usize = 24;
const EVENTS: usize = 6_000;
const PADDING: usize = 1_000;

/// What may be held for them.
const EVENT_MEMORY: u64 = 8 * MIB;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_events_on_streams_that_are_not_read_take_no_more_than_may_be_held() {
    let remote = FaultyHttpServer::start(Script::new(), HttpScript::new());
    let remote = remote.await.expect("a free port");
    let sandbox = Sandbox::with(&json!({ "web": { "url": remote.url("/mcp") } }));
    let megabytes = (EVENT_MEMORY / MIB).to_string();
    let serving = Serving::start(&sandbox, &["--client-memory", &megabytes]);
    let things = json!({ "extensions": { "io.x/things": {} } });
    let open = async || Session::open_as(serving.address, "/mcp/web", things.clone()).await;
    let mut unread = Vec::new();
    for _ in 0..STREAMS {
        let session = open().await;
        // A small window, so that the system holds little for the client.
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4096).expect("a size");
        let connection = socket.connect(serving.address).await.expect("connected");
        let ask = Ask::new("GET", "/mcp/web").header("accept", "text/event-stream");
        let stream = session.sign(ask).send_on(held_by(connection), serving.address);
        unread.push(stream.await);
    }
    // One that reads, from another address: those that do not read use up what one address may hold.
    let elsewhere = async |ask: Ask| {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(([127, 0, 0, 2], 0).into()).expect("an address");
        let connection = socket.connect(serving.address).await.expect("connected");
        ask.send_on(held_by(connection), serving.address).await
    };
    let reader = elsewhere(Ask::post("/mcp/web", &initialize(things.clone()))).await;
    let id = reader.header("mcp-session-id").expect("a session").to_owned();
    let ask = Ask::new("GET", "/mcp/web").header("accept", "text/event-stream");
    let ask = ask
        .header("mcp-session-id", &id)
        .header("mcp-protocol-version", "2025-11-25");
    let mut read = elsewhere(ask).await;
    let peak = Peak::begin(&serving);
    for n in 0..EVENTS {
        let event = json!({ "n": n, "padding": "x".repeat(PADDING) });
        remote.notify("notifications/things/list_changed", &event);
        // The one that reads shows that the event has come: it is held for the others, or dropped.
        while read.message().await["params"]["n"] != n {}
    }
    let most = peak.most();
    // The buffers of the connections and of the allocator.
    let bound = EVENT_MEMORY + 4 * MIB;
    assert!(most <= bound, "{} KiB of {}", most / 1024, bound / 1024);
    assert!(
        most >= EVENT_MEMORY / 2,
        "{} KiB: hardly any were held",
        most / 1024
    );
}
