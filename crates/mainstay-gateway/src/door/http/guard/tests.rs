use hyper::Request;

use super::*;

fn guard(door: &HttpDoor, address: &str) -> HttpGuard {
    HttpGuard::new(door, address.parse().unwrap())
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
    let caller = |address: &str| HttpCaller::from_peer(address.parse().unwrap());
    assert_eq!(caller("2001:db8::1"), caller("2001:db8::ffff:1"));
    assert_ne!(caller("2001:db8::1"), caller("2001:db8:0:1::1"));
    assert_eq!(caller("::ffff:10.0.0.1"), caller("10.0.0.1"));
    assert_ne!(caller("10.0.0.1"), caller("10.0.0.2"));
}

#[test]
fn what_a_token_opened_is_for_that_token_alone() {
    let peer = HttpCaller::from_peer("10.0.0.1".parse().unwrap());
    let token = |token| HttpCaller::Token(TokenDigest::of(token));
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
        ("localhost:", "localhost"),
        ("[::1]:80", "::1"),
        ("[::1]", "::1"),
        ("::1", "::1"),
        ("127.0.0.1:1", "127.0.0.1"),
        ("my_host.example-2.test:65535", "my_host.example-2.test"),
    ] {
        assert_eq!(host_in(host), Some(name));
    }
}

/// Spellings around a name of this machine, none of which is one.
const DISGUISES: [&str; 40] = [
    "",
    " ",
    ":",
    ":80",
    "[::1].evil.example",
    "[::1]evil.example",
    "[::1]:80.evil.example",
    "[::1]:80:80",
    "[::1]80",
    "[::1",
    "::1]",
    "[]",
    "[localhost]",
    "[127.0.0.1]",
    "[[::1]]",
    "[::1%25lo]",
    "[::1%lo]",
    "[::1]@evil.example",
    "evil.example@localhost",
    "localhost@evil.example",
    "localhost:80@evil.example",
    "localhost:evil.example",
    "localhost:80:80",
    "localhost:-1",
    "localhost:+1",
    "localhost:65536",
    "localhost:8 0",
    "localhost/",
    "localhost/.evil.example",
    "localhost?evil.example",
    "localhost#evil.example",
    "localhost\\evil.example",
    "localhost.",
    "localhost,evil.example",
    "localhost evil.example",
    "localhost%00",
    "127.1",
    "2130706433",
    "0x7f.0.0.1",
    "127.0.0.1.evil.example",
];

#[test]
fn no_spelling_around_a_name_of_this_machine_is_one() {
    let guard = guard(&HttpDoor::new(), "127.0.0.1");
    for host in DISGUISES {
        assert!(guard.check_host(&head(host)).is_err(), "{host:?}");
        let origin = format!("http://{host}");
        assert!(!is_of_this_machine(&origin), "{origin:?}");
    }
}

#[test]
fn an_origin_is_a_scheme_and_a_host_and_nothing_else() {
    for origin in [
        "http://localhost",
        "https://localhost:1",
        "http://[::1]:3000",
        "tauri://localhost",
        "chrome-extension+1.0://127.0.0.1",
    ] {
        assert!(is_of_this_machine(origin), "{origin:?}");
    }
    for origin in [
        "://localhost",
        "localhost",
        "//localhost",
        "http:localhost",
        "http:/localhost",
        "http:///localhost",
        "1http://localhost",
        "ht tp://localhost",
        "http://evil.example://localhost",
        "evil.example http://localhost",
        "http://localhost http://evil.example",
        "http://localhost, http://evil.example",
        "null",
        "",
    ] {
        assert!(!is_of_this_machine(origin), "{origin:?}");
    }
}

#[test]
fn a_request_with_two_names_or_two_origins_is_refused() {
    let guard = guard(&HttpDoor::new(), "127.0.0.1");
    let with = |name: &str, values: [&str; 2]| {
        let [one, other] = values;
        let request = Request::builder().uri("/mcp").header(name, one);
        request.header(name, other).body(()).unwrap().into_parts().0
    };
    for hosts in [
        ["localhost", "localhost"],
        ["localhost", "evil.example"],
        ["", "localhost"],
    ] {
        let head = with("host", hosts);
        assert!(guard.check_host(&head).is_err(), "{hosts:?}");
        assert!(guard.check_probe(&head).is_err(), "{hosts:?}");
    }
    let origins = ["http://localhost", "http://localhost"];
    assert!(guard.check_origin(&with("origin", origins).headers).is_err());
}

#[test]
fn a_name_that_cannot_be_read_is_refused_to_probes_too() {
    let guard = guard(&HttpDoor::new(), "127.0.0.1");
    let name = HeaderValue::from_bytes(b"local\xffhost").unwrap();
    let request = Request::builder().uri("/healthz").header("host", name);
    let (head, ()) = request.body(()).unwrap().into_parts();
    assert!(guard.check_probe(&head).is_err());
    assert!(guard.check_host(&head).is_err());
}
