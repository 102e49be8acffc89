use std::fs::{self, DirBuilder};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixListener;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mainstay_bridge::lock::LockFile;
use mainstay_testkit::Ledger;
use mainstay_testkit::procfs::is_alive;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{Shared, noting, server_pid, socket, wait_until};

#[test]
fn an_idle_daemon_ends_with_nothing_left_behind_and_the_next_bridge_starts_another() {
    let shared = Shared::new();
    let ledger = Ledger::temporary();
    let short = ["daemon", "start", "--idle", "5s", "--linger", "100ms"];
    shared.sandbox.run(&short).exits(0);
    // A connection that says nothing is a user too. It keeps the daemon until the bridge is there: one that comes too late would start a
    // daemon with other times.
    let held = socket(&shared).unwrap();
    let mut host = shared.host(&[], &noting(&ledger));
    let first = server_pid(&mut host);
    let daemon = shared.daemon_pid();
    drop(held);
    // Longer than the idle time.
    host.call("sleep_ms", &json!({ "ms": 5500 }));
    assert_eq!(
        shared.daemon_pid(),
        daemon,
        "it does not end while a host is there"
    );
    host.leave().exits(0);
    shared.assert_nothing_is_left();
    assert!(!is_alive(i32::try_from(first).unwrap()));
    let mut host = shared.host(&[], &noting(&ledger));
    assert_ne!(server_pid(&mut host), first);
}

#[test]
fn a_server_that_no_host_wants_ends_and_the_daemon_stays() {
    let shared = Shared::new();
    let ledger = Ledger::temporary();
    shared
        .sandbox
        .run(&["daemon", "start", "--linger", "100ms"])
        .exits(0);
    let mut host = shared.host(&[], &noting(&ledger));
    let first = server_pid(&mut host);
    host.leave().exits(0);
    wait_until("the server ends", || !is_alive(i32::try_from(first).unwrap()));
    wait_until("the status has it no more", || {
        shared.status().unwrap()["servers"].as_array().unwrap().is_empty()
    });
    let mut host = shared.host(&[], &noting(&ledger));
    assert_ne!(server_pid(&mut host), first);
    assert_eq!(ledger.pids().len(), 2);
}

#[test]
fn a_host_that_comes_before_the_linger_time_is_over_keeps_the_server() {
    let shared = Shared::new();
    let ledger = Ledger::temporary();
    shared
        .sandbox
        .run(&["daemon", "start", "--linger", "8s"])
        .exits(0);
    let mut host = shared.host(&[], &noting(&ledger));
    let first = server_pid(&mut host);
    host.leave().exits(0);
    let mut host = shared.host(&[], &noting(&ledger));
    assert_eq!(server_pid(&mut host), first);
    // Until the linger time that began with the first host is over.
    host.call("sleep_ms", &json!({ "ms": 8500 }));
    assert_eq!(server_pid(&mut host), first);
    assert_eq!(ledger.pids().len(), 1);
}

#[test]
fn a_call_that_outlasts_the_drain_time_fails_with_its_outcome_and_is_not_repeated() {
    let shared = Shared::new();
    let ledger = Ledger::temporary();
    shared
        .sandbox
        .run(&["daemon", "start", "--drain", "10ms"])
        .exits(0);
    let mut host = shared.host(&[], &noting(&ledger));
    server_pid(&mut host);
    let call = host.begin_call("sleep_ms", &json!({ "ms": 60_000 }));
    wait_until("the call runs", || {
        let status = shared.sandbox.run(&["status", "--json"]).json();
        status["servers"][0]["calls"]["in_flight"] == 1
    });
    shared.sandbox.run(&["daemon", "restart"]).exits(0);
    let answer = host.answer(call);
    assert_eq!(
        answer["result"]["_meta"]["mainstay"]["outcome"], "unknown",
        "{answer}"
    );
    server_pid(&mut host);
}

