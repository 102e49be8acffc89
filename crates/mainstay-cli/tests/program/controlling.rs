//! Commands to the daemon that runs: status, orders, reload, logs, events, sessions, and the commands that use its servers.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Child;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;

use mainstay_bridge::lock::LockFile;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::daemon::{SOON, Shared, wait_until};
use crate::host::Host;
use crate::sandbox::{MAINSTAY, Ran, Sandbox, dying, good, missing, shell};
use crate::serving::LONG;

/// A daemon with these servers in its configuration.
fn with(servers: &Value) -> Shared {
    let shared = Shared {
        sandbox: Sandbox::with(servers),
    };
    shared.sandbox.run(&["daemon", "start"]).exits(0);
    shared
}

fn status(shared: &Shared) -> Value {
    shared.sandbox.run(&["status", "--json"]).json()
}

/// One server in the status.
fn server(shared: &Shared, name: &str) -> Value {
    let document = status(shared);
    let servers = document["servers"].as_array().expect("servers").iter();
    let mut servers = servers.filter(|server| server["name"] == name);
    servers
        .next()
        .unwrap_or_else(|| panic!("{name}: {document}"))
        .clone()
}

#[track_caller]
fn wait_for_state(shared: &Shared, name: &str, state: &str) {
    wait_until(&format!("{name} is {state}"), || {
        server(shared, name)["state"] == state
    });
}

/// Each line as JSON.
fn lines(ran: &Ran) -> Vec<Value> {
    let lines = ran.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("an object on each line"))
        .collect()
}

/// Reads the program's stdout until a line holds this.
fn read_until(child: &mut Child, text: &str) {
    let stdout = BufReader::new(child.stdout.take().expect("piped"));
    let (sender, found) = mpsc::channel();
    let text = text.to_owned();
    thread::spawn(move || {
        for line in stdout.lines().map_while(Result::ok) {
            if line.contains(&text) {
                let _ = sender.send(());
            }
        }
    });
    found.recv_timeout(LONG).expect("it prints this in time");
}

#[test]
fn without_a_daemon_every_command_says_what_to_run() {
    let sandbox = Sandbox::with(&json!({ "a": good() }));
    for line in [
        &["status"][..],
        &["status", "--watch"],
        &["restart", "a"],
        &["enable", "a"],
        &["disable", "a"],
        &["refresh", "a"],
        &["reload"],
        &["logs", "a"],
        &["events", "-f"],
        &["sessions"],
    ] {
        let ran = sandbox.run(line);
        ran.exits(1)
            .says("no daemon runs: start one with `mainstay daemon start`");
        assert_eq!(ran.stdout, "");
    }
}

#[test]
fn status_shows_what_is_wrong() {
    let shared = with(&json!({ "good": good(), "gone": missing(), "dying": dying() }));
    wait_for_state(&shared, "good", "connected");
    wait_for_state(&shared, "gone", "permanently_failed");
    wait_until("its failure is known", || {
        !server(&shared, "dying")["last_failure"].is_null()
    });
    // Between two attempts: while one runs, there is nothing to hasten.
    let mut ran = shared.sandbox.run(&["status"]);
    wait_until("it waits for its next attempt", || {
        ran = shared.sandbox.run(&["status"]);
        ran.stdout.contains("`mainstay restart dying` tries at once")
    });
    ran.exits(1)
        .prints("✔  good")
        .prints("gone  is down")
        .prints("no-such-program-anywhere")
        .prints("then `mainstay restart gone`")
        .prints("cannot find my database");
    let document = status(&shared);
    assert_eq!(document["servers"].as_array().unwrap().len(), 3);
    shared
        .sandbox
        .run(&["status", "good"])
        .exits(0)
        .prints("1 of 1 server up");
    shared
        .sandbox
        .run(&["status", "goood"])
        .exits(2)
        .says("did you mean \"good\"?");
}

