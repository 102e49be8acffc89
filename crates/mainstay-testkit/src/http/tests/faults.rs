//! Each fault, as a client sees it.

use std::time::{Duration, Instant};

use serde_json::json;

use super::client::{Client, LIMIT, call};
use crate::fault::{AnswerFault, Fault};
use crate::http::{
    AnswerForm, BadStream, FaultyHttpServer, HttpFault, HttpRule, HttpScript, HttpStep, Redirect,
};
use crate::rule::{Occurrence, Step};
use crate::script::Script;

/// A server with this fault in each call, and a client with a session.
async fn faulty(fault: HttpFault) -> (FaultyHttpServer, Client, String) {
    scripted(Script::new(), HttpScript::new().on("tools/call", fault)).await
}

async fn scripted(script: Script, http: HttpScript) -> (FaultyHttpServer, Client, String) {
    let server = FaultyHttpServer::start(script, http).await.unwrap();
    let mut client = Client::connect(server.port()).await;
    let session = client.initialize().await.session();
    (server, client, session)
}

fn echo() -> serde_json::Value {
    call(1, "echo", &json!({ "key": "k" }))
}

async fn send(client: &mut Client, session: &str) {
    client
        .send("POST /mcp", &[("Mcp-Session-Id", session)], &echo().to_string())
        .await;
}

#[tokio::test]
async fn an_answer_is_cut_after_so_many_bytes() {
    let (server, mut client, session) = faulty(HttpFault::DropAfter(10)).await;
    let head = client.post(&session, &echo()).await;
    assert_eq!(head.status, 200);
    assert!(head.header("content-length").parse::<usize>().unwrap() > 10);
    assert!(head.body.is_empty(), "the body ended early");
    assert_eq!(server.traffic(|traffic| traffic.noted("call echo k")), 1);
}

#[tokio::test]
async fn a_stream_is_cut_after_so_many_events_and_the_rest_can_be_had() {
    let http = HttpScript::new()
        .streams()
        .rule(HttpRule::on("tools/call", HttpFault::DropAfterEvents(0)));
    let (server, mut client, session) = scripted(Script::new(), http).await;
    client.rest().await;
    client.post(&session, &echo()).await;
    assert_eq!(client.rest().await, (Vec::new(), false));
    let mut client = Client::connect(server.port()).await;
    let headers = [("Mcp-Session-Id", &session[..]), ("Last-Event-ID", "2-0")];
    client.ask("GET /mcp", &headers, "").await;
    assert_eq!(client.event_json().await["id"], 1);
}

#[tokio::test]
async fn the_answer_is_lost_and_the_call_was_made() {
    for fault in [HttpFault::Close, HttpFault::Reset] {
        let (server, mut client, session) = faulty(fault.clone()).await;
        send(&mut client, &session).await;
        let ended = client.ends().await;
        assert_eq!(ended.is_err(), fault == HttpFault::Reset, "{fault:?}: {ended:?}");
        assert_eq!(server.traffic(|traffic| traffic.noted("call echo k")), 1);
    }
}

#[tokio::test]
async fn no_head_ever_and_a_head_alone_leave_the_connection_open() {
    let (server, mut client, session) = faulty(HttpFault::NoHead).await;
    send(&mut client, &session).await;
    assert!(server.wait_for("tools/call", 1, LIMIT).await);
    assert!(client.is_silent().await);

    let silent = HttpScript::new().streams().on("tools/call", HttpFault::Silent);
    let (_server, mut client, session) = scripted(Script::new(), silent).await;
    client.rest().await;
    assert_eq!(client.post(&session, &echo()).await.status, 200);
    assert!(client.is_silent().await);
}

#[tokio::test]
async fn statuses_come_with_their_headers_and_the_call_was_not_made() {
    let challenge = HttpFault::unauthorized("http://127.0.0.1/meta", "a b");
    for (fault, status, header, value) in [
        (HttpFault::status(404), 404, "content-length", "0"),
        (HttpFault::status(500), 500, "content-length", "0"),
        (HttpFault::retry_after(429, "7"), 429, "retry-after", "7"),
        (HttpFault::retry_after(503, "1"), 503, "retry-after", "1"),
        (
            challenge,
            401,
            "www-authenticate",
            r#"Bearer resource_metadata="http://127.0.0.1/meta", scope="a b""#,
        ),
        (
            HttpFault::session_lost_as_400(),
            400,
            "content-type",
            "application/json",
        ),
        (
            HttpFault::moved_to("http://example.org/"),
            307,
            "location",
            "http://example.org/",
        ),
    ] {
        let (server, mut client, session) = faulty(fault).await;
        let answer = client.post(&session, &echo()).await;
        assert_eq!((answer.status, answer.header(header)), (status, value));
        assert_eq!(server.traffic(|traffic| traffic.count("tools/call")), 0);
    }
}

#[tokio::test]
async fn a_redirect_within_the_origin_leads_to_the_answer() {
    let (_server, mut client, session) = faulty(HttpFault::moved()).await;
    let answer = client.post(&session, &echo()).await;
    assert_eq!((answer.status, answer.header("location")), (307, "/moved"));
    let headers = [("Mcp-Session-Id", &session[..])];
    let answer = client.ask("POST /moved", &headers, &echo().to_string()).await;
    assert_eq!(answer.json()["id"], 1);
}