#[test]
fn a_stopped_daemon_comes_back_when_its_host_asks_and_not_before() {
    let shared = Shared::new();
    let ledger = Ledger::temporary();
    let mut host = shared.host(&[], &noting(&ledger));
    let first = server_pid(&mut host);
    shared.sandbox.run(&["daemon", "stop"]).exits(0).says("has ended");
    assert!(
        !is_alive(i32::try_from(first).unwrap()),
        "its servers have ended with it"
    );
    // Its bridge has read why it ended. One that would start another one does so at once.
    for _ in 0..10 {
        assert!(shared.status().is_none(), "nothing needs it");
    }
    let asked = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    assert_ne!(server_pid(&mut host), first);
    let since = shared.status().unwrap()["since"].as_u64().unwrap();
    assert!(since >= asked, "it was started for this call");
    shared.sandbox.run(&["daemon", "stop"]).exits(0);
    shared
        .sandbox
        .run(&["daemon", "stop"])
        .exits(0)
        .says("no daemon runs");
}

#[test]
fn a_host_that_closes_its_side_in_the_middle_of_a_call_disturbs_no_other() {
    let shared = Shared::new();
    let ledger = Ledger::temporary();
    let server = noting(&ledger);
    let mut other = shared.host(&[], &server);
    let pid = server_pid(&mut other);
    let mut host = shared.host(&[], &server);
    // Longer than a test waits for the end of a host.
    host.begin_call("sleep_ms", &json!({ "ms": 600_000 }));
    assert!(ledger.wait_for(|ledger| ledger.count("call sleep_ms") == 1, super::SOON));
    host.leave().exits(0);
    assert_eq!(server_pid(&mut other), pid);
    wait_until("its bridge is gone from the status", || {
        shared.status().unwrap()["bridges"].as_array().unwrap().len() == 1
    });
}

#[test]
fn answers_that_are_on_their_way_when_the_host_closes_its_side_still_come() {
    let shared = Shared::new();
    let mut host = shared.host(&[], &mainstay_testkit::FaultyServer::new());
    // What is on its way has a second, and no server needs to start in it.
    server_pid(&mut host);
    let call = host.begin_call("sleep_ms", &json!({ "ms": 20 }));
    host.close_input();
    assert_eq!(host.answer(call)["result"]["content"][0]["text"], "slept");
    host.leave().exits(0);
}

#[test]
fn a_restart_replaces_a_daemon_that_is_frozen_and_its_host_goes_on() {
    let shared = Shared::new();
    let ledger = Ledger::temporary();
    let mut host = shared.host(&[], &noting(&ledger));
    let first = server_pid(&mut host);
    let frozen = shared.daemon_pid();
    let process = Pid::from_raw(frozen).unwrap();
    kill_process(process, Signal::STOP).unwrap();
    shared.sandbox.run(&["daemon", "restart"]).exits(0);
    assert_ne!(shared.daemon_pid(), frozen);
    assert_ne!(server_pid(&mut host), first);
    host.leave().exits(0);
}

#[test]
fn a_call_to_a_frozen_daemon_fails_before_its_host_gives_it_up_and_the_session_goes_on_when_it_thaws() {
    let shared = Shared::new();
    let ledger = Ledger::temporary();
    let mut host = shared.host(&[], &noting(&ledger));
    let first = server_pid(&mut host);
    // It waits for longer than a frozen daemon is given, which is up to twice the limit, and the daemon that answers keeps it.
    let slept = host.call("sleep_ms", &json!({ "ms": 21_000 }));
    assert_ne!(slept["isError"], true, "{slept}");
    assert_eq!(server_pid(&mut host), first);
    let daemon = Pid::from_raw(shared.daemon_pid()).unwrap();
    kill_process(daemon, Signal::STOP).unwrap();
    let call = host.begin_call("pid", &json!({}));
    let answer = host.answer_within(call, Duration::from_secs(60));
    let said = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(said.contains("daemon is frozen"), "{said}");
    assert!(said.contains("mainstay daemon restart"), "{said}");
    assert_eq!(answer["result"]["_meta"]["mainstay"]["outcome"], "unknown");
    let answer = host.ask("tools/list", &json!({}));
    let said = answer["error"]["message"].as_str().unwrap();
    assert!(said.contains("does not answer"), "{said}");
    assert_eq!(answer["error"]["data"]["mainstay"]["outcome"], "not_sent");
    kill_process(daemon, Signal::CONT).unwrap();
    assert_eq!(
        server_pid(&mut host),
        first,
        "the same daemon has the same server"
    );
    host.leave().exits(0);
}

