//! Servers that have too much to do: left alone for as long as they ask, and no longer.

use std::time::{Duration, SystemTime};

use mainstay::lifecycle::Cause;
use mainstay::{CallError, CallErrorKind, Outcome, StateKind};
use mainstay_testkit::http::{HttpFault, HttpRule, HttpScript};
use mainstay_testkit::{Occurrence, Script, Speaks, clock};

use crate::http::support::{
    ERAS, SOON, beyond, connected, echo, generation_of, keep, next_event, reaches, sent, serve, web_at,
};

/// The longest pause that is granted, whatever a server asks for.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// The first request of a dial that the server answers as it would answer any.
fn first_of(speaks: Speaks) -> &'static str {
    match speaks {
        Speaks::Legacy => "initialize",
        Speaks::Modern | Speaks::Both => "server/discover",
    }
}

#[tokio::test]
async fn a_server_that_throttles_a_dial_is_left_alone_for_as_long_as_it_asks() {
    for (speaks, status) in [(Speaks::Legacy, 429), (Speaks::Modern, 503)] {
        let once = HttpRule::on(first_of(speaks), HttpFault::retry_after(status, "5"));
        let http = HttpScript::new().rule(once.occurrence(Occurrence::Nth(1)));
        let remote = serve(Script::new().speaks(speaks), http).await;
        let began = SystemTime::now();
        let (_fleet, server) = keep(web_at(&remote));
        let waiting = server.wait_until(SOON, |status| status.next_retry.is_some());
        let waiting = waiting.await.expect("it waits");
        assert_eq!(waiting.attempt, 1, "it counts once");
        // The status is in whole milliseconds at most.
        let asked = Duration::from_millis(4_990);
        let pause = waiting.next_retry.unwrap().duration_since(began);
        assert!(pause.unwrap() >= asked);
        assert_eq!(sent(&remote, first_of(speaks)), 1);
        connected(&server).await;
        assert!(began.elapsed().unwrap() >= asked, "{began:?}");
        assert_eq!(sent(&remote, first_of(speaks)), 2);
    }
}

#[tokio::test]
async fn a_long_pause_is_shown_and_a_person_can_cut_it_short() {
    let http = HttpScript::new().on("server/discover", HttpFault::retry_after(503, "3000"));
    let remote = serve(Script::new().speaks(Speaks::Modern), http).await;
    let (_fleet, server) = keep(web_at(&remote));
    let waiting = reaches(&server, StateKind::Reconnecting).await;
    let pause = waiting.next_retry.unwrap().duration_since(SystemTime::now());
    let pause = pause.unwrap();
    assert!(
        (Duration::from_secs(200)..=LONGEST_PAUSE).contains(&pause),
        "{pause:?}: it asks for more than is granted"
    );
    let error = waiting.last_error.expect("it says why").message.clone();
    assert!(error.contains("503"), "{error}");
    let error = echo(&server).await.expect_err("it is known to come too late");
    assert!(matches!(error.kind, CallErrorKind::NotConnected(_)), "{error:?}");
    assert!(error.retry_after().is_some_and(|pause| pause <= LONGEST_PAUSE));
    assert_eq!(sent(&remote, "server/discover"), 1);

    remote.edit_http(|http| http.rules.clear());
    server.restart().await.unwrap();
    connected(&server).await;
}

#[tokio::test]
async fn a_call_that_the_server_throttles_is_sent_once_and_costs_no_connection() {
    let statuses = [(429, Outcome::Refused), (503, Outcome::Unknown)];
    let cases = ERAS
        .into_iter()
        .flat_map(|speaks| statuses.map(|case| (speaks, case)));
    for (speaks, (status, outcome)) in cases {
        let http = HttpScript::new().on("tools/call", HttpFault::retry_after(status, "7"));
        let remote = serve(Script::new().speaks(speaks), http).await;
        let (_fleet, server) = keep(web_at(&remote));
        let generation = connected(&server).await;

        let error = echo(&server).await.unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::Throttled { .. }), "{error:?}");
        assert_eq!(error.outcome(), outcome, "{status}");
        assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
        assert_eq!(sent(&remote, "tools/call"), 1, "sent once");
        assert_eq!(generation_of(&server.status()), generation);
    }
}

