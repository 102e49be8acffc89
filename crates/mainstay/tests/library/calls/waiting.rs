//! Calls while the server is away: they wait inside their own time, or fail at once, and say how the server is.

use std::num::NonZeroU32;
use std::time::{Duration, SystemTime};

use mainstay::config::Replay;
use mainstay::server::NotConnected;
use mainstay::{CallError, CallErrorKind, CallOptions, Era, Outcome, Policy, Server, StateKind};
use mainstay_lifecycle::Backoff;
use mainstay_testkit::{Fault, Script, Step};
use serde_json::json;
use tokio::time::Instant;

use mainstay_testkit::fleet::{LONG, Memory, connected, fleet_of};

const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Always a pause between attempts, and as many as it takes.
fn patient() -> Policy {
    Policy {
        backoff: Backoff::new(Duration::from_secs(20), Duration::from_secs(20)),
        budget: NonZeroU32::MAX,
        ..Policy::default()
    }
}

/// The server once it backs off before its next attempt.
async fn backing_off(server: &Server) {
    let paused = server.wait_until(LONG, |status| {
        status.state == StateKind::Reconnecting && status.next_retry.is_some()
    });
    paused.await.expect("it backs off");
}

/// Waits as long as the call may take.
fn patiently() -> CallOptions {
    CallOptions::default().wait_timeout(A_DAY)
}

async fn echo(server: &Server, options: CallOptions) -> Result<mainstay::Reply, CallError> {
    server.call("echo", &json!({})).options(options).await
}

fn assert_tells_of_the_pause(now: &NotConnected, error: &CallError) {
    assert_eq!(now.state, StateKind::Reconnecting);
    assert!(now.attempt > 0 && now.next_retry.is_some(), "{now:?}");
    assert!(now.last_error.is_some());
    assert!(error.retry_after().is_some_and(|after| after <= A_DAY), "{error}");
    assert_eq!(error.outcome(), Outcome::NotSent);
}

#[tokio::test(start_paused = true)]
async fn a_call_made_while_reconnecting_waits_and_then_runs() {
    let memory = Memory::new(Script::new());
    let (_fleet, server) = fleet_of(memory.config("s").policy(patient()));
    let first = connected(&server).await;
    memory.set_down(true);
    memory.side(1).await.cut();
    backing_off(&server).await;
    let waiting = tokio::spawn({
        let server = server.clone();
        async move { echo(&server, patiently()).await }
    });
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(!waiting.is_finished());
    memory.set_down(false);
    let reply = waiting.await.unwrap().expect("it ran");
    assert!(Some(reply.generation) > first.generation);
    assert_eq!(memory.side(2).await.count("tools/call"), 1);
}

