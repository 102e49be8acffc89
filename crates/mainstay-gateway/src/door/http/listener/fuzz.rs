//! Fuzz targets of the HTTP door.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::header::{self, HeaderValue};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, timeout};

use super::serve;
use crate::door::http::guard::HttpGuard;
use crate::door::http::limits::ConnectionActivity;
use crate::door::http::options::HttpDoor;
use crate::door::http::service::HttpService;
use crate::fuzzing::{CONNECTION_BYTES, QUIET_TIMEOUT, gateway, in_paused_time};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Sends bytes over a connection, and closes its side after a while. Checks that the answer is HTTP, and ends.
pub fn http(input: &[u8]) {
    let input = input.to_vec();
    let answers = in_paused_time(async move {
        let gateway = gateway();
        let service = Arc::new(HttpService::new(
            gateway.0.clone(),
            &HttpDoor::new(),
            SocketAddr::new(HERE, 0),
        ));
        let (mut client, server) = tokio::io::duplex(CONNECTION_BYTES);
        client.write_all(&input).await.expect("there is room");
        let activity = Arc::new(ConnectionActivity::new(Instant::now()));
        let client = async move {
            let mut read = Vec::new();
            // A client that closes its side at once gets no answer of the server behind.
            let _ = timeout(QUIET_TIMEOUT, client.read_to_end(&mut read)).await;
            client.shutdown().await.expect("memory can be closed");
            // A stream goes on for a client that still reads. The connection ends when the client is dropped.
            let _ = timeout(QUIET_TIMEOUT, client.read_to_end(&mut read)).await;
            read
        };
        let ((), read) = tokio::join!(serve(service, server, HERE, &activity), client);
        gateway.close(Duration::ZERO).await;
        read
    });
    assert!(
        answers.is_empty() || answers.starts_with(b"HTTP/1.1 ") || answers.starts_with(b"HTTP/1.0 "),
        "what comes back is no HTTP: {:?}",
        String::from_utf8_lossy(&answers)
    );
}

/// Checks that the guard of a local door accepts no host and no origin but those of this machine.
pub fn guard(input: &[u8]) {
    let guard = HttpGuard::new(&HttpDoor::new(), HERE);
    let mut lines = input.splitn(2, |byte| *byte == b'\n');
    let mut value = || HeaderValue::from_bytes(lines.next()?).ok();
    let (host, origin) = (value(), value());

    let mut request = Request::new(());
    if let Some(host) = &host {
        request.headers_mut().insert(header::HOST, host.clone());
        let is_local = host.to_str().is_ok_and(is_local);
        let (head, ()) = request.into_parts();
        assert_eq!(guard.check_host(&head).is_ok(), is_local, "host {host:?}");
        request = Request::from_parts(head, ());
    }
    if let Some(origin) = origin {
        request.headers_mut().insert(header::ORIGIN, origin.clone());
        let is_local = origin.to_str().is_ok_and(|origin| {
            let parts = origin.split_once("://");
            parts.is_some_and(|(scheme, host)| is_scheme(scheme) && is_local(host))
        });
        let passes = guard.check_origin(request.headers()).is_ok();
        assert_eq!(passes, is_local, "origin {origin:?}");
    }
}

fn is_scheme(scheme: &str) -> bool {
    let rest = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(rest)
}

/// Whether a host, with a port or without, can be nothing but this machine.
fn is_local(authority: &str) -> bool {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) => {
                let is_loopback = Ipv6Addr::from_str(address).is_ok_and(|address| address.is_loopback());
                return is_loopback && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port));
            }
            None => return false,
        },
        // An address without a port needs no brackets.
        None if Ipv6Addr::from_str(authority).is_ok_and(|address| address.is_loopback()) => return true,
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let is_named = host.eq_ignore_ascii_case("localhost")
        || Ipv4Addr::from_str(host).is_ok_and(|address| address.is_loopback());
    is_named && port.is_none_or(is_port)
}

fn is_port(port: &str) -> bool {
    port.is_empty() || port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok()
}
