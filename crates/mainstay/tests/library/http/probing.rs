//! A server that says nothing: asked for a sign of life. Whatever it answers is one.

use std::time::Duration;

use mainstay::StateKind;
use mainstay::lifecycle::Cause;
use mainstay_testkit::http::{FaultyHttpProcess, HttpFault, HttpRule, HttpScript, Proxy, Traffic};
use mainstay_testkit::{Fault, Occurrence, Rule, Script, Speaks, Step};
use serde_json::json;

use crate::http::support::{
    ERAS, SOON, beyond, connected, echo, keep, next_event, probing, running_append, seen, sent, serve, web,
    web_at, well,
};

/// The method that a server of this era is probed with.
fn probe_of(speaks: Speaks) -> &'static str {
    match speaks {
        Speaks::Legacy => "ping",
        Speaks::Modern | Speaks::Both => "server/discover",
    }
}

#[tokio::test]
async fn a_frozen_process_is_given_up_after_the_set_number_of_missed_probes() {
    for speaks in ERAS {
        let process = FaultyHttpProcess::start(0, &Script::new().speaks(speaks), &HttpScript::new());
        let config = web("web", &process.url("/mcp"))
            .policy(probing(300, 1000, 2))
            .startup_timeout(Duration::from_secs(1));
        let (fleet, server) = keep(config);
        let first = connected(&server).await;
        let mut events = fleet.events();

        process.freeze();
        let lost = next_event(&mut events, |event| event.from == StateKind::Connected).await;
        assert_eq!(
            (lost.to, lost.cause),
            (StateKind::Reconnecting, Cause::ProbesMissed)
        );
        assert_eq!(
            lost.error.expect("it says why").message,
            "2 probes in a row were not answered"
        );
        process.thaw();
        beyond(&server, first).await;
        assert!(echo(&server).await.is_ok());
    }
}

#[tokio::test]
async fn a_server_that_refuses_the_probe_is_alive() {
    let refusals = [
        HttpFault::status(429),
        HttpFault::status(500),
        HttpFault::insufficient_scope("ping"),
    ];
    for speaks in ERAS {
        let probe = probe_of(speaks);
        // The first modern one is the handshake's.
        let occurrence = match speaks {
            Speaks::Legacy => Occurrence::Always,
            Speaks::Modern | Speaks::Both => Occurrence::From(2),
        };
        let unknown = Rule::new(Step::of(probe), Fault::method_not_found()).occurrence(occurrence);
        let mut scripts = vec![(Script::new().rule(unknown), HttpScript::new())];
        scripts.extend(refusals.iter().map(|refusal| {
            let rule = HttpRule::on(probe, refusal.clone()).occurrence(occurrence);
            (Script::new(), HttpScript::new().rule(rule))
        }));
        for (script, http) in scripts {
            let remote = serve(script.speaks(speaks), http).await;
            let (_fleet, server) = keep(web_at(&remote).policy(probing(20, 5000, 1)));
            let generation = connected(&server).await;
            seen(&remote, |traffic| traffic.sent(probe) >= 5).await;
            assert_eq!(connected(&server).await, generation);
            assert_eq!(server.status().starts, 1);
        }
    }
}

#[tokio::test]
async fn a_busy_server_that_does_not_answer_a_probe_is_shown_as_silent_and_stays() {
    for speaks in ERAS {
        let unresponsive = HttpRule::on(probe_of(speaks), HttpFault::NoHead).occurrence(match speaks {
            Speaks::Legacy => Occurrence::Always,
            Speaks::Modern | Speaks::Both => Occurrence::From(2),
        });
        let remote = serve(Script::new().speaks(speaks), HttpScript::new().rule(unresponsive)).await;
        let (_fleet, server) = keep(web_at(&remote).policy(probing(500, 100, 1)));
        let generation = connected(&server).await;
        let before = sent(&remote, probe_of(speaks));
        let running = tokio::spawn({
            let server = server.clone();
            async move { server.call("sleep_ms", &json!({ "ms": 3000 })).await }
        });
        let silent = server.wait_until(SOON, |status| status.silent_since.is_some());
        silent.await.expect("a probe is not answered");
        assert!(sent(&remote, probe_of(speaks)) > before);
        let reply = running.await.expect("no panic");
        assert_eq!(reply.expect("answered").generation.0, generation);
    }
}

