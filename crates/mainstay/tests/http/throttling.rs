//! Servers that have too much to do: left alone for as long as they ask, and no longer.

use std::time::{Duration, Instant, SystemTime};

use mainstay::{CallError, Cause, Outcome, StateKind};
use mainstay_testkit::http::{HttpFault, HttpRule, HttpScript};
use mainstay_testkit::{Occurrence, Script, Speaks};

use crate::support::{
    ERAS, beyond, connected, echo, generation_of, keep, next_event, reaches, sent, serve, web_at,
};

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
        let once = HttpRule::on(first_of(speaks), HttpFault::retry_after(status, "1"));
        let http = HttpScript::new().rule(once.occurrence(Occurrence::Nth(1)));
        let far = serve(Script::new().speaks(speaks), http).await;
        let began = Instant::now();
        let (_fleet, server) = keep(web_at(&far));
        let waiting = server.wait_until(crate::support::SOON, |status| status.next_retry.is_some());
        let waiting = waiting.await.expect("it waits");
        assert_eq!(waiting.attempt, 1, "it counts once");
        let pause = waiting.next_retry.unwrap().duration_since(SystemTime::now());
        assert!(pause.unwrap() > Duration::from_millis(500));
        connected(&server).await;
        assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
        assert_eq!(sent(&far, first_of(speaks)), 2);
    }
}

#[tokio::test]
async fn a_long_pause_is_shown_and_a_person_can_cut_it_short() {
    let http = HttpScript::new().on("server/discover", HttpFault::retry_after(503, "3000"));
    let far = serve(Script::new().speaks(Speaks::Modern), http).await;
    let (_fleet, server) = keep(web_at(&far));
    let waiting = reaches(&server, StateKind::Reconnecting).await;
    let pause = waiting.next_retry.unwrap().duration_since(SystemTime::now());
    assert!(pause.unwrap() > Duration::from_secs(2900));
    assert_eq!(sent(&far, "server/discover"), 1);

    far.edit_http(|http| http.rules.clear());
    server.restart().await.unwrap();
    connected(&server).await;
}

#[tokio::test]
async fn a_call_that_the_server_throttles_is_refused_once_and_costs_no_connection() {
    for speaks in ERAS {
        let http = HttpScript::new().on("tools/call", HttpFault::retry_after(429, "7"));
        let far = serve(Script::new().speaks(speaks), http).await;
        let (_fleet, server) = keep(web_at(&far));
        let generation = connected(&server).await;

        let error = echo(&server).await.unwrap_err();
        assert!(matches!(error, CallError::Throttled { .. }), "{error:?}");
        assert_eq!(error.outcome(), Outcome::Refused);
        assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
        assert_eq!(sent(&far, "tools/call"), 1, "sent once");
        assert_eq!(generation_of(&server.status()), generation);
    }
}

#[tokio::test]
async fn three_throttled_calls_in_a_row_condemn_a_connection_and_the_next_waits_as_asked() {
    let http = HttpScript::new().on("tools/call", HttpFault::retry_after(429, "3000"));
    let far = serve(Script::new(), http).await;
    let (fleet, server) = keep(web_at(&far));
    connected(&server).await;
    let mut events = fleet.events();
    for _ in 0..3 {
        assert!(matches!(echo(&server).await, Err(CallError::Throttled { .. })));
    }
    let lost = next_event(&mut events, |event| event.from == StateKind::Connected).await;
    assert_eq!(
        (lost.to, lost.cause),
        (StateKind::Reconnecting, Cause::CallsFailed)
    );
    let pause = lost.next_retry.unwrap().duration_since(SystemTime::now());
    assert!(pause.unwrap() > Duration::from_secs(2900));
    assert_eq!(sent(&far, "tools/call"), 3);
}

#[tokio::test]
async fn an_error_of_the_server_is_one_calls_failure_and_three_in_a_row_are_the_connections() {
    for speaks in ERAS {
        let http = HttpScript::new().on("tools/call", HttpFault::status(502));
        let far = serve(Script::new().speaks(speaks), http).await;
        let (fleet, server) = keep(web_at(&far));
        let first = connected(&server).await;
        let mut events = fleet.events();
        let fails = async || {
            let error = echo(&server).await.expect_err("a bad gateway");
            assert!(matches!(error, CallError::NotCarried { .. }), "{error:?}");
            assert_eq!(error.outcome(), Outcome::Unknown);
        };
        fails().await;
        fails().await;
        far.edit_http(|http| http.rules.clear());
        assert_eq!(echo(&server).await.unwrap().generation.0, first, "it lives on");

        far.edit_http(|http| {
            http.rules
                .push(HttpRule::on("tools/call", HttpFault::status(502)));
        });
        for _ in 0..3 {
            fails().await;
        }
        let lost = next_event(&mut events, |event| event.from == StateKind::Connected).await;
        assert_eq!(lost.cause, Cause::CallsFailed);
        assert_eq!(sent(&far, "tools/call"), 6, "none is made twice");
        beyond(&server, first).await;
    }
}
