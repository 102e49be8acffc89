//! What only time shows: that a flood of one server delays neither other clients nor timers. Each has the machine to itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mainstay::{Fleet, ServerConfig};
use mainstay_gateway::{Gateway, HttpDoor};
use mainstay_testkit::Script;
use mainstay_testkit::chaos::Lateness;
use mainstay_testkit::client::{Ask, LONG};
use mainstay_testkit::memory::MemoryServer;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::http::support::{Memory, Session, World, modern, text};

/// How much later than on an idle machine something may come, beside what the machine itself is late. Each of the few turns
/// that a call waits for is a turn of a flood to 200 clients, which takes a tenth of a second without optimization.
const SLACK: Duration = Duration::from_secs(3);

/// How late the machine is: how long after its time a thread of its own is woken.
struct MachineLateness {
    is_over: Arc<AtomicBool>,
    thread: thread::JoinHandle<Duration>,
}

impl MachineLateness {
    fn watch() -> Self {
        const NAP: Duration = Duration::from_millis(5);
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let thread = thread::spawn(move || {
            let mut worst = Duration::ZERO;
            while !ends.load(Ordering::Relaxed) {
                let began = Instant::now();
                thread::sleep(NAP);
                worst = worst.max(began.elapsed().saturating_sub(NAP));
            }
            worst
        });
        Self { is_over, thread }
    }

    fn worst(self) -> Duration {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Two servers: `one`, which is going to flood and whose calls may take so long, and `two`.
async fn world(call_timeout: Duration) -> World {
    let [one, two] = [Script::new(), Script::new()].map(Memory::new);
    let configs = [
        ServerConfig::custom("one", "one", one.clone()).call_timeout(call_timeout),
        ServerConfig::custom("two", "two", two),
    ];
    let configs = configs.map(|config| config.build().unwrap());
    let gateway = Gateway::start(Fleet::builder(), configs);
    for name in ["one", "two"] {
        let server = gateway.fleet().server(name).unwrap();
        server.wait_connected(LONG).await.expect("connected");
    }
    let mut world = World::serving(HttpDoor::new(), gateway);
    world.server = one;
    world
}

/// Sends these notifications in turn without end.
fn flood(side: MemoryServer, notifications: &[Value]) -> JoinHandle<()> {
    let lines: Vec<String> = notifications.iter().map(|sent| format!("{sent}\n")).collect();
    let piece = lines.concat().repeat(64).into_bytes();
    tokio::spawn(async move {
        loop {
            side.inject_bytes(piece.clone()).await;
        }
    })
}

fn log() -> Value {
    let params = json!({ "level": "error", "data": "x".repeat(200) });
    json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": params })
}

#[tokio::test]
async fn unread_streams_of_many_clients_delay_neither_a_neighbour_s_call_nor_a_timer() {
    const STREAMS: usize = 200;
    const CALLS: u64 = 50;
    let world = world(LONG).await;
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        let session = world.session("/mcp/one").await;
        let subscribed = session.ask(1, "resources/subscribe", json!({ "uri": "mem://one" }));
        assert_eq!(subscribed.await.status, 200);
        let listen = Ask::new("GET", "/mcp/one").header("accept", "text/event-stream");
        streams.push(world.send_unread(&session.sign(listen)).await);
    }
    let neighbour = world.session("/mcp/two").await;
    let updated = json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": "mem://one" } });
    let flooding = flood(world.server.side(), &[log(), updated]);
    // Until all that the connections take is full.
    call_in_a_row(&neighbour, 10).await;
    let (machine, timer) = (MachineLateness::watch(), Lateness::watch());
    let slowest = call_in_a_row(&neighbour, CALLS).await;
    let (timer, machine) = (timer.worst().await, machine.worst());
    assert!(!flooding.is_finished(), "it goes on");
    flooding.abort();
    for (what, took) in [("a call", slowest), ("a timer", timer)] {
        assert!(
            took < SLACK + machine,
            "{what}: {took:?}, the machine: {machine:?}"
        );
    }
}

/// Calls a tool so many times, one call after the other; how long the slowest took.
async fn call_in_a_row(session: &Session, calls: u64) -> Duration {
    let mut slowest = Duration::ZERO;
    for n in 0..calls {
        let began = Instant::now();
        let answer = session.call(n, "echo", json!({ "a": 1 })).await.json().await;
        assert_eq!(text(&answer), r#"{"a":1}"#);
        slowest = slowest.max(began.elapsed());
    }
    slowest
}

#[tokio::test]
async fn a_call_times_out_in_time_though_its_server_floods() {
    const TIMEOUT: Duration = Duration::from_millis(500);
    let world = world(TIMEOUT).await;
    let flooding = flood(world.server.side(), &[log()]);
    let sleep = json!({ "name": "sleep_ms", "arguments": { "ms": 600_000 } });
    let machine = MachineLateness::watch();
    let began = Instant::now();
    let answer = world.send(modern("/mcp/one", 1, "tools/call", sleep)).await;
    let (took, machine) = (began.elapsed(), machine.worst());
    assert!(!flooding.is_finished(), "it goes on");
    flooding.abort();
    let answer = answer.json().await;
    assert!(answer.to_string().contains("time"), "{answer}");
    assert!(took >= TIMEOUT, "{took:?}");
    assert!(
        took < TIMEOUT + SLACK + machine,
        "{took:?}, the machine: {machine:?}"
    );
}