#[tokio::test]
async fn calls_that_fail_in_a_row_do_not_cost_an_older_one_its_connection_while_the_server_answers() {
    for speaks in ERAS {
        for fault in [HttpFault::status(500), HttpFault::Close] {
            let slow = HttpRule::on("tools/call", HttpFault::Delay { ms: 3_000 }).named("append");
            let fails = HttpRule::on("tools/call", fault.clone()).named("put");
            let http = HttpScript::new().rule(slow).rule(fails);
            let remote = serve(Script::new().speaks(speaks), http).await;
            let (_fleet, server) = keep(web_at(&remote).policy(probing(60_000, 5_000, 2)));
            let first = connected(&server).await;
            let running = running_append(&server, &remote).await;
            for _ in 0..7 {
                let failed = server.call("put", &json!({})).await;
                assert!(failed.is_err(), "{fault:?}");
            }
            let starts = server.status().starts;
            // On a machine that stood still meanwhile, the older call may have ended before the last failure.
            assert!(starts == 1 || running.is_finished(), "{speaks:?}, {fault:?}");
            let reply = running.await.expect("no panic").expect("answered");
            assert_eq!(reply.generation.0, first, "{speaks:?}, {fault:?}");
        }
    }
}

#[tokio::test]
async fn calls_that_fail_in_a_row_do_not_cut_those_that_finish_beside_the_connection() {
    let slow = HttpRule::on("tools/call", HttpFault::Delay { ms: 3_000 }).named("append");
    let forgets = HttpRule::on("tools/call", HttpFault::ForgetSession).named("put");
    let fails = HttpRule::on("tools/call", HttpFault::status(500)).named("pid");
    let http = HttpScript::new()
        .without_standalone_stream()
        .rule(slow)
        .rule(forgets.occurrence(Occurrence::Nth(1)))
        .rule(fails);
    let remote = serve(Script::new(), http).await;
    let (_fleet, server) = keep(web_at(&remote).policy(probing(60_000, 5_000, 2)));
    let first = connected(&server).await;
    let running = running_append(&server, &remote).await;
    let put = server.call("put", &json!({})).await.expect("in a new session");
    assert!(put.generation.0 > first);
    for _ in 0..7 {
        server.call("pid", &json!({})).await.expect_err("status 500");
    }
    let reply = running.await.expect("no panic").expect("answered");
    assert_eq!(reply.generation.0, first);
}

#[tokio::test]
async fn a_call_that_breaks_makes_its_server_be_looked_after_at_once() {
    for speaks in ERAS {
        let remote = well(speaks).await;
        let proxy = Proxy::start(remote.port()).await.unwrap();
        // Nobody would look for ten minutes.
        let (fleet, server) = keep(web("web", &proxy.url("/mcp")).policy(probing(600_000, 200, 2)));
        let first = connected(&server).await;
        let mut events = fleet.events();
        // Whatever stands in front of the server answers for it still: no connection is refused.
        proxy.refuse(true);
        proxy.cut();
        assert!(echo(&server).await.is_err());
        let lost = next_event(&mut events, |event| event.from == StateKind::Connected).await;
        assert_eq!(lost.cause, Cause::ProbesMissed);
        proxy.refuse(false);
        beyond(&server, first).await;
    }
}

#[tokio::test]
async fn probes_that_are_never_answered_leave_no_connection_behind() {
    for speaks in ERAS {
        let probe = probe_of(speaks);
        let unresponsive = HttpRule::on(probe, HttpFault::NoHead).occurrence(match speaks {
            Speaks::Legacy => Occurrence::Always,
            Speaks::Modern | Speaks::Both => Occurrence::From(2),
        });
        let remote = serve(Script::new().speaks(speaks), HttpScript::new().rule(unresponsive)).await;
        let (_fleet, server) = keep(web_at(&remote).policy(probing(10, 20, 1000)));
        connected(&server).await;
        seen(&remote, |traffic| traffic.sent(probe) >= 20).await;
        let open = remote.traffic(Traffic::open_connections);
        assert!(open <= 8, "{open} connections");
    }
}

#[tokio::test]
async fn a_server_that_freezes_before_its_first_listing_is_replaced_after_its_missed_probes() {
    let frozen = HttpScript::new()
        .on("tools/list", HttpFault::NoHead)
        .on("ping", HttpFault::NoHead);
    let remote = serve(Script::new().speaks(Speaks::Legacy), frozen).await;
    let (fleet, server) = keep(web_at(&remote).policy(probing(100, 100, 2)));
    let mut events = fleet.events();
    let lost = next_event(&mut events, |event| event.from == StateKind::Connecting).await;
    assert_eq!(
        (lost.to, lost.cause),
        (StateKind::Reconnecting, Cause::ProbesMissed)
    );
    let error = lost.error.expect("it says why");
    assert_eq!(error.message, "2 probes in a row were not answered");
    remote.edit_http(|http| http.rules.clear());
    connected(&server).await;
}
