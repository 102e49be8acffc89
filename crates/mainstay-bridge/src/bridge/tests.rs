//! How a session is resumed, with a daemon whose every line a test writes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc;

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
    let (bridge, host) = new_bridge(runtime, Share::default());
    let mut link = bridge.link();
    let session = &mut link.session;
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {} });
    session.note_host_line(&line(&initialize));
    session.note_daemon_line(&answer(1));
    session.note_host_line(&line(&initialized()));
    let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "pay" } });
    session.note_host_line(&line(&call));
    assert!(session.lost(Some(NOTHING_SENT), LOST, None).is_empty());
    drop(link);
    (bridge, host)
}

/// A bridge without a daemon, which can start none, and where the host reads.
fn new_bridge(runtime: &Path, share: Share) -> (Arc<Bridge>, UnixStream) {
    let named = |name: &str| (name == "MAINSTAY_RUNTIME").then(|| runtime.into());
    let directory = RuntimeDirectory::find(named).unwrap();
    let dialer = DaemonDialer::new(directory, Launcher::new("/nowhere", Vec::new()));
    let request = ConnectRequest {
        server: ServerRequestKind::Union,
        share,
        config: None,
        roots: None,
        wait_ms: None,
        resumes: false,
    };
    let (host, output) = UnixStream::pair().unwrap();
    host.set_read_timeout(Some(LINE_TIMEOUT)).unwrap();
    let bridge = Bridge::new(dialer, request, File::from(OwnedFd::from(output)));
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

fn initialized() -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })
}

fn request(id: u64, method: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": {} })
}

fn answer(id: u64) -> Vec<u8> {
    line(&json!({ "jsonrpc": "2.0", "id": id, "result": {} }))
}

/// Connects the bridge to a daemon, whose side this is.
fn connect(bridge: &Bridge) -> BufReader<UnixStream> {
    let (Dialed { stream, .. }, far) = dialed();
    bridge.link().stream = Some(Arc::new(stream));
    far
}

/// Connects the bridge to a daemon that is gone.
fn connect_to_dead(bridge: &Bridge) {
    drop(connect(bridge));
}

/// Sends a line of the host in a thread of its own. The receiver hears of its end.
fn send(bridge: &Arc<Bridge>, message: &Value) -> mpsc::Receiver<()> {
    let (bridge, message) = (bridge.clone(), line(message));
    let (sent, is_sent) = mpsc::channel();
    thread::spawn(move || {
        bridge.take_line(&message);
        let _ = sent.send(());
    });
    is_sent
}

/// Waits until a line of the host waits for a daemon.
#[track_caller]
fn wait_for_host_line(bridge: &Bridge) {
    let waited = bridge
        .changed
        .wait_timeout_while(bridge.link(), LINE_TIMEOUT, |link| !link.host_waits);
    assert!(waited.unwrap().0.host_waits, "no line waits for a daemon");
}

