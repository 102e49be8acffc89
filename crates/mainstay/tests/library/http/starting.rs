//! Servers that are not there yet, and servers that are reached in another way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mainstay::StateKind;
use mainstay::transport::HttpFailure;
use mainstay_testkit::Script;
use mainstay_testkit::http::{FaultyHttpServer, HttpFault, HttpScript, Port};
use tokio::net::{TcpStream, UnixListener};

use crate::http::support::{ERAS, SOON, connected, echo, fleet, keep, serve, web, web_at, well};

#[tokio::test]
async fn a_server_that_is_unreachable_at_first_is_connected_once_it_appears_and_delays_no_other() {
    for speaks in ERAS {
        let port = Port::free().unwrap();
        let present = well(speaks).await;
        let absent = web("absent", &format!("http://{}/mcp", port.address()));
        let fleet = fleet([absent, web_at(&present)]);
        let (absent, other) = (fleet.server("absent").unwrap(), fleet.server("web").unwrap());
        connected(&other).await;
        let failed = absent.wait_until(SOON, |status| status.attempt >= 2);
        let status = failed.await.expect("tried, and tried again");
        assert_ne!(status.state, StateKind::Connected);
        assert_eq!(status.last_error.unwrap().message, "connection refused");
        assert_eq!(other.status().starts, 1);

        let script = Script::new().speaks(speaks);
        let _remote = FaultyHttpServer::start_on(port.number(), script, HttpScript::new())
            .await
            .unwrap();
        connected(&absent).await;
        assert!(echo(&absent).await.is_ok());
    }
}

#[tokio::test]
async fn a_server_is_reached_through_a_unix_domain_socket() {
    for speaks in ERAS {
        let remote = well(speaks).await;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let (port, counter) = (remote.port(), accepted.clone());
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                    let _cut = tokio::io::copy_bidirectional(&mut near, &mut server).await;
                });
            }
        });

        // Nothing listens at the port of the address itself.
        let (_fleet, server) = keep(web("web", "http://127.0.0.1:1/mcp").unix_socket(&path));
        connected(&server).await;
        assert!(echo(&server).await.is_ok());
        assert!(accepted.load(Ordering::Relaxed) > 0);
        assert_eq!(remote.traffic(|traffic| traffic.count("tools/call")), 1);
    }
}

#[tokio::test]
async fn a_listing_that_fails_over_http_tells_how_the_request_failed() {
    let http = HttpScript::new().on("tools/list", HttpFault::status(418));
    let remote = serve(Script::new(), http).await;
    let (_fleet, server) = keep(web_at(&remote));
    let failed = server
        .wait_until(SOON, |status| status.last_error.is_some())
        .await;
    let failure = failed.expect("the listing failed").last_error.unwrap();
    assert!(failure.message.starts_with("listing failed"), "{failure}");
    assert!(
        matches!(
            failure.http.as_deref(),
            Some(HttpFailure::Status { status: 418, .. })
        ),
        "{failure:?}"
    );
}