#[tokio::test]
async fn a_call_made_in_the_moment_of_the_start_waits_for_it() {
    let memory = Memory::new(Script::new());
    let (_fleet, server) = fleet_of(memory.config("s"));
    let reply = echo(&server, CallOptions::default()).await;
    reply.expect("nothing was awaited before it");
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_server_is_not_back_in_its_time_says_how_the_server_is_and_was_not_sent() {
    let memory = Memory::new(Script::new());
    memory.set_down(true);
    let (_fleet, server) = fleet_of(memory.config("s").policy(patient()));
    let limit = Duration::from_secs(120);
    let began = Instant::now();
    let error = echo(&server, patiently().timeout(limit)).await;
    let error = error.expect_err("it is down");
    // It ends at its deadline, or as soon as no attempt is to come before that.
    assert!(began.elapsed() < limit + Duration::from_secs(1));
    let (CallError {
        kind: CallErrorKind::NotConnected(now),
        ..
    }
    | CallError {
        kind: CallErrorKind::WaitTimedOut { now, .. },
        ..
    }) = &error
    else {
        panic!("{error}")
    };
    assert!(now.attempt > 0 && now.last_error.is_some());
    assert_eq!(error.outcome(), Outcome::NotSent);
    memory.set_down(false);
    connected(&server).await;
    assert_eq!(memory.side(1).await.count("tools/call"), 0, "nothing runs late");
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_fifteen_seconds_for_a_server_that_hangs_in_its_start_and_no_longer() {
    let memory = Memory::new(Script::new().on(Step::Initialize, Fault::Hang));
    let (_fleet, server) = fleet_of(memory.config("s").era(Era::Legacy).startup_timeout(A_DAY));
    let began = Instant::now();
    let error = echo(&server, CallOptions::default()).await.expect_err("it hangs");
    let took = began.elapsed();
    let limit = Duration::from_secs(15);
    assert!(took >= limit && took < limit + Duration::from_secs(1), "{took:?}");
    let CallErrorKind::WaitTimedOut { now, .. } = &error.kind else {
        panic!("{error}")
    };
    assert_eq!(now.state, StateKind::Connecting);
    assert_eq!(error.outcome(), Outcome::NotSent);
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_connection_is_as_long_as_the_configuration_or_the_call_says() {
    let memory = Memory::new(Script::new().on(Step::Initialize, Fault::Hang));
    let config = memory.config("s").era(Era::Legacy).startup_timeout(A_DAY);
    let (_fleet, server) = fleet_of(config.wait_timeout(Duration::from_secs(40)));
    for (options, limit) in [
        (CallOptions::default(), 40),
        (CallOptions::default().wait_timeout(Duration::from_secs(3)), 3),
        (CallOptions::default().timeout(Duration::from_secs(2)), 2),
        (patiently().timeout(Duration::from_secs(50)), 50),
    ] {
        let began = Instant::now();
        let call = echo(&server, options).await;
        assert!(
            matches!(&call, Err(error) if matches!(error.kind, CallErrorKind::WaitTimedOut { .. })),
            "{call:?}"
        );
        assert_eq!(began.elapsed().as_secs(), limit);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_fails_at_once_where_the_next_attempt_is_known_to_come_after_its_wait() {
    let memory = Memory::new(Script::new());
    memory.set_down(true);
    let hour = Duration::from_secs(60 * 60);
    let (_fleet, server) = fleet_of(memory.config("s").policy(Policy {
        backoff: Backoff::new(hour, hour),
        budget: NonZeroU32::MAX,
        ..Policy::default()
    }));
    let left = |status: &mainstay::Status| {
        let next = status.next_retry?;
        next.duration_since(SystemTime::now()).ok()
    };
    // Pauses are drawn at random: one that is long enough comes.
    let minute = Duration::from_secs(60);
    let long_pause = server.wait_until(A_DAY, |status| left(status).is_some_and(|left| left > minute));
    let pause = left(&long_pause.await.expect("a long pause")).expect("it shows its end");
    let began = Instant::now();
    let error = echo(&server, CallOptions::default())
        .await
        .expect_err("it is down");
    assert_eq!(began.elapsed(), Duration::ZERO);
    let CallErrorKind::NotConnected(now) = &error.kind else {
        panic!("{error}")
    };
    assert_tells_of_the_pause(now, &error);

    // What is left of the pause counts, not what it was.
    tokio::time::sleep(pause - Duration::from_secs(10)).await;
    let waiting = tokio::spawn({
        let server = server.clone();
        async move { echo(&server, CallOptions::default()).await }
    });
    let began = Instant::now();
    let error = echo(&server, CallOptions::default().timeout(Duration::from_secs(5))).await;
    assert!(
        matches!(&error, Err(error) if matches!(error.kind, CallErrorKind::NotConnected(_))),
        "{error:?}"
    );
    assert_eq!(began.elapsed(), Duration::ZERO);
    memory.set_down(false);
    waiting.await.unwrap().expect("ten seconds are not too long");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_not_wait_fails_at_once_with_state_and_retry_time() {
    let memory = Memory::new(Script::new());
    let (_fleet, server) = fleet_of(memory.config("s").policy(patient()));
    connected(&server).await;
    memory.set_down(true);
    memory.side(1).await.cut();
    backing_off(&server).await;
    let began = Instant::now();
    let error = echo(&server, CallOptions::default().fail_fast()).await;
    let error = error.expect_err("it is down");
    assert_eq!(began.elapsed(), Duration::ZERO);
    let CallErrorKind::NotConnected(now) = &error.kind else {
        panic!("{error}")
    };
    assert_tells_of_the_pause(now, &error);
}

#[tokio::test(start_paused = true)]
async fn only_so_many_calls_wait_and_one_more_fails_at_once_with_state_and_retry_time() {
    let memory = Memory::new(Script::new());
    let (_fleet, server) = fleet_of(memory.config("s").policy(patient()).waiters(3));
    connected(&server).await;
    memory.set_down(true);
    memory.side(1).await.cut();
    backing_off(&server).await;
    let wait = || {
        let server = server.clone();
        tokio::spawn(async move { echo(&server, patiently()).await })
    };
    let mut waiting = vec![wait(), wait(), wait()];
    tokio::task::yield_now().await;
    let error = echo(&server, CallOptions::default()).await.expect_err("one more");
    let CallErrorKind::TooManyWaiting { limit, now } = &error.kind else {
        panic!("{error}")
    };
    assert_eq!(*limit, 3);
    assert_tells_of_the_pause(now, &error);

    // A caller that leaves gives its place back.
    waiting.pop().unwrap().abort();
    tokio::task::yield_now().await;
    waiting.push(wait());
    tokio::task::yield_now().await;
    memory.set_down(false);
    for call in waiting {
        call.await.unwrap().expect("it waited and ran");
    }
    assert_eq!(memory.side(2).await.count("tools/call"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_a_server_that_is_taken_away_says_by_what() {
    for removes in [true, false] {
        for was_sent in [true, false] {
            let memory = Memory::new(Script::new());
            let (fleet, server) = fleet_of(memory.config("s").policy(patient()));
            connected(&server).await;
            let begin = || {
                let server = server.clone();
                let call = async move {
                    let arguments = json!({ "ms": 86_400_000 });
                    let options = patiently().replay(Replay::Safe);
                    server.call("sleep_ms", &arguments).options(options).await
                };
                tokio::spawn(call)
            };
            let sent = was_sent.then(begin);
            let side = memory.side(1).await;
            if was_sent {
                side.wait_for("tools/call", 1).await;
            }
            memory.set_down(true);
            side.cut();
            backing_off(&server).await;
            let waiting = sent.unwrap_or_else(begin);
            while server.call_counts().waiting == 0 {
                tokio::task::yield_now().await;
            }
            match removes {
                true => assert!(fleet.remove("s").await),
                false => server.disable().await.expect("disabled"),
            }
            let error = waiting.await.unwrap().expect_err("its server is taken away");
            let says_so = match (removes, was_sent) {
                (true, _) => matches!(error.kind, CallErrorKind::Gone),
                (false, true) => matches!(error.kind, CallErrorKind::Disabled),
                (false, false) => matches!(error.kind, CallErrorKind::NotConnected(_)),
            };
            assert!(says_so, "removed: {removes}, sent: {was_sent}: {error:?}");
            assert_eq!(error.outcome() == Outcome::Unknown, was_sent, "{error:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_server_that_is_not_coming_fails_at_once() {
    let memory = Memory::new(Script::new());
    let (_fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    server.disable().await.unwrap();
    let disabled = server.wait_until(LONG, |status| status.state == StateKind::Disabled);
    disabled.await.expect("disabled");
    let error = echo(&server, CallOptions::default()).await.expect_err("disabled");
    assert!(
        matches!(&error.kind, CallErrorKind::NotConnected(now) if now.state == StateKind::Disabled),
        "{error}"
    );
    server.enable().await.unwrap();
    echo(&server, CallOptions::default())
        .await
        .expect("enabled again");
}
