//! What legacy servers ask of their client: it reaches the handler of the call that caused it, or the fleet's, or is
//! declined; it never reaches another.

use std::future::{pending, ready};
use std::sync::Arc;
use std::time::Duration;

use mainstay::handler::{Answer, ClientCapabilities, ClientHandler, ServerRequest};
use mainstay::transport::{Limits, Lines, Transport};
use mainstay::{CallOptions, Fleet, FleetBuilder, Server, ServerConfig};
use mainstay_testkit::Script;
use mainstay_testkit::memory::MemoryServer;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex, split};
use tokio::sync::mpsc;
use tokio::time::timeout;

use mainstay_testkit::fleet::{Memory, Notes, connected, fleet_with};

const KINDS: [(&str, &str); 3] = [
    ("sampling", "sampling/createMessage"),
    ("elicitation", "elicitation/create"),
    ("roots", "roots/list"),
];

async fn stage(builder: FleetBuilder) -> (Fleet, Server, MemoryServer) {
    let memory = Memory::new(Script::new());
    let (fleet, server) = fleet_with(builder, memory.config("s"));
    connected(&server).await;
    (fleet, server, memory.side(1).await)
}

/// What the server was answered when it asked because of this call.
async fn ask(server: &Server, kind: &str, options: CallOptions) -> Value {
    let reply = server
        .call("ask", &json!({ "kind": kind }))
        .options(options)
        .await;
    let result = reply.expect("the server says what it was answered").tool_result();
    result.unwrap().structured_content.unwrap()
}

/// A call that goes on until it is dropped.
async fn busy(server: &Server, side: &MemoryServer, options: CallOptions) -> tokio::task::JoinHandle<()> {
    let calls = side.count("tools/call");
    let server = server.clone();
    let call = tokio::spawn(async move {
        let arguments = json!({ "ms": 86_400_000 });
        let _dropped = server.call("sleep_ms", &arguments).options(options).await;
    });
    side.wait_for("tools/call", calls + 1).await;
    call
}

