//! Every version and transport of the protocol behind one client.

use std::time::Duration;

use mainstay::config::HttpKind;
use mainstay::{Era, Server, StateKind};
use mainstay_testkit::http::{FaultyHttpServer, HttpFault, HttpRule, HttpScript, Serves};
use mainstay_testkit::store::catalogs_are_stored;
use mainstay_testkit::{LEGACY_VERSIONS, MODERN_VERSION, Occurrence, Script, Speaks, clock};

use crate::http::support::{SOON, connected, echo, keep, reaches, sent, serve, web, web_at, well};

/// What the live connection speaks.
fn spoken(server: &Server) -> (Era, String) {
    let (era, version) = server.status().protocol.expect("a live connection");
    (era, version.to_string())
}

fn on_sse() -> HttpScript {
    HttpScript::new().serves(Serves::Sse)
}

#[tokio::test]
async fn servers_of_every_version_are_spoken_to_over_streamable_http() {
    for version in LEGACY_VERSIONS {
        let remote = serve(Script::new().version(version), HttpScript::new()).await;
        let (_fleet, server) = keep(web_at(&remote));
        connected(&server).await;
        assert!(echo(&server).await.is_ok());
        assert_eq!(spoken(&server), (Era::Legacy, version.to_owned()));
        let header = |traffic: &mainstay_testkit::http::Traffic| {
            traffic
                .last_header("tools/call", "mcp-protocol-version")
                .map(str::to_owned)
        };
        assert_eq!(remote.traffic(header).as_deref(), Some(version));
    }
    for (speaks, era, version) in [
        (Speaks::Both, Era::Legacy, "2025-11-25"),
        (Speaks::Modern, Era::Modern, MODERN_VERSION),
    ] {
        let remote = well(speaks).await;
        let (_fleet, server) = keep(web_at(&remote));
        connected(&server).await;
        assert!(echo(&server).await.is_ok());
        assert_eq!(spoken(&server), (era, version.to_owned()));
        assert_eq!(server.status().starts, 1);
    }
}

#[tokio::test]
async fn servers_of_http_with_sse_are_found_out_or_named() {
    for version in LEGACY_VERSIONS {
        for kind in [HttpKind::Auto, HttpKind::Sse] {
            let remote = serve(Script::new().version(version), on_sse()).await;
            let (_fleet, server) = keep(web("web", &remote.url("/sse")).http_kind(kind));
            connected(&server).await;
            assert!(echo(&server).await.is_ok());
            assert_eq!(spoken(&server), (Era::Legacy, version.to_owned()));
            let asked = match kind {
                HttpKind::Auto => 1,
                HttpKind::Sse | HttpKind::Streamable => 0,
            };
            assert_eq!(sent(&remote, "server/discover"), asked, "{kind:?}");
            assert_eq!(server.status().starts, 1);
        }
    }
}

#[tokio::test]
async fn a_server_that_is_said_to_stream_is_not_asked_for_http_with_sse() {
    let remote = serve(Script::new(), on_sse()).await;
    let (_fleet, server) = keep(web("web", &remote.url("/sse")).http_kind(HttpKind::Streamable));
    let tried = server.wait_until(SOON, |status| status.attempt >= 2).await;
    let error = tried.expect("it fails").last_error.unwrap();
    assert!(error.message.contains("405"), "{error}");
    assert_eq!(remote.traffic(|traffic| traffic.requests("GET")), 0);
}

/// HTTP+SSE belongs to the legacy era.
#[tokio::test]
async fn a_server_that_is_pinned_to_an_era_is_asked_for_http_with_sse_in_the_legacy_era_alone() {
    let remote = serve(Script::new(), on_sse()).await;
    let (_fleet, server) = keep(web("web", &remote.url("/sse")).era(Era::Legacy));
    connected(&server).await;
    assert_eq!(spoken(&server).0, Era::Legacy);

    let remote = serve(Script::new(), on_sse()).await;
    let (_fleet, server) = keep(web("web", &remote.url("/sse")).era(Era::Modern));
    let status = reaches(&server, StateKind::PermanentlyFailed).await;
    let error = status.last_error.expect("it says why");
    assert!(error.message.contains("does not speak the modern era"), "{error}");
    assert_eq!(remote.traffic(|traffic| traffic.requests("GET")), 0);
}

#[tokio::test]
async fn where_neither_transport_is_served_the_answer_of_the_newer_one_is_told() {
    let remote = serve(Script::new(), on_sse()).await;
    let (_fleet, server) = keep(web("web", &remote.url("/nowhere")));
    let tried = server.wait_until(SOON, |status| status.attempt >= 1).await;
    let error = tried.expect("it fails").last_error.unwrap();
    assert!(error.message.contains("404"), "{error}");
}

