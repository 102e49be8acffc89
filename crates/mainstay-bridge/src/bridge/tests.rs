//! How a session is resumed, with a daemon whose every line a test writes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::hello::{HelloReply, PROTOCOL, ServerRequestKind};
use crate::launch::Launcher;
use crate::runtime_dir::RuntimeDirectory;

/// How long a line may be awaited that must not come.
const SILENCE: Duration = Duration::from_millis(100);

/// How long a line may take that must come.
const LINE_TIMEOUT: Duration = Duration::from_secs(10);

/// A bridge whose host has opened a session and waits for the answer to a call, and where the host reads. The last daemon did not
/// read the call.
fn bridge(runtime: &Path) -> (Arc<Bridge>, UnixStream) {
    let named = |name: &str| (name == "MAINSTAY_RUNTIME").then(|| runtime.into());
    let directory = RuntimeDirectory::find(named).unwrap();
    let dialer = DaemonDialer::new(directory, Launcher::new("/nowhere", Vec::new()));
    let request = ConnectRequest {
        server: ServerRequestKind::Union,
        share: Share::default(),
        config: None,
        roots: None,
    };
    let (host, output) = UnixStream::pair().unwrap();
    host.set_read_timeout(Some(LINE_TIMEOUT)).unwrap();
    let bridge = Bridge::new(dialer, request, File::from(std::os::fd::OwnedFd::from(output)));
    let mut link = bridge.link();
    let session = &mut link.session;
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {} });
    session.note_host_line(&line(&initialize));
    session.note_daemon_line(&line(&json!({ "jsonrpc": "2.0", "id": 1, "result": {} })));
    session.note_host_line(&line(
        &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
    ));
    let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "pay" } });
    session.note_host_line(&line(&call));
    assert!(session.lost(Some(NOTHING_SENT), LOST, None).is_empty());
    drop(link);
    (bridge, host)
}

fn dialed() -> (Dialed, BufReader<UnixStream>) {
    let (stream, far) = UnixStream::pair().unwrap();
    far.set_read_timeout(Some(LINE_TIMEOUT)).unwrap();
    let reply = HelloReply {
        mainstay: PROTOCOL,
        version: String::new(),
        server: None,
        status: None,
        error: None,
    };
    (Dialed { stream, reply }, BufReader::new(far))
}

fn next(lines: &mut BufReader<UnixStream>) -> Value {
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

fn write(far: &BufReader<UnixStream>, message: &Value) {
    far.get_ref().write_all(&line(message)).unwrap();
}

#[test]
fn the_rest_of_a_session_follows_when_the_daemon_has_answered_the_introduction() {
    let runtime = tempfile::tempdir().unwrap();
    let (bridge, _host) = bridge(runtime.path());
    let (dialed, mut far) = dialed();
    let resuming = thread::spawn(move || bridge.resume(dialed).is_some());
    let introduction = next(&mut far);
    assert_eq!(introduction["method"], "initialize");
    far.get_ref().set_read_timeout(Some(SILENCE)).unwrap();
    let early = far.read(&mut [0; 1]);
    assert!(early.is_err(), "more came before the answer");
    far.get_ref().set_read_timeout(Some(LINE_TIMEOUT)).unwrap();
    write(
        &far,
        &json!({ "jsonrpc": "2.0", "id": introduction["id"], "result": {} }),
    );
    assert_eq!(next(&mut far)["method"], "notifications/initialized");
    assert_eq!(next(&mut far)["id"], 2);
    assert!(resuming.join().unwrap());
}

#[test]
fn a_daemon_that_dies_during_the_introduction_costs_no_call_and_its_questions_are_withdrawn() {
    let runtime = tempfile::tempdir().unwrap();
    let (bridge, host) = bridge(runtime.path());
    let (dialed, far) = dialed();
    write(
        &far,
        &json!({ "jsonrpc": "2.0", "id": 5, "method": "elicitation/create" }),
    );
    far.get_ref().shutdown(Shutdown::Write).unwrap();
    assert!(bridge.resume(dialed).is_none());
    let mut host = BufReader::new(host);
    assert_eq!(next(&mut host)["method"], "elicitation/create");
    let withdrawn = next(&mut host);
    assert_eq!(withdrawn["method"], "notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], 5);
    let rest = bridge.link().session.replay_rest().concat();
    let rest = String::from_utf8(rest).unwrap();
    assert!(rest.contains("\"pay\""), "the next daemon gets the call: {rest}");
}