#[tokio::test]
async fn heads_are_slow_or_huge_or_of_the_wrong_type() {
    let (_server, mut client, session) = faulty(HttpFault::SlowHead { ms: 80 }).await;
    let began = Instant::now();
    assert_eq!(client.post(&session, &echo()).await.json()["id"], 1);
    assert!(began.elapsed() >= Duration::from_millis(80));

    let (_server, mut client, session) = faulty(HttpFault::HugeHeader(100_000)).await;
    assert_eq!(
        client.post(&session, &echo()).await.header("x-huge").len(),
        100_000
    );

    let (_server, mut client, session) = faulty(HttpFault::ContentType("text/html".to_owned())).await;
    assert_eq!(
        client.post(&session, &echo()).await.header("content-type"),
        "text/html"
    );
}

#[tokio::test]
async fn bodies_are_huge_or_not_utf8_or_badly_framed_or_no_http() {
    let (_server, mut client, session) = faulty(HttpFault::HugeBody(200_000)).await;
    client.post(&session, &echo()).await;
    let (body, proper) = client.rest().await;
    assert!(proper && body.len() > 200_000);
    serde_json::from_slice::<serde_json::Value>(&body).unwrap();

    let (_server, mut client, session) = faulty(HttpFault::InvalidUtf8).await;
    let body = client.post(&session, &echo()).await.body;
    assert!(!body.is_empty() && String::from_utf8(body).is_err());

    let (_server, mut client, session) = faulty(HttpFault::BadFraming).await;
    client.post(&session, &echo()).await;
    assert_eq!(client.rest().await, (Vec::new(), false));

    let (_server, mut client, session) = faulty(HttpFault::NotHttp).await;
    send(&mut client, &session).await;
    assert!(client.answer().await.is_none());
}

#[tokio::test]
async fn streams_are_malformed_in_their_own_ways() {
    let spoilt = async |bad| {
        let (_server, mut client, session) = faulty(HttpFault::Stream(bad)).await;
        client.post(&session, &echo()).await;
        client.rest().await.0
    };
    let answer = |body: &[u8]| body.windows(7).any(|bytes| bytes == br#""id":1,"#);
    let none = spoilt(BadStream::NoAnswer).await;
    assert!(none.is_empty());
    let open = spoilt(BadStream::NoBlankLine).await;
    assert!(answer(&open) && !open.ends_with(b"\n\n"));
    let huge = spoilt(BadStream::HugeEvent(100_000)).await;
    assert!(answer(&huge) && huge.len() > 100_000);
    let no_data = spoilt(BadStream::NoData).await;
    assert!(answer(&no_data) && no_data.starts_with(b": a comment"));
    let not_json = spoilt(BadStream::NotJson).await;
    assert!(answer(&not_json) && not_json.starts_with(b"data: hello"));
    let invalid = spoilt(BadStream::InvalidUtf8).await;
    assert!(answer(&invalid) && String::from_utf8(invalid).is_err());
}

#[tokio::test]
async fn two_sessions_get_each_others_answers() {
    let (server, mut one, session_one) = faulty(HttpFault::SwapAnswers).await;
    let mut two = Client::connect(server.port()).await;
    let session_two = two.initialize().await.session();
    let first = call(11, "echo", &json!({ "key": "one" }));
    let second = call(22, "echo", &json!({ "key": "two" }));
    let (one, two) = tokio::join!(one.post(&session_one, &first), two.post(&session_two, &second));
    assert_eq!(one.json()["id"], 22);
    assert_eq!(two.json()["id"], 11);
}

#[tokio::test]
async fn rules_count_over_all_sessions_and_switch_with_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let switch = directory.path().join("on");
    let http = HttpScript::new()
        .rule(HttpRule::on("initialize", HttpFault::status(500)).occurrence(Occurrence::Nth(2)))
        .rule(HttpRule::on("tools/call", HttpFault::status(503)).when_file(&switch))
        .at(HttpStep::Delete, HttpFault::status(403));
    let (_server, mut client, session) = scripted(Script::new(), http).await;
    assert_eq!(client.initialize().await.status, 500);
    assert_eq!(client.initialize().await.status, 200);
    assert_eq!(client.post(&session, &echo()).await.status, 200);
    std::fs::write(&switch, "").unwrap();
    assert_eq!(client.post(&session, &echo()).await.status, 503);
    let headers = [("Mcp-Session-Id", &session[..])];
    assert_eq!(client.ask("DELETE /mcp", &headers, "").await.status, 403);
}