#[tokio::test]
async fn a_server_that_breaks_off_at_the_modern_question_is_asked_once_and_goes_on() {
    let question = HttpRule::on("server/discover", HttpFault::Reset);
    // It has no sessions: a question outside of one is not refused by its id.
    let http = HttpScript::new().without_sessions().rule(question);
    let remote = serve(Script::new(), http).await;
    let (_fleet, server) = keep(web_at(&remote));
    let generation = connected(&server).await;
    assert!(echo(&server).await.is_ok());
    server.refresh().await.unwrap();
    assert_eq!(sent(&remote, "server/discover"), 1);
    let status = server.status();
    assert_eq!((spoken(&server).0, status.starts), (Era::Legacy, 1));
    assert_eq!(crate::http::support::generation_of(&status), generation);
}

/// Loses three sessions, and returns the generation of the connection without one.
async fn lose_sessions(remote: &FaultyHttpServer, server: &Server) -> u64 {
    let mut generation = connected(server).await;
    for _loss in 0..3 {
        assert_eq!(spoken(server).0, Era::Legacy);
        remote.forget_sessions();
        let _ = echo(server).await;
        generation = crate::http::support::beyond(server, generation).await;
    }
    assert_eq!(spoken(server), (Era::Modern, MODERN_VERSION.to_owned()));
    assert!(echo(server).await.is_ok());
    generation
}

#[tokio::test]
async fn a_server_of_both_eras_that_keeps_losing_its_session_is_spoken_to_without_one_for_an_hour() {
    let remote = well(Speaks::Both).await;
    let (_fleet, server) = keep(web_at(&remote));
    let first = lose_sessions(&remote, &server).await;
    clock::leap(Duration::from_secs(60 * 60)).await;
    assert!(echo(&server).await.is_ok());
    crate::http::support::beyond(&server, first).await;
    assert_eq!(spoken(&server).0, Era::Legacy);
}

#[tokio::test]
async fn a_server_of_both_eras_that_was_down_between_the_losses_keeps_getting_sessions() {
    let mut remote = well(Speaks::Both).await;
    let (_fleet, server) = keep(web_at(&remote));
    let mut generation = connected(&server).await;
    for _restart in 0..4 {
        remote.forget_sessions();
        let _ = echo(&server).await;
        generation = crate::http::support::beyond(&server, generation).await;
        assert_eq!(spoken(&server).0, Era::Legacy);
        remote.stop().await;
        let is_gone = server.wait_until(SOON, |status| status.state != StateKind::Connected);
        is_gone.await.expect("the port is closed");
        remote.restart().await.unwrap();
        generation = crate::http::support::beyond(&server, generation).await;
        assert!(echo(&server).await.is_ok());
        assert_eq!(spoken(&server).0, Era::Legacy);
    }
}

#[tokio::test]
async fn a_restart_gives_a_server_that_lost_its_sessions_another_one() {
    let remote = well(Speaks::Both).await;
    let (_fleet, server) = keep(web_at(&remote));
    let generation = lose_sessions(&remote, &server).await;
    server.restart().await.unwrap();
    crate::http::support::beyond(&server, generation).await;
    assert_eq!(spoken(&server).0, Era::Legacy);
}

#[tokio::test]
async fn that_a_server_lost_its_sessions_is_forgotten_at_the_next_start() {
    let store = tempfile::tempdir().unwrap();
    let remote = well(Speaks::Both).await;
    let start = || {
        let builder = mainstay::Fleet::builder().store(store.path());
        crate::http::support::keep_with(builder, web_at(&remote))
    };
    let (fleet, server) = start();
    lose_sessions(&remote, &server).await;
    server.refresh().await.unwrap();
    catalogs_are_stored(store.path(), 1).await;
    fleet.close(SOON).await;
    let (_fleet, server) = start();
    connected(&server).await;
    assert_eq!(spoken(&server).0, Era::Legacy);
}

#[tokio::test]
async fn a_server_of_an_unknown_version_is_refused_for_good() {
    let remote = serve(Script::new().version("2099-01-01"), HttpScript::new()).await;
    let (_fleet, server) = keep(web_at(&remote));
    let status = reaches(&server, StateKind::PermanentlyFailed).await;
    let error = status.last_error.expect("it says why").message.clone();
    assert!(
        error.contains("2099-01-01") && error.contains("2025-11-25"),
        "{error}"
    );
    assert_eq!(sent(&remote, "initialize"), 1, "asked once");
}

