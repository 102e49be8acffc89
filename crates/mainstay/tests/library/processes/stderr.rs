//! What a server writes to stderr never blocks it, and never grows without bound.

use std::future::poll_fn;
use std::pin::pin;

use futures_core::Stream as _;
use mainstay::process::Followed;
use mainstay::{CallOptions, Fleet, ServerConfig, Status};
use mainstay_testkit::{Fault, FaultyServer, Rule, Step, procfs};
use serde_json::json;
use tokio::time::timeout;

use mainstay_testkit::fleet::{LONG, Stage, is_alone, quick};

/// Hundreds of times what a pipe holds.
const FLOOD: usize = 20_000_000;

/// The ring of lines, and what reading and the allocator need beside it.
const GROWTH: u64 = 8_000_000;

#[tokio::test]
async fn a_server_that_fills_stderr_is_never_blocked_by_it() {
    if !is_alone("processes::stderr::a_server_that_fills_stderr_is_never_blocked_by_it") {
        return;
    }
    let stage = Stage::new();
    let flooding = FaultyServer::new()
        .on(Step::Start, Fault::FillStderr(FLOOD))
        .rule(Rule::new(Step::Call, Fault::FillStderr(FLOOD)).named("echo"));
    let fleet = Fleet::builder().start([stage.server("noisy", flooding).build().unwrap()]);
    let server = fleet.server("noisy").unwrap();
    let before = procfs::resident_bytes();
    server.wait_connected(LONG).await.unwrap();
    for key in ["one", "two"] {
        let options = CallOptions::default().timeout(LONG);
        let reply = server
            .call("echo", &json!({ "key": key }))
            .options(options)
            .await
            .unwrap();
        assert!(reply.result.as_str().contains(key));
    }
    assert_eq!(server.status().starts, 1);
    assert!(server.stderr_tail(1)[0].text.contains("dull server"));
    let grown = procfs::resident_bytes().saturating_sub(before);
    assert!(grown < GROWTH, "{} bytes of stderr cost {grown} bytes", 3 * FLOOD);
    fleet.close(LONG).await;
}

#[tokio::test]
async fn a_secret_of_its_configuration_reaches_no_tail_no_status_and_no_event() {
    let script = r#"echo "token is $TOKEN, dir is $DIR" >&2; echo "error: $TOKEN is not valid" >&2; exit 3"#;
    let server = ServerConfig::stdio("leaky", "sh")
        .args(["-c", script])
        .env("TOKEN", "sk-very-secret-1")
        .env("DIR", "/srv/data");
    let fleet = Fleet::builder().start([server.build().unwrap()]);
    let mut events = fleet.events();
    let server = fleet.server("leaky").unwrap();
    let failed = server
        .wait_until(LONG, |status| status.last_error.is_some())
        .await
        .unwrap();
    let failure = failed.last_error.clone().unwrap();
    assert_eq!(
        failure.stderr,
        ["token is [TOKEN], dir is [DIR]", "error: [TOKEN] is not valid"]
    );
    assert_eq!(
        failure.decisive_stderr_line(),
        Some("error: [TOKEN] is not valid")
    );
    let event = events.next().await.unwrap();
    for seen in [
        format!("{failed:?}"),
        format!("{event:?}"),
        format!("{:?}", server.stderr_tail(99)),
    ] {
        assert!(!seen.contains("secret"), "{seen}");
        assert!(!seen.contains("/srv/data"), "{seen}");
    }
    fleet.close(LONG).await;
}

#[tokio::test]
async fn a_failure_carries_the_stderr_of_its_own_connection_alone() {
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("started");
    // The first process says something and dies; the second dies without a word.
    let script = format!(
        r#"if [ -e '{mark}' ]; then exit 4; fi; : > '{mark}'; echo "error: the first words" >&2; exit 3"#,
        mark = mark.display()
    );
    let server = ServerConfig::stdio("s", "sh")
        .args(["-c", &script])
        .policy(quick());
    let fleet = Fleet::builder().start([server.build().unwrap()]);
    let server = fleet.server("s").unwrap();
    let died_of = |code: i32| {
        server.wait_until(LONG, move |status| {
            let exit = status.last_error.as_ref().and_then(|error| error.exit.as_ref());
            exit.is_some_and(|exit| exit.code == Some(code))
        })
    };
    let first = died_of(3).await.unwrap().last_error.unwrap();
    assert_eq!(first.stderr, ["error: the first words"]);
    let second = died_of(4).await.unwrap().last_error.unwrap();
    assert!(second.generation > first.generation);
    assert_eq!(second.stderr, [""; 0], "the first one's are not its own");
    assert_eq!(
        server.stderr_tail(1)[0].text,
        "error: the first words",
        "they are kept"
    );
    fleet.close(LONG).await;
}

#[tokio::test]
async fn a_follower_that_reads_too_late_learns_how_many_lines_it_missed_and_goes_on() {
    const LINES: u64 = 200;
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("started");
    // Only the first process writes.
    let script = format!(
        "if [ -e '{mark}' ]; then exit 4; fi; : > '{mark}'; for n in $(seq {LINES}); do echo $n >&2; done; exit 3",
        mark = mark.display()
    );
    let server = ServerConfig::stdio("s", "sh")
        .args(["-c", &script])
        .policy(quick());
    let fleet = Fleet::builder().start([server.build().unwrap()]);
    let server = fleet.server("s").unwrap();
    let mut lines = server.follow_stderr_lines();
    let has_died = |status: &Status| {
        status
            .last_error
            .as_ref()
            .is_some_and(|error| error.exit.is_some())
    };
    server.wait_until(LONG, has_died).await.unwrap();

    let Some(Followed::Missed(missed)) = lines.next().await else {
        panic!("it reads too late");
    };
    assert!((1..LINES).contains(&missed), "{missed}");
    for number in missed + 1..=LINES {
        let next = poll_fn(|context| pin!(&mut lines).poll_next(context));
        match timeout(LONG, next).await.expect("in time") {
            Some(Followed::Wrote(line)) => assert_eq!(line.text, number.to_string()),
            other => panic!("{other:?}"),
        }
    }
    fleet.close(LONG).await;
    drop((fleet, server));
    let end = timeout(LONG, lines.next()).await.expect("in time");
    assert_eq!(end, None, "the server is gone, and the stream ends");
}
