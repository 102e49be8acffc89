//! The HTTP server as a process: that it can be killed in the middle of an answer, and come back on its port.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use mainstay_testkit::http::{FaultyHttpProcess, HttpScript};
use mainstay_testkit::procfs::is_stopped;
use mainstay_testkit::{Fault, Ledger, Script, Step, poll};

const LIMIT: Duration = poll::LIMIT;

/// Sends a request on a connection of its own.
fn post(port: u16, session: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connect");
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let length = body.len();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: h\r\nConnection: close\r\nMcp-Session-Id: {session}\r\n\
         Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

fn read(mut stream: TcpStream) -> String {
    let mut text = String::new();
    // A reset ends the text as a close does.
    let _reset = stream.read_to_string(&mut text);
    text
}

fn initialize(port: u16) -> String {
    let body = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
    let answer = read(post(port, "", body));
    let session = answer
        .lines()
        .find_map(|line| line.strip_prefix("Mcp-Session-Id: "));
    session.expect("a session").to_owned()
}

#[test]
fn a_server_killed_in_the_middle_of_a_stream_comes_back_on_its_port_without_its_sessions() {
    let ledger = Ledger::temporary();
    let script = Script {
        ledger: Some(ledger.path().to_owned()),
        ..Script::new()
    };
    let http = HttpScript::new().streams();
    let mut server = FaultyHttpProcess::start(0, &script, &http);
    let port = server.port();
    let session = initialize(port);
    let nap = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sleep_ms","arguments":{"ms":60000}}}"#;
    let mut stream = post(port, &session, nap);
    let mut head = [0; 15];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200 OK");
    assert!(ledger.wait_for(|ledger| ledger.count("call sleep_ms") == 1, LIMIT));
    server.kill();
    assert!(!read(stream).contains("data:"), "no answer came");
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());

    let server = FaultyHttpProcess::start(port, &script, &http);
    assert_eq!(server.port(), port);
    assert_ne!(initialize(port), session);
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    assert!(read(post(port, &session, ping)).starts_with("HTTP/1.1 404"));
    assert_eq!(ledger.count("start"), 2);
}

#[test]
fn a_fault_that_exits_ends_the_process() {
    let script = Script::new().on(Step::Call, Fault::Exit(3));
    let mut server = FaultyHttpProcess::start(0, &script, &HttpScript::new());
    let session = initialize(server.port());
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}"#;
    assert_eq!(read(post(server.port(), &session, call)), "");
    assert_eq!(server.wait(LIMIT).and_then(|status| status.code()), Some(3));
    assert!(TcpStream::connect(("127.0.0.1", server.port())).is_err());
}

#[test]
fn a_frozen_server_says_nothing_until_it_is_thawed() {
    let server = FaultyHttpProcess::start(0, &Script::new(), &HttpScript::new());
    let session = initialize(server.port());
    server.freeze();
    assert!(poll::comes_true(LIMIT, || is_stopped(server.pid())));
    // The kernel accepts for a process that cannot.
    let mut stream = post(
        server.port(),
        &session,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
    );
    stream.set_nonblocking(true).unwrap();
    assert!(stream.read(&mut [0]).is_err(), "a frozen server spoke");
    stream.set_nonblocking(false).unwrap();
    server.thaw();
    assert!(read(stream).starts_with("HTTP/1.1 200"));
}
