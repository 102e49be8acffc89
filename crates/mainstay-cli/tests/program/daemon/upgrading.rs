//! A daemon that is replaced by another program, and what hosts learn of the servers that the next one has.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use super::{SOON, Shared, socket, wait_until};
use crate::host::Host;
use crate::sandbox::{MAINSTAY, finish, good};

const TOOLS_CHANGED: &str = "notifications/tools/list_changed";

fn is_tools_changed(message: &Value) -> bool {
    message["method"] == TOOLS_CHANGED
}

/// A host of all configured servers that has read the list of tools.
fn host_that_listed(shared: &Shared) -> Host {
    shared.sandbox.configure(&json!({ "one": good() }));
    let mut host = Host::start(&shared.sandbox, &["connect"]);
    host.lists("one__echo");
    host
}

#[test]
fn a_host_is_notified_of_changes_although_it_has_not_listed_since_the_daemon_was_replaced() {
    let shared = Shared::new();
    let mut host = host_that_listed(&shared);
    shared.sandbox.run(&["daemon", "restart"]).exits(0);
    // The next daemon has the session. Nothing has changed.
    for _ in 0..20 {
        let ping = host.begin("ping", &json!({}));
        host.wait_for(|message| {
            assert!(!is_tools_changed(message), "{message}");
            message["id"] == ping
        });
    }
    shared.sandbox.configure(&json!({ "one": good(), "two": good() }));
    host.wait_for(is_tools_changed);
    wait_until("the list has the new server", || {
        host.tools().contains(&"two__echo".to_owned())
    });
}

#[test]
fn a_host_is_notified_of_what_changed_while_no_daemon_ran() {
    let shared = Shared::new();
    let mut host = host_that_listed(&shared);
    shared.sandbox.run(&["daemon", "stop"]).exits(0);
    let mut hidden = good();
    hidden["tools"] = json!({ "exclude": ["echo"] });
    shared.sandbox.configure(&json!({ "one": hidden }));
    let ping = host.begin("ping", &json!({}));
    host.wait_for(is_tools_changed);
    host.answer(ping);
    assert!(!host.tools().contains(&"one__echo".to_owned()));
}

/// Puts both programs into this directory.
fn install(shared: &Shared, directory: &str) -> PathBuf {
    let program = shared.sandbox.write(&format!("{directory}/mainstay"), "");
    fs::copy(MAINSTAY, &program).unwrap();
    let bridge = Path::new(MAINSTAY).with_file_name("mainstay-bridge");
    fs::copy(bridge, program.with_file_name("mainstay-bridge")).unwrap();
    program.canonicalize().unwrap()
}

fn running(pid: i32) -> PathBuf {
    fs::read_link(format!("/proc/{pid}/exe")).unwrap()
}

#[test]
fn a_restart_with_another_program_replaces_the_daemon_and_the_session_goes_on() {
    let shared = Shared::new();
    let (old, new) = (install(&shared, "old"), install(&shared, "new"));
    let mut command = shared.sandbox.other(&old);
    command.args(["connect", "--", MAINSTAY, "demo-server"]);
    let mut host = Host::of(&mut command).introduced();
    let tools = host.tools();
    let first = shared.daemon_pid();
    assert_eq!(running(first), old);
    let mut restart = shared.sandbox.other(&new);
    finish(restart.args(["daemon", "restart"]).spawn().unwrap()).exits(0);
    let second = shared.daemon_pid();
    assert_ne!(second, first);
    assert_eq!(running(second), new);
    let answer = host.call("add", &json!({ "a": 2, "b": 3 }));
    assert_eq!(answer["structuredContent"]["sum"], 5.0, "{answer}");
    assert_eq!(host.tools(), tools);
    assert_eq!(shared.daemon_pid(), second, "the bridge has started no other");
    host.leave().exits(0);
}

