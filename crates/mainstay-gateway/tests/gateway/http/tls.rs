//! The door with a certificate.

use std::sync::Arc;
use std::time::Duration;

use mainstay_gateway::{DoorError, HttpDoor};
use mainstay_testkit::client::LONG;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use crate::http::support::{World, modern};

const CERTIFICATE: &[u8] = include_bytes!("tls/certificate.pem");
const KEY: &[u8] = include_bytes!("tls/key.pem");

#[tokio::test(start_paused = true)]
async fn a_client_that_trusts_the_certificate_is_answered() {
    let world = World::open(HttpDoor::new().tls(CERTIFICATE, KEY).unwrap()).await;
    let (status, answer) = ask(&world).await;
    assert_eq!(status, "HTTP/1.1 200 OK", "{answer}");
    assert!(answer.contains("2026-07-28"), "{answer}");
}

/// Asks over a connection of its own that trusts the certificate; the first line of the answer, and all of it.
async fn ask(world: &World) -> (String, String) {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(CERTIFICATE).unwrap())
        .unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = world.connect().await;
    let name = ServerName::try_from("localhost").unwrap();
    let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
    let mut stream = timeout(LONG, connecting)
        .await
        .expect("in time")
        .expect("a handshake");
    let ask = modern("/mcp", 1, "server/discover", json!({})).header("connection", "close");
    stream.write_all(ask.text(&world.door).as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = timeout(LONG, stream.read_to_string(&mut answer)).await;
    read.expect("in time").expect("an answer");
    let status = answer.lines().next().unwrap_or_default().to_owned();
    (status, answer)
}

#[tokio::test(start_paused = true)]
async fn a_plain_connection_to_a_tls_door_is_not_answered() {
    let world = World::open(HttpDoor::new().tls(CERTIFICATE, KEY).unwrap()).await;
    let mut stream = world.connect().await;
    stream
        .write_all(b"GET /mcp HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    let _ = timeout(LONG, stream.read_to_end(&mut answer))
        .await
        .expect("in time");
    assert!(!answer.starts_with(b"HTTP"));
}

#[tokio::test(start_paused = true)]
async fn an_unfinished_handshake_times_out_and_frees_its_connection() {
    let door = HttpDoor::new().tls(CERTIFICATE, KEY).unwrap();
    let world = World::open(door.max_connections(1, 1)).await;
    // Nothing at all, and the beginning of a record that never comes.
    for hello in [&b""[..], &[22, 3, 1, 2, 0, 1]] {
        let mut stream = world.connect().await;
        stream.write_all(hello).await.unwrap();
        let mut refused = world.connect().await;
        assert_eq!(
            refused.read(&mut [0]).await.unwrap_or(0),
            0,
            "no room for another"
        );
        let began = Instant::now();
        let ended = timeout(LONG, stream.read_to_end(&mut Vec::new())).await;
        let _reset = ended.expect("it is ended");
        assert!(
            began.elapsed() <= Duration::from_secs(11),
            "{:?}",
            began.elapsed()
        );
        let (status, _) = ask(&world).await;
        assert_eq!(status, "HTTP/1.1 200 OK", "there is room");
    }
}

#[test]
fn a_certificate_that_cannot_be_used_is_refused() {
    for (certificate, key) in [(KEY, KEY), (CERTIFICATE, CERTIFICATE), (&b"x"[..], KEY)] {
        let door = HttpDoor::new().tls(certificate, key);
        assert!(matches!(door, Err(DoorError::Certificate(_))));
    }
}