#[test]
fn a_server_with_an_error_in_its_configuration_is_shown_with_the_error_until_that_is_corrected() {
    let mut lacking = good();
    lacking["env"]["NEEDED"] = "${MAINSTAY_TEST_NEVER_SET}".into();
    let shared = with(&json!({ "good": good(), "lacking": lacking }));
    wait_for_state(&shared, "lacking", "permanently_failed");
    wait_for_state(&shared, "good", "connected");
    shared
        .sandbox
        .run(&["status"])
        .exits(1)
        .prints("1 of 2 servers up")
        .prints("lacking  is down")
        .prints("mcp.json:")
        .prints("MAINSTAY_TEST_NEVER_SET");
    shared
        .sandbox
        .run(&["status", "lacking"])
        .exits(1)
        .prints("MAINSTAY_TEST_NEVER_SET");
    let mut host = Host::silent(&shared.sandbox, &["connect", "lacking"]);
    let introduction = json!({ "protocolVersion": "2025-06-18", "capabilities": {},
                               "clientInfo": { "name": "test", "version": "1" } });
    let refused = host.ask("initialize", &introduction);
    let said = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(said.contains("MAINSTAY_TEST_NEVER_SET"), "{refused}");
    // It is read again when it changes, and needs no restart.
    shared
        .sandbox
        .configure(&json!({ "good": good(), "lacking": good() }));
    wait_for_state(&shared, "lacking", "connected");
    shared
        .sandbox
        .run(&["status"])
        .exits(0)
        .prints("2 of 2 servers up");
}

#[test]
fn an_order_to_several_servers_is_given_to_none_if_one_does_not_exist() {
    let shared = with(&json!({ "a": good(), "b": good() }));
    wait_for_state(&shared, "a", "connected");
    let before = server(&shared, "a")["generation"].clone();
    for order in ["restart", "disable", "enable"] {
        let ran = shared.sandbox.run(&[order, "a", "nope"]);
        ran.exits(2).says("nope");
        assert!(!ran.stderr.contains("a is "), "{order}: {}", ran.stderr);
    }
    assert_eq!(server(&shared, "a")["generation"], before, "nothing was done");
    shared.sandbox.run(&["disable", "a", "b"]).exits(0);
    wait_for_state(&shared, "a", "disabled");
    wait_for_state(&shared, "b", "disabled");
}

#[test]
fn orders_take_effect_and_survive_a_restart_of_the_daemon() {
    let shared = with(&json!({ "a": good(), "b": good() }));
    wait_for_state(&shared, "a", "connected");
    let before = server(&shared, "a")["generation"].clone();
    shared.sandbox.run(&["restart", "a"]).exits(0);
    wait_until("another connection", || {
        let now = server(&shared, "a");
        now["state"] == "connected" && now["generation"] != before
    });
    shared.sandbox.run(&["disable", "a"]).exits(0).says("a is disab");
    wait_for_state(&shared, "a", "disabled");
    shared.sandbox.run(&["restart", "a"]).exits(1).says("disabled");
    shared
        .sandbox
        .run(&["restart", "c"])
        .exits(2)
        .says("there is no server c");
    shared.sandbox.run(&["daemon", "restart"]).exits(0);
    wait_for_state(&shared, "b", "connected");
    assert_eq!(server(&shared, "a")["state"], "disabled");
    shared.sandbox.run(&["enable", "a"]).exits(0);
    wait_for_state(&shared, "a", "connected");
}

#[test]
fn a_server_that_is_disabled_where_that_cannot_be_kept_is_disabled_with_a_warning() {
    let shared = with(&json!({ "a": good() }));
    wait_for_state(&shared, "a", "connected");
    let state = shared.sandbox.path("home/.local/state");
    fs::remove_dir_all(&state).ok();
    shared.sandbox.write("home/.local/state", "a file in its place");
    shared
        .sandbox
        .run(&["disable", "a"])
        .exits(1)
        .says("it is disabled now, but the next start will not know");
    wait_for_state(&shared, "a", "disabled");
}

