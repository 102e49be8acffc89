use super::*;

fn refused(url: &str, options: HttpOptions) -> HttpConfigError {
    match Endpoint::new(url, options) {
        Ok(endpoint) => panic!("{endpoint:?} was accepted"),
        Err(error) => error,
    }
}

#[test]
fn an_address_that_is_none_is_a_clear_error() {
    for (url, expected) in [
        ("", "\"\" is no address: relative URL without a base"),
        (
            "mcp.example/mcp",
            "\"mcp.example/mcp\" is no address: relative URL without a base",
        ),
        (
            "ftp://mcp.example/",
            "\"ftp\" is not a scheme of HTTP: use http or https",
        ),
        ("http://", "\"http://\" is no address: empty host"),
    ] {
        assert_eq!(refused(url, HttpOptions::new()).to_string(), expected);
    }
}

#[test]
fn a_header_with_a_line_break_is_refused_and_its_value_not_shown() {
    let error = refused(
        "http://localhost/",
        HttpOptions::new().header("x-key", "hush\r\nhost: x"),
    );
    assert_eq!(
        error.to_string(),
        "the value of the header \"x-key\" holds a character that no header may hold"
    );
    let error = refused("http://localhost/", HttpOptions::new().header("x key", "hush"));
    assert!(matches!(error, HttpConfigError::BadHeader { part: "name", .. }));
    let shown = format!("{:?}", HttpOptions::new().header("x-key", "hush"));
    assert!(!shown.contains("hush"), "{shown}");
}

#[test]
fn a_certificate_that_is_not_there_or_none_is_a_clear_error() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing.pem");
    let error = refused(
        "https://localhost/",
        HttpOptions::new().root_certificates(&missing),
    );
    assert!(matches!(error, HttpConfigError::Unreadable { path, .. } if path == missing));

    let empty = directory.path().join("empty.pem");
    std::fs::write(&empty, "no certificate").unwrap();
    let error = refused(
        "https://localhost/",
        HttpOptions::new().client_certificate(&empty, &empty),
    );
    assert!(matches!(
        error,
        HttpConfigError::NoPem {
            what: "certificate",
            ..
        }
    ));
}

#[test]
fn a_proxy_never_stands_between_this_machine_and_itself() {
    for (url, expected) in [
        ("http://localhost:1/", true),
        ("http://127.0.0.9/", true),
        ("http://[::1]:1/", true),
        ("http://10.0.0.1/", false),
        ("http://localhost.example/", false),
    ] {
        assert_eq!(is_loopback(&address(url).unwrap()), expected, "{url}");
    }
}

#[test]
fn a_door_is_where_the_address_or_the_socket_is() {
    let endpoint = |url| Endpoint::new(url, HttpOptions::new().environment_proxies(false)).unwrap();
    let port = |host: &str, port| {
        let host = host.to_owned();
        Some(PortProbe::Port { host, port })
    };
    assert_eq!(
        endpoint("https://mcp.example/mcp").port_probe(),
        port("mcp.example", 443)
    );
    assert_eq!(endpoint("http://[::1]:8080/mcp").port_probe(), port("::1", 8080));
    let socket = HttpOptions::new().unix_socket("/run/mcp.sock");
    let socket = Endpoint::new("http://mcp.example/", socket).unwrap();
    assert_eq!(
        socket.port_probe(),
        Some(PortProbe::Socket("/run/mcp.sock".into()))
    );
}

#[test]
fn a_port_is_watched_unless_its_connections_are_encrypted() {
    let watched = |url, options: HttpOptions| {
        let endpoint = Endpoint::new(url, options.environment_proxies(false)).unwrap();
        endpoint.watched_port().is_some()
    };
    assert!(watched("http://mcp.example/mcp", HttpOptions::new()));
    assert!(!watched("https://mcp.example/mcp", HttpOptions::new()), "TLS");
    let socket = || HttpOptions::new().unix_socket("/run/mcp.sock");
    assert!(watched("http://mcp.example/mcp", socket()));
    assert!(!watched("https://mcp.example/mcp", socket()), "TLS in a socket");
}

#[test]
fn a_credential_in_an_address_is_refused_and_not_shown() {
    for url in [
        "http://hush@mcp.example/mcp",
        "http://ann:hush@mcp.example/mcp",
        "https://:hush@mcp.example/mcp",
        "http://hush@/mcp",
        "http://hush@ mcp.example",
        "ann:hush@mcp.example",
    ] {
        let error = refused(url, HttpOptions::new());
        assert!(!format!("{error} {error:?}").contains("hush"), "{url}: {error:?}");
    }
    let error = refused("http://hush@mcp.example/mcp", HttpOptions::new());
    assert!(error.to_string().contains("header Authorization"), "{error}");
}

#[test]
fn a_request_names_the_path_and_the_host_of_the_address() {
    let endpoint = Endpoint::new("http://mcp.example:81/mcp?a=b#c", HttpOptions::new()).unwrap();
    assert_eq!(endpoint.headers[HOST], "mcp.example:81");
    assert_eq!(endpoint.target, "/mcp?a=b");
    let plain = Endpoint::new("http://mcp.example:80", HttpOptions::new()).unwrap();
    assert_eq!(plain.headers.get(AUTHORIZATION), None);
    assert_eq!(plain.headers[HOST], "mcp.example");
    assert_eq!(plain.target, "/");
}