/// The server asks by itself; what it is answered.
async fn question(side: &MemoryServer, id: &str) -> Value {
    let request = json!({ "jsonrpc": "2.0", "id": id, "method": "roots/list" });
    side.inject_message(&request).await;
    loop {
        let received = side.received();
        if let Some(answer) = received.iter().find(|message| *message.id() == id) {
            return answer.outcome().clone();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn own(handler: &Arc<Notes>) -> CallOptions {
    CallOptions::default().handler(handler.clone())
}

#[tokio::test(start_paused = true)]
async fn what_a_server_asks_reaches_the_fleets_handler_and_its_answer_the_server() {
    let fleets = Notes::answering(r#"{"from":"fleet"}"#);
    let (_fleet, server, side) = stage(Fleet::builder().handler(fleets.clone())).await;
    for (kind, method) in KINDS {
        let answer = ask(&server, kind, CallOptions::default()).await;
        assert_eq!(answer, json!({ "result": { "from": "fleet" } }), "{method}");
    }
    assert_eq!(fleets.asked(), KINDS.map(|(_, method)| method));
    let offered = &side.last_params("initialize").unwrap()["capabilities"];
    assert!(offered["sampling"].is_object() && offered["elicitation"].is_object());
}

#[tokio::test(start_paused = true)]
async fn without_a_handler_nothing_is_offered_and_everything_is_declined() {
    let (_fleet, server, side) = stage(Fleet::builder()).await;
    let offered = &side.last_params("initialize").unwrap()["capabilities"];
    assert_eq!(*offered, json!({}));
    for (kind, method) in KINDS {
        let answer = ask(&server, kind, CallOptions::default()).await;
        assert_eq!(answer["error"]["code"], -32601, "{method}");
    }
    let pong = ask(&server, "ping", CallOptions::default()).await;
    assert_eq!(pong, json!({ "result": {} }), "a ping needs no handler");
}

#[tokio::test(start_paused = true)]
async fn what_a_call_causes_reaches_the_handler_of_that_call_alone() {
    let fleets = Notes::answering(r#"{"from":"fleet"}"#);
    let callers = Notes::answering(r#"{"from":"caller"}"#);
    let (_fleet, server, _) = stage(Fleet::builder().handler(fleets.clone())).await;
    for (kind, _) in KINDS {
        let answer = ask(&server, kind, own(&callers)).await;
        assert_eq!(answer, json!({ "result": { "from": "caller" } }));
    }
    assert_eq!((fleets.asked().len(), callers.asked().len()), (0, 3));
}

#[tokio::test(start_paused = true)]
async fn a_fleet_can_offer_what_only_the_handlers_of_calls_answer() {
    let all = ClientCapabilities {
        sampling: true,
        ..ClientCapabilities::default()
    };
    let callers = Notes::answering("{}");
    let (_fleet, server, side) = stage(Fleet::builder().capabilities(all)).await;
    let offered = &side.last_params("initialize").unwrap()["capabilities"];
    assert_eq!(*offered, json!({ "sampling": {} }));
    let answer = ask(&server, "sampling", own(&callers)).await;
    assert_eq!(answer, json!({ "result": {} }));
    let answer = ask(&server, "sampling", CallOptions::default()).await;
    assert_eq!(answer["error"]["code"], -32601);
}

#[tokio::test(start_paused = true)]
async fn what_several_callers_may_have_caused_is_declined_and_reaches_none_of_them() {
    let fleets = Notes::answering("{}");
    let [one, other] = [Notes::answering("{}"), Notes::answering("{}")];
    let (_fleet, server, side) = stage(Fleet::builder().handler(fleets.clone())).await;
    let first = busy(&server, &side, own(&one)).await;
    let answer = ask(&server, "roots", own(&other)).await;
    assert_eq!(
        answer["error"]["code"], -32600,
        "two callers with their own handlers"
    );
    let answer = ask(&server, "roots", CallOptions::default()).await;
    assert_eq!(answer["error"]["code"], -32600, "one of them is the fleet's");
    let answer = ask(&server, "roots", own(&one)).await;
    assert_eq!(answer, json!({ "result": {} }), "both calls are of one handler");
    assert_eq!(
        (fleets.asked().len(), one.asked().len(), other.asked().len()),
        (0, 1, 0)
    );
    first.abort();
}

#[tokio::test(start_paused = true)]
async fn what_a_call_that_was_given_up_may_have_caused_reaches_nobody_else() {
    let fleets = Notes::answering("{}");
    let [gone, next] = [Notes::answering("{}"), Notes::answering("{}")];
    let (_fleet, server, side) = stage(Fleet::builder().handler(fleets.clone())).await;
    let dropped = busy(&server, &side, own(&gone)).await;
    dropped.abort();
    side.wait_for("notifications/cancelled", 1).await;
    assert_eq!(
        question(&side, "q1").await["error"]["code"],
        -32600,
        "the fleet did not cause it"
    );
    let call = busy(&server, &side, own(&next)).await;
    assert_eq!(
        question(&side, "q2").await["error"]["code"],
        -32600,
        "nor, perhaps, did the next caller"
    );
    assert_eq!((fleets.asked().len(), next.asked().len()), (0, 0));

    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(
        question(&side, "q3").await,
        json!({ "result": {} }),
        "by now it must have"
    );
    assert_eq!((gone.asked().len(), next.asked().len()), (0, 1));
    call.abort();
}

#[tokio::test(start_paused = true)]
async fn what_a_server_asks_of_its_own_accord_reaches_the_fleets_handler() {
    let fleets = Notes::answering(r#"{"roots":[]}"#);
    let (_fleet, server, side) = stage(Fleet::builder().handler(fleets.clone())).await;
    assert_eq!(question(&side, "q1").await, json!({ "result": { "roots": [] } }));
    let callers = Notes::answering("{}");
    ask(&server, "roots", own(&callers)).await;
    assert_eq!(
        question(&side, "q2").await,
        json!({ "result": { "roots": [] } }),
        "an answered call causes nothing more"
    );
    assert_eq!((fleets.asked().len(), callers.asked().len()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_servers_log_reaches_the_caller_it_must_be_for_and_updates_always_the_fleet() {
    const LOGGED: &str = "notifications/message";
    const UPDATED: &str = "notifications/resources/updated";
    let fleets = Notes::answering("{}");
    let callers = Notes::answering("{}");
    let (_fleet, server, _) = stage(Fleet::builder().handler(fleets.clone())).await;
    server.subscribe("mem://one").await.unwrap();
    let call = async |tool: &str, arguments: Value| {
        let reply = server.call(tool, &arguments).options(own(&callers)).await;
        reply.expect(tool);
    };
    call("log", json!({ "text": "for the caller" })).await;
    call("touch", json!({ "uri": "mem://one" })).await;
    let logged = callers.told(LOGGED, 1).await;
    let params: Value = logged[0].params.as_ref().unwrap().parse().unwrap();
    assert_eq!(params["data"], "for the caller");
    fleets.told(UPDATED, 1).await;
    assert!(callers.told(UPDATED, 0).await.is_empty());
    assert!(fleets.told(LOGGED, 0).await.is_empty());
}

/// A handler that never answers.
struct Thinking;

impl ClientHandler for Thinking {
    fn request(&self, _: ServerRequest) -> Answer<'_> {
        Box::pin(pending())
    }
}

/// A server that asks for roots before it refuses each request. Reports when its input ends.
async fn refuse_all(remote: DuplexStream, ended: mpsc::UnboundedSender<()>) {
    let (reader, mut writer) = split(remote);
    let mut lines = BufReader::new(reader).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let request: Value = serde_json::from_str(&line).unwrap();
        let question = json!({ "jsonrpc": "2.0", "id": "q", "method": "roots/list" });
        let error = json!({ "code": -32600, "message": "not you" });
        let refusal = json!({ "jsonrpc": "2.0", "id": request["id"], "error": error });
        let written = format!("{question}\n{refusal}\n");
        writer.write_all(written.as_bytes()).await.unwrap();
    }
    let _ = ended.send(());
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_fails_closes_the_connection_although_a_question_is_still_open() {
    let (ended, mut ends) = mpsc::unbounded_channel();
    let connector = move || {
        let (near, remote) = duplex(64 * 1024);
        tokio::spawn(refuse_all(remote, ended.clone()));
        let (reader, writer) = split(near);
        let lines: Box<dyn Transport> = Box::new(Lines::new(reader, writer, Limits::default()));
        ready(Ok(lines))
    };
    let config = ServerConfig::custom("s", "s", Arc::new(connector));
    let (_fleet, _server) = fleet_with(Fleet::builder().handler(Arc::new(Thinking)), config);
    // A handler may take much longer.
    let ended = timeout(Duration::from_secs(1), ends.recv()).await;
    ended.expect("closed with the handshake");
}