#[test]
fn a_watched_status_says_that_the_daemon_has_ended_and_goes_on_with_the_next_one() {
    let shared = with(&json!({ "a": good() }));
    wait_for_state(&shared, "a", "connected");
    let first = status(&shared)["program"]["pid"].as_i64().expect("a process");
    let mut watching = shared
        .sandbox
        .command(&["status", "--watch", "--json"])
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(watching.stderr.take().expect("piped")).lines();
    let mut documents = BufReader::new(watching.stdout.take().expect("piped")).lines();
    let mut next = || -> Value { serde_json::from_str(&documents.next().expect("more").unwrap()).unwrap() };
    assert_eq!(next()["program"]["pid"], first);
    let pid = Pid::from_raw(i32::try_from(first).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    let warned = errors.find(|line| line.as_ref().unwrap().contains("the daemon has ended"));
    assert!(warned.is_some());
    shared
        .sandbox
        .run(&["daemon", "start"])
        .exits(0)
        .says("the daemon runs");
    while next()["program"]["pid"] == first {}
    watching.kill().unwrap();
    watching.wait().unwrap();
}

/// Passes a connection on to the daemon at this socket. The first answer about the servers waits: this is said on `held`, and it goes on
/// with a word on `go`.
fn pass_on(client: &UnixStream, socket: &Path, held: &Sender<()>, go: &Mutex<Receiver<()>>) {
    let daemon = UnixStream::connect(socket).expect("the daemon listens");
    let [mut from_client, mut from_daemon] = [client, &daemon].map(|stream| stream.try_clone().unwrap());
    let [mut to_client, mut to_daemon] = [client, &daemon].map(|stream| stream.try_clone().unwrap());
    let mut bytes = vec![0; 64 * 1024];
    let length = from_client.read(&mut bytes).unwrap_or(0);
    let asks_for_servers = bytes.starts_with(b"GET /api/v1/servers");
    let _ = to_daemon.write_all(&bytes[..length]);
    thread::spawn(move || io::copy(&mut from_client, &mut to_daemon));
    if asks_for_servers {
        let length = from_daemon.read(&mut bytes).unwrap_or(0);
        if held.send(()).is_ok() {
            let _ = go.lock().unwrap().recv();
        }
        let _ = to_client.write_all(&bytes[..length]);
    }
    let _ = io::copy(&mut from_daemon, &mut to_client);
}

#[test]
fn a_watched_status_shows_a_change_that_happens_while_it_starts() {
    let shared = with(&json!({ "a": good() }));
    wait_for_state(&shared, "a", "connected");
    let between = shared.sandbox.path("between");
    fs::create_dir(&between).unwrap();
    fs::set_permissions(&between, fs::Permissions::from_mode(0o700)).unwrap();
    let _lock = LockFile::try_acquire(&between.join("daemon.lock")).unwrap();
    let listener = UnixListener::bind(between.join("daemon.sock")).unwrap();
    let (held, is_held) = mpsc::channel();
    let (go, goes) = mpsc::channel();
    let (daemon, goes) = (shared.sandbox.path("run/daemon.sock"), Arc::new(Mutex::new(goes)));
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let (daemon, held, goes) = (daemon.clone(), held.clone(), goes.clone());
            thread::spawn(move || pass_on(&client, &daemon, &held, &goes));
        }
    });
    let mut watching = shared
        .sandbox
        .command(&["status", "--watch", "--json"])
        .env("MAINSTAY_RUNTIME", &between)
        .spawn()
        .unwrap();
    is_held.recv_timeout(SOON).expect("it looks at the servers");
    shared.sandbox.run(&["disable", "a"]).exits(0);
    wait_for_state(&shared, "a", "disabled");
    // The answer from before the change, and every later one.
    drop((go, is_held));
    read_until(&mut watching, "\"state\":\"disabled\"");
    watching.kill().unwrap();
    watching.wait().unwrap();
}

