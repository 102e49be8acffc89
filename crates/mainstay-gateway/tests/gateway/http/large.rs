//! Large messages are parsed on threads that may block, and never on a thread of the runtime.

use std::pin::pin;
use std::sync::mpsc;

use mainstay::Fleet;
use mainstay::gateway::message::INLINE_LIMIT;
use mainstay_gateway::{Gateway, HttpDoor, Scope};
use mainstay_testkit::client::{Ask, LONG};
use mainstay_testkit::clock;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::http::support::{World, initialize, request};

/// More than is parsed where it arrives.
const LARGE: usize = INLINE_LIMIT + 64 * 1024;

/// Runs a test on a runtime with one thread that may block.
fn with_one_blocking_thread(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    runtime.block_on(test);
}

/// Keeps the one blocking thread busy until it is dropped.
struct Occupied {
    _release: mpsc::Sender<()>,
    /// Completes when the thread has come to it: all jobs that were queued before have ended.
    begun: oneshot::Receiver<()>,
}

fn occupy() -> Occupied {
    let (release, released) = mpsc::channel();
    let (begins, begun) = oneshot::channel();
    tokio::task::spawn_blocking(move || {
        let _ = begins.send(());
        let _ = released.recv();
    });
    Occupied {
        _release: release,
        begun,
    }
}

/// How many jobs for the blocking thread an answer waits for, one after the other; and the answer.
async fn blocking_jobs<T>(answer: impl Future<Output = T>) -> (usize, T) {
    let mut answer = pin!(answer);
    let mut occupied = occupy();
    for jobs in 0..20 {
        (&mut occupied.begun).await.expect("the thread comes to it");
        tokio::select! {
            biased;
            answer = &mut answer => return (jobs, answer),
            // As far as it comes while the job is held up.
            () = clock::turns() => {}
        }
        // The next job is queued before this one runs, so each is seen by itself.
        occupied = occupy();
    }
    panic!("no answer");
}

fn large_ping() -> Value {
    request(1, "ping", json!({ "padding": "x".repeat(LARGE) }))
}

#[test]
fn a_batch_its_messages_and_their_parameters_are_parsed_off_the_runtime() {
    with_one_blocking_thread(async {
        let world = World::open(HttpDoor::new()).await;
        let mut hello = initialize(json!({}));
        hello["params"]["protocolVersion"] = json!("2025-03-26");
        let opened = world.send(Ask::post("/mcp/one", &hello)).await;
        let id = opened.header("mcp-session-id").unwrap().to_owned();
        let post = |body: &Value| Ask::post("/mcp/one", body).header("mcp-session-id", &id);
        let small = json!([request(1, "ping", json!({}))]);
        let (jobs, reply) = blocking_jobs(world.send(post(&small))).await;
        assert_eq!((jobs, reply.status), (0, 200));
        let (jobs, reply) = blocking_jobs(world.send(post(&json!([large_ping()])))).await;
        assert_eq!(
            (jobs, reply.status),
            (3, 200),
            "the batch, the message, its parameters"
        );
    });
}

#[test]
fn a_body_that_is_no_message_is_judged_off_the_runtime() {
    with_one_blocking_thread(async {
        let world = World::open(HttpDoor::new()).await;
        let no_message = json!({ "padding": "x".repeat(LARGE) });
        let (jobs, reply) = blocking_jobs(world.send(Ask::post("/mcp/one", &no_message))).await;
        assert_eq!(jobs, 2, "whether it is a message, and whether it is JSON");
        assert_eq!(reply.refusal().await, (400, -32600));
    });
}

/// A client on stdin and stdout.
struct Piped {
    input: WriteHalf<DuplexStream>,
    output: BufReader<ReadHalf<DuplexStream>>,
}

impl Piped {
    /// A client of a gateway without servers, which holds so many bytes for it.
    fn start(held: usize) -> Self {
        let gateway = Gateway::builder(Fleet::builder()).max_held_per_client(held);
        let gateway = gateway.start([]);
        let (near, remote) = tokio::io::duplex(2 * LARGE);
        tokio::spawn(async move {
            let (input, output) = tokio::io::split(remote);
            gateway.serve_stdio(Scope::Union, input, output).await;
        });
        let (output, input) = tokio::io::split(near);
        Self {
            input,
            output: BufReader::new(output),
        }
    }

    async fn ask(&mut self, message: &Value) -> Value {
        let line = format!("{message}\n");
        self.input.write_all(line.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let read = timeout(LONG, self.output.read_line(&mut answer)).await;
        read.expect("an answer in time").unwrap();
        serde_json::from_str(&answer).expect("JSON")
    }
}

#[test]
fn on_stdin_a_batch_its_messages_and_their_parameters_are_parsed_off_the_runtime() {
    with_one_blocking_thread(async {
        let mut client = Piped::start(64 * LARGE);
        let mut hello = initialize(json!({}));
        hello["params"]["protocolVersion"] = json!("2025-03-26");
        client.ask(&hello).await;
        let (jobs, answer) = blocking_jobs(client.ask(&json!([large_ping()]))).await;
        assert_eq!(
            (jobs, answer),
            (3, json!([{ "jsonrpc": "2.0", "id": 1, "result": {} }]))
        );
    });
}

#[test]
fn on_stdin_a_message_that_cannot_be_held_is_parsed_off_the_runtime() {
    with_one_blocking_thread(async {
        let mut client = Piped::start(INLINE_LIMIT);
        let (jobs, answer) = blocking_jobs(client.ask(&large_ping())).await;
        assert_eq!(
            (jobs, &answer["id"], &answer["error"]["code"]),
            (1, &json!(1), &json!(-32000))
        );
    });
}
