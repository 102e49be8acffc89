//! Servers over HTTP: what is read, and each mistake in the words that a person gets to read.

use std::path::Path;
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};

use super::{one, read, refused, rendered, warned};
use crate::config::{HttpKind, HttpTarget, ServerConfig, Target};
use crate::protocol::Era;

fn http(server: &ServerConfig) -> &HttpTarget {
    match server.target() {
        Target::Http(http) => http,
        Target::Stdio(_) | Target::Custom(_) | Target::Unusable(_) => panic!("an address was configured"),
    }
}

/// The one server of a file in which nothing is wrong.
#[track_caller]
fn accepted(body: &str) -> ServerConfig {
    let configuration = one(body);
    assert_eq!(rendered(&configuration), Vec::<String>::new());
    configuration.servers[0].clone()
}

#[test]
fn the_files_of_other_programs_name_an_address_in_their_own_way() {
    for (body, kind) in [
        (r#""url": "https://mcp.example/mcp""#, HttpKind::Auto),
        (
            r#""serverUrl": "https://mcp.example/mcp", "headers": {}, "args": [], "env": {}, "oauth": {}"#,
            HttpKind::Auto,
        ),
        (
            r#""httpUrl": "https://mcp.example/mcp", "command": null"#,
            HttpKind::Streamable,
        ),
        (
            r#""type": "remote", "url": "https://mcp.example/mcp""#,
            HttpKind::Auto,
        ),
        (
            r#""type": "http", "url": "https://mcp.example/mcp""#,
            HttpKind::Streamable,
        ),
        (
            r#""type": "streamable-http", "url": "https://mcp.example/mcp""#,
            HttpKind::Streamable,
        ),
        (
            r#""transport": "streamableHttp", "url": "https://mcp.example/mcp""#,
            HttpKind::Streamable,
        ),
        (
            r#""transportType": "sse", "url": "https://mcp.example/mcp""#,
            HttpKind::Sse,
        ),
    ] {
        let server = accepted(body);
        assert_eq!(http(&server).url().value(), "https://mcp.example/mcp", "{body}");
        assert_eq!(http(&server).kind(), kind, "{body}");
    }
}

#[test]
fn every_setting_of_an_address_is_read() {
    let server = accepted(
        r#""url": "https://${TOKEN}.example/mcp", "era": "legacy", "unixSocket": "~/mcp.sock",
           "headers": { "X-Api-Key": "k ${TOKEN}", "X-Number": 7 },
           "bearer_token_env": "TOKEN", "connect_timeout": "3s", "firstByteTimeout": 20"#,
    );
    let target = http(&server);
    assert_eq!(server.era(), Some(Era::Legacy));
    assert_eq!(target.url().value(), "https://hunter2-token.example/mcp");
    let headers: Vec<_> = target
        .headers()
        .iter()
        .map(|(name, value)| (name.as_str(), value.expose()))
        .collect();
    assert_eq!(headers, [("X-Api-Key", "k hunter2-token"), ("X-Number", "7")]);
    assert_eq!(target.bearer_token.as_ref().unwrap().expose(), "hunter2-token");
    assert_eq!(target.unix_socket(), Some(Path::new("/home/ann/mcp.sock")));
    assert_eq!(target.connect_timeout, Some(Duration::from_secs(3)));
    assert_eq!(target.first_byte_timeout, Some(Duration::from_secs(20)));
    assert_eq!(
        accepted(r#""command": "x", "era": "modern""#).era(),
        Some(Era::Modern)
    );
}

#[test]
fn an_address_that_is_none_says_how_to_write_one() {
    for (url, said) in [
        ("", "the address is empty; write where the server is: https://…"),
        (
            "mcp.example/mcp",
            "not an address: relative URL without a base; begin it with https:// or http://",
        ),
        (
            "localhost:3000/mcp",
            r#""localhost" is not a scheme of HTTP; begin the address with https:// or http://"#,
        ),
        (
            "ftp://mcp.example/",
            r#""ftp" is not a scheme of HTTP; use https:// or http://"#,
        ),
        (
            "unix:/run/mcp.sock",
            r#""unix" is not a scheme of HTTP; write http://localhost/PATH, and name the socket in "unix_socket""#,
        ),
        ("https://", "not an address: empty host; write https://HOST/PATH"),
        (
            "http://h:99999/",
            "not an address: invalid port number; write https://HOST/PATH",
        ),
    ] {
        refused(
            &format!(r#""url": "{url}""#),
            &[&format!("3:10: mcpServers.s.url: {said}")],
        );
    }
    refused(
        r#""serverUrl": "x""#,
        &[
            "3:16: mcpServers.s.serverUrl: not an address: relative URL without a base; begin it with https:// or http://",
        ],
    );
    refused(
        r#""url": 5"#,
        &["3:10: mcpServers.s.url: expected a string, found a number"],
    );
}

#[test]
fn every_mistake_of_an_address_is_told_at_once_and_under_its_own_key() {
    refused(
        r#""url": "ftp://x", "era": "old", "connect_timeout": 0, "first_byte_timeout": "9999d", "unix_socket": "",
  "headers": { "a b": "x", "X-A": "a\nb", "X-B": "é", "X-C": "\u0001", "Content-Length": "5", "x-a": "y", "X-D": null },
  "tls": { "ca": "none.pem", "key": "k.pem", "sni": 1 }, "bearer_token_env": "NOPE""#,
        &[
            r#"3:10: mcpServers.s.url: "ftp" is not a scheme of HTTP; use https:// or http://"#,
            r#"3:28: mcpServers.s.era: "old" is not understood; write "legacy" or "modern", or leave it out"#,
            r#"3:54: mcpServers.s.connect_timeout: must be longer than zero"#,
            r#"3:79: mcpServers.s.first_byte_timeout: a duration cannot be longer than a year"#,
            r#"3:103: mcpServers.s.unix_socket: the path is empty; name a socket, or remove the key"#,
            r#"4:23: mcpServers.s.headers."a b": not a name of a header; use letters, digits and `-`, as in X-Api-Key"#,
            r#"4:35: mcpServers.s.headers.X-A: holds a line break, which no header may hold; remove it"#,
            r#"4:50: mcpServers.s.headers.X-B: holds a character that is not ASCII, which no header may hold; remove it"#,
            r#"4:62: mcpServers.s.headers.X-C: holds a control character, which no header may hold; remove it"#,
            r#"4:90: mcpServers.s.headers.Content-Length: every request has this header of its own; remove it"#,
            r#"4:102: mcpServers.s.headers.x-a: written twice, in another case; case does not count here; keep one"#,
            r#"4:114: mcpServers.s.headers.X-D: expected a string, found null"#,
            r#"5:18: mcpServers.s.tls.ca: none.pem cannot be read: No such file or directory (os error 2); name a PEM file"#,
            r#"5:37: mcpServers.s.tls.key: a key without its certificate; name the certificate in "cert""#,
            r#"5:46: mcpServers.s.tls.sni: unknown key"#,
            r#"5:78: mcpServers.s.bearer_token_env: the variable NOPE is not set, or empty; set it to the token, or remove the key"#,
        ],
    );
}

#[test]
fn a_token_is_named_by_its_variable_and_is_never_repeated() {
    refused(
        r#""url": "https://x", "bearer_token_env": "EMPTY""#,
        &[
            r#"3:43: mcpServers.s.bearer_token_env: the variable EMPTY is not set, or empty; set it to the token, or remove the key"#,
        ],
    );
    for written in ["${TOKEN}", "", "ghp_0123456789012345678901234567890123456"] {
        refused(
            &format!(r#""url": "https://x", "bearer_token_env": "{written}""#),
            &[
                r#"3:43: mcpServers.s.bearer_token_env: not a name of a variable that is set; write the name of the variable that holds the token, such as "GITHUB_TOKEN""#,
            ],
        );
    }
    refused(
        r#""url": "https://x", "bearer_token_env": "TOKEN", "headers": { "authorization": "Bearer x" }"#,
        &[
            r#"3:82: mcpServers.s.headers.authorization: contradicts the bearer token, which is sent in the same header; remove one of the two"#,
        ],
    );
}

#[test]
fn certificates_are_read_and_held_to_what_they_should_be() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let made = || {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap();
        (certificate.self_signed(&key).unwrap().pem(), key.serialize_pem())
    };
    let ((cert, key), (_, other_key)) = (made(), made());
    let (both, only_cert) = (
        write("both.pem", &format!("{key}{cert}")),
        write("cert.pem", &cert),
    );
    let (key, other_key) = (write("key.pem", &key), write("other.pem", &other_key));
    let text = write("text.pem", "no certificate");

    for tls in [
        format!(r#"{{ "ca": "{only_cert}", "cert": "{only_cert}", "key": "{key}" }}"#),
        format!(r#"{{ "cert": "{both}" }}"#),
    ] {
        accepted(&format!(r#""url": "https://x", "tls": {tls}"#));
    }
    for (tls, key, said) in [
        (
            format!(r#"{{ "ca": "{text}" }}"#),
            "ca",
            "holds no certificate in PEM format",
        ),
        (
            format!(r#"{{ "cert": "{only_cert}" }}"#),
            "cert",
            "holds no private key in PEM format",
        ),
        (
            format!(r#"{{ "cert": "{only_cert}", "key": "{text}" }}"#),
            "key",
            "holds no private key in PEM format",
        ),
        (
            format!(r#"{{ "cert": "{only_cert}", "key": "{other_key}" }}"#),
            "key",
            "cannot be used",
        ),
        (
            format!(r#"{{ "cert": "{}" }}"#, directory.path().display()),
            "cert",
            "it is not a file",
        ),
    ] {
        let configuration = one(&format!(r#""url": "https://x", "tls": {tls}"#));
        let said_of = rendered(&configuration);
        assert_eq!(said_of.len(), 1, "{said_of:?}");
        assert!(
            said_of[0].contains(&format!("mcpServers.s.tls.{key}: ")),
            "{said_of:?}"
        );
        assert!(said_of[0].contains(said), "{said_of:?}");
        assert_eq!(configuration.servers, []);
    }
    warned(
        &format!(r#""url": "http://localhost", "tls": {{ "ca": "{only_cert}" }}"#),
        &[
            "3:37: mcpServers.s.tls: has no effect, since the address is not encrypted; write https://, or remove it",
        ],
    );
}

#[test]
fn a_credential_in_clear_text_is_a_warning_unless_it_stays_on_this_machine() {
    let said =
        "3:10: mcpServers.s.url: a credential is sent to another machine without encryption; write https://";
    for (url, credential) in [
        ("http://mcp.example/", r#""bearer_token_env": "TOKEN""#),
        ("http://10.0.0.1/", r#""headers": { "Authorization": "x" }"#),
        ("http://mcp.example/", r#""headers": { "x-api-key": "x" }"#),
    ] {
        warned(&format!(r#""url": "{url}", {credential}"#), &[said]);
    }
    for (url, rest) in [
        ("http://localhost:3000/", r#""bearer_token_env": "TOKEN""#),
        ("http://[::1]/", r#""bearer_token_env": "TOKEN""#),
        ("https://mcp.example/", r#""bearer_token_env": "TOKEN""#),
        (
            "http://mcp.example/",
            r#""bearer_token_env": "TOKEN", "unix_socket": "/run/s""#,
        ),
        ("http://mcp.example/", r#""headers": { "X-Trace": "1" }"#),
    ] {
        accepted(&format!(r#""url": "{url}", {rest}"#));
    }
}

#[test]
fn a_credential_in_an_address_is_refused_with_a_remedy() {
    for credential in ["hush", "ann:hush", ":hush", "ann:${TOKEN}"] {
        refused(
            &format!(r#""url": "https://{credential}@mcp.example/mcp""#),
            &[
                r#"3:10: mcpServers.s.url: holds a user name or a password, which would be shown wherever the address is; send it in "headers" as Authorization, or name its variable in "bearer_token_env""#,
            ],
        );
    }
}

#[test]
fn a_key_of_the_other_kind_of_server_is_a_warning() {
    warned(
        r#""url": "https://x", "args": ["a"], "env": { "A": "${NOPE}" }, "cwd": "/x""#,
        &[
            "3:31: mcpServers.s.args: has no effect, since this server is reached by its address; remove it",
            "3:45: mcpServers.s.env: has no effect, since this server is reached by its address; remove it",
            "3:72: mcpServers.s.cwd: has no effect, since this server is reached by its address; remove it",
        ],
    );
    warned(
        r#""command": "x", "headers": { "A": "${NOPE}" }, "connect_timeout": 5, "tls": { "ca": "x" }"#,
        &[
            "3:30: mcpServers.s.headers: has no effect, since this server is a program; remove it",
            "3:69: mcpServers.s.connect_timeout: has no effect, since this server is a program; remove it",
            "3:79: mcpServers.s.tls: has no effect, since this server is a program; remove it",
        ],
    );
}

#[test]
fn the_oldest_transport_has_no_modern_era() {
    refused(
        r#""type": "sse", "url": "https://x", "era": "modern""#,
        &[
            r#"3:45: mcpServers.s.era: HTTP+SSE belongs to the legacy era; write "legacy", or remove one of the two"#,
        ],
    );
}

#[test]
fn no_secret_of_an_address_is_shown() {
    let mut configuration = read(
        r#"{ "mcpServers": {
          "good": {
            "url": "https://mcp.example/${TOKEN}?key=hunter2&other=${TOKEN}",
            "headers": { "X-Key": "hunter2", "X-Other": "${TOKEN}" }, "unix_socket": "/${TOKEN}"
          },
          "token": { "url": "https://x", "bearer_token_env": "TOKEN" },
          "bad": {
            "url": "https://ann:hunter2@${TOKEN} x/?hunter2", "bearer_token_env": "hunter2",
            "headers": { "X-A": "hunter2\n", "X-B": "${TOKEN} ${NOPE}", "X-C": ["hunter2"] },
            "tls": { "ca": "/${TOKEN}/ca.pem", "cert": "/${TOKEN}/c.pem" }
          },
          "worse": { "url": "hunter2 ${TOKEN}" },
          "named": { "url": "https://hunter2@mcp.example/" },
          "both": { "url": "https://ann:${TOKEN}@mcp.example/" }
        } }"#,
    );
    let said = rendered(&configuration);
    let shown = format!("{configuration:?} {configuration:#?}");
    assert!(!shown.contains("hunter2-token"), "{shown}");
    // A name that is no secret's may be repeated: it is looked up as a variable.
    for problem in &mut configuration.problems {
        problem.unset_variable = None;
    }
    let shown = format!("{configuration:?} {configuration:#?}");
    let said_of = said.join("\n").replace("the variable hunter2 is not set", "");
    assert!(!said_of.contains("hunter2"), "{said_of}");
    assert!(
        !shown
            .replace("the variable hunter2 is not set", "")
            .contains("hunter2"),
        "{shown}"
    );
    assert_eq!((configuration.servers.len(), said.len()), (2, 10), "{said:#?}");
    assert!(
        shown.contains("https://mcp.example/${TOKEN}?key=***&other=${TOKEN}"),
        "{shown}"
    );
}

#[test]
fn a_server_over_http_built_in_rust_passes_the_same_checks() {
    let error = ServerConfig::http("web", "mcp.example")
        .header("a\n", "x")
        .header("Authorization", "x")
        .bearer_token("hush\n")
        .root_certificates("/nowhere/ca.pem")
        .connect_timeout(Duration::ZERO)
        .build()
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"web.url: not an address: relative URL without a base; begin it with https:// or http://
web.headers."a\n": not a name of a header; use letters, digits and `-`, as in X-Api-Key
web.headers.Authorization: contradicts the bearer token, which is sent in the same header; remove one of the two
web.bearer_token: holds a line break, which no header may hold; remove it
web.tls.ca: /nowhere/ca.pem cannot be read: No such file or directory (os error 2); name a PEM file
web.connect_timeout: must be longer than zero"#
    );
}