#[tokio::test]
async fn a_server_is_spoken_to_in_the_era_it_is_pinned_to() {
    let remote = well(Speaks::Both).await;
    for (era, method) in [(Era::Legacy, "server/discover"), (Era::Modern, "initialize")] {
        let before = sent(&remote, method);
        let (fleet, server) = keep(web_at(&remote).era(era));
        connected(&server).await;
        assert!(echo(&server).await.is_ok());
        assert_eq!(spoken(&server).0, era);
        assert_eq!(sent(&remote, method), before, "never asked in the other way");
        fleet.close(SOON).await;
    }
}

#[tokio::test]
async fn a_server_that_is_pinned_to_an_era_it_does_not_speak_is_refused_for_good() {
    for (speaks, era) in [(Speaks::Legacy, Era::Modern), (Speaks::Modern, Era::Legacy)] {
        let remote = well(speaks).await;
        let (_fleet, server) = keep(web_at(&remote).era(era));
        let status = reaches(&server, StateKind::PermanentlyFailed).await;
        let error = status.last_error.expect("it says why").message.clone();
        assert!(
            error.contains(&format!("does not speak the {era} era")),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_pinned_server_that_is_only_ill_is_not_given_up() {
    for (speaks, era) in [(Speaks::Modern, Era::Modern), (Speaks::Legacy, Era::Legacy)] {
        let method = match era {
            Era::Modern => "server/discover",
            Era::Legacy => "initialize",
        };
        for fault in [
            HttpFault::status(502),
            HttpFault::ContentType("text/html".to_owned()),
        ] {
            let twice = HttpRule::on(method, fault).occurrence(Occurrence::Until(2));
            let remote = serve(Script::new().speaks(speaks), HttpScript::new().rule(twice)).await;
            let (_fleet, server) = keep(web_at(&remote).era(era));
            connected(&server).await;
            assert_eq!(spoken(&server).0, era);
        }
    }
}

/// A server on this port, which stands for the same address as another before it.
async fn at(port: u16, script: Script, http: HttpScript) -> FaultyHttpServer {
    FaultyHttpServer::start_on(port, script, http)
        .await
        .expect("the port is free")
}

#[tokio::test]
async fn what_was_learnt_of_a_server_is_remembered_across_starts() {
    let stages = [
        // A legacy server is asked beside `initialize`, once for each connection, since it may have learnt the other era.
        (Speaks::Legacy, HttpScript::new(), [1, 2], [1, 2]),
        (Speaks::Legacy, on_sse(), [1, 1], [2, 3]),
        (Speaks::Modern, HttpScript::new(), [1, 2], [1, 1]),
    ];
    for (speaks, http, discovers, initializes) in stages {
        let store = tempfile::tempdir().unwrap();
        let remote = serve(Script::new().speaks(speaks), http).await;
        for start in 0..2 {
            let builder = mainstay::Fleet::builder().store(store.path());
            let (fleet, server) =
                crate::http::support::keep_with(builder, web("web", &remote.url("/either")));
            connected(&server).await;
            assert!(echo(&server).await.is_ok());
            assert_eq!(sent(&remote, "server/discover"), discovers[start], "{speaks:?}");
            assert_eq!(sent(&remote, "initialize"), initializes[start], "{speaks:?}");
            catalogs_are_stored(store.path(), 1).await;
            fleet.close(SOON).await;
        }
    }
}

#[tokio::test]
async fn a_server_that_changes_its_era_or_transport_at_its_address_is_learnt_anew() {
    let parts = [
        (Speaks::Legacy, HttpScript::new()),
        (Speaks::Modern, HttpScript::new()),
        (Speaks::Legacy, on_sse()),
        (Speaks::Legacy, HttpScript::new()),
        (Speaks::Legacy, on_sse()),
        (Speaks::Modern, HttpScript::new()),
        (Speaks::Legacy, HttpScript::new()),
    ];
    let mut remote = well(Speaks::Both).await;
    let port = remote.port();
    let (_fleet, server) = keep(web("web", &remote.url("/either")));
    let mut generation = connected(&server).await;
    for (speaks, http) in parts {
        remote.stop().await;
        reaches(&server, StateKind::Reconnecting).await;
        remote = at(port, Script::new().speaks(speaks), http).await;
        generation = crate::http::support::beyond(&server, generation).await;
        assert!(echo(&server).await.is_ok());
    }
    // Nothing is left to learn: the last part plays again, and its session is asked beside once more.
    let before = sent(&remote, "server/discover");
    server.restart().await.unwrap();
    crate::http::support::beyond(&server, generation).await;
    assert_eq!(sent(&remote, "server/discover"), before + 1);
}
