//! The end of a connection from this side: nobody waits for it, and nothing of it is heard afterwards.

use std::time::Duration;

use mainstay::config::Replay;
use mainstay::{CallErrorKind, CallOptions, Fleet, Outcome, StateKind};
use mainstay_testkit::http::{HttpFault, HttpScript, HttpStep, Proxy};
use mainstay_testkit::{Script, clock};
use serde_json::json;

use crate::http::support::{
    ERAS, Notes, SOON, beyond, connected, fleet, keep, keep_with, reaches, seen, serve, web, web_at, well,
};

/// Shorter than the 5 s that deleting a session may take: no timer that is due later is waited for.
const AT_ONCE: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_session_is_deleted_when_its_server_is_disabled() {
    let remote = well(mainstay_testkit::Speaks::Legacy).await;
    let (_fleet, server) = keep(web_at(&remote));
    connected(&server).await;
    server.disable().await.unwrap();
    seen(&remote, |traffic| traffic.sessions_deleted() == 1).await;
}

#[tokio::test]
async fn a_fleet_that_is_closed_has_left_no_session_behind() {
    let slow = HttpScript::new().at(HttpStep::Delete, HttpFault::Delay { ms: 200 });
    let remote = serve(Script::new(), slow).await;
    let (fleet, server) = keep(web_at(&remote));
    connected(&server).await;
    fleet.close(SOON).await;
    // At once: a program may end here.
    assert_eq!(
        remote.traffic(mainstay_testkit::http::Traffic::sessions_deleted),
        1
    );
}

#[tokio::test]
async fn a_session_deletion_that_hangs_delays_neither_restart_nor_disable_nor_others() {
    let hanging = HttpScript::new().at(HttpStep::Delete, HttpFault::NoHead);
    let remote = serve(Script::new(), hanging).await;
    let other = well(mainstay_testkit::Speaks::Legacy).await;
    let fleet = fleet([web_at(&remote), web("other", &other.url("/mcp"))]);
    let (server, other) = (fleet.server("web").unwrap(), fleet.server("other").unwrap());
    let (first, others) = (connected(&server).await, connected(&other).await);

    clock::within(AT_ONCE, async {
        server.restart().await.unwrap();
        beyond(&server, first).await;
    })
    .await;
    let status = server.status();
    assert_eq!((status.starts, status.attempt), (2, 0), "it costs no attempt");

    clock::within(AT_ONCE, async {
        server.disable().await.unwrap();
        reaches(&server, StateKind::Disabled).await;
    })
    .await;
    seen(&remote, |traffic| traffic.requests("DELETE") == 2).await;
    assert_eq!(connected(&other).await, others);

    clock::within(AT_ONCE, fleet.close(SOON)).await;
}

#[tokio::test]
async fn a_session_deletion_that_hangs_is_given_no_longer_than_the_close() {
    let hanging = HttpScript::new().at(HttpStep::Delete, HttpFault::NoHead);
    let remote = serve(Script::new(), hanging).await;
    let (fleet, server) = keep(web_at(&remote));
    connected(&server).await;
    let given = Duration::from_millis(100);
    clock::within(Duration::from_millis(500), fleet.close(given)).await;
}

#[tokio::test]
async fn nothing_of_an_old_connection_reaches_anybody() {
    for speaks in ERAS {
        let mut http = HttpScript::new().streams();
        // The server keeps the old session, and goes on to serve it.
        http.delete = false;
        let remote = serve(Script::new().speaks(speaks), http).await;
        let proxy = Proxy::start(remote.port()).await.unwrap();
        let notes = Notes::new();
        let builder = Fleet::builder().handler(notes.clone());
        let (_fleet, server) = keep_with(builder, web("web", &proxy.url("/mcp")));
        let first = connected(&server).await;
        server.subscribe("mem://one").await.unwrap();
        seen(&remote, |traffic| traffic.live_streams() > 0).await;

        let late = tokio::spawn({
            let (server, options) = (server.clone(), CallOptions::default().replay(Replay::Never));
            async move {
                server
                    .call("slow_then_answer", &json!({ "ms": 300 }))
                    .options(options)
                    .await
            }
        });
        seen(&remote, |traffic| traffic.count("tools/call") == 1).await;
        // What the server says from here on is on its way when the connection is replaced.
        proxy.hold(true);
        let updated = json!({ "uri": "mem://one" });
        remote.notify("notifications/resources/updated", &updated);
        server.restart().await.unwrap();
        let error = late.await.unwrap().expect_err("its connection is gone");
        assert!(matches!(error.kind, CallErrorKind::Lost { .. }), "{error:?}");
        assert_eq!(error.outcome(), Outcome::Unknown);
        proxy.hold(false);
        let second = beyond(&server, first).await;

        seen(&remote, |traffic| traffic.live_streams() > 0).await;
        remote.notify("notifications/resources/updated", &updated);
        let told = notes.told("notifications/resources/updated", 1).await;
        let generations: Vec<u64> = told.iter().map(|told| told.generation.0).collect();
        assert_eq!(generations, [second]);
    }
}