#[test]
fn a_check_through_the_daemon_shows_the_failures_of_its_servers_and_not_those_of_its_own_bridges() {
    let shared = with(&json!({ "a": good(), "dying": dying() }));
    wait_until("it has failed", || {
        server(&shared, "dying")["attempt"].as_u64() >= Some(3)
    });
    let ran = shared.sandbox.run(&["check"]);
    ran.exits(1)
        .says("using the servers of the daemon")
        .says("dying: reconnecting (")
        .says("a: connected")
        .prints("1 of 2 servers up; down: dying");
    assert!(!ran.stderr.contains("refused to open"), "{}", ran.stderr);
    let failures = ran.stderr.lines().filter(|line| line.starts_with("dying: "));
    for line in failures {
        assert!(!line.contains("(1 of ") && !line.contains("(2 of "), "{line}");
    }
}

#[test]
fn reload_prints_the_difference_and_refuses_what_is_wrong() {
    let shared = with(&json!({ "a": good() }));
    shared.sandbox.configure(&json!({ "a": good(), "b": good() }));
    // The file's change may have been noticed first.
    let ran = shared.sandbox.run(&["reload", "--json"]);
    assert_eq!(ran.exits(0).json()["unchanged"][0], "a");
    wait_for_state(&shared, "b", "connected");
    shared
        .sandbox
        .run(&["reload"])
        .exits(0)
        .prints("nothing changed; 2 servers left alone");
    let file = shared
        .sandbox
        .write("home/.config/mainstay/mcp.json", "{\n  \"mcpServers\": oops\n}");
    let ran = shared.sandbox.run(&["reload"]);
    ran.exits(2)
        .says(&format!("{}:2:", file.display()))
        .says("not JSON");
    assert_eq!(server(&shared, "b")["state"], "connected");
}

#[test]
fn logs_events_and_sessions_show_what_happened() {
    let talking = shell("echo 'I am ready' >&2; echo '    at  line 7' >&2; exec cat >/dev/null");
    let shared = with(&json!({ "a": good(), "talking": talking }));
    wait_for_state(&shared, "a", "connected");
    wait_until("it has written", || {
        shared
            .sandbox
            .run(&["logs", "talking"])
            .stdout
            .contains("Z      at  line 7\n")
    });
    let ran = shared.sandbox.run(&["logs", "talking", "--json"]);
    assert_eq!(lines(&ran)[0]["text"], "I am ready");
    let mut following = shared
        .sandbox
        .command(&["events", "-f", "--server", "a"])
        .spawn()
        .unwrap();
    shared.sandbox.run(&["disable", "a"]).exits(0);
    read_until(&mut following, "disable by a command");
    following.kill().unwrap();
    following.wait().unwrap();
    let ran = shared.sandbox.run(&["events", "--json"]);
    let events = lines(&ran);
    assert!(
        events
            .iter()
            .any(|event| event["type"] == "command" && event["by"]["via"] == "command")
    );
    assert!(
        events
            .iter()
            .any(|event| event["type"] == "transition" && event["to"] == "connected")
    );
    let mut host = Host::start(&shared.sandbox, &["connect"]);
    host.tools();
    let document = shared.sandbox.run(&["sessions", "--json"]).exits(0).json();
    assert_eq!(document["sessions"].as_array().unwrap().len(), 1, "{document}");
    shared.sandbox.run(&["sessions"]).exits(0).prints("host 1");
}

#[test]
fn commands_use_the_servers_of_the_daemon_and_say_so() {
    let shared = with(&json!({ "a": good() }));
    wait_for_state(&shared, "a", "connected");
    let starts = server(&shared, "a")["starts"].clone();
    for line in [
        &["call", "a", "echo", "text=hello"][..],
        &["tools"],
        &["check"],
        &["ping", "a"],
    ] {
        shared
            .sandbox
            .run(line)
            .exits(0)
            .says("using the servers of the daemon");
    }
    let seen = server(&shared, "a");
    assert_eq!(seen["starts"], starts);
    assert!(seen["calls"]["total"].as_u64().unwrap() >= 1, "{seen}");
    let ran = shared
        .sandbox
        .run(&["call", "a", "echo", "text=hello", "--no-daemon"]);
    ran.exits(0).prints("hello");
    assert!(!ran.stderr.contains("of the daemon"), "{}", ran.stderr);
}

