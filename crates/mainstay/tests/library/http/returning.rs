//! An unreachable server is dialled as soon as its port accepts connections, however long its pause would have been.

use std::num::NonZeroU32;
use std::time::Duration;

use mainstay::config::HttpKind;
use mainstay::lifecycle::{Backoff, Cause, WhenSpent};
use mainstay::server::Reason;
use mainstay::{Policy, StateKind};
use mainstay_testkit::http::{FaultyHttpServer, HttpScript, Port, Serves};
use mainstay_testkit::{Script, Speaks, clock};
use tokio::net::{TcpListener, TcpStream, UnixListener};

use crate::http::support::{
    ERAS, SOON, beyond, connected, echo, keep, next_event, quick, reaches, web, web_at, well,
};

/// Longer than any test has time for: what happens earlier was not waited for.
const AN_AGE: Duration = Duration::from_secs(1_000_000);

fn slow() -> Policy {
    Policy {
        backoff: Backoff::new(AN_AGE, AN_AGE),
        ..quick()
    }
}

#[tokio::test]
async fn a_call_that_waits_for_a_server_is_answered_when_its_port_listens_again() {
    for speaks in ERAS {
        let mut remote = well(speaks).await;
        let (_fleet, server) = keep(web_at(&remote).policy(slow()));
        let first = connected(&server).await;
        echo(&server).await.expect("answered");
        remote.stop().await;
        let refused = server.wait_until(SOON, |status| status.attempt == 1 && status.next_retry.is_some());
        refused.await.expect("the connection was refused");
        let waiting = tokio::spawn({
            let server = server.clone();
            async move { echo(&server).await }
        });

        remote.restart().await.unwrap();
        let reply = waiting.await.unwrap().expect("answered");
        assert!(reply.generation.0 > first);
        assert_eq!(server.status().starts, 3, "probes of the port are no starts");
    }
}

#[tokio::test]
async fn a_server_of_the_oldest_kind_is_found_again_too() {
    let port = Port::free().unwrap();
    let (_fleet, server) = keep(
        web("web", &format!("http://{}/sse", port.address()))
            .http_kind(HttpKind::Sse)
            .policy(slow()),
    );
    let refused = server.wait_until(SOON, |status| status.attempt == 1);
    refused.await.expect("the connection was refused");
    let script = Script::new().speaks(Speaks::Legacy);
    let remote =
        FaultyHttpServer::start_on(port.number(), script, HttpScript::new().serves(Serves::Sse)).await;
    let _remote = remote.expect("the port is ours");
    connected(&server).await;
}

#[tokio::test]
async fn a_socket_that_appears_is_found_where_it_was_looked_for() {
    let remote = well(Speaks::Modern).await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let config = web("web", "http://127.0.0.1:1/mcp").unix_socket(&path);
    let (_fleet, server) = keep(config.policy(slow()));
    let refused = server.wait_until(SOON, |status| status.attempt == 1);
    refused.await.expect("the connection was refused");

    let listener = UnixListener::bind(&path).unwrap();
    let port = remote.port();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                let _cut = tokio::io::copy_bidirectional(&mut near, &mut server).await;
            });
        }
    });
    connected(&server).await;
}

#[tokio::test]
async fn a_server_whose_budget_is_spent_comes_back_before_the_next_slow_probe() {
    let mut remote = well(Speaks::Modern).await;
    let policy = Policy {
        budget: NonZeroU32::MIN,
        when_spent: WhenSpent::ProbeEvery(AN_AGE),
        ..slow()
    };
    let (fleet, server) = keep(web_at(&remote).policy(policy));
    let first = connected(&server).await;
    echo(&server).await.expect("answered");
    let mut events = fleet.events();
    remote.stop().await;
    let spent = reaches(&server, StateKind::Disconnected).await;
    assert_eq!(spent.reason, Some(Reason::BudgetSpent));

    remote.restart().await.unwrap();
    let returned = next_event(&mut events, |event| event.from == StateKind::Disconnected).await;
    assert_eq!(
        (returned.to, returned.cause),
        (StateKind::Reconnecting, Cause::Reachable)
    );
    beyond(&server, first).await;
}

#[tokio::test]
async fn a_server_that_is_not_wanted_is_not_probed() {
    let port = Port::free().unwrap();
    let url = format!("http://{}/mcp", port.address());
    let (_fleet, server) = keep(web("web", &url).policy(slow()));
    let refused = server.wait_until(SOON, |status| status.attempt == 1);
    refused.await.expect("the connection was refused");
    server.disable().await.expect("taken");

    let listener = TcpListener::bind(port.address()).await.unwrap();
    // A probe would be due within some milliseconds, and would come before this test's own connection.
    clock::leap(Duration::from_secs(60)).await;
    clock::turns().await;
    let own = TcpStream::connect(port.address()).await.unwrap();
    let (_stream, first) = listener.accept().await.unwrap();
    assert_eq!(first, own.local_addr().unwrap(), "somebody probed");
}