#[test]
fn a_bridge_whose_program_was_moved_starts_the_daemon_with_the_one_on_its_path() {
    let shared = Shared::new();
    let (old, new) = (install(&shared, "1.0"), install(&shared, "1.1"));
    let link = shared.sandbox.path("bin/mainstay");
    fs::create_dir(link.parent().unwrap()).unwrap();
    symlink(&new, &link).unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = [link.parent().unwrap().to_owned()].into_iter();
    let path = std::env::join_paths(directories.chain(std::env::split_paths(&path))).unwrap();
    let mut command = shared.sandbox.other(&old);
    command
        .args(["connect", "--", MAINSTAY, "demo-server"])
        .env("PATH", path);
    let mut host = Host::of(&mut command).introduced();
    assert_eq!(running(shared.daemon_pid()), old);
    fs::remove_dir_all(old.parent().unwrap()).unwrap();
    shared.sandbox.run(&["daemon", "stop"]).exits(0);
    let answer = host.call("add", &json!({ "a": 2, "b": 3 }));
    assert_eq!(answer["structuredContent"]["sum"], 5.0, "{answer}");
    assert_eq!(running(shared.daemon_pid()), new);

    fs::remove_file(&link).unwrap();
    shared.sandbox.run(&["daemon", "stop"]).exits(0);
    let answer = host.call("add", &json!({ "a": 2, "b": 3 }));
    let said = answer["content"][0]["text"].as_str().unwrap_or_default();
    assert!(said.contains("run `mainstay daemon start`"), "{answer}");
    shared.sandbox.run(&["daemon", "start"]).exits(0);
    let answer = host.call("add", &json!({ "a": 2, "b": 3 }));
    assert_eq!(answer["structuredContent"]["sum"], 5.0, "{answer}");
}

/// A daemon of protocol 999, which answers every first line with this and then does that.
fn other_daemon(shared: &Shared, answer: &Value, then: &str) -> Child {
    let run = shared.sandbox.path("run");
    fs::create_dir(&run).unwrap();
    fs::set_permissions(&run, fs::Permissions::from_mode(0o700)).unwrap();
    let script = format!(
        "import fcntl, os, socket, sys, time\n\
         lock = open('daemon.lock', 'w'); fcntl.flock(lock, fcntl.LOCK_EX); lock.write(str(os.getpid())); lock.flush()\n\
         listener = socket.socket(socket.AF_UNIX); listener.bind('daemon.sock'); listener.listen(); open('ready', 'w')\n\
         while True:\n\
         \x20stream, _ = listener.accept(); stream.recv(65536); stream.sendall(sys.argv[1].encode() + b'\\n'); {then}\n"
    );
    let mut command = shared.sandbox.other("python3");
    let daemon = command
        .args(["-c", &script, &answer.to_string()])
        .current_dir(&run)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("it listens", || run.join("ready").exists());
    daemon
}

#[test]
fn a_daemon_that_refuses_the_order_to_end_is_ended_by_a_signal() {
    for (command, is_next) in [("restart", true), ("stop", false)] {
        let shared = Shared::new();
        let refusal = json!({
            "mainstay": 999, "version": "9.9.9", "error": { "what": "another protocol", "remedy": "run `mainstay daemon restart`" },
        });
        let mut other = other_daemon(&shared, &refusal, "stream.close()");
        shared
            .sandbox
            .run(&["daemon", "status"])
            .exits(1)
            .says("mainstay daemon restart");
        let ran = finish(shared.sandbox.command(&["daemon", command]).spawn().unwrap());
        ran.exits(0);
        let ended = other.wait().unwrap();
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&ended),
            Some(15),
            "{ended}"
        );
        assert_eq!(shared.status().is_some(), is_next);
    }
}

#[test]
fn a_daemon_of_another_protocol_that_takes_the_order_to_end_gets_no_signal() {
    let shared = Shared::new();
    let accepted = json!({ "mainstay": 999, "version": "9.9.9" });
    // It lets calls finish first.
    let mut other = other_daemon(&shared, &accepted, "time.sleep(1); sys.exit(7)");
    shared
        .sandbox
        .run(&["daemon", "restart"])
        .exits(0)
        .says("the daemon runs");
    assert_eq!(other.wait().unwrap().code(), Some(7));
    assert!(shared.status().is_some());
}