#[tokio::test]
async fn rules_count_over_restarts_or_hold_in_the_first_starts_alone() {
    let http = HttpScript::new()
        .rule(HttpRule::on("initialize", HttpFault::status(500)).occurrence(Occurrence::Nth(2)))
        .rule(HttpRule::on("initialize", HttpFault::status(503)).first_starts(1));
    let mut server = FaultyHttpServer::start(Script::new(), http).await.unwrap();
    let mut client = Client::connect(server.port()).await;
    assert_eq!(client.initialize().await.status, 503);
    server.restart().await.unwrap();
    let mut client = Client::connect(server.port()).await;
    assert_eq!(client.initialize().await.status, 500);
    assert_eq!(client.initialize().await.status, 200);
}

#[tokio::test]
async fn a_session_is_forgotten_once() {
    let http = HttpScript::new()
        .rule(HttpRule::on("tools/call", HttpFault::ForgetSession).occurrence(Occurrence::Nth(1)));
    let (server, mut client, session) = scripted(Script::new(), http).await;
    assert_eq!(client.post(&session, &echo()).await.status, 404);
    let session = client.initialize().await.session();
    assert_eq!(client.post(&session, &echo()).await.status, 200);
    server.forget_sessions();
    assert_eq!(client.post(&session, &echo()).await.status, 404);
}

#[tokio::test]
async fn faults_of_the_messages_mean_here_what_they_mean_elsewhere() {
    let script = Script::new().on(Step::Call, Fault::Answer(AnswerFault::WrongId));
    let (_server, mut client, session) = scripted(script, HttpScript::new()).await;
    assert_eq!(client.post(&session, &echo()).await.json()["id"], "nobody-asked");

    let script = Script::new().on(Step::Call, Fault::Hang);
    let (server, mut client, session) = scripted(script, HttpScript::new()).await;
    send(&mut client, &session).await;
    assert!(server.wait_for("tools/call", 1, LIMIT).await);
    let mut other = Client::connect(server.port()).await;
    send(&mut other, &session).await;
    assert!(client.is_silent().await && other.is_silent().await);

    let script = Script::new().on(Step::Call, Fault::Exit(1));
    let (server, mut client, session) = scripted(script, HttpScript::new()).await;
    send(&mut client, &session).await;
    assert!(client.answer().await.is_none(), "the connection was cut");
    assert!(
        server
            .wait_until(LIMIT, |traffic| traffic.open_connections() == 0)
            .await
    );
}

#[tokio::test]
async fn a_stream_that_ends_early_and_properly_leaves_its_answer_to_be_resumed() {
    let http = HttpScript::new()
        .streams()
        .priming(5)
        .on("tools/call", HttpFault::EndAfterEvents(0));
    let (_server, mut client, session) = scripted(Script::new(), http).await;
    client.rest().await;
    client.post(&session, &echo()).await;
    let (body, proper) = client.rest().await;
    assert_eq!((&body[..], proper), (&b"id: 2-0\nretry: 5\ndata: \n\n"[..], true));
    let headers = [("Mcp-Session-Id", &session[..]), ("Last-Event-ID", "2-0")];
    client.ask("GET /mcp", &headers, "").await;
    client.event().await;
    assert_eq!(client.event_json().await["id"], 1);
}

#[tokio::test]
async fn a_fault_chooses_the_form_and_the_time_of_one_answer() {
    let http = HttpScript::new()
        .rule(HttpRule::on("tools/call", HttpFault::Reply(AnswerForm::Stream)).named("echo"))
        .rule(HttpRule::on("tools/call", HttpFault::Delay { ms: 40 }).named("put"));
    let (_server, mut client, session) = scripted(Script::new(), http).await;
    let head = client.post(&session, &echo()).await;
    assert_eq!(head.header("content-type"), "text/event-stream");
    client.rest().await;
    let began = Instant::now();
    let answer = client.post(&session, &call(2, "put", &json!({}))).await;
    assert_eq!(answer.json()["id"], 2);
    assert!(began.elapsed() >= Duration::from_millis(40));
}

#[tokio::test]
async fn a_redirect_to_itself_never_ends() {
    let fault = HttpFault::Redirect {
        code: 308,
        to: Redirect::Itself,
    };
    let (_server, mut client, session) = faulty(fault).await;
    for _ in 0..3 {
        let answer = client.post(&session, &echo()).await;
        assert_eq!((answer.status, answer.header("location")), (308, "/mcp"));
    }
}

#[tokio::test]
async fn a_standalone_stream_fails_where_its_own_step_says_so() {
    let http = HttpScript::new()
        .rule(HttpRule::new(HttpStep::Get, HttpFault::status(405)).occurrence(Occurrence::Nth(1)))
        .rule(HttpRule::new(HttpStep::Get, HttpFault::DropAfterEvents(1)).occurrence(Occurrence::Nth(2)));
    let (server, mut client, session) = scripted(Script::new(), http).await;
    let headers = [("Mcp-Session-Id", &session[..])];
    assert_eq!(client.ask("GET /mcp", &headers, "").await.status, 405);
    assert_eq!(client.ask("GET /mcp", &headers, "").await.status, 200);
    server.notify("notifications/tools/list_changed", &json!({}));
    assert!(client.event().await.is_some());
    assert_eq!(client.event().await, None);
    assert!(
        server
            .wait_until(LIMIT, |traffic| traffic.live_streams() == 0)
            .await
    );
}