/// Resumes the session with a daemon that answers the introduction, whose side this is.
fn resume(bridge: &Arc<Bridge>) -> BufReader<UnixStream> {
    let (dialed, mut far) = dialed();
    let resuming = {
        let bridge = bridge.clone();
        thread::spawn(move || bridge.resume(dialed))
    };
    let introduction = next(&mut far);
    write(
        &far,
        &json!({ "jsonrpc": "2.0", "id": introduction["id"], "result": {} }),
    );
    let resumed = resuming.join().unwrap();
    assert!(resumed.is_some(), "the daemon is there");
    far
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
    let (bridge, mut host) = bridge(runtime.path());
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
    host.set_nonblocking(true).unwrap();
    let heard = host.read(&mut [0; 1]).unwrap_or(0);
    assert_eq!(heard, 0, "the host has had its answer already");
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

#[test]
fn a_line_that_a_dead_daemon_did_not_take_goes_to_the_next_one() {
    let runtime = tempfile::tempdir().unwrap();
    let (bridge, _host) = bridge(runtime.path());
    connect_to_dead(&bridge);
    let is_sent = send(&bridge, &request(3, "tools/call"));
    wait_for_host_line(&bridge);
    let mut far = resume(&bridge);
    assert_eq!(next(&mut far)["method"], "notifications/initialized");
    assert_eq!(next(&mut far)["id"], 2);
    assert_eq!(next(&mut far)["id"], 3);
    is_sent.recv_timeout(LINE_TIMEOUT).unwrap();
}

#[test]
fn an_answer_that_a_dead_daemon_did_not_take_waits_for_no_other() {
    let runtime = tempfile::tempdir().unwrap();
    let (bridge, _host) = bridge(runtime.path());
    connect_to_dead(&bridge);
    let question = line(&request(5, "elicitation/create"));
    bridge.link().session.note_daemon_line(&question);
    let answer = json!({ "jsonrpc": "2.0", "id": 5, "result": { "action": "accept" } });
    let is_sent = send(&bridge, &answer);
    is_sent.recv_timeout(LINE_TIMEOUT).expect("it is dropped");
}

#[test]
fn if_no_daemon_can_be_had_what_waits_for_one_is_answered_as_not_sent() {
    let runtime = tempfile::tempdir().unwrap();
    let (bridge, host) = bridge(runtime.path());
    let mut host = BufReader::new(host);
    let searching = {
        let bridge = bridge.clone();
        // A person stopped the daemon, but a call waits for the next one.
        let stopped = EndNotice {
            reason: EndReason::Stop,
            answered_all: true,
        };
        thread::spawn(move || bridge.find_next(Some(stopped)).is_none())
    };
    let kept = next(&mut host);
    assert_eq!(kept["id"], 2);
    assert_eq!(kept["result"]["_meta"]["mainstay"]["outcome"], "not_sent");
    let is_sent = send(&bridge, &request(3, "tools/list"));
    let refused = next(&mut host);
    assert_eq!(refused["id"], 3);
    assert_eq!(refused["error"]["data"]["mainstay"]["outcome"], "not_sent");
    is_sent.recv_timeout(LINE_TIMEOUT).unwrap();
    bridge.link().host_has_closed = true;
    bridge.changed.notify_all();
    assert!(searching.join().unwrap(), "the search ends with the host");
}

#[test]
fn a_daemon_hears_of_the_end_of_its_host_and_one_that_does_not_close_is_left() {
    let runtime = tempfile::tempdir().unwrap();
    let (bridge, _host) = bridge(runtime.path());
    let mut far = connect(&bridge);
    let (input, _) = UnixStream::pair().unwrap();
    let reading = {
        let bridge = bridge.clone();
        thread::spawn(move || bridge.read_host(File::from(OwnedFd::from(input))))
    };
    assert_eq!(far.read(&mut [0; 1]).unwrap(), 0, "the host has closed its side");
    write(&far, &json!({ "jsonrpc": "2.0", "id": 2, "result": {} }));
    reading.join().unwrap();
    far.get_ref().write_all(b"x").expect_err("no one reads it");
}

#[test]
fn a_daemon_that_comes_after_the_host_has_closed_its_side_hears_of_it() {
    let runtime = tempfile::tempdir().unwrap();
    let (bridge, _host) = bridge(runtime.path());
    bridge.link().host_has_closed = true;
    let mut far = resume(&bridge);
    assert_eq!(far.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn the_rest_of_a_long_line_does_not_go_to_another_daemon() {
    let runtime = tempfile::tempdir().unwrap();
    let (bridge, _host) = bridge(runtime.path());
    connect_to_dead(&bridge);
    let first = bridge.link().stream.clone();
    let mut far = connect(&bridge);
    bridge.send_part(first.as_ref(), b"the rest\n");
    let second = bridge.link().stream.clone();
    bridge.send_part(second.as_ref(), b"a part\n");
    let mut line = String::new();
    far.read_line(&mut line).unwrap();
    assert_eq!(line, "a part\n");
}

/// A bridge whose host has told its roots, in a session with this daemon: there are none.
fn rooted(runtime: &Path) -> (Arc<Bridge>, BufReader<UnixStream>, BufReader<UnixStream>) {
    let (bridge, host) = new_bridge(runtime, Share::Roots);
    let mut far = connect(&bridge);
    let mut host = BufReader::new(host);
    let initialize = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "capabilities": { "roots": {} } },
    });
    bridge.take_line(&line(&initialize));
    bridge.link().session.note_daemon_line(&answer(1));
    bridge.take_line(&line(&initialized()));
    for method in ["initialize", "notifications/initialized"] {
        assert_eq!(next(&mut far)["method"], method);
    }
    tell_roots(&bridge, &mut host, &[]);
    (bridge, host, far)
}

