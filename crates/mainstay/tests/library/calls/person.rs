//! While a person answers: the server is not blamed for their time, their patience ends, and nobody answers in vain.

use std::sync::Arc;
use std::time::Duration;

use mainstay::handler::{Answer, ServerRequest};
use mainstay::server::TimeoutKind;
use mainstay::{CallError, CallErrorKind, CallOptions, ClientHandler, Fleet, Outcome, Server};
use mainstay_testkit::Script;
use mainstay_testkit::memory::MemoryServer;
use serde_json::{Value, json};
use tokio::sync::watch;

use mainstay_testkit::fleet::{LONG, Memory, connected, fleet_of, fleet_with, raw};

const SECOND: Duration = Duration::from_secs(1);

/// Answers after a while, or never.
struct Person {
    after: Option<Duration>,
    /// Who is being asked now, and how often somebody stopped asking.
    asking: watch::Sender<(usize, usize)>,
}

/// One question; tells when it is no longer asked.
struct Question<'a>(&'a Person);

impl Person {
    fn answering_after(after: Option<Duration>) -> Arc<Self> {
        Arc::new(Self {
            after,
            asking: watch::Sender::default(),
        })
    }

    async fn until(&self, reached: impl FnMut(&(usize, usize)) -> bool) {
        let mut asking = self.asking.subscribe();
        let reached = tokio::time::timeout(LONG, asking.wait_for(reached)).await;
        reached.expect("in time").unwrap();
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.0.asking.send_modify(|(asked, ended)| {
            *asked -= 1;
            *ended += 1;
        });
    }
}

