//! Whatever a server sends: no call hangs, memory stays bounded, and no other server notices.

use std::sync::Arc;
use std::time::Duration;

use mainstay::server::BadAnswer;
use mainstay::{
    CallError, CallErrorKind, CallOptions, Fleet, Outcome, RpcError, Server, ServerConfig, StateKind,
};
use mainstay_testkit::{
    AnswerFault, Fault, FaultyServer, Flood, Garbage, Ledger, Occurrence, Rule, Script, Speaks, Step,
};
use serde_json::json;

use mainstay_testkit::fleet::{LONG, Memory, connected, fleet_of};

/// Twice the longest message that is kept, as a buffer doubles, and room for everything else in this process.
const BOUND_KB: u64 = (2 * 64 + 64) * 1024;

fn on_echo(fault: Fault) -> Rule {
    Rule::new(Step::Call, fault).named("echo")
}

async fn call(server: &Server, tool: &str) -> Result<mainstay::Reply, CallError> {
    let options = CallOptions::default()
        .idle_timeout(Duration::from_secs(20))
        .timeout(LONG);
    server.call(tool, &json!({ "key": "k" })).options(options).await
}

#[tokio::test(start_paused = true)]
async fn garbage_between_messages_is_passed_over() {
    let all = [
        Garbage::Text("Debugger attached.".to_owned()),
        Garbage::HalfJson,
        Garbage::InvalidUtf8,
        Garbage::WrongShape,
        Garbage::BlankLines,
        Garbage::AnswerToNothing,
        Garbage::UnknownRequest,
    ];
    for garbage in all {
        let memory = Memory::new(Script::new().rule(on_echo(Fault::Garbage(garbage.clone()))));
        let (_fleet, server) = fleet_of(memory.config("s"));
        let before = connected(&server).await;
        for _ in 0..10 {
            let reply = call(&server, "echo").await;
            assert!(reply.is_ok(), "{garbage:?}: {reply:?}");
        }
        assert_eq!(server.status().generation, before.generation, "{garbage:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unusable_answer_fails_its_own_call_at_once_and_no_other() {
    let all = [
        AnswerFault::InvalidUtf8,
        AnswerFault::HalfJson,
        AnswerFault::NoResult,
    ];
    for bad in all {
        let memory = Memory::new(Script::new().rule(on_echo(Fault::Answer(bad.clone()))));
        let (_fleet, server) = fleet_of(memory.config("s"));
        let before = connected(&server).await;
        let began = tokio::time::Instant::now();
        let (spoilt, other) = tokio::join!(call(&server, "echo"), call(&server, "pid"));
        assert!(
            matches!(&spoilt, Err(error) if matches!(error.kind, CallErrorKind::BadAnswer(_))),
            "{bad:?}: {spoilt:?}"
        );
        assert_eq!(began.elapsed(), Duration::ZERO, "{bad:?}");
        assert!(other.is_ok(), "{bad:?}: {other:?}");
        assert_eq!(server.status().generation, before.generation, "{bad:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_answers_nobody_leaves_the_call_to_its_own_time() {
    let rule = on_echo(Fault::Answer(AnswerFault::WrongId)).occurrence(Occurrence::Nth(1));
    let memory = Memory::new(Script::new().rule(rule));
    let (_fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    let lost = call(&server, "echo").await;
    assert!(
        matches!(&lost, Err(error) if matches!(error.kind, CallErrorKind::TimedOut { .. })),
        "{lost:?}"
    );
    call(&server, "echo").await.expect("the next one is answered");
}

#[tokio::test(start_paused = true)]
async fn an_answer_whose_line_does_not_end_fails_its_call_when_the_next_message_spoils_it() {
    let rule = on_echo(Fault::Answer(AnswerFault::Unfinished)).occurrence(Occurrence::Nth(1));
    let memory = Memory::new(Script::new().rule(rule));
    let (_fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    // The next message is the answer to a probe.
    let lost = call(&server, "echo").await;
    assert!(
        matches!(&lost, Err(error) if matches!(error.kind, CallErrorKind::BadAnswer(_))),
        "{lost:?}"
    );
    call(&server, "echo").await.expect("the next one is answered");
}

#[tokio::test(start_paused = true)]
async fn an_error_without_an_id_fails_the_only_call_at_once() {
    // A modern server always has the standing request for its notifications, too.
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        let script = Script::new()
            .speaks(speaks)
            .rule(on_echo(Fault::Answer(AnswerFault::ErrorWithoutId)));
        let memory = Memory::new(script);
        let (_fleet, server) = fleet_of(memory.config("s"));
        connected(&server).await;
        call(&server, "pid").await.expect("answered");
        let began = tokio::time::Instant::now();
        let failed = call(&server, "echo").await;
        assert!(
            matches!(&failed, Err(error) if matches!(error.kind, CallErrorKind::Rpc(_))),
            "{speaks:?}: {failed:?}"
        );
        assert_eq!(began.elapsed(), Duration::ZERO, "{speaks:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_given_twice_or_in_a_batch_is_taken_once() {
    for bad in [AnswerFault::Twice, AnswerFault::InBatch] {
        let memory = Memory::new(Script::new().rule(on_echo(Fault::Answer(bad.clone()))));
        let (_fleet, server) = fleet_of(memory.config("s"));
        connected(&server).await;
        for _ in 0..3 {
            call(&server, "echo").await.expect("the answer");
        }
    }
}

/// A server that never answers `echo` by itself.
fn silent() -> Arc<Memory> {
    Memory::new(Script::new().rule(on_echo(Fault::NoAnswer)))
}

/// Calls `echo`, which is answered with this member of a response.
async fn answered_with(server: &Server, memory: &Memory, member: &str) -> Result<mainstay::Reply, CallError> {
    let side = memory.side(1).await;
    let calls = side.count("tools/call");
    let answering = async {
        side.wait_for("tools/call", calls + 1).await;
        let received = side.received();
        let call = received
            .iter()
            .rev()
            .find(|message| message.method() == "tools/call");
        let id = call.expect("the call").id().clone();
        side.inject(&format!(r#"{{"jsonrpc":"2.0","id":{id},{member}}}"#))
            .await;
    };
    tokio::join!(call(server, "echo"), answering).0
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_no_object_fails_its_call_which_may_have_run() {
    let memory = silent();
    let (_fleet, server) = fleet_of(memory.config("s"));
    let before = connected(&server).await;
    for member in [r#""result":null"#, r#""result":7"#, r#""result":[{}]"#] {
        let began = tokio::time::Instant::now();
        let error = answered_with(&server, &memory, member).await.expect_err(member);
        assert!(
            matches!(error.kind, CallErrorKind::BadAnswer(BadAnswer::ResultNotObject)),
            "{member}: {error:?}"
        );
        assert_eq!(error.outcome(), Outcome::Unknown, "{member}");
        assert!(error.to_string().contains("may have run"), "{error}");
        assert_eq!(began.elapsed(), Duration::ZERO, "{member}");
    }
    assert_eq!(
        server.status().generation,
        before.generation,
        "the connection is sound"
    );
}

/// A client could not read the error as it came. The words of the server must not be lost.
#[tokio::test(start_paused = true)]
async fn an_error_of_another_form_is_handed_on_as_a_valid_one_with_the_servers_words() {
    let memory = silent();
    let (_fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    for (sent, code, message) in [
        (r#""boom""#, RpcError::INTERNAL_ERROR, "boom"),
        (r#"["boom"]"#, RpcError::INTERNAL_ERROR, r#"["boom"]"#),
        (r#"{"message":"boom"}"#, RpcError::INTERNAL_ERROR, "boom"),
        (r#"{"code":-1}"#, -1, r#"{"code":-1}"#),
        (
            r#"{"code":"E_FAIL","message":"boom"}"#,
            RpcError::INTERNAL_ERROR,
            "boom",
        ),
        (
            r#"{"code":1.5,"message":"boom"}"#,
            RpcError::INTERNAL_ERROR,
            "boom",
        ),
    ] {
        let failed = answered_with(&server, &memory, &format!(r#""error":{sent}"#)).await;
        let error = failed.expect_err(sent);
        assert_eq!(error.outcome(), Outcome::Answered, "{sent}");
        let CallErrorKind::Rpc(error) = error.kind else {
            panic!("{sent}: {error:?}");
        };
        assert_eq!((error.code(), error.message()), (code, message), "{sent}");
        let whole: serde_json::Value = error.raw().parse().unwrap();
        let original: serde_json::Value = serde_json::from_str(sent).unwrap();
        let expected = json!({ "code": code, "message": message, "data": original });
        assert_eq!(whole, expected, "{sent}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_only_sloppy_is_handed_on_as_it_is() {
    let memory = silent();
    let (_fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    for result in ["{}", r#"{"content":"odd","x-more":[1]}"#] {
        for member in [
            format!(r#""result":{result}"#),
            format!(r#""result": {result},"error":null,"extra":{{}}"#),
        ] {
            let reply = answered_with(&server, &memory, &member).await.expect(&member);
            assert_eq!(reply.result.as_str(), result);
        }
    }
    for error in [
        r#"{"code":-32000,"message":"m","x-more":{"a":1}}"#,
        r#"{"code":-1.0,"message":"","data":null}"#,
    ] {
        let failed = answered_with(&server, &memory, &format!(r#""error":{error}"#)).await;
        let kind = failed.expect_err("an error").kind;
        assert!(
            matches!(&kind, CallErrorKind::Rpc(known) if known.raw().as_str() == error),
            "{kind:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_notifications_hangs_no_call() {
    for of in [
        Flood::ListChanged,
        Flood::Log,
        Flood::Progress,
        Flood::Updated,
        Flood::Unknown,
    ] {
        let memory = Memory::new(Script::new().rule(on_echo(Fault::Flood { of, count: 50_000 })));
        let (_fleet, server) = fleet_of(memory.config("s"));
        let before = connected(&server).await;
        let reply = call(&server, "echo").await;
        assert!(reply.is_ok(), "{of:?}: {reply:?}");
        assert_eq!(server.status().generation, before.generation, "{of:?}");
        let listed = memory.side(1).await.count("tools/list");
        assert!(listed <= 3, "{of:?}: {listed} listings");
    }
}

#[tokio::test]
async fn a_line_far_over_the_limit_fails_its_call_in_bounded_memory_and_disturbs_no_other_server() {
    const HUGE: usize = 256 * 1024 * 1024;
    let ledger = Ledger::temporary();
    let huge = on_echo(Fault::Answer(AnswerFault::Huge(HUGE)));
    let nuisance = Rule::new(Step::Call, Fault::HugeNotification(HUGE)).named("pid");
    let wild = FaultyServer::new().ledger(&ledger).rule(huge).rule(nuisance);
    let tame = FaultyServer::new();
    let configs = [("wild", &wild), ("tame", &tame)].map(|(name, server)| {
        let config = ServerConfig::stdio(name, server.command()).args(server.args());
        config.build().unwrap()
    });
    let fleet = Fleet::builder().start(configs);
    let (wild, tame) = (fleet.server("wild").unwrap(), fleet.server("tame").unwrap());
    let before = (connected(&wild).await, connected(&tame).await);
    let memory = Watched::start();

    let beside = tokio::spawn({
        let tame = tame.clone();
        async move {
            for _ in 0..50 {
                call(&tame, "echo").await.expect("undisturbed");
            }
        }
    });
    let patient = || CallOptions::default().timeout(10 * LONG);
    let error = wild
        .call("echo", &json!({}))
        .options(patient())
        .await
        .expect_err("too large");
    assert!(
        matches!(
            &error.kind,
            CallErrorKind::BadAnswer(BadAnswer::TooLarge { length, .. }) if *length > HUGE as u64
        ),
        "{error}"
    );
    let reply = wild.call("pid", &json!({})).options(patient()).await;
    reply.expect("a huge notification is passed over");
    beside.await.unwrap();
    let grown = memory.grown_kb();
    assert!(grown < BOUND_KB, "grew by {grown} kB");
    for (server, before) in [(&wild, before.0), (&tame, before.1)] {
        let now = server.status();
        assert_eq!(
            (now.state, now.generation),
            (StateKind::Connected, before.generation)
        );
    }
}

/// The memory of this process, whose highest level the kernel remembers.
struct Watched {
    before: u64,
}

impl Watched {
    fn start() -> Self {
        // The highest level so far is forgotten.
        std::fs::write("/proc/self/clear_refs", "5").expect("Linux");
        Self {
            before: memory_kb("VmRSS:"),
        }
    }

    fn grown_kb(self) -> u64 {
        memory_kb("VmHWM:").saturating_sub(self.before)
    }
}

/// A field of the status of this process.
fn memory_kb(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kb = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kb.and_then(|kb| kb.parse().ok()).expect("a number of kB")
}

#[tokio::test(start_paused = true)]
async fn text_that_is_printed_without_a_line_break_before_an_answer_loses_no_call() {
    let text = Garbage::Unbroken("loading model… ".to_owned());
    let memory = Memory::new(Script::new().rule(on_echo(Fault::Garbage(text))));
    let (_fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    for _ in 0..3 {
        call(&server, "echo").await.expect("the answer");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_fails_amid_text_on_stdout_says_so_and_where_it_belongs() {
    let text = Garbage::Text("\u{1b}[32mTraceback\u{1b}[0m: boom".to_owned());
    let memory = Memory::new(
        Script::new()
            .rule(on_echo(Fault::Garbage(text)))
            .rule(on_echo(Fault::NoAnswer)),
    );
    let (_fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    let failed = call(&server, "echo").await.expect_err("no answer").to_string();
    for words in ["\"Traceback: boom\"", "stdout", "must write that to stderr"] {
        assert!(failed.contains(words), "{words}: {failed}");
    }

    let quiet = Memory::new(Script::new().rule(on_echo(Fault::NoAnswer)));
    let (_fleet, server) = fleet_of(quiet.config("s"));
    connected(&server).await;
    let failed = call(&server, "echo").await.expect_err("no answer").to_string();
    assert!(!failed.contains("stdout"), "{failed}");
}

#[tokio::test(start_paused = true)]
async fn a_program_that_only_prints_text_is_named_as_such_when_it_does_not_come_up() {
    let banner = Garbage::Text("Usage: tool [OPTIONS]".to_owned());
    let script = Script::new()
        .on(Step::Start, Fault::Garbage(banner))
        .on(Step::Initialize, Fault::NoAnswer);
    let memory = Memory::new(script);
    let (_fleet, server) = fleet_of(memory.config("s").startup_timeout(Duration::from_secs(4)));
    let failed = server
        .wait_until(LONG, |status| status.last_error.is_some())
        .await
        .expect("it fails");
    let message = failed.last_error.expect("it says why").message.clone();
    for words in ["\"Usage: tool [OPTIONS]\"", "stdout", "must write that to stderr"] {
        assert!(message.contains(words), "{words}: {message}");
    }
}
