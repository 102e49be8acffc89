//! A session that the server has forgotten: one new one for all who meet it, and no call that need not fail does.

use mainstay::lifecycle::Cause;
use mainstay::{CallError, CallErrorKind, Outcome, StateKind};
use mainstay_testkit::http::{HttpFault, HttpRule, HttpScript, HttpStep};
use mainstay_testkit::{Occurrence, Script};
use serde_json::json;
use tokio::task::JoinSet;

use crate::http::support::{
    beyond, call, connected, echo, keep, next_event, running_append, seen, sent, serve, web_at,
};

const CALLS: usize = 20;

#[tokio::test]
async fn many_calls_that_meet_an_expired_session_share_one_new_one_and_succeed() {
    let said = [
        HttpScript::new(),
        HttpScript::new().loses_sessions_as_400(),
        HttpScript::new().streams(),
    ];
    for http in said {
        // No stream would tell of the loss: it is the calls that meet it.
        let remote = serve(Script::new(), http.without_standalone_stream()).await;
        let (fleet, server) = keep(web_at(&remote));
        let first = connected(&server).await;
        assert!(echo(&server).await.is_ok());
        let mut events = fleet.events();
        let before = sent(&remote, "tools/call");

        remote.forget_sessions();
        let mut calls = JoinSet::new();
        for n in 0..CALLS {
            let server = server.clone();
            calls.spawn(async move { call(&server, "append", json!({ "key": n.to_string() })).await });
        }
        let mut generations = Vec::new();
        while let Some(reply) = calls.join_next().await {
            generations.push(reply.unwrap().expect("it did not run, and runs now").generation.0);
        }
        generations.dedup();
        let [second] = generations[..] else {
            panic!("one generation, not {generations:?}")
        };
        assert!(second > first);
        assert!(
            sent(&remote, "tools/call") > before + CALLS,
            "some met the lost session"
        );
        assert_eq!(sent(&remote, "initialize"), 2, "one new session");
        assert_eq!(remote.traffic(|traffic| traffic.noted("call append")), CALLS);
        let lost = next_event(&mut events, |event| event.from == StateKind::Connected).await;
        assert_eq!(lost.cause, Cause::Lost);
        assert_eq!((server.status().attempt, server.status().starts), (0, 2));
    }
}

#[tokio::test]
async fn a_session_that_is_lost_twice_in_one_call_is_that_calls_failure() {
    for http in [
        HttpScript::new().on("tools/call", HttpFault::status(404)),
        HttpScript::new()
            .loses_sessions_as_400()
            .without_standalone_stream()
            .on("tools/call", HttpFault::ForgetSession),
    ] {
        let remote = serve(Script::new(), http).await;
        let (_fleet, server) = keep(web_at(&remote));
        let first = connected(&server).await;
        let error = echo(&server).await.expect_err("both times");
        let CallError {
            generation,
            kind: CallErrorKind::Lost { .. },
            ..
        } = &error
        else {
            panic!("{error:?}")
        };
        let generation = generation.expect("it had one");
        assert!(generation.0 > first, "met by a new session");
        assert_eq!(error.outcome(), Outcome::Refused);
        assert_eq!(sent(&remote, "tools/call"), 2);
        remote.edit_http(|http| http.rules.clear());
        beyond(&server, generation.0).await;
        assert!(echo(&server).await.is_ok());
    }
}

#[tokio::test]
async fn a_call_that_is_refused_with_400_is_sent_once_and_harms_no_call_beside_it() {
    for refusal in [HttpFault::status(400), HttpFault::session_lost_as_400()] {
        let bad = HttpRule::on("tools/call", refusal).named("put");
        // It is still under way when the other is refused, and is answered after that.
        let slow = HttpRule::on("tools/call", HttpFault::Delay { ms: 300 }).named("append");
        let remote = serve(Script::new(), HttpScript::new().rule(bad).rule(slow)).await;
        let (_fleet, server) = keep(web_at(&remote));
        let first = connected(&server).await;
        let innocent = tokio::spawn({
            let server = server.clone();
            async move { call(&server, "append", json!({ "key": "innocent" })).await }
        });
        seen(&remote, |traffic| traffic.noted("call append innocent") == 1).await;
        let error = call(&server, "put", json!({})).await.expect_err("it is bad");
        assert!(
            matches!(
                error.kind,
                CallErrorKind::NotCarried { .. } | CallErrorKind::Rpc(_)
            ),
            "{error:?}"
        );
        let reply = innocent.await.unwrap().expect("nothing is wrong with it");
        assert_eq!(reply.generation.0, first);
        assert_eq!(sent(&remote, "tools/call"), 2, "each of them once");
        assert_eq!((sent(&remote, "ping"), sent(&remote, "initialize")), (1, 1));
        assert_eq!(server.status().starts, 1);
    }
}

#[tokio::test]
async fn a_stream_that_is_asked_for_too_early_is_asked_for_again_and_changes_are_heard() {
    let get = |fault, n| HttpRule::new(HttpStep::Get, fault).occurrence(Occurrence::Nth(n));
    let http = HttpScript::new()
        .rule(get(HttpFault::EndAfterEvents(0), 1))
        .rule(get(HttpFault::status(409), 2))
        .rule(get(HttpFault::status(409), 3));
    let remote = serve(Script::new(), http).await;
    let (_fleet, server) = keep(web_at(&remote));
    connected(&server).await;
    seen(&remote, |traffic| {
        traffic.requests("GET") == 4 && traffic.live_streams() == 1
    })
    .await;
    let before = sent(&remote, "tools/list");
    remote.notify("notifications/tools/list_changed", &json!({}));
    seen(&remote, |traffic| traffic.sent("tools/list") > before).await;
}

#[tokio::test]
async fn a_forgotten_session_is_missed_by_its_stream_without_a_call() {
    let remote = serve(Script::new(), HttpScript::new()).await;
    let (_fleet, server) = keep(web_at(&remote));
    let first = connected(&server).await;
    seen(&remote, |traffic| traffic.live_streams() == 1).await;
    remote.forget_sessions();
    beyond(&server, first).await;
    assert_eq!(sent(&remote, "initialize"), 2);
}

#[tokio::test]
async fn a_call_that_runs_while_its_session_is_lost_beside_it_is_answered_and_not_made_again() {
    let slow = HttpRule::on("tools/call", HttpFault::Delay { ms: 3_000 }).named("append");
    let forgets = HttpRule::on("tools/call", HttpFault::ForgetSession).named("put");
    let http = HttpScript::new()
        .without_standalone_stream()
        .rule(slow)
        .rule(forgets.occurrence(Occurrence::Nth(1)));
    let remote = serve(Script::new(), http).await;
    let (_fleet, server) = keep(web_at(&remote));
    let first = connected(&server).await;
    let running = running_append(&server, &remote).await;
    let put = call(&server, "put", json!({}))
        .await
        .expect("made again on the new session");
    assert!(put.generation.0 > first);
    let reply = running.await.unwrap().expect("the server had accepted it");
    assert_eq!(reply.generation.0, first);
    assert_eq!(remote.traffic(|traffic| traffic.noted("call append once")), 1);
}

#[tokio::test]
async fn the_status_shows_the_session_of_the_live_connection() {
    let remote = serve(Script::new(), HttpScript::new()).await;
    let (_fleet, server) = keep(web_at(&remote));
    let first = connected(&server).await;
    let session = server.status().session.expect("the server opened one");
    remote.forget_sessions();
    echo(&server).await.expect("in a new session");
    beyond(&server, first).await;
    let renewed = server.status().session.expect("another one");
    assert_ne!(session, renewed);
}