impl ClientHandler for Person {
    fn request(&self, _: ServerRequest) -> Answer<'_> {
        Box::pin(async {
            self.asking.send_modify(|(asked, _)| *asked += 1);
            let _question = Question(self);
            match self.after {
                Some(after) => tokio::time::sleep(after).await,
                None => std::future::pending().await,
            }
            Ok(raw(r#"{"action":"accept"}"#))
        })
    }
}

async fn stage() -> (Fleet, Server, MemoryServer) {
    let memory = Memory::new(Script::new());
    let (fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    (fleet, server, memory.side(1).await)
}

async fn ask(server: &Server, options: CallOptions) -> Result<Value, CallError> {
    let reply = server
        .call("ask", &json!({ "kind": "elicitation" }))
        .options(options)
        .await?;
    Ok(reply.tool_result().unwrap().structured_content.unwrap())
}

#[tokio::test(start_paused = true)]
async fn while_a_person_answers_the_call_that_asked_is_not_idle() {
    let (_fleet, server, _) = stage().await;
    let person = Person::answering_after(Some(120 * SECOND));
    let options = CallOptions::default().idle_timeout(SECOND).handler(person);
    let answer = ask(&server, options).await.expect("the person was waited for");
    assert_eq!(answer["result"]["action"], "accept");
}

#[tokio::test(start_paused = true)]
async fn while_the_fleets_handler_answers_the_fleets_calls_are_not_idle() {
    let memory = Memory::new(Script::new());
    let person = Person::answering_after(Some(120 * SECOND));
    let (_fleet, server) = fleet_with(Fleet::builder().handler(person), memory.config("s"));
    let answer = ask(&server, CallOptions::default().idle_timeout(SECOND)).await;
    assert_eq!(answer.expect("waited for")["result"]["action"], "accept");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_silent_after_the_answer_is_idle_again() {
    let (_fleet, server, side) = stage().await;
    let person = Person::answering_after(Some(10 * SECOND));
    let began = tokio::time::Instant::now();
    let call = tokio::spawn({
        let server = server.clone();
        let options = CallOptions::default().idle_timeout(3 * SECOND).handler(person);
        async move {
            server
                .call("sleep_ms", &json!({ "ms": 86_400_000 }))
                .options(options)
                .await
        }
    });
    side.wait_for("tools/call", 1).await;
    let request = json!({ "jsonrpc": "2.0", "id": "q", "method": "elicitation/create" });
    side.inject_message(&request).await;
    let error = call.await.unwrap().expect_err("never answered");
    assert!(
        matches!(
            error.kind,
            CallErrorKind::TimedOut {
                timeout: TimeoutKind::Idle,
                ..
            }
        ),
        "{error}"
    );
    let took = began.elapsed();
    assert!(took >= 13 * SECOND && took < 14 * SECOND, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn another_callers_call_stays_idle_while_a_person_answers() {
    let (_fleet, server, side) = stage().await;
    let person = Person::answering_after(Some(60 * SECOND));
    let asking = tokio::spawn({
        let server = server.clone();
        let options = CallOptions::default().handler(person.clone());
        async move { ask(&server, options).await }
    });
    person.until(|(asked, _)| *asked == 1).await;
    let options = CallOptions::default()
        .idle_timeout(SECOND)
        .handler(Person::answering_after(None));
    let began = tokio::time::Instant::now();
    let idle = server
        .call("sleep_ms", &json!({ "ms": 86_400_000 }))
        .options(options)
        .await;
    assert!(
        matches!(&idle, Err(error) if matches!(error.kind, CallErrorKind::TimedOut { timeout: TimeoutKind::Idle, .. })),
        "{idle:?}"
    );
    assert!(began.elapsed() < 2 * SECOND, "{:?}", began.elapsed());
    side.wait_for("notifications/cancelled", 1).await;
    asking.await.unwrap().expect("the person is still waited for");
}

#[tokio::test(start_paused = true)]
async fn a_persons_time_counts_in_the_total_and_costs_the_server_no_health() {
    let (_fleet, server, side) = stage().await;
    let before = server.status();
    for round in 1..=5 {
        let person = Person::answering_after(None);
        let began = tokio::time::Instant::now();
        let options = CallOptions::default().timeout(30 * SECOND).handler(person);
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
        assert_eq!(error.outcome(), Outcome::Unknown);
        assert!(began.elapsed() < 31 * SECOND);
        side.wait_for("notifications/cancelled", round).await;
        // What the call that was given up may still cause is nobody's; it is let pass.
        tokio::time::sleep(60 * SECOND).await;
    }
    assert_eq!(server.status().generation, before.generation);
}

#[tokio::test(start_paused = true)]
async fn a_person_who_never_answers_is_not_waited_for_for_ever() {
    let (_fleet, server, _) = stage().await;
    let person = Person::answering_after(None);
    let began = tokio::time::Instant::now();
    let options = CallOptions::default().handler(person.clone());
    let answer = ask(&server, options).await.expect("the server goes on without");
    assert_eq!(answer["error"]["code"], -32601);
    assert!(began.elapsed() <= 11 * 60 * SECOND, "{:?}", began.elapsed());
    assert_eq!(*person.asking.borrow(), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_takes_its_question_back_ends_the_asking() {
    let (_fleet, server, side) = stage().await;
    let person = Person::answering_after(None);
    let call = tokio::spawn({
        let server = server.clone();
        let options = CallOptions::default().handler(person.clone());
        async move { ask(&server, options).await }
    });
    person.until(|(asked, _)| *asked == 1).await;
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "ask-1" } });
    side.inject_message(&cancel).await;
    person.until(|state| *state == (0, 1)).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(side.noted("answered"), 0, "what is not wanted is not answered");
    call.abort();
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_ends_the_asking() {
    let (_fleet, server, side) = stage().await;
    let person = Person::answering_after(None);
    let call = tokio::spawn({
        let server = server.clone();
        let options = CallOptions::default().handler(person.clone());
        async move { ask(&server, options).await }
    });
    person.until(|(asked, _)| *asked == 1).await;
    side.cut();
    let lost = call.await.unwrap();
    assert!(
        matches!(&lost, Err(error) if matches!(error.kind, CallErrorKind::Lost { .. })),
        "{lost:?}"
    );
    person.until(|state| *state == (0, 1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_too_much_at_once_is_told_so() {
    let memory = Memory::new(Script::new());
    let person = Person::answering_after(None);
    let (_fleet, server) = fleet_with(Fleet::builder().handler(person.clone()), memory.config("s"));
    connected(&server).await;
    let side = memory.side(1).await;
    for n in 0..70 {
        let request = json!({ "jsonrpc": "2.0", "id": format!("q{n}"), "method": "elicitation/create" });
        side.inject_message(&request).await;
    }
    person.until(|(asked, _)| *asked == 64).await;
    side.wait_for("", 6).await;
    let refusals = side
        .received()
        .into_iter()
        .filter(|message| message.method().is_empty());
    let codes: Vec<_> = refusals
        .map(|refusal| refusal.outcome()["error"]["code"].clone())
        .collect();
    assert_eq!(codes, vec![json!(-32600); 6]);
}

/// Fails at whatever it is asked.
struct Clumsy;

impl ClientHandler for Clumsy {
    fn request(&self, _: ServerRequest) -> Answer<'_> {
        Box::pin(async { panic!("a handler that panics") })
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_leaves_no_server_without_an_answer() {
    let (_fleet, server, _) = stage().await;
    for _ in 0..100 {
        let options = CallOptions::default().handler(Arc::new(Clumsy));
        let answer = ask(&server, options).await.expect("the server was answered");
        assert_eq!(answer["error"]["code"], -32603);
    }
}
