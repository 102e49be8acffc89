use super::*;

fn rules(server: &str, allow_private: bool) -> AddressRules {
    AddressRules::for_server(&Url::parse(server).unwrap(), allow_private)
}

fn public() -> AddressRules {
    rules("https://mcp.example.com/mcp", false)
}

fn local() -> AddressRules {
    rules("http://127.0.0.1:3000/mcp", false)
}

#[test]
fn endpoints_are_https_or_plain_on_loopback_hosts_of_a_local_server() {
    assert!(public().check("x", "https://auth.example.com/token").is_ok());
    for address in [
        "http://auth.example.com/token",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "ftp://auth.example.com/",
        "data:text/html,x",
        "ws://auth.example.com/",
    ] {
        for rules in [public(), local()] {
            let error = rules.check("x", address).unwrap_err();
            assert!(matches!(error, AddressError::Scheme { .. }), "{address}: {error}");
        }
    }
    for address in [
        "http://localhost:8080/token",
        "http://LOCALHOST/token",
        "http://localhost./token",
        "http://a.localhost/token",
        "http://127.0.0.1/token",
        "http://[::1]/token",
    ] {
        assert!(local().check("x", address).is_ok(), "{address}");
        let error = public().check("x", address).unwrap_err();
        assert!(
            matches!(error, AddressError::NotPublic { .. }),
            "{address}: {error}"
        );
    }
    assert!(local().check("x", "http://notlocalhost/token").is_err());
}

#[test]
fn a_private_address_is_refused_in_every_spelling() {
    for host in [
        "10.0.0.1",
        "0x0a000001",
        "167772161",
        "012.0.0.1",
        "10.1",
        "１０.0.0.1",
        "[fc00::1]",
        "[::ffff:10.0.0.1]",
        "[::10.0.0.1]",
        "[64:ff9b::a00:1]",
        "[2002:a00:1::]",
    ] {
        let address = format!("https://{host}/token");
        let error = public().check("x", &address).unwrap_err();
        assert!(
            matches!(error, AddressError::NotPublic { .. }),
            "{address}: {error}"
        );
        assert!(local().check("x", &address).is_err(), "{address}");
        let open = rules("https://mcp.example.com/", true);
        assert!(open.check("x", &address).is_ok(), "{address}");
        assert!(
            open.check("x", &address.replace("https", "http")).is_ok(),
            "{address}"
        );
    }
}

#[test]
fn a_link_local_address_is_refused_whatever_is_configured() {
    for host in [
        "169.254.169.254",
        "0xa9fea9fe",
        "2852039166",
        "0251.0376.0251.0376",
        "[fe80::1]",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::169.254.169.254]",
        "0.0.0.0",
        "0",
        "[::]",
        "224.0.0.1",
        "203.0.113.7",
        "255.255.255.255",
    ] {
        let open = rules("http://localhost/", true);
        let error = open.check("x", &format!("https://{host}/")).unwrap_err();
        assert!(matches!(error, AddressError::NotPublic { .. }), "{host}: {error}");
    }
}

#[test]
fn the_address_that_is_connected_to_is_judged_by_the_same_rules() {
    let cases = [
        ("8.8.8.8", [true, true, true]),
        ("127.0.0.1", [false, true, true]),
        ("10.0.0.1", [false, false, true]),
        ("fd00::1", [false, false, true]),
        ("100.64.0.1", [false, false, true]),
        ("198.18.0.1", [false, false, true]),
        ("169.254.169.254", [false, false, false]),
        ("0.0.0.0", [false, false, false]),
        ("ff02::1", [false, false, false]),
        ("192.0.2.1", [false, false, false]),
        ("240.0.0.1", [false, false, false]),
    ];
    let rules = [public(), local(), rules("https://mcp.example.com/", true)];
    for (address, expected) in cases {
        let permitted = rules.map(|rules| rules.permits(address.parse().unwrap()));
        assert_eq!(permitted, expected, "{address}");
    }
}

#[test]
fn user_names_fragments_and_long_addresses_are_refused() {
    let check = |text: &str| public().check("token endpoint", text).unwrap_err();
    let role = "token endpoint";
    assert_eq!(check("https://user@a.example/"), AddressError::UserInfo { role });
    assert_eq!(
        check("https://:secret@a.example/"),
        AddressError::UserInfo { role }
    );
    assert_eq!(check("https://a.example/#x"), AddressError::Fragment { role });
    assert_eq!(check("a.example/token"), AddressError::NotAnAddress { role });
    assert_eq!(check(""), AddressError::NotAnAddress { role });
    let long = format!("https://a.example/{}", "x".repeat(TEXT_LIMIT));
    assert_eq!(check(&long), AddressError::TooLong { role });
    let issuer = public().check_issuer(role, "https://a.example/?x=1");
    assert_eq!(issuer, Err(AddressError::Query { role }));
    let shown = check("https://user:hunter2@a.example/?token=hunter2").to_string();
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn redirect_uris_are_https_or_on_a_loopback_host() {
    let check = |text: &str| check_redirect(&Url::parse(text).unwrap());
    assert!(check("http://127.0.0.1:1234/callback").is_ok());
    assert!(check("http://localhost/callback").is_ok());
    assert!(check("https://app.example.com/callback").is_ok());
    assert!(check("http://app.example.com/callback").is_err());
    assert!(check("myapp://callback").is_err());
    assert!(check("https://app.example.com/callback#x").is_err());
}