#[tokio::test]
async fn calls_to_a_server_that_throttles_fail_at_once_until_its_time_is_over_and_its_connection_stays() {
    for speaks in ERAS {
        let http = HttpScript::new().on("tools/call", HttpFault::retry_after(429, "3000"));
        let remote = serve(Script::new().speaks(speaks), http).await;
        let (_fleet, server) = keep(web_at(&remote));
        let generation = connected(&server).await;
        let first = echo(&server).await.expect_err("refused");
        assert_eq!(first.outcome(), Outcome::Refused);
        // The server asked for 50 minutes.
        assert_eq!(first.retry_after(), Some(LONGEST_PAUSE));
        let held = server.wait_until(SOON, |status| status.calls_held_until.is_some());
        let held = held.await.expect("the pause is shown");
        assert!(held.calls_held_until > Some(SystemTime::now() + Duration::from_secs(200)));
        let error = held.last_error.expect("it says why").message.clone();
        assert!(error.contains("429"), "{error}");
        for _ in 0..5 {
            let error = echo(&server)
                .await
                .expect_err("the server wants to be left alone");
            assert!(matches!(error.kind, CallErrorKind::Throttled { .. }), "{error:?}");
            assert_eq!(error.outcome(), Outcome::NotSent);
            let pause = error.retry_after().expect("it says until when");
            assert!(
                (Duration::from_secs(200)..=LONGEST_PAUSE).contains(&pause),
                "{pause:?}"
            );
        }
        assert_eq!(sent(&remote, "tools/call"), 1);
        assert_eq!(connected(&server).await, generation);
    }
}

#[tokio::test]
async fn calls_go_on_when_the_time_that_the_server_asked_for_is_over() {
    let once = HttpRule::on("tools/call", HttpFault::retry_after(429, "60")).occurrence(Occurrence::Nth(1));
    let remote = serve(Script::new(), HttpScript::new().rule(once)).await;
    let (_fleet, server) = keep(web_at(&remote));
    let generation = connected(&server).await;
    echo(&server).await.expect_err("refused");
    let held = server.wait_until(SOON, |status| status.calls_held_until.is_some());
    held.await.expect("the pause is shown");
    let error = echo(&server).await.expect_err("held");
    assert_eq!(error.outcome(), Outcome::NotSent);
    clock::leap(Duration::from_secs(60)).await;
    let reply = echo(&server).await.expect("its time is over");
    assert_eq!((reply.generation.0, sent(&remote, "tools/call")), (generation, 2));
}

#[tokio::test]
async fn calls_that_are_throttled_without_a_time_cost_no_connection() {
    let http = HttpScript::new().on("tools/call", HttpFault::status(429));
    let remote = serve(Script::new(), http).await;
    let (_fleet, server) = keep(web_at(&remote));
    let generation = connected(&server).await;
    for sent_so_far in 1..=5 {
        assert!(matches!(
            echo(&server).await,
            Err(CallError {
                kind: CallErrorKind::Throttled { .. },
                ..
            })
        ));
        assert_eq!(sent(&remote, "tools/call"), sent_so_far);
    }
    remote.edit_http(|http| http.rules.clear());
    assert_eq!(echo(&server).await.unwrap().generation.0, generation);
}

#[tokio::test]
async fn a_first_listing_that_the_server_puts_off_is_not_waited_for() {
    let http = HttpScript::new().on("tools/list", HttpFault::retry_after(429, "3000"));
    let remote = serve(Script::new(), http).await;
    let (_fleet, server) = keep(web_at(&remote));
    let waiting = server.wait_until(SOON, |status| status.next_retry.is_some());
    let waiting = waiting.await.expect("it waits");
    assert_eq!(waiting.state, StateKind::Connecting);
    let told = clock::within(Duration::from_secs(10), echo(&server)).await;
    let error = told.expect_err("it is known to come too late");
    assert!(matches!(error.kind, CallErrorKind::NotConnected(_)), "{error:?}");
    assert!(error.to_string().contains("429"), "{error}");
}

#[tokio::test]
async fn an_error_of_the_server_is_one_calls_failure_and_three_in_a_row_are_the_connections() {
    for speaks in ERAS {
        let http = HttpScript::new().on("tools/call", HttpFault::status(502));
        let remote = serve(Script::new().speaks(speaks), http).await;
        let (fleet, server) = keep(web_at(&remote));
        let first = connected(&server).await;
        let mut events = fleet.events();
        let fails = async || {
            let error = echo(&server).await.expect_err("a bad gateway");
            assert!(
                matches!(error.kind, CallErrorKind::NotCarried { .. }),
                "{error:?}"
            );
            assert_eq!(error.outcome(), Outcome::Unknown);
        };
        fails().await;
        fails().await;
        remote.edit_http(|http| http.rules.clear());
        assert_eq!(echo(&server).await.unwrap().generation.0, first, "it lives on");

        remote.edit_http(|http| {
            http.rules
                .push(HttpRule::on("tools/call", HttpFault::status(502)));
        });
        for _ in 0..3 {
            fails().await;
        }
        let lost = next_event(&mut events, |event| event.from == StateKind::Connected).await;
        assert_eq!(lost.cause, Cause::CallsFailed);
        let error = lost.error.expect("it says why").message.clone();
        assert!(
            error.contains("3 calls in a row failed") && error.contains("502"),
            "{error}"
        );
        assert_eq!(sent(&remote, "tools/call"), 6, "none is made twice");
        beyond(&server, first).await;
    }
}
