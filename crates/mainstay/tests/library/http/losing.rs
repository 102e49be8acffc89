//! A server that goes away: missed without a call, and found again where it was.

use mainstay::lifecycle::Cause;
use mainstay::{CallErrorKind, Outcome, StateKind};
use mainstay_testkit::Script;
use mainstay_testkit::http::{FaultyHttpProcess, HttpScript, Proxy};
use serde_json::json;

use crate::http::support::{
    ERAS, SOON, beyond, call, connected, echo, keep, next_event, seen, serve, web, web_at,
};

#[tokio::test]
async fn a_killed_process_is_missed_by_its_stream_alone_and_found_again_on_its_port() {
    for speaks in ERAS {
        let (script, http) = (Script::new().speaks(speaks), HttpScript::new());
        let mut process = FaultyHttpProcess::start(0, &script, &http);
        let (fleet, server) = keep(web("web", &process.url("/mcp")));
        let first = connected(&server).await;
        let mut events = fleet.events();

        process.kill();
        // Nobody calls, and the policy has no probe.
        let lost = next_event(&mut events, |event| event.from == StateKind::Connected).await;
        assert_eq!((lost.to, lost.cause), (StateKind::Reconnecting, Cause::Lost));
        assert!(lost.error.is_some(), "it says why");

        let _process = FaultyHttpProcess::start(process.port(), &script, &http);
        let second = beyond(&server, first).await;
        assert_eq!(echo(&server).await.unwrap().generation.0, second);
    }
}

#[tokio::test]
async fn a_killed_process_without_a_stream_is_missed_by_an_idle_connection_alone() {
    for speaks in ERAS {
        let script = Script::new().speaks(speaks);
        let http = HttpScript::new().without_standalone_stream();
        let mut process = FaultyHttpProcess::start(0, &script, &http);
        let (fleet, server) = keep(web("web", &process.url("/mcp")));
        let first = connected(&server).await;
        echo(&server).await.expect("served");
        let mut events = fleet.events();

        process.kill();
        // Nobody calls, and the policy has no probe.
        let lost = next_event(&mut events, |event| event.from == StateKind::Connected).await;
        assert_eq!((lost.to, lost.cause), (StateKind::Reconnecting, Cause::Lost));
        assert!(lost.error.is_some(), "it says why");

        let _process = FaultyHttpProcess::start(process.port(), &script, &http);
        let second = beyond(&server, first).await;
        assert_eq!(echo(&server).await.unwrap().generation.0, second);
    }
}

#[tokio::test]
async fn a_server_that_closes_an_idle_connection_and_still_listens_stays_connected() {
    for speaks in ERAS {
        let http = HttpScript::new().without_standalone_stream();
        let remote = serve(Script::new().speaks(speaks), http).await;
        let proxy = Proxy::start(remote.port()).await.unwrap();
        let (_fleet, server) = keep(web("web", &proxy.url("/mcp")));
        let first = connected(&server).await;
        echo(&server).await.expect("served");
        let accepted = proxy.counts().accepted;

        proxy.cut();
        let looked = proxy
            .wait_until(SOON, |counts| counts.accepted >= accepted + 2)
            .await;
        assert!(looked, "it looks after the port twice: {:?}", proxy.counts());
        assert_eq!(echo(&server).await.unwrap().generation.0, first);
    }
}

#[tokio::test]
async fn a_call_whose_server_dies_before_it_answers_fails_at_once_and_may_have_run() {
    for speaks in ERAS {
        for http in [HttpScript::new(), HttpScript::new().streams()] {
            let mut remote = serve(Script::new().speaks(speaks), http).await;
            let (_fleet, server) = keep(web_at(&remote));
            connected(&server).await;
            let error = call(&server, "commit_then_die", json!({ "key": "k" })).await;
            let error = error.expect_err("it died");
            assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
            assert!(matches!(error.kind, CallErrorKind::Lost { .. }), "{error:?}");

            remote.restart().await.unwrap();
            assert!(echo(&server).await.is_ok());
            let committed = remote.traffic(|traffic| traffic.noted("call commit_then_die k"));
            assert_eq!(committed, 1, "made once");
        }
    }
}

