use hyper::Request;

use super::*;

fn guard(door: &HttpDoor, address: &str) -> Guard {
    Guard::new(door, address.parse().unwrap())
}

fn head(host: &str) -> Parts {
    let request = Request::builder().uri("/mcp").header("host", host);
    request.body(()).unwrap().into_parts().0
}

#[test]
fn a_public_address_is_answered_under_addresses_and_allowed_names() {
    let door = HttpDoor::new().token("t").allowed_host("Gateway.Test:443");
    let guard = guard(&door, "0.0.0.0");
    for host in [
        "192.168.0.7:7332",
        "[2001:db8::1]",
        "localhost",
        "gateway.test",
        "GATEWAY.test:1",
    ] {
        assert!(guard.check_host(&head(host)).is_ok(), "{host}");
    }
    for host in [
        "evil.example",
        "gateway.test.evil.example",
        "1.2.3.4.evil.example",
    ] {
        assert!(guard.check_host(&head(host)).is_err(), "{host}");
    }
}

#[test]
fn the_name_in_the_request_line_counts_before_the_header() {
    let guard = guard(&HttpDoor::new(), "127.0.0.1");
    let request = Request::builder()
        .uri("http://evil.example/mcp")
        .header("host", "localhost");
    let (head, ()) = request.body(()).unwrap().into_parts();
    assert!(guard.check_host(&head).is_err());
}

#[test]
fn the_addresses_of_one_network_are_one_caller() {
    let caller = |address: &str| Caller::from_peer(address.parse().unwrap());
    assert_eq!(caller("2001:db8::1"), caller("2001:db8::ffff:1"));
    assert_ne!(caller("2001:db8::1"), caller("2001:db8:0:1::1"));
    assert_eq!(caller("::ffff:10.0.0.1"), caller("10.0.0.1"));
    assert_ne!(caller("10.0.0.1"), caller("10.0.0.2"));
}

#[test]
fn what_a_token_opened_is_for_that_token_alone() {
    let peer = Caller::from_peer("10.0.0.1".parse().unwrap());
    let token = |token| Caller::Token(TokenDigest::of(token));
    assert!(token("a").may_use(token("a")));
    assert!(!token("a").may_use(token("b")));
    assert!(!token("a").may_use(peer));
    assert!(!peer.may_use(token("a")));
}

#[test]
fn hosts_are_read_without_their_ports() {
    for (host, name) in [
        ("localhost:80", "localhost"),
        ("localhost", "localhost"),
        ("[::1]:80", "::1"),
        ("::1", "::1"),
        ("127.0.0.1:1", "127.0.0.1"),
    ] {
        assert_eq!(without_port(host), name);
    }
}
