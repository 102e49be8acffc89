//! Start-up: no server waits for another, and only a required one can fail it.

use std::time::Duration;

use mainstay::{CallError, CallErrorKind, CallOptions, Fleet, ServerConfig, StateKind};
use mainstay_testkit::{Fault, FaultyServer, Script, Step};
use tokio::time::Instant;

use crate::lifecycle::support::{InMemory, LONG, SOON, built, connected, echo, fleet, keep, reaches, stdio};

fn missing(name: &str) -> mainstay::config::ServerBuilder<mainstay::config::StdioTarget> {
    ServerConfig::stdio(name, "no-such-program-anywhere")
}

#[tokio::test(start_paused = true)]
async fn a_server_that_appears_late_is_connected_then_and_delays_no_other() {
    let origin = Instant::now();
    let late = InMemory::choosing(move |_| (origin.elapsed() > Duration::from_secs(90)).then(Script::new));
    let silent = InMemory::playing(Script::new().on(Step::Start, Fault::StopReading));
    let ready = InMemory::playing(Script::new());
    let fleet = fleet([
        silent.config("a-silent"),
        late.config("late"),
        ready.config("ready"),
    ]);

    connected(&fleet.server("ready").unwrap()).await;
    assert!(origin.elapsed() < Duration::from_millis(100));
    reaches(&fleet.server("late").unwrap(), StateKind::Connected).await;
    assert!(origin.elapsed() > Duration::from_secs(90));
    assert_eq!(ready.attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_fleet_is_not_ready_before_the_first_attempts_have_ended() {
    let memory = InMemory::playing(Script::new());
    let fleet = fleet([memory.config("one")]);
    assert!(!fleet.is_ready(), "no attempt has begun");
    fleet.wait_settled(LONG).await;
    assert!(fleet.is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_failed_and_one_that_is_disabled_delay_no_settled_fleet() {
    let origin = Instant::now();
    let refusing = InMemory::choosing(|_| None);
    let fleet = fleet([refusing.config("down"), refusing.config("off").enabled(false)]);
    let settled = fleet.wait_settled(LONG).await;
    assert!(
        origin.elapsed() < Duration::from_secs(1),
        "{:?}",
        origin.elapsed()
    );
    assert_eq!(settled.down.len(), 1);
    assert!(fleet.is_ready(), "none is required, and each has been tried");
}

#[tokio::test(start_paused = true)]
async fn a_fleet_with_required_servers_is_ready_when_these_are_up() {
    let refusing = InMemory::choosing(|_| None);
    let ready = InMemory::playing(Script::new());
    let names = |fleet: &Fleet| -> Vec<_> {
        let unready = fleet.unready().into_iter();
        unready.map(|status| status.server.to_string()).collect()
    };
    let good = fleet([ready.config("good").required(true), refusing.config("down")]);
    assert_eq!(names(&good), ["good"]);
    good.wait_settled(LONG).await;
    assert!(good.is_ready(), "{:?}", names(&good));

    let bad = fleet([ready.config("good"), refusing.config("down").required(true)]);
    bad.wait_settled(LONG).await;
    assert_eq!(names(&bad), ["down"]);
}

#[tokio::test]
async fn the_failures_of_required_servers_alone_are_reported_and_together() {
    let learnt_later = InMemory::playing(Script::new());
    let mut servers = built([
        missing("first").required(true),
        stdio("good", &FaultyServer::new()).required(true),
        missing("optional"),
        missing("second").required(true),
        missing("unwanted").required(true).enabled(false),
    ]);
    servers.extend(built([learnt_later.config("lazy").required(true).lazy(true)]));
    let fleet = Fleet::builder().start(servers);
    let error = fleet.wait_required(SOON).await.expect_err("two are missing");
    let names: Vec<_> = error.0.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["first", "second"]);
    let text = error.to_string();
    assert!(
        text.contains("first") && text.contains("second") && text.contains("not found"),
        "{text}"
    );
    for (_, error) in &error.0 {
        let CallErrorKind::NotConnected(now) = &error.kind else {
            panic!("{error}")
        };
        assert_eq!(now.state, StateKind::PermanentlyFailed);
    }
    connected(&fleet.server("good").unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn servers_that_are_not_required_fail_no_start_up_and_delay_none() {
    let origin = Instant::now();
    let silent = InMemory::playing(Script::new().on(Step::Start, Fault::StopReading));
    let absent = InMemory::choosing(|_| None);
    let ready = InMemory::playing(Script::new());
    let fleet = fleet([
        silent.config("silent"),
        absent.config("absent"),
        ready.config("ready").required(true),
    ]);
    fleet
        .wait_required(LONG)
        .await
        .expect("what is required is there");
    assert!(origin.elapsed() < Duration::from_millis(100));
}

#[tokio::test(start_paused = true)]
async fn a_required_server_that_does_not_come_up_in_time_fails_the_start_up_with_its_state() {
    let absent = InMemory::choosing(|_| None);
    let fleet = fleet([absent.config("absent").required(true)]);
    let error = fleet
        .wait_required(Duration::from_secs(2))
        .await
        .expect_err("it is absent");
    let [
        (
            name,
            CallError {
                kind: CallErrorKind::WaitTimedOut { waited, now },
                ..
            },
        ),
    ] = &error.0[..]
    else {
        panic!("{error}")
    };
    assert_eq!((name.as_str(), &*now.server), ("absent", "absent"));
    assert_eq!(*waited, Duration::from_secs(2));
    assert_eq!(now.state, StateKind::Reconnecting);
    assert!(now.last_error.is_some() && now.attempt > 0);
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_connection_fails_at_once_where_none_will_come() {
    let memory = InMemory::playing(Script::new());
    let (_fleet, server) = keep(memory.config("off").enabled(false));
    let waited = server.wait_connected(LONG).await;
    assert!(
        matches!(&waited, Err(error) if matches!(error.kind, CallErrorKind::NotConnected(_))),
        "{waited:?}"
    );

    server.enable().await.expect("taken");
    let connected = server.wait_connected(LONG).await.expect("connected");
    assert_eq!(connected.state, StateKind::Connected);

    let hangs = InMemory::playing(Script::new().on(Step::Initialize, Fault::NoAnswer));
    let (_fleet, server) = keep(hangs.config("hangs"));
    let (waited, ()) = tokio::join!(server.wait_connected(LONG), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.disable().await.expect("taken");
    });
    assert!(
        matches!(&waited, Err(error) if matches!(error.kind, CallErrorKind::NotConnected(_))),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_made_in_the_very_moment_of_the_start_waits_for_its_server() {
    let memory = InMemory::playing(Script::new());
    let (_fleet, server) = keep(memory.config("new"));
    echo(&server, CallOptions::default()).await.expect("answered");
}
