//! What is logged of requests.

use std::io;
use std::sync::{Arc, Mutex};

use mainstay_gateway::HttpDoor;
use mainstay_testkit::client::{Ask, LONG};
use serde_json::json;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

use crate::http::support::{World, modern, request};

/// Everything that is logged at `info` on this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn start() -> (Self, DefaultGuard) {
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::INFO)
            .with_ansi(false)
            .with_writer(log.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// The lines under a target.
    fn lines(&self, target: &str) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let under = format!("mainstay_gateway::{target}: ");
        let lines = text
            .lines()
            .filter_map(|line| Some(line.split_once(&under)?.1.to_owned()));
        lines.collect()
    }

    /// The lines under a target, as soon as there are so many.
    async fn wait(&self, target: &str, count: usize) -> Vec<String> {
        let waiting = async {
            while self.lines(target).len() < count {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LONG, waiting).await.expect("lines in time");
        self.lines(target)
    }
}

/// Where a line is written.
struct Lines<'a>(&'a Log);

impl io::Write for Lines<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Lines<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        Lines(self)
    }
}

#[tokio::test(start_paused = true)]
async fn every_refused_request_is_one_line_that_says_what_and_why_and_no_secret() {
    let (log, _logging) = Log::start();
    let properties = json!({ "key": { "type": "string", "x-mcp-header": "Key" } });
    let tool = json!({ "name": "route", "inputSchema": { "type": "object", "properties": properties } });
    let script = mainstay_testkit::Script::new().tool_json(tool);
    let world = World::with(HttpDoor::new().token("hush-token"), script).await;
    let bearing = |ask: Ask| ask.header("authorization", "Bearer hush-token");
    let call = json!({ "name": "route", "arguments": { "key": "hush-argument" } });
    for (ask, words) in [
        (
            Ask::new("GET", "/mcp"),
            "status=401 reason=a bearer token is needed",
        ),
        (
            Ask::new("GET", "/mcp").header("authorization", "Bearer hush-guess"),
            "status=401 reason=the bearer token is not known",
        ),
        (
            bearing(Ask::new("GET", "/nowhere?session=hush-query")),
            "method=GET path=/nowhere status=404",
        ),
        (
            bearing(Ask::post("/mcp", &request(1, "ping", json!({}))))
                .header("mcp-session-id", "hush-session"),
            "method=POST path=/mcp status=404 reason=there is no such session",
        ),
        (
            bearing(modern("/mcp/one", 1, "tools/call", call)).header("mcp-param-key", "hush-header"),
            "reason=the Mcp-Param-Key header does not say what the body says",
        ),
        (
            bearing(modern("/mcp/one", 1, "ping", json!({}))),
            "status=404 reason=there is no method ping",
        ),
    ] {
        let before = log.lines("refused").len();
        world.send(ask).await.refusal().await;
        let lines = log.wait("refused", before + 1).await;
        assert_eq!(lines.len(), before + 1);
        let line = lines.last().unwrap();
        assert!(
            line.contains(words) && line.contains("address=127.0.0.1"),
            "{line}"
        );
        assert!(!line.contains("hush") && !line.contains('\u{1b}'), "{line}");
    }
    let before = log.lines("refused").len();
    let listed = bearing(modern("/mcp/one", 1, "tools/list", json!({})));
    assert_eq!(world.send(listed).await.status, 200);
    assert_eq!(log.lines("refused").len(), before, "it was answered");
    assert!(log.lines("access").is_empty(), "they are off by default");
}