#[test]
fn a_daemon_takes_the_order_to_end_under_every_number_and_nothing_else() {
    let shared = Shared::new();
    shared.sandbox.run(&["daemon", "start"]).exits(0);
    let say = |ask: &str| {
        let mut stream = socket(&shared).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        writeln!(stream, r#"{{"mainstay":999,"version":"9.9.9","ask":"{ask}"}}"#).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(say("status").contains("protocol 999"));
    assert!(shared.status().is_some());
    let answer: Value = serde_json::from_str(&say("restart")).unwrap();
    assert_eq!(answer["error"], Value::Null, "{answer}");
    assert!(shared.status().is_none(), "the end of the connection is its end");
}

/// Waits until the one server is in this state, in a daemon that is not this one.
fn wait_for_state(shared: &Shared, state: &str, not_in: Option<i64>) {
    wait_until(state, || {
        let runs = shared
            .status()
            .is_some_and(|status| status["pid"].as_i64() != not_in);
        let ran = shared.sandbox.run(&["status", "--json"]);
        let servers: Option<Value> = serde_json::from_str(&ran.stdout).ok();
        runs && servers.is_some_and(|status| status["servers"][0]["state"] == state)
    });
}

/// Asks something, whose answer says that the daemon has read what the host said before.
fn wait_for_ping(host: &mut Host) {
    let ping = host.begin("ping", &json!({}));
    host.answer(ping);
}

/// A host whose calls wait for 1 ms, of a server that does not start while the file is there. The next daemon comes in this way.
fn waits_for_the_start_that_the_next_daemon_causes(line: &[&str], replace: impl Fn(&Shared)) {
    let shared = Shared::new();
    let hold = shared.sandbox.path("hold");
    let script = format!(
        "while test -e '{}'; do sleep 0.05; done; exec '{MAINSTAY}' demo-server",
        hold.display()
    );
    let held = ["sh", "-c", script.as_str()];
    let line = match line.last() {
        Some(&"--") => [line, &held].concat(),
        _ => {
            shared
                .sandbox
                .configure(&json!({ "held": { "command": held[0], "args": held[1..] } }));
            line.to_owned()
        }
    };
    let line = [&["connect", "--wait", "1ms"], &line[..]].concat();
    let mut host = Host::of(&mut shared.sandbox.command(&line)).introduced();
    wait_for_state(&shared, "connected", None);
    fs::write(&hold, "").unwrap();
    host.call("crash", &json!({}));
    wait_for_state(&shared, "reconnecting", None);
    let call = host.begin_call("echo", &json!({ "text": "too early" }));
    wait_for_ping(&mut host);
    fs::remove_file(&hold).unwrap();
    let refused = host.answer(call)["result"].clone();
    assert_eq!(
        refused["_meta"]["mainstay"]["outcome"], "not_sent",
        "{line:?}: {refused}"
    );
    wait_for_state(&shared, "connected", None);

    fs::write(&hold, "").unwrap();
    let before = shared.status().unwrap()["pid"].as_i64();
    replace(&shared);
    // It is repeated if the bridge has not noticed yet; a call would not be.
    wait_for_ping(&mut host);
    let call = host.begin_call("echo", &json!({ "text": "patient" }));
    wait_for_state(&shared, "connecting", before);
    // The daemon has read both in order, and the limit of the host is long over.
    wait_for_ping(&mut host);
    let early = host.answered(call);
    assert!(early.is_none(), "{line:?}: the call waits, but: {early:?}");
    fs::remove_file(&hold).unwrap();
    let result = host.answer(call)["result"].clone();
    assert_eq!(result["content"][0]["text"], "patient", "{line:?}: {result}");
    host.leave().exits(0);
}

fn upgrade(shared: &Shared) {
    shared.sandbox.run(&["daemon", "restart"]).exits(0);
}

fn kill(shared: &Shared) {
    shared.kill_daemon();
}

#[test]
fn a_call_waits_as_long_as_its_host_says_and_after_an_upgrade_for_the_start_that_it_caused() {
    waits_for_the_start_that_the_next_daemon_causes(&["--"], upgrade);
}

#[test]
fn a_call_waits_for_the_start_that_an_upgrade_caused_also_of_a_server_that_no_host_shares() {
    waits_for_the_start_that_the_next_daemon_causes(&["--share", "never", "--"], upgrade);
}

#[test]
fn a_call_waits_for_the_start_that_an_upgrade_caused_also_of_a_configured_server() {
    waits_for_the_start_that_the_next_daemon_causes(&["held"], upgrade);
}

#[test]
fn a_call_waits_for_the_start_that_a_killed_daemon_caused() {
    waits_for_the_start_that_the_next_daemon_causes(&["--"], kill);
    waits_for_the_start_that_the_next_daemon_causes(&["--share", "never", "--"], kill);
    waits_for_the_start_that_the_next_daemon_causes(&["held"], kill);
}
