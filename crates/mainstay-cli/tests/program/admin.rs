//! `mainstay serve --admin`: the control API of the real program.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::time::{Duration, Instant};

use mainstay_control::ControlClient;
use mainstay_control::api::{
    ActorKind, DesiredState, EntryDocument, EventDetail, EventMessage, ProblemKind, StateName,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::sandbox::{Sandbox, good};
use crate::serving::{LONG, Serving};

#[tokio::test]
async fn a_person_with_the_token_sees_a_killed_server_come_back_and_restarts_it() {
    let sandbox = Sandbox::with(&json!({ "one": good() }));
    let token_file = sandbox.path("state/token");
    let token_argument = token_file.display().to_string();
    let serving = Serving::start(&sandbox, &["--admin", "--admin-token-file", &token_argument]);
    let said = serving.hears("the control API is at");
    assert!(
        said.contains("/api/v1; its token is in ") && said.contains(&token_argument),
        "{said}"
    );
    assert_eq!(fs::metadata(&token_file).expect("made").mode() & 0o777, 0o600);
    let token = fs::read_to_string(&token_file).expect("readable by this user");
    assert!(!said.contains(token.trim()));
    let client = ControlClient::tcp(serving.address, token.trim()).timeout(LONG);

    let mut events = client.events(Some("one"), 100).await.expect("a stream");
    let mut reached = async |wanted: StateName| {
        loop {
            let next = timeout(LONG, events.next()).await.expect("an event in time");
            let message = next.expect("open").expect("readable");
            if let EventMessage::Event(record) = message
                && let EventDetail::Transition { to, failure, .. } = record.detail
                && to == wanted
            {
                return failure;
            }
        }
    };
    assert!(reached(StateName::Connected).await.is_none());
    let status = client.server("one").await.expect("a status");
    let process = status.process.expect("a process");
    assert!(
        process.resident_bytes.is_some_and(|bytes| bytes > 100_000),
        "{process:?}"
    );
    kill_process(Pid::from_raw(process.pid).expect("a process"), Signal::KILL).expect("it runs");
    let failure = reached(StateName::Reconnecting).await.expect("what went wrong");
    assert_eq!(failure.signal, Some(9));
    reached(StateName::Connected).await;
    client.restart("one").await.expect("restarted");
    reached(StateName::Connected).await;
    assert_eq!(client.server("one").await.expect("a status").starts, 3);
    // The token is kept: those who have it can come back after a restart of the program.
    drop(serving);
    let again = Serving::start(&sandbox, &["--admin", "--admin-token-file", &token_argument]);
    let client = ControlClient::tcp(again.address, token.trim()).timeout(LONG);
    client.program().await.expect("the same token");
}

#[tokio::test]
async fn servers_are_added_changed_and_removed_in_the_file_and_a_disabled_one_stays_so() {
    let sandbox = Sandbox::with(&json!({ "one": good() }));
    let file = sandbox.path("home/.config/mainstay/mcp.json");
    let configured = || fs::read_to_string(&file).expect("readable");
    let token_file = sandbox.path("home/.local/state/mainstay/control-token");
    let serving = Serving::start(&sandbox, &["--admin"]);
    serving.hears("the control API is at");
    let token = fs::read_to_string(&token_file).expect("made in the default place");
    let client = ControlClient::tcp(serving.address, token.trim()).timeout(LONG);
    let entry = |value: &Value| EntryDocument {
        name: "two".to_owned(),
        entry: value.as_object().expect("an object").clone(),
    };
    let added = client.add(&entry(&good())).await.expect("added");
    assert_eq!(
        (added.added.as_slice(), added.unchanged.as_slice()),
        (&["two".to_owned()][..], &["one".to_owned()][..])
    );
    assert!(configured().contains("\"two\""));
    let twice = client.add(&entry(&good())).await.expect_err("it is there");
    assert_eq!(
        twice.problem().map(|problem| problem.kind),
        Some(ProblemKind::Conflict)
    );
    let before = configured();
    let invalid = client
        .change(&entry(&json!({ "command": 7 })))
        .await
        .expect_err("no command");
    assert_eq!(invalid.problem().map(|problem| problem.status), Some(422));
    assert_eq!(configured(), before, "nothing is written");
    let changed = client
        .change(&entry(&json!({ "env": { "A": "b" } })))
        .await
        .expect("changed");
    assert_eq!(changed.replaced, ["two"]);
    let removed = client.remove("two").await.expect("removed");
    assert_eq!(removed.removed, ["two"]);
    assert!(!configured().contains("\"two\""));
    // A person who edits the file is recorded too, and an invalid file changes nothing.
    fs::write(&file, "{ half").expect("written");
    let refused = client.reload().await.expect_err("half a file");
    assert_eq!(
        refused.problem().map(|problem| problem.kind),
        Some(ProblemKind::InvalidConfiguration)
    );
    assert_eq!(client.server("one").await.expect("still there").starts, 1);
    fs::write(&file, &before).expect("written");
    let mut events = client.events(None, 1000).await.expect("a stream");
    loop {
        let next = timeout(LONG, events.next())
            .await
            .expect("the change of the file is noticed");
        if let EventMessage::Event(record) = next.expect("open").expect("readable")
            && let EventDetail::Reloaded { by, report } = record.detail
            && by.via == ActorKind::File
            && report.added == ["two"]
        {
            break;
        }
    }
    client.disable("two").await.expect("disabled");
    drop(serving);
    let again = Serving::start(&sandbox, &["--admin"]);
    let client = ControlClient::tcp(again.address, token.trim()).timeout(LONG);
    let two = client.server("two").await.expect("a status");
    assert_eq!((two.desired, two.starts), (DesiredState::Disabled, 0));
}

#[tokio::test]
async fn commands_and_signals_of_a_serving_program_are_kept_and_a_changed_file_is_not() {
    let sandbox = Sandbox::with(&json!({ "one": good() }));
    let serving = Serving::start(&sandbox, &["--admin"]);
    serving.hears("the control API is at");
    let token = fs::read_to_string(sandbox.path("home/.local/state/mainstay/control-token")).expect("made");
    let client = ControlClient::tcp(serving.address, token.trim()).timeout(LONG);
    client.disable("one").await.expect("disabled");
    sandbox.configure(&json!({ "one": good(), "two": good() }));
    serving.hears(": added two");
    serving.signal(Signal::HUP);
    serving.hears(": nothing changed");
    sandbox.write("home/.config/mainstay/mcp.json", "{ half");
    serving.hears("the one before stays in force");
    serving.signal(Signal::HUP);
    serving.hears("the one before stays in force");
    serving.signal(Signal::TERM);
    serving.ended().exits(143);
    let ran = sandbox.run(&["events", "--json", "--since", "1d"]);
    let kept = ran.exits(0).stdout.lines().map(|line| {
        let event: Value = serde_json::from_str(line).expect("JSON");
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let who = text(&event["by"]["who"]);
        (text(&event["type"]), text(&event["by"]["via"]), who)
    });
    let expected = [
        ("command", "api", "control token"),
        ("reloaded", "signal", "-"),
        ("reload_refused", "signal", "-"),
    ];
    let expected = expected.map(|(kind, via, who)| (kind.to_owned(), via.to_owned(), who.to_owned()));
    assert_eq!(kept.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_file_that_is_not_applied_is_said_until_it_is_mended_and_then_its_end_is_an_event() {
    let sandbox = Sandbox::with(&json!({ "one": good() }));
    let file = sandbox.path("home/.config/mainstay/mcp.json");
    let sound = fs::read_to_string(&file).expect("readable");
    let serving = Serving::start(&sandbox, &["--admin"]);
    serving.hears("the control API is at");
    let token_file = sandbox.path("home/.local/state/mainstay/control-token");
    let token = fs::read_to_string(&token_file).expect("made in the default place");
    let client = ControlClient::tcp(serving.address, token.trim()).timeout(LONG);
    assert_eq!(
        client.program().await.expect("a status").configuration_problem,
        None
    );
    let mut events = client.events(None, 0).await.expect("a stream");
    for (text, is_applied) in [("{ half", false), (sound.as_str(), true)] {
        let written = Instant::now();
        fs::write(&file, text).expect("written");
        loop {
            let next = timeout(LONG, events.next()).await.expect("it is noticed");
            let EventMessage::Event(record) = next.expect("open").expect("readable") else {
                continue;
            };
            match record.detail {
                EventDetail::Reloaded { .. } if is_applied => break,
                EventDetail::ReloadRefused { .. } if !is_applied => break,
                _other => {}
            }
        }
        let is_too_soon = !is_applied && written.elapsed() < Duration::from_secs(1);
        assert!(!is_too_soon, "a file that is written in pieces is given a second");
        let problem = client.program().await.expect("a status").configuration_problem;
        assert_eq!(problem.is_none(), is_applied, "{problem:?}");
    }
}

#[test]
fn a_token_file_that_others_can_read_is_refused_before_any_server_starts() {
    let sandbox = Sandbox::with(&json!({ "one": good() }));
    let token_file = sandbox.write("token", "0123456789abcdef0123456789abcdef");
    fs::set_permissions(&token_file, fs::Permissions::from_mode(0o644)).expect("set");
    let token_file = token_file.display().to_string();
    let line = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "--admin-token-file",
        &token_file,
    ];
    sandbox
        .run(&line)
        .exits(2)
        .says("can be read or written by other users: remove it, and a new one is made");
    sandbox.assert_nothing_is_left();
}
