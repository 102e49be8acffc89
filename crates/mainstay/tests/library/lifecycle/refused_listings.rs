//! Servers that answer their listings with errors, over stdio and over HTTP: they stay connected, and their calls go on.

use std::time::Duration;

use mainstay::lifecycle::{Backoff, Cause};
use mainstay::server::RefreshError;
use mainstay::{CallOptions, Fleet, Policy, Server, ServerConfig, StateKind};
use mainstay_testkit::http::{FaultyHttpServer, HttpFault, HttpRule, HttpScript};
use mainstay_testkit::{Fault, FaultyServer, Occurrence, Rule, Script, Speaks, Step};
use serde_json::json;

use crate::lifecycle::support::{SOON, connected, echo, keep, next_event, stdio};

fn quick() -> Policy {
    Policy {
        backoff: Backoff::new(Duration::from_millis(10), Duration::from_millis(40)),
        relist_pause: Duration::from_millis(20),
        probe: None,
        ..Policy::default()
    }
}

fn refusing(speaks: Speaks, occurrence: Occurrence) -> Script {
    let broken = Fault::Error {
        code: -32603,
        message: "the database is away".to_owned(),
    };
    let refused = Rule::new(Step::List, broken).method("tools/list");
    Script::new().speaks(speaks).rule(refused.occurrence(occurrence))
}

async fn over_http(script: Script) -> (FaultyHttpServer, Fleet, Server) {
    let remote = FaultyHttpServer::start(script, HttpScript::new()).await.unwrap();
    let (fleet, server) = keep(ServerConfig::http("web", remote.url("/mcp")).policy(quick()));
    (remote, fleet, server)
}

#[tokio::test]
async fn a_server_that_refuses_its_listings_keeps_its_connection_and_answers_its_calls() {
    let always = Occurrence::From(2);
    let program = FaultyServer::from(refusing(Speaks::Legacy, always));
    let (_fleet, server) = keep(stdio("process", &program).policy(quick()));
    refuses_and_stays(&server).await;
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        let (_remote, _fleet, server) = over_http(refusing(speaks, always)).await;
        refuses_and_stays(&server).await;
    }
}

#[tokio::test]
async fn an_error_of_the_protocol_is_an_answer_to_a_listing_also_with_a_status_5xx() {
    let error = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32603, "message": "the database is away" } });
    for (speaks, code) in [(Speaks::Legacy, 500), (Speaks::Modern, 502)] {
        let fault = HttpFault::Status {
            code,
            headers: Vec::new(),
            body: error.to_string(),
        };
        let refused = HttpRule::on("tools/list", fault).occurrence(Occurrence::From(2));
        let http = HttpScript::new().rule(refused);
        let remote = FaultyHttpServer::start(Script::new().speaks(speaks), http);
        let remote = remote.await.unwrap();
        let (_fleet, server) = keep(ServerConfig::http("web", remote.url("/mcp")).policy(quick()));
        let first = connected(&server).await;
        // Without a call, silence would end the connection at the third listing.
        for _ in 0..5 {
            let refused = server.refresh().await.expect_err("refused");
            assert!(refused.to_string().contains("the database is away"), "{refused}");
        }
        let reply = echo(&server, CallOptions::default()).await.expect("served");
        assert_eq!(reply.generation.0, first);
    }
}

async fn refuses_and_stays(server: &Server) {
    let first = connected(server).await;
    let caller = server.clone();
    let slow = json!({ "ms": 500 });
    let running = tokio::spawn(async move { caller.call("slow_then_answer", &slow).await });
    for _ in 0..5 {
        let refused = server.refresh().await.expect_err("refused");
        assert!(matches!(refused, RefreshError::ListingFailed { .. }), "{refused}");
        let reply = echo(server, CallOptions::default()).await.expect("served");
        assert_eq!(reply.generation.0, first);
    }
    let reply = running.await.unwrap().expect("the running call ends well");
    assert_eq!(reply.generation.0, first);
    let status = server.status();
    assert_eq!((status.starts, status.attempt), (1, 0));
    let why = status.listing_failure.expect("it says why");
    assert!(why.message.contains("the database is away"), "{}", why.message);
    assert!(status.stale_since.is_some());
}

#[tokio::test]
async fn a_server_that_refuses_its_first_listings_is_connected_and_listed_later() {
    let first_two = Occurrence::Until(2);
    let program = FaultyServer::from(refusing(Speaks::Legacy, first_two));
    let (fleet, server) = keep(stdio("process", &program).policy(quick()));
    is_listed_later(&fleet, &server).await;
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        let (_remote, fleet, server) = over_http(refusing(speaks, first_two)).await;
        is_listed_later(&fleet, &server).await;
    }
}

async fn is_listed_later(fleet: &Fleet, server: &Server) {
    let mut events = fleet.events();
    let up = next_event(&mut events, |event| event.to == StateKind::Connected).await;
    assert_eq!(up.cause, Cause::ListingRefused);
    let reply = echo(server, CallOptions::default()).await.expect("served");
    assert_eq!(Some(reply.generation), up.generation);
    let listed = server.wait_until(SOON, |status| status.listed_at.is_some()).await;
    let listed = listed.expect("listed without being told");
    assert_eq!((listed.generation, listed.starts), (up.generation, 1));
}