/// The host is asked for its roots, and answers.
fn tell_roots(bridge: &Bridge, host: &mut BufReader<UnixStream>, roots: &[&str]) {
    let question = next(host);
    assert_eq!(question["method"], "roots/list");
    let roots: Vec<_> = roots.iter().map(|uri| json!({ "uri": uri })).collect();
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "roots": roots } });
    bridge.take_line(&line(&answer));
}

#[test]
fn roots_that_change_during_a_call_are_followed_when_it_is_answered() {
    let runtime = tempfile::tempdir().unwrap();
    let (bridge, mut host, mut far) = rooted(runtime.path());
    bridge.take_line(&line(&request(2, "tools/call")));
    let changed = json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" });
    bridge.take_line(&line(&changed));
    tell_roots(&bridge, &mut host, &["file:///a"]);
    let is_sent = send(&bridge, &request(3, "ping"));
    is_sent
        .recv_timeout(LINE_TIMEOUT)
        .expect("the same daemon has it");
    for method in ["tools/call", "notifications/roots/list_changed", "ping"] {
        assert_eq!(next(&mut far)["method"], method);
    }
    for id in [2, 3] {
        bridge.link().session.note_daemon_line(&answer(id));
    }
    let is_sent = send(&bridge, &request(4, "tools/call"));
    wait_for_host_line(&bridge);
    assert_eq!(
        bridge.link().request.roots.as_deref(),
        Some(&["file:///a".to_owned()][..])
    );
    let mut far = resume(&bridge);
    assert_eq!(next(&mut far)["method"], "notifications/initialized");
    assert_eq!(next(&mut far)["id"], 4);
    is_sent.recv_timeout(LINE_TIMEOUT).unwrap();
}

#[test]
fn the_lines_of_a_host_that_does_not_tell_its_roots_pass_to_a_server_of_its_own_after_a_while() {
    let runtime = tempfile::tempdir().unwrap();
    let (bridge, host) = new_bridge(runtime.path(), Share::Roots);
    let mut far = connect(&bridge);
    let (input, mut writes) = UnixStream::pair().unwrap();
    let reading = bridge.clone();
    thread::spawn(move || reading.read_host(File::from(OwnedFd::from(input))));
    let initialize = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "capabilities": { "roots": {} } },
    });
    writes.write_all(&line(&initialize)).unwrap();
    assert_eq!(next(&mut far)["method"], "initialize");
    bridge.link().session.note_daemon_line(&answer(1));
    for message in [initialized(), request(2, "tools/call"), request(3, "ping")] {
        writes.write_all(&line(&message)).unwrap();
    }
    assert_eq!(next(&mut BufReader::new(host))["method"], "roots/list");
    assert_eq!(next(&mut far)["method"], "notifications/initialized");
    assert_eq!(
        far.read(&mut [0; 1]).unwrap(),
        0,
        "no call reaches the shared server"
    );
    wait_for_host_line(&bridge);
    assert_eq!(bridge.link().request.share, Share::Never);
    let mut far = resume(&bridge);
    for method in ["notifications/initialized", "tools/call", "ping"] {
        assert_eq!(next(&mut far)["method"], method);
    }
}
