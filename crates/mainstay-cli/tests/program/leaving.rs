use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Child;

use mainstay_testkit::poll;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::sandbox::{Sandbox, finish, good, shell};
use crate::serving::LONG;

/// More than any server needs.
const PATIENTLY: [&str; 3] = ["check", "--stop-within", "1m"];

/// Starts the program and waits until its stderr says so.
fn start_until(sandbox: &Sandbox, arguments: &[&str], said: &str) -> Child {
    let mut child = sandbox.command(arguments).spawn().unwrap();
    wait_for(&mut child, said);
    child
}

/// Reads stderr up to a line that holds this text. The rest is left unread.
pub(crate) fn wait_for(child: &mut Child, said: &str) {
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(said) {
        line.clear();
        assert_ne!(
            stderr.read_line(&mut line).unwrap(),
            0,
            "stderr ended before {said:?}"
        );
    }
    // Whatever the reader holds beyond that line is not looked at.
    child.stderr = Some(stderr.into_inner());
}

/// Waits until a server has written this file: the other one may be connected before this one is started.
fn wait_for_file(path: &Path) {
    assert!(poll::comes_true(LONG, || path.exists()), "it is started");
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn an_interrupt_ends_the_servers_and_the_program() {
    for (sent, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let sandbox = Sandbox::new();
        let (started, ended) = (sandbox.path("started"), sandbox.path("ended"));
        let tidy = shell(&format!(
            "touch '{}'; cat >/dev/null; touch '{}'",
            started.display(),
            ended.display()
        ));
        let config = json!({ "mcpServers": { "good": good(), "tidy": tidy } });
        sandbox.write("home/.config/mainstay/mcp.json", &config.to_string());
        let child = start_until(&sandbox, &PATIENTLY, "good: connected");
        wait_for_file(&started);
        assert!(
            sandbox.tree().pids().len() >= 3,
            "the program and its servers run"
        );
        signal(&child, sent);
        let ran = finish(child);
        ran.exits(code).says("stopping the servers");
        assert!(
            ended.exists(),
            "a server may end in its own way before the program does"
        );
        sandbox.assert_nothing_is_left();
    }
}

#[test]
fn servers_that_need_longer_than_others_to_end_are_given_it() {
    // Much longer than a server has by default, and a little longer.
    for (arguments, seconds, in_order) in [(&["check"][..], 600, false), (&PATIENTLY, 1, true)] {
        let sandbox = Sandbox::new();
        let (started, ended) = (sandbox.path("started"), sandbox.path("ended"));
        let slow = shell(&format!(
            "trap '' TERM; touch '{}'; cat >/dev/null; sleep {seconds}; touch '{}'",
            started.display(),
            ended.display()
        ));
        let config = json!({ "mcpServers": { "good": good(), "slow": slow } });
        sandbox.write("home/.config/mainstay/mcp.json", &config.to_string());
        let child = start_until(&sandbox, arguments, "good: connected");
        wait_for_file(&started);
        signal(&child, Signal::TERM);
        finish(child).exits(143);
        assert_eq!(ended.exists(), in_order, "{arguments:?}");
        sandbox.assert_nothing_is_left();
    }
}

/// What only time shows.
mod timing {
    use std::time::{Duration, Instant};

    use super::*;

    /// Less than the 4 s after which the ladder kills a stubborn server.
    const AT_ONCE: Duration = Duration::from_millis(3500);

    #[test]
    fn a_second_interrupt_forces_the_end_and_leaves_nothing_all_the_same() {
        let stubborn = shell("trap '' TERM; while :; do sleep 1; done");
        let sandbox = Sandbox::with(&json!({ "good": good(), "stubborn": stubborn }));
        let mut child = start_until(&sandbox, &PATIENTLY, "good: connected");
        signal(&child, Signal::INT);
        wait_for(&mut child, "stopping the servers");
        let forced = Instant::now();
        signal(&child, Signal::INT);
        finish(child).exits(130);
        assert!(forced.elapsed() < AT_ONCE, "{:?}", forced.elapsed());
        sandbox.assert_nothing_is_left();
    }
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    for command in [
        &["check"][..],
        &["tools"],
        &["call", "demo", "echo", "text=x"],
        &["tools", "--json"],
        &["ping", "demo", "--interval", "1ms"],
    ] {
        let sandbox = Sandbox::new();
        let mut child = sandbox.command(command).spawn().unwrap();
        drop(child.stdout.take());
        let ran = finish(child);
        ran.exits(0);
        assert!(
            !ran.stderr.contains("error") && !ran.stderr.contains("panicked"),
            "{}",
            ran.stderr
        );
        sandbox.assert_nothing_is_left();
    }
}
