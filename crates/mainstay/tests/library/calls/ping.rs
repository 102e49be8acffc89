//! A sign of life, asked for by a caller.

use std::time::Duration;

use mainstay::server::TransportKind;
use mainstay::{CallErrorKind, Era, ServerConfig, StateKind};
use mainstay_testkit::http::{FaultyHttpServer, HttpFault, HttpScript};
use mainstay_testkit::{Script, Speaks};

use mainstay_testkit::fleet::{LONG, Memory, connected, fleet_of};

#[tokio::test]
async fn each_era_and_transport_has_its_own_sign_of_life() {
    for (speaks, path, method, transport) in [
        (Speaks::Legacy, "/mcp", "ping", TransportKind::Http),
        (Speaks::Modern, "/mcp", "server/discover", TransportKind::Http),
        (Speaks::Legacy, "/sse", "ping", TransportKind::Sse),
    ] {
        let remote = FaultyHttpServer::start(Script::new().speaks(speaks), HttpScript::new())
            .await
            .unwrap();
        let (fleet, server) = fleet_of(ServerConfig::http("web", remote.url(path)));
        let status = connected(&server).await;
        assert_eq!(status.transport, Some(transport));
        let era = status.protocol.as_ref().map(|(era, _)| *era);
        assert_eq!(era == Some(Era::Modern), speaks == Speaks::Modern);
        let before = remote.traffic(|traffic| traffic.count(method));
        for _ in 0..3 {
            let pong = server.ping(LONG).await.unwrap();
            assert_eq!(Some(pong.generation), status.generation);
            assert!(!pong.round_trip.is_zero());
        }
        assert_eq!(
            remote.traffic(|traffic| traffic.count(method)),
            before + 3,
            "{method}"
        );
        fleet.close(LONG).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_not_connected_gives_no_sign_of_life_and_is_not_waited_for() {
    let memory = Memory::new(Script::new());
    memory.set_down(true);
    let (_fleet, server) = fleet_of(memory.config("s"));
    let asked = tokio::time::Instant::now();
    let error = server.ping(LONG).await.unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::NotConnected(_)), "{error:?}");
    assert_eq!(asked.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn a_sign_of_life_that_does_not_come_is_a_timeout_and_costs_no_connection() {
    let http = HttpScript::new().on("ping", HttpFault::NoHead);
    let remote = FaultyHttpServer::start(Script::new(), http).await.unwrap();
    let (fleet, server) = fleet_of(ServerConfig::http("web", remote.url("/mcp")));
    let before = connected(&server).await;
    let error = server.ping(Duration::from_millis(200)).await.unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::TimedOut { .. }), "{error:?}");
    let after = server.status();
    assert_eq!(
        (after.state, after.generation),
        (StateKind::Connected, before.generation)
    );
    fleet.close(LONG).await;
}