#[tokio::test(start_paused = true)]
async fn an_access_log_has_one_line_for_each_request_when_it_is_over() {
    let (log, _logging) = Log::start();
    let world = World::open(HttpDoor::new().access_log(true)).await;
    let session = world.session("/mcp/one").await;
    let opened = log.wait("access", 2).await;
    assert!(
        opened[0].contains("address=127.0.0.1 method=POST path=/mcp/one status=200 server=one duration_ms="),
        "{opened:?}"
    );
    assert!(
        opened[1].contains("status=202") && opened[1].ends_with("bytes=0"),
        "{opened:?}"
    );

    let mut standing = session.listen(None).await;
    let listed = session.ask(1, "tools/list", json!({})).await;
    let length = listed.header("content-length").unwrap().to_owned();
    let lines = log.wait("access", 3).await;
    assert!(lines[2].ends_with(&format!("bytes={length}")), "{lines:?}");
    assert_eq!(world.send(Ask::new("GET", "/healthz")).await.status, 200);
    assert_eq!(world.send(Ask::new("GET", "/mcp?x=1")).await.status, 400);
    let lines = log.wait("access", 5).await;
    assert!(
        lines[3].contains("path=/healthz status=200 server=- "),
        "{lines:?}"
    );
    assert!(lines[4].contains("path=/mcp status=400 server=- "), "{lines:?}");
    assert_eq!(lines.len(), 5, "a stream that is open is not over");
    assert_eq!(session.end().await.status, 204);
    assert_eq!(standing.event().await, None);
    let lines = log.wait("access", 7).await;
    assert!(
        lines
            .iter()
            .any(|line| line.contains("method=GET path=/mcp/one status=200")),
        "{lines:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_limit_is_logged_once() {
    let (log, _logging) = Log::start();
    let world = World::open(HttpDoor::new().max_sessions(2, 2)).await;
    for _ in 0..20 {
        world.session("/mcp").await;
    }
    let lines = log.lines("door::http::session");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("the longest idle one was ended"), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn a_failed_request_is_one_line_with_its_session_and_outcome_and_without_arguments_or_answers() {
    let (log, _logging) = Log::start();
    let world = World::with(HttpDoor::new(), mainstay_testkit::Script::new()).await;
    let session = world.session("/mcp/one").await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let meta = json!({ "traceparent": format!("00-{trace}-00f067aa0ba902b7-01") });
    let params = json!({ "name": "refuse", "arguments": { "secret": "hush-argument" }, "_meta": meta });
    session.post(&request(1, "tools/call", params)).await.json().await;
    let lines = log.wait("failed", 1).await;
    let line = &lines[0];
    for words in [
        "server=\"one\"",
        "session=",
        "method=tools/call",
        "name=\"refuse\"",
        "outcome=",
        "duration_ms=",
        trace,
    ] {
        assert!(line.contains(words), "{words}: {line}");
    }
    assert!(!line.contains("hush") && !line.contains("reason="), "{line}");
    // Text from a client cannot end the line or control a terminal.
    let hostile = json!({ "name": "a\u{1b}[2J\nb" });
    session
        .post(&request(2, "no/\u{1b}[2Jsuch", hostile))
        .await
        .json()
        .await;
    let lines = log.wait("failed", 2).await;
    assert_eq!(lines.len(), 2);
    assert!(
        lines[1].contains("no/such") && !lines[1].contains('\u{1b}'),
        "{}",
        lines[1]
    );
    // What succeeds is no line, and neither is what a tool itself calls an error.
    session
        .post(&request(3, "tools/call", json!({ "name": "fail" })))
        .await
        .json()
        .await;
    session.post(&request(4, "ping", json!({}))).await.json().await;
    assert_eq!(log.lines("failed").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn payloads_are_logged_only_if_that_is_asked_for_and_then_cut() {
    let (log, _logging) = Log::start();
    let memory = crate::http::support::Memory::new(mainstay_testkit::Script::new());
    let config = mainstay::ServerConfig::custom("one", "one", memory)
        .build()
        .expect("valid");
    let gateway = mainstay_gateway::Gateway::builder(mainstay::Fleet::builder());
    let gateway = gateway.log_payloads().start([config]);
    let world = World::serving(HttpDoor::new(), gateway);
    let session = world.session("/mcp/one").await;
    let long = "\u{e9}".repeat(10_000);
    let arguments = json!({ "text": format!("the-argument {long}") });
    let params = json!({ "name": "echo", "arguments": arguments });
    session.post(&request(1, "tools/call", params)).await.json().await;
    let line = log.wait("payload", 2).await.pop().expect("a line");
    assert!(
        line.contains("the-argument") && line.contains("params=") && line.contains("result="),
        "{line}"
    );
    assert!(
        line.contains("session=") && !line.contains("session=None"),
        "{line}"
    );
    assert!(line.len() < 10_000, "{}", line.len());
}