#[test]
fn a_daemon_whose_directory_is_removed_ends_and_leaves_the_next_one_alone() {
    let shared = Shared::new();
    let ledger = Ledger::temporary();
    let mut host = shared.host(&[], &noting(&ledger));
    let first = server_pid(&mut host);
    let lost = shared.daemon_pid();
    fs::remove_dir_all(shared.sandbox.path("run")).unwrap();
    wait_until("the daemon ends", || !is_alive(lost));
    let second = server_pid(&mut host);
    assert_ne!(second, first);
    wait_until("its server ends", || !is_alive(i32::try_from(first).unwrap()));
    assert_ne!(shared.daemon_pid(), lost);
    assert_eq!(server_pid(&mut host), second);
    host.leave().exits(0);
}

#[test]
fn options_for_a_daemon_that_runs_already_are_refused_with_the_command_that_applies_them() {
    let shared = Shared::new();
    let sandbox = &shared.sandbox;
    sandbox.run(&["daemon", "start"]).exits(0);
    let first = shared.daemon_pid();
    sandbox
        .run(&["daemon", "start"])
        .exits(0)
        .says("a daemon runs already");
    sandbox.run(&["daemon", "start", "--record"]).exits(1).says(
        "a daemon runs already, and --record does not apply to it: run `mainstay daemon restart` with the same options",
    );
    // A value that is the default is an option too.
    sandbox
        .run(&["daemon", "start", "--idle", "10m", "--drain", "1s"])
        .exits(1)
        .says("--idle and --drain do not apply to it");
    assert_eq!(shared.daemon_pid(), first);
    sandbox.run(&["daemon", "restart", "--record"]).exits(0);
}

#[test]
fn times_that_are_longer_than_hosts_wait_for_the_next_daemon_are_refused() {
    let shared = Shared::new();
    for command in ["start", "restart", "run"] {
        for times in [
            &["--drain", "34201ms"][..],
            &["--drain", "30s", "--stop-within", "6s"],
        ] {
            shared
                .sandbox
                .run(&[&["daemon", command], times].concat())
                .exits(2)
                .says("--drain and --stop-within are 3")
                .says("35 s are the most");
        }
    }
    assert!(shared.status().is_none());
    shared
        .sandbox
        .run(&["daemon", "start", "--drain", "30s", "--stop-within", "5s"])
        .exits(0);
}

#[test]
fn the_status_of_a_daemon_that_is_not_understood_is_a_document_too() {
    let shared = Shared::new();
    let run = shared.sandbox.path("run");
    DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(&run)
        .unwrap();
    let lock = LockFile::try_acquire(&run.join("daemon.lock")).unwrap();
    let listener = UnixListener::bind(run.join("daemon.sock")).unwrap();
    let daemon = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"of a later version\n").unwrap();
        assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
    });
    let document = shared
        .sandbox
        .run(&["daemon", "status", "--json"])
        .exits(1)
        .json();
    daemon.join().unwrap();
    drop(lock);
    assert_eq!(
        (&document["running"], &document["daemon"]),
        (&json!(true), &Value::Null)
    );
    let problem = document["problem"].as_str().unwrap();
    assert!(problem.contains("run `mainstay daemon restart`"), "{problem}");
}

/// What only time shows.
mod timing {
    use super::*;

    #[test]
    fn a_second_signal_cuts_the_calls_that_a_daemon_lets_finish() {
        let shared = Shared::new();
        let ledger = Ledger::temporary();
        let mut command = shared.sandbox.command(&["daemon", "run", "--drain", "34s"]);
        let mut daemon = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until("it runs", || shared.status().is_some());
        let mut host = shared.host(&[], &noting(&ledger));
        let call = host.begin_call("sleep_ms", &json!({ "ms": 60_000 }));
        assert!(ledger.wait_for(|ledger| ledger.count("call sleep_ms") == 1, super::super::SOON));
        let pid = Pid::from_child(&daemon);
        let began = Instant::now();
        kill_process(pid, Signal::TERM).unwrap();
        wait_until("it accepts no connections", || socket(&shared).is_err());
        kill_process(pid, Signal::TERM).unwrap();
        assert!(daemon.wait().unwrap().success());
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        let answer = host.answer(call);
        assert_eq!(
            answer["result"]["_meta"]["mainstay"]["outcome"], "unknown",
            "{answer}"
        );
    }
}
