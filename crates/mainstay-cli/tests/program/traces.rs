//! Traces: one from a client through Mainstay into a server, decoded by OpenTelemetry's own definitions; and receivers that are down or hang.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use mainstay_partner::traced_python;
use mainstay_testkit::client::{Ask, Session, modern, request};
use mainstay_testkit::http::{FaultyHttpServer, HttpScript};
use mainstay_testkit::{FaultyServer, Ledger, Script, Speaks};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::sandbox::{Sandbox, good};
use crate::serving::{LONG, Serving, Visitor};

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/traces");

/// A real receiver; it ends when this is dropped.
pub(crate) struct TraceReceiver {
    child: Child,
    pub(crate) url: String,
    lines: Receiver<String>,
}

impl Drop for TraceReceiver {
    fn drop(&mut self) {
        let _gone_already = self.child.kill();
        let _reaped_already = self.child.wait();
    }
}

impl TraceReceiver {
    pub(crate) fn start(python: &PathBuf, arguments: &[&str]) -> Self {
        let mut command = Command::new(python);
        let command = command.arg(format!("{SCRIPTS}/receiver.py")).args(arguments);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            output
                .lines()
                .map_while(Result::ok)
                .for_each(|line| drop(sender.send(line)));
        });
        let url = lines.recv_timeout(LONG).expect("its address");
        Self { child, url, lines }
    }

    fn next(&self) -> Value {
        let line = self.lines.recv_timeout(LONG).expect("a span in time");
        serde_json::from_str(&line).expect("JSON")
    }

    /// The spans that come until all of these are there, in that order.
    pub(crate) fn spans<const N: usize>(&self, wanted: [(&str, &str); N]) -> [Value; N] {
        let mut found: [Option<Value>; N] = std::array::from_fn(|_| None);
        while found.iter().any(Option::is_none) {
            let span = self.next();
            let is = |(service, name): &(&str, &str)| span["service"] == *service && span["name"] == *name;
            if let Some(place) = wanted
                .iter()
                .zip(&mut found)
                .find(|(wanted, found)| found.is_none() && is(wanted))
            {
                *place.1 = Some(span);
            }
        }
        found.map(Option::unwrap_or_default)
    }
}

fn traced(python: &PathBuf, receiver: &TraceReceiver) -> Value {
    json!({
        "command": python,
        "args": [format!("{SCRIPTS}/traced.py"), "server"],
        "env": { "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_SERVICE_NAME": "server" },
    })
}