#[test]
fn commands_use_the_servers_of_the_daemon_while_the_file_is_broken_or_gone() {
    let shared = with(&json!({ "a": good() }));
    wait_for_state(&shared, "a", "connected");
    let file = shared
        .sandbox
        .write("home/.config/mainstay/mcp.json", "{ \"mcpServers\": {");
    for trouble in ["not JSON", "does not exist"] {
        for line in [
            &["call", "a", "echo", "text=hello"][..],
            &["tools"],
            &["check"],
            &["ping", "a"],
        ] {
            let ran = shared.sandbox.run(line);
            ran.exits(0)
                .says(trouble)
                .says("the daemon still has the servers of the file as it was before");
        }
        if file.exists() {
            fs::remove_file(&file).unwrap();
        }
    }
}

#[test]
fn a_reload_that_starts_the_configured_servers_reports_them_as_added() {
    let shared = Shared {
        sandbox: Sandbox::with(&json!({ "a": good() })),
    };
    // A daemon that a host started for a server of its own starts no other.
    let mut host = Host::start(&shared.sandbox, &["connect", "--", MAINSTAY, "demo-server"]);
    host.tools();
    let ran = shared.sandbox.run(&["reload", "--json"]);
    assert_eq!(ran.exits(0).json()["added"][0], "a");
    wait_for_state(&shared, "a", "connected");
}

#[test]
fn commands_that_name_no_configuration_use_the_one_of_the_daemon() {
    let shared = Shared::new();
    let servers = json!({ "mcpServers": { "a": good(), "gone": missing() } });
    let other = shared
        .sandbox
        .write("elsewhere/servers.json", &servers.to_string());
    let other = other.to_str().unwrap();
    shared
        .sandbox
        .run(&["daemon", "start", "--config", other])
        .exits(0);
    let ran = shared.sandbox.run(&["call", "a", "echo", "text=hello"]);
    ran.exits(0)
        .prints("hello")
        .says("using the servers of the daemon")
        .says("elsewhere/servers.json");
    let ran = shared.sandbox.run(&["check", "--json"]);
    assert_eq!(ran.exits(1).json()["configuration"]["found_by"], "daemon");
    let ran = shared.sandbox.run(&["doctor", "--json"]);
    let found = ran.exits(1).json().to_string();
    assert!(found.contains("which the daemon uses"), "{found}");
    shared
        .sandbox
        .run(&["tools", "--no-daemon"])
        .exits(0)
        .says("using the built-in demo server");
}

#[test]
fn a_check_through_the_daemon_tells_of_its_servers_and_not_of_the_bridges_to_them() {
    let shared = with(&json!({ "well": good(), "gone": missing(), "frozen": good() }));
    wait_for_state(&shared, "frozen", "connected");
    shared.sandbox.run(&["ping", "frozen", "--count", "1"]).exits(0);
    let pid = i32::try_from(server(&shared, "frozen")["process"]["pid"].as_i64().unwrap()).unwrap();
    let pid = Pid::from_raw(pid).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let document = shared.sandbox.run(&["check", "--json"]).exits(1).json();
    kill_process(pid, Signal::CONT).unwrap();
    let up = |name: &str| {
        let servers = document["servers"].as_array().unwrap();
        let found = servers.iter().find(|server| server["server"] == name).unwrap();
        (found["up"].clone(), found["error"]["message"].to_string())
    };
    assert_eq!(up("well").0, true, "{document:#}");
    assert_eq!(up("frozen").0, false, "{document:#}");
    let (is_up, why) = up("gone");
    assert_eq!(is_up, false);
    assert!(why.contains("not found"), "{why}");
    shared.sandbox.run(&["ping", "gone"]).exits(1);
    shared.sandbox.run(&["disable", "well"]).exits(0);
    shared
        .sandbox
        .run(&["check", "--server", "well"])
        .prints("disabled");
    shared.sandbox.run(&["ping", "well"]).exits(1);
}