#[tokio::test]
async fn the_tools_of_a_server_that_is_down_stay_and_are_marked_stale() {
    for speaks in ERAS {
        let mut remote = serve(Script::new().speaks(speaks), HttpScript::new()).await;
        let (fleet, server) = keep(web_at(&remote));
        let first = connected(&server).await;
        let listed = fleet.catalog().tools().len();
        assert!(listed > 0);
        assert_eq!(fleet.catalog().freshness("web").unwrap().stale_since, None);

        remote.stop().await;
        let down = server.wait_until(SOON, |status| status.stale_since.is_some());
        down.await.expect("marked stale");
        let catalog = fleet.catalog();
        assert_eq!(catalog.tools().len(), listed);
        assert!(catalog.freshness("web").unwrap().stale_since.is_some());

        remote.restart().await.unwrap();
        beyond(&server, first).await;
        assert_eq!(fleet.catalog().tools().len(), listed);
        assert_eq!(fleet.catalog().freshness("web").unwrap().stale_since, None);
    }
}

#[tokio::test]
async fn a_listing_that_fails_leaves_the_last_good_one_and_is_tried_again() {
    use mainstay_testkit::http::{HttpFault, HttpRule};
    for speaks in ERAS {
        let remote = serve(Script::new().speaks(speaks).tool("old"), HttpScript::new()).await;
        let (fleet, server) = keep(web_at(&remote));
        let first = connected(&server).await;
        seen(&remote, |traffic| traffic.live_streams() > 0).await;

        remote.edit(|script| script.tools[0] = json!({ "name": "new", "inputSchema": { "type": "object" } }));
        let twice = mainstay_testkit::Occurrence::Until(2);
        let failing = HttpRule::on("tools/list", HttpFault::status(500)).occurrence(twice);
        remote.edit_http(|http| http.rules.push(failing));
        remote.notify("notifications/tools/list_changed", &json!({}));
        let stale = server.wait_until(SOON, |status| status.stale_since.is_some());
        stale.await.expect("marked stale");
        assert!(fleet.catalog().tool("web__old").is_some(), "it stays");
        let fresh = server.wait_until(SOON, |status| status.stale_since.is_none());
        assert_eq!(
            crate::http::support::generation_of(&fresh.await.expect("listed")),
            first
        );
        assert!(fleet.catalog().tool("web__new").is_some());
        assert!(fleet.catalog().tool("web__old").is_none());
    }
}

#[tokio::test]
async fn a_read_only_call_whose_answer_breaks_is_made_again_where_the_server_lives_on() {
    use mainstay_testkit::http::{HttpFault, HttpRule};
    for speaks in ERAS {
        for (http, fault) in [
            (HttpScript::new(), HttpFault::DropAfter(20)),
            (HttpScript::new().streams(), HttpFault::DropAfterEvents(0)),
        ] {
            let remote = serve(Script::new().speaks(speaks), http).await;
            let (_fleet, server) = keep(web_at(&remote));
            let first = connected(&server).await;
            let once = HttpRule::on("tools/call", fault).occurrence(mainstay_testkit::Occurrence::Until(1));
            remote.edit_http(|http| http.rules.push(once));
            let reply = echo(&server).await.expect("answered the second time");
            assert_eq!(reply.generation.0, first, "the connection was none the worse");
            assert_eq!(remote.traffic(|traffic| traffic.sent("tools/call")), 2);
        }
    }
}

#[tokio::test]
async fn a_read_only_call_whose_server_dies_in_its_answer_is_answered_by_the_next_one() {
    for speaks in ERAS {
        for streams in [false, true] {
            let http = HttpScript::new();
            let http = if streams { http.streams() } else { http };
            let mut remote = serve(Script::new().speaks(speaks), http).await;
            let (_fleet, server) = keep(web_at(&remote));
            connected(&server).await;
            let pending = tokio::spawn({
                let server = server.clone();
                async move { call(&server, "sleep_ms", json!({ "ms": 1_000 })).await }
            });
            seen(&remote, |traffic| traffic.sent("tools/call") == 1).await;
            remote.restart().await.unwrap();
            pending.await.unwrap().expect("answered the second time");
            let made = remote.traffic(|traffic| traffic.count("tools/call"));
            assert_eq!(made, 2, "{speaks:?}, refusals not counted");
        }
    }
}
