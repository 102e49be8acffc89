//! Modern servers ask by answering that they need input: the call is made again with it, as often as it takes.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use mainstay::handler::{Answer, ClientCapabilities, ServerRequest};
use mainstay::server::TimeoutKind;
use mainstay::{CallError, CallErrorKind, CallOptions, ClientHandler, Fleet, FleetBuilder, Outcome, Server};
use mainstay_testkit::{Fault, Occurrence, Rule, Script, Speaks, Step};
use serde_json::{Value, json};

use mainstay_testkit::fleet::{LONG, Memory, Notes, connected, fleet_with, raw};

async fn stage(builder: FleetBuilder, script: Script) -> (Fleet, Server, Arc<Memory>) {
    let memory = Memory::new(script.speaks(Speaks::Modern));
    let (fleet, server) = fleet_with(builder, memory.config("s"));
    connected(&server).await;
    (fleet, server, memory)
}

async fn ask(server: &Server, options: CallOptions) -> Result<Value, CallError> {
    let reply = server
        .call("ask", &json!({ "kind": "sampling" }))
        .options(options)
        .await?;
    Ok(reply.tool_result().unwrap().structured_content.unwrap())
}

#[tokio::test(start_paused = true)]
async fn input_that_a_modern_server_needs_comes_from_the_handler_and_the_call_is_completed() {
    let notes = Notes::answering(r#"{"role":"assistant"}"#);
    let fleets = Notes::answering(r#"{"role":"fleet"}"#);
    let (_fleet, server, memory) = stage(Fleet::builder().handler(fleets.clone()), Script::new()).await;
    let options = CallOptions::default().handler(notes.clone());
    let answered = ask(&server, options).await.unwrap();
    assert_eq!(answered["inputResponses"]["question"]["role"], "assistant");
    assert_eq!(answered["requestState"], "state-1");
    assert_eq!(notes.asked(), ["sampling/createMessage"]);

    let answered = ask(&server, CallOptions::default()).await.unwrap();
    assert_eq!(answered["inputResponses"]["question"]["role"], "fleet");
    assert_eq!(fleets.asked().len(), 1);

    let side = memory.side(1).await;
    let received = side.received();
    let calls: Vec<_> = received
        .iter()
        .filter(|message| message.method() == "tools/call")
        .collect();
    assert_eq!(calls.len(), 4, "two calls of two rounds");
    assert_ne!(calls[0].id(), calls[1].id());
    assert_eq!(calls[0].params()["arguments"], calls[1].params()["arguments"]);
}

#[tokio::test(start_paused = true)]
async fn each_request_offers_what_its_own_handler_answers() {
    let (_fleet, server, memory) = stage(Fleet::builder(), Script::new()).await;
    let offered = async |options: CallOptions| {
        server.call("echo", &json!({})).options(options).await.unwrap();
        let params = memory.side(1).await.last_params("tools/call").unwrap();
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"].clone()
    };
    assert_eq!(offered(CallOptions::default()).await, json!({}));
    let options = CallOptions::default().handler(Notes::answering("{}"));
    assert!(offered(options).await["sampling"].is_object());
    assert_eq!(offered(CallOptions::default()).await, json!({}));
}

#[tokio::test(start_paused = true)]
async fn input_that_nobody_gives_ends_the_call_and_not_the_connection() {
    let (_fleet, server, memory) = stage(Fleet::builder(), Script::new()).await;
    let before = server.status();
    for _ in 0..5 {
        let error = ask(&server, CallOptions::default()).await.expect_err("declined");
        assert!(
            matches!(&error.kind, CallErrorKind::Rpc(error) if error.code() == -32601),
            "{error}"
        );
    }
    assert_eq!(memory.side(1).await.count("tools/call"), 5, "one round each");
    assert_eq!(server.status().generation, before.generation);
}

#[tokio::test(start_paused = true)]
async fn a_round_carries_what_the_last_answer_asked_for_and_nothing_of_an_earlier_one() {
    let question = json!({ "question": { "method": "roots/list" } });
    let needs = |input: Value| {
        let mut result = json!({ "resultType": "input_required" });
        let fields = result.as_object_mut().unwrap();
        fields.extend(input.as_object().unwrap().clone());
        Fault::Result(result)
    };
    let script = Script::new()
        .rule(
            Rule::new(
                Step::Call,
                needs(json!({ "inputRequests": question, "requestState": "one" })),
            )
            .occurrence(Occurrence::Nth(1)),
        )
        .rule(
            Rule::new(Step::Call, needs(json!({ "inputRequests": question }))).occurrence(Occurrence::Nth(2)),
        )
        .rule(
            Rule::new(Step::Call, needs(json!({ "requestState": "three" }))).occurrence(Occurrence::Nth(3)),
        );
    let (_fleet, server, memory) = stage(Fleet::builder().handler(Notes::answering("{}")), script).await;
    server.call("echo", &json!({})).await.unwrap();
    let received = memory.side(1).await.received();
    let rounds: Vec<_> = received
        .iter()
        .filter(|message| message.method() == "tools/call")
        .map(|message| {
            (
                message.params()["inputResponses"].clone(),
                message.params()["requestState"].clone(),
            )
        })
        .collect();
    let answered = json!({ "question": {} });
    assert_eq!(
        rounds,
        [
            (Value::Null, Value::Null),
            (answered.clone(), json!("one")),
            (answered, Value::Null),
            (Value::Null, json!("three")),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_stops_asking_is_stopped() {
    let insatiable = json!({
        "resultType": "input_required",
        "inputRequests": { "more": { "method": "roots/list" } },
        "requestState": "again"
    });
    let script = Script::new().rule(Rule::new(Step::Call, Fault::Result(insatiable)));
    let notes = Notes::answering("{}");
    let (_fleet, server, memory) = stage(Fleet::builder().handler(notes), script).await;
    let error = ask(&server, CallOptions::default()).await.expect_err("enough");
    assert!(matches!(error.kind, CallErrorKind::Rpc(_)), "{error}");
    assert_eq!(memory.side(1).await.count("tools/call"), 10);
}

/// Never answers.
struct Silent;

impl ClientHandler for Silent {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities {
            sampling: true,
            ..ClientCapabilities::default()
        }
    }

    fn request(&self, _: ServerRequest) -> Answer<'_> {
        Box::pin(pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_round_of_input_is_bound_by_the_calls_own_time_and_by_a_persons_patience() {
    let (_fleet, server, _) = stage(Fleet::builder(), Script::new()).await;
    let before = server.status();
    for _ in 0..5 {
        let began = tokio::time::Instant::now();
        let options = CallOptions::default()
            .timeout(Duration::from_secs(30))
            .handler(Arc::new(Silent));
        let error = ask(&server, options).await.expect_err("nobody answers");
        assert!(
            matches!(
                error.kind,
                CallErrorKind::TimedOut {
                    timeout: TimeoutKind::Person,
                    ..
                }
            ),
            "{error}"
        );
        assert!(began.elapsed() < Duration::from_secs(31));
    }
    assert_eq!(
        server.status().generation,
        before.generation,
        "the server is not to blame"
    );
    let began = tokio::time::Instant::now();
    let options = CallOptions::default().handler(Arc::new(Silent));
    let error = ask(&server, options).await.expect_err("nobody answers");
    assert!(matches!(error.kind, CallErrorKind::Rpc(_)), "{error}");
    assert!(began.elapsed() <= Duration::from_secs(11 * 60));
}

/// Answers when the connection that asked is gone.
struct TooLate {
    memory: Arc<Memory>,
    server: Server,
}

impl ClientHandler for TooLate {
    fn request(&self, request: ServerRequest) -> Answer<'_> {
        Box::pin(async move {
            self.memory.side(1).await.cut();
            let lost = |status: &mainstay::Status| status.generation != Some(request.generation);
            self.server.wait_until(LONG, lost).await.expect("it is lost");
            Ok(raw("{}"))
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_first_round_has_run_is_never_begun_anew() {
    let (_fleet, server, memory) = stage(Fleet::builder(), Script::new()).await;
    let handler = TooLate {
        memory: memory.clone(),
        server: server.clone(),
    };
    let options = CallOptions::default().handler(Arc::new(handler));
    let error = ask(&server, options).await.expect_err("lost");
    assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
    connected(&server).await;
    let (old, new) = (memory.side(1).await, memory.side(2).await);
    assert_eq!((old.count("tools/call"), new.count("tools/call")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_result_that_only_speaks_of_input_is_no_question() {
    let (_fleet, server, memory) = stage(Fleet::builder(), Script::new()).await;
    let arguments = raw(r#"{"text":"input_required","resultType":"input_required"}"#);
    let reply = server.call("echo", &arguments).await.unwrap();
    assert!(reply.result.as_str().contains("input_required"));
    assert_eq!(memory.side(1).await.count("tools/call"), 1);
}