#[test]
fn a_command_that_follows_ends_with_the_reader_of_its_output() {
    let shared = with(&json!({ "a": good() }));
    wait_for_state(&shared, "a", "connected");
    for line in [
        &["events", "--follow"][..],
        &["logs", "--follow", "a"],
        &["status", "--watch"],
    ] {
        let mut child = shared.sandbox.command(line).spawn().unwrap();
        drop(child.stdout.take());
        // Nothing happens to the server meanwhile, so nothing is written.
        assert!(child.wait().unwrap().success(), "{line:?}");
    }
}

#[test]
fn the_log_of_a_server_is_followed_across_a_restart_of_the_daemon() {
    let shared = with(&json!({ "a": shell("echo begun as $$ >&2; exec cat >/dev/null") }));
    let mut child = shared
        .sandbox
        .command(&["logs", "--follow", "a"])
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut begun = || {
        let line = lines
            .by_ref()
            .map(Result::unwrap)
            .find(|line| line.contains("begun as"));
        line.expect("the log goes on")
            .rsplit(' ')
            .next()
            .unwrap()
            .to_owned()
    };
    let first = begun();
    shared.sandbox.run(&["daemon", "restart"]).exits(0);
    while begun() == first {}
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_call_that_fails_at_the_daemon_exits_as_one_that_fails_without_it() {
    let sandbox = Sandbox::new();
    let program = sandbox.path("program");
    std::os::unix::fs::symlink(MAINSTAY, &program).unwrap();
    sandbox.configure(&json!({ "demo": { "command": program, "args": ["demo-server"] } }));
    let shared = Shared { sandbox };
    shared.sandbox.run(&["daemon", "start"]).exits(0);
    wait_for_state(&shared, "demo", "connected");
    let crashed = shared.sandbox.run(&["call", "demo", "crash", "--json"]);
    let error = crashed.exits(4).json()["error"].clone();
    assert_eq!(error["outcome"], "unknown", "{error}");
    wait_for_state(&shared, "demo", "connected");
    fs::remove_file(&program).unwrap();
    shared.sandbox.run(&["restart", "demo"]);
    wait_for_state(&shared, "demo", "permanently_failed");
    let refused = shared.sandbox.run(&["call", "demo", "echo", "text=x", "--json"]);
    let error = refused.exits(3).json()["error"].clone();
    assert_eq!(error["may_have_run"], false, "{error}");
}

#[test]
fn refresh_says_what_a_server_offers_and_fails_for_one_that_is_not_connected() {
    let shared = with(&json!({ "good": good(), "gone": missing() }));
    wait_for_state(&shared, "good", "connected");
    wait_for_state(&shared, "gone", "permanently_failed");
    let listed = || {
        server(&shared, "good")["catalog"]["listed_ms"]
            .as_u64()
            .expect("listed")
    };
    let before = listed();
    shared
        .sandbox
        .run(&["refresh", "good"])
        .exits(0)
        .says("good offers ")
        .says("nothing changed (revision ");
    assert!(listed() > before);
    shared
        .sandbox
        .run(&["refresh", "gone", "good"])
        .exits(1)
        .says("server gone is not connected; restart it")
        .says("good offers ");
    let commands = lines(&shared.sandbox.run(&["events", "--json"]));
    let refused = commands
        .iter()
        .filter(|event| event["command"] == "refresh")
        .map(|event| event["refused"].is_string());
    assert_eq!(refused.collect::<Vec<_>>(), [false, true, false]);
}

#[test]
fn commands_are_known_after_the_daemon_that_took_them_each_once_and_without_a_daemon() {
    let shared = with(&json!({ "good": good() }));
    wait_for_state(&shared, "good", "connected");
    shared.sandbox.run(&["disable", "good"]).exits(0);
    shared.sandbox.run(&["restart", "good"]).exits(1);
    let commands = |arguments: &[&str]| {
        let words = [&["events", "--json", "--since", "1d"][..], arguments].concat();
        let ran = shared.sandbox.run(&words);
        ran.exits(0);
        let events = lines(&ran).into_iter();
        let commands = events.filter(|event| event["type"] == "command");
        let shown = commands.map(|event| {
            assert_eq!(event["by"]["via"], "command");
            assert!(
                event["by"]["who"]
                    .as_str()
                    .is_some_and(|who| who.starts_with("uid "))
            );
            let refused = if event["refused"].is_null() {
                ""
            } else {
                ", refused"
            };
            format!("{}{refused}", event["command"].as_str().expect("a command"))
        });
        shown.collect::<Vec<_>>()
    };
    let first = ["disable", "restart, refused"];
    assert_eq!(commands(&[]), first, "while it runs");
    shared.sandbox.run(&["daemon", "stop"]).exits(0);
    let stopped = ["disable", "restart, refused", "daemon stop"];
    assert_eq!(commands(&[]), stopped, "without a daemon");
    shared.sandbox.run(&["events"]).exits(1).says("no daemon runs");
    shared.sandbox.run(&["daemon", "start"]).exits(0);
    shared.sandbox.run(&["enable", "good"]).exits(0);
    assert_eq!(
        commands(&[]),
        ["disable", "restart, refused", "daemon stop", "enable"],
        "of both"
    );
    assert_eq!(commands(&["--server", "other"]), [] as [&str; 0]);
    assert_eq!(commands(&["-n", "0"]), [] as [&str; 0]);
    let file = shared.sandbox.path("home/.local/state/mainstay/audit.jsonl");
    let mode = fs::metadata(&file).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
}

#[test]
fn what_a_person_does_at_a_terminal_without_the_daemon_is_kept_too_if_it_failed_as_well() {
    let sandbox = Sandbox::new();
    let host = json!({ "mcpServers": { "notes": { "command": "notes" } } });
    sandbox.write("home/.cursor/mcp.json", &host.to_string());
    let run = |line: &[&str], code: i32| {
        sandbox.run(line).exits(code);
    };
    run(&["add", "web", "--url", "http://127.0.0.1:9/mcp"], 0);
    run(&["import"], 0);
    run(&["import", "--yes"], 0);
    run(&["import", "--rewrite", "--yes"], 0);
    run(&["import", "--restore", "--yes"], 0);
    run(&["login", "web", "--no-browser"], 1);
    run(&["logout", "web"], 0);
    run(&["remove", "web"], 0);
    run(&["remove", "web"], 2);
    run(&["service", "--manager", "systemd", "install", "--dry-run"], 0);
    run(&["service", "--manager", "systemd", "install"], 1);
    run(&["service", "--manager", "systemd", "uninstall"], 1);
    let own = sandbox.write("home/.config/mainstay/mcp.json", "{ half");
    run(&["import"], 2);
    run(&["import", "--yes"], 2);
    sandbox.write("home/.config/mainstay/mcp.json", "{}");
    fs::set_permissions(&own, fs::Permissions::from_mode(0o400)).expect("ours");
    run(&["import", "--yes"], 1);
    let ran = sandbox.run(&["events", "--json", "--since", "1d"]);
    let events = lines(ran.exits(0));
    let kept = events.iter().map(|event| {
        assert_eq!(
            (&event["type"], &event["by"]["via"]),
            (&json!("command"), &json!("command"))
        );
        let server = event["server"].as_str().unwrap_or("-");
        let refused = if event["refused"].is_null() {
            ""
        } else {
            ", refused"
        };
        format!("{} {server}{refused}", event["command"].as_str().unwrap())
    });
    assert_eq!(
        kept.collect::<Vec<_>>(),
        [
            "add web",
            "import -",
            "import --rewrite -",
            "import --restore -",
            "login web, refused",
            "logout web",
            "remove web",
            "remove web, refused",
            "service install -, refused",
            "service uninstall -, refused",
            "import -, refused",
            "import -, refused",
        ]
    );
}