#[test]
fn one_trace_runs_from_a_real_client_through_mainstay_into_a_real_server() {
    let Some(python) = traced_python() else { return };
    for era in ["legacy", "modern"] {
        let receiver = TraceReceiver::start(&python, &[]);
        let sandbox = Sandbox::with(&json!({ "py": traced(&python, &receiver) }));
        let variables = [("OTEL_EXPORTER_OTLP_HEADERS", "x-test-key=a%20secret")];
        let serving = Serving::start_with(&sandbox, &["--otlp-endpoint", &receiver.url], &variables);
        serving.hears("py: connected");
        let url = format!("http://{}/mcp", serving.address);
        let mut client = Command::new(&python);
        client
            .arg(format!("{SCRIPTS}/traced.py"))
            .args(["client", era, &url, "py__echo"])
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", &receiver.url)
            .env("OTEL_SERVICE_NAME", "agent");
        let ran = client.output().expect("it runs");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let [agent, request, attempt, server] = receiver.spans([
            ("agent", "agent"),
            ("mainstay", "tools/call py__echo"),
            ("mainstay", "tools/call echo"),
            ("server", "tools/call echo"),
        ]);
        let trace = &agent["trace"];
        for span in [&request, &attempt, &server] {
            assert_eq!(span["trace"], *trace, "{era}: {span}");
        }
        assert_eq!(attempt["parent"], request["span"], "{era}");
        assert_eq!(server["parent"], attempt["span"], "{era}");
        assert_ne!(request["parent"], "", "{era}: it has a parent in the client");
        let kinds = [&request, &attempt].map(|span| span["kind"].as_u64().unwrap_or_default());
        assert_eq!(
            kinds,
            [2, 3],
            "a server to its client, and a client to its server"
        );
        assert_eq!(request["attributes"]["mcp.method.name"], "tools/call");
        assert_eq!(request["attributes"]["mainstay.server"], "py");
        assert_eq!(attempt["attributes"]["gen_ai.tool.name"], "echo");
        assert_eq!(
            (&request["failed"], &attempt["failed"]),
            (&json!(false), &json!(false))
        );
        assert_eq!(request["authorization"], "a secret");
        assert!(
            request["nanos"].as_u64() >= attempt["nanos"].as_u64(),
            "{request} {attempt}"
        );
    }
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

/// Calls `echo` in both eras, with a trace context in the headers only. Returns the context that the server got in each call: in its headers,
/// and in `_meta`.
async fn call_with_trace_headers(
    serving: &Serving,
    server: &FaultyHttpServer,
) -> Vec<(TraceTold, TraceTold)> {
    let params = json!({ "name": "echo", "arguments": { "text": "hello" } });
    let session = Session::open(serving.address, "/mcp/remote").await;
    let legacy = session.sign(Ask::post(
        "/mcp/remote",
        &request(1, "tools/call", params.clone()),
    ));
    let modern = modern("/mcp/remote", 2, "tools/call", params);
    let mut told = Vec::new();
    for (era, ask) in [("legacy", legacy), ("modern", modern)] {
        let ask = ask
            .header("traceparent", &format!("00-{TRACE}-{CALLER}-01"))
            .header("tracestate", "vendor=1");
        let reply = ask.send(serving.address).await;
        assert_eq!(reply.status, 200, "{era}");
        let (body, _stream) = reply.body().await;
        assert!(body.contains("hello"), "{era}: {body}");
        told.push(server.traffic(|traffic| {
            let header = |name| traffic.last_header("tools/call", name).map(str::to_owned);
            let params = traffic.last_params("tools/call").unwrap_or_default();
            let meta = |name: &str| params["_meta"][name].as_str().map(str::to_owned);
            let [in_headers, in_meta] = [
                ["traceparent", "tracestate"].map(header),
                ["traceparent", "tracestate"].map(meta),
            ];
            (in_headers, in_meta)
        }));
    }
    told
}

/// A `traceparent` and a `tracestate`.
type TraceTold = [Option<String>; 2];

#[tokio::test(flavor = "multi_thread")]
async fn one_trace_runs_from_the_headers_of_a_client_into_the_headers_and_the_meta_of_an_http_server() {
    let Some(python) = traced_python() else { return };
    for (speaks, path) in [
        (Speaks::Legacy, "/mcp"),
        (Speaks::Modern, "/mcp"),
        (Speaks::Legacy, "/sse"),
    ] {
        let receiver = TraceReceiver::start(&python, &[]);
        let server = FaultyHttpServer::start(Script::new().speaks(speaks), HttpScript::new());
        let server = server.await.expect("it listens");
        let sandbox = Sandbox::with(&json!({ "remote": { "url": server.url(path) } }));
        let serving = Serving::start(&sandbox, &["--otlp-endpoint", &receiver.url]);
        serving.hears("remote: connected");
        for (in_headers, in_meta) in call_with_trace_headers(&serving, &server).await {
            assert_eq!(in_headers, in_meta, "{speaks:?} {path}");
            let [Some(parent), Some(state)] = &in_headers else {
                panic!("{speaks:?} {path}: the server got {in_headers:?}");
            };
            let [one, other] =
                receiver.spans([("mainstay", "tools/call echo"), ("mainstay", "tools/call echo")]);
            let (request, attempt) = if one["kind"] == 2 {
                (one, other)
            } else {
                (other, one)
            };
            assert_eq!((&request["kind"], &attempt["kind"]), (&json!(2), &json!(3)));
            assert_eq!(
                (&request["trace"], &request["parent"]),
                (&json!(TRACE), &json!(CALLER))
            );
            assert_eq!(
                (&attempt["trace"], &attempt["parent"]),
                (&json!(TRACE), &request["span"])
            );
            let attempt = attempt["span"].as_str().expect("a span");
            assert_eq!(*parent, format!("00-{TRACE}-{attempt}-01"), "{speaks:?} {path}");
            assert_eq!(state, "vendor=1", "{speaks:?} {path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_receiver_the_trace_of_a_client_reaches_an_http_server_unchanged() {
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        let server = FaultyHttpServer::start(Script::new().speaks(speaks), HttpScript::new());
        let server = server.await.expect("it listens");
        let sandbox = Sandbox::with(&json!({ "remote": { "url": server.url("/mcp") } }));
        let serving = Serving::start(&sandbox, &[]);
        serving.hears("remote: connected");
        let expected = [format!("00-{TRACE}-{CALLER}-01"), "vendor=1".to_owned()].map(Some);
        for (in_headers, in_meta) in call_with_trace_headers(&serving, &server).await {
            assert_eq!((&in_headers, &in_meta), (&expected, &expected), "{speaks:?}");
        }
        let visitor = Visitor::legacy(serving.address, "/mcp/remote").await;
        visitor.call("echo", json!({})).await;
        let untraced = server.traffic(|traffic| {
            traffic
                .last_header("tools/call", "traceparent")
                .map(str::to_owned)
        });
        assert_eq!(untraced, None, "{speaks:?}: a call without a trace gets none");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_for_a_restart_and_one_that_is_replayed_say_so_in_their_spans() {
    let Some(python) = traced_python() else { return };
    let receiver = TraceReceiver::start(&python, &[]);
    let ledger = Ledger::temporary();
    let sandbox = Sandbox::with(&json!({ "one": FaultyServer::new().ledger(&ledger).config() }));
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url.as_str())];
    let serving = Serving::start_with(&sandbox, &[], &variables);
    serving.hears("one: connected");
    let visitor = Visitor::legacy(serving.address, "/mcp/one").await;
    let pid = *ledger.pids().last().expect("it runs");
    kill_process(Pid::from_raw(pid).expect("a process"), Signal::KILL).expect("it runs");
    serving.hears("one: connection lost");
    visitor.call("echo", json!({ "text": "hello" })).await;
    let [request] = receiver.spans([("mainstay", "tools/call echo")]);
    let [request] = match request["kind"].as_u64() {
        Some(2) => [request],
        _attempt => receiver.spans([("mainstay", "tools/call echo")]),
    };
    assert_eq!(request["parent"], "", "no client began the trace");
    let events = request["events"].as_array().expect("events").clone();
    // The call may find the server back already.
    if let Some(waiting) = events
        .iter()
        .find(|event| event["name"] == "waiting for a connection")
    {
        assert!(waiting["state"].is_string(), "{waiting}");
        assert!(
            events.iter().any(|event| event["name"] == "connected"),
            "{events:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_call_has_its_trace_in_the_log_and_its_error_in_its_spans() {
    let Some(python) = traced_python() else { return };
    let receiver = TraceReceiver::start(&python, &[]);
    let server = FaultyServer::new().tool("commit_then_die").config();
    let sandbox = Sandbox::with(&json!({ "one": server }));
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url.as_str())];
    let serving = Serving::start_with(&sandbox, &["--log-format", "json"], &variables);
    serving.hears("\"to\":\"connected\"");
    let visitor = Visitor::legacy(serving.address, "/mcp/one").await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let meta = json!({ "traceparent": format!("00-{trace}-00f067aa0ba902b7-01"), "tracestate": "vendor=1" });
    let params = json!({ "name": "commit_then_die", "arguments": {}, "_meta": meta });
    visitor.ask("tools/call", params).await;
    let line: Value = serde_json::from_str(&serving.hears("request failed")).expect("JSON");
    assert_eq!(line["trace_id"], trace, "{line}");
    assert_eq!(
        (&line["server"], &line["outcome"]),
        (&json!("one"), &json!("unknown")),
        "{line}"
    );
    let [first, second] = receiver.spans([
        ("mainstay", "tools/call commit_then_die"),
        ("mainstay", "tools/call commit_then_die"),
    ]);
    for span in [&first, &second] {
        assert_eq!(
            (&span["trace"], &span["failed"]),
            (&json!(trace), &json!(true)),
            "{span}"
        );
        assert_eq!(span["attributes"]["error.type"], "unknown", "{span}");
    }
    let request = if first["kind"] == 2 { &first } else { &second };
    assert_eq!(
        (&request["parent"], &request["state"]),
        (&json!("00f067aa0ba902b7"), &json!("vendor=1"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_refuses_is_asked_again_and_costs_one_line_and_one_when_it_is_back() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (sender, refused) = mpsc::channel();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.expect("a connection");
            // The answer to a request that was not read to its end may be lost.
            let mut begun = [0; 64 * 1024];
            let _some = stream.read(&mut begun).expect("a request");
            let status = if number < 3 {
                "503 Service Unavailable"
            } else {
                "200 OK"
            };
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).expect("it reads the answer");
            if sender.send(()).is_err() {
                return;
            }
        }
    });
    let sandbox = Sandbox::with(&json!({ "one": good() }));
    let serving = Serving::start(&sandbox, &["--otlp-endpoint", &url]);
    serving.hears("one: connected");
    let visitor = Visitor::legacy(serving.address, "/mcp").await;
    visitor.call("one__echo", json!({ "text": "hello" })).await;
    // The third attempt begins after the second has failed.
    for attempt in 1..=3 {
        refused
            .recv_timeout(LONG)
            .unwrap_or_else(|_| panic!("attempt {attempt}"));
    }
    visitor.call("one__echo", json!({ "text": "again" })).await;
    let lines = serving.hears_up_to("exported again");
    let told = lines.iter().filter(|line| line.contains("cannot be exported"));
    assert_eq!(told.count(), 1, "{lines:?}");
    let back = lines.last().expect("a line");
    assert!(
        back.contains("lost_spans=") && !back.contains("lost_spans=0"),
        "{back}"
    );
}

#[test]
fn an_address_of_another_protocol_is_refused_before_anything_starts() {
    let sandbox = Sandbox::with(&json!({ "one": good() }));
    let ran = sandbox.run(&["serve", "--otlp-endpoint", "127.0.0.1:4317"]);
    ran.exits(2).says("must begin with http:// or https://");
    let ran = sandbox.run(&["serve", "--otlp-endpoint", "http://user:secret@127.0.0.1:4318"]);
    ran.exits(2).says("in OTEL_EXPORTER_OTLP_HEADERS");
    assert!(!ran.stderr.contains("secret"), "{}", ran.stderr);
}

/// What only time shows.
mod timing {
    use super::*;

    /// Calls go on, and one line says what is wrong.
    async fn goes_on(url: &str) {
        let sandbox = Sandbox::with(&json!({ "one": good() }));
        let serving = Serving::start(&sandbox, &["--otlp-endpoint", url]);
        serving.hears("one: connected");
        let visitor = Visitor::legacy(serving.address, "/mcp").await;
        let began = Instant::now();
        for _ in 0..50 {
            let result = visitor.call("one__echo", json!({ "text": "hello" })).await;
            assert_eq!(result["content"][0]["text"], "hello");
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        let line = serving.hears("traces cannot be exported; calls go on");
        assert!(
            line.contains("receiver=http://127.0.0.1:") && line.contains("error="),
            "{line}"
        );
        serving.signal(Signal::TERM);
        let lines = serving.hears_up_to("finishing what runs");
        let again = lines
            .iter()
            .filter(|line| line.contains("cannot be exported"))
            .count();
        assert_eq!(again, 0, "once is enough: {lines:?}");
        let began = Instant::now();
        serving.ended().exits(143);
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "the end does not wait for it"
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_receiver_that_is_down_costs_one_line() {
        goes_on("http://127.0.0.1:1").await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_receiver_that_takes_connections_and_hangs_costs_one_line() {
        let hanging = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", hanging.local_addr().expect("an address"));
        goes_on(&url).await;
    }
}
