//! A person who puts Mainstay between a host and a server loses nothing: what a client sees and answers directly, it sees and answers through
//! `wrap`, `connect` and `serve`.
//!
//! The servers use every way in which a server reaches its client, in both eras; the client of the Python SDK does all of it and says what came of
//! it. A server that hosts share meets Mainstay, and on stdio in a session: that alone may differ, and is written out here.

use std::fmt;
use std::net::{Ipv4Addr, TcpStream};
use std::process::Stdio;
use std::time::Duration;

use mainstay_partner::{Partners, free_port, partners};
use mainstay_testkit::poll;
use serde_json::{Value, json};

use super::child::{self, Group};
use super::client::Era;
use super::server::{MAINSTAY, Server};
use super::way::{Home, Serving};

/// All that the client does, with room for a busy machine; its steps have deadlines of their own.
const WITHIN: Duration = Duration::from_secs(150);

#[test]
fn a_legacy_client_of_a_server_on_the_python_sdk_loses_nothing() {
    nothing_is_lost(Era::Legacy, "both_eras_server.py");
}

#[test]
fn a_modern_client_of_a_server_on_the_python_sdk_loses_nothing() {
    nothing_is_lost(Era::Modern, "both_eras_server.py");
}

#[test]
fn a_legacy_client_of_a_server_on_fastmcp_loses_nothing() {
    nothing_is_lost(Era::Legacy, "fastmcp_server.py");
}

#[test]
fn a_modern_client_of_a_server_on_fastmcp_loses_nothing() {
    nothing_is_lost(Era::Modern, "fastmcp_server.py");
}

#[test]
fn a_legacy_client_of_a_server_on_the_python_sdk_over_http_loses_nothing() {
    nothing_is_lost_over_http(Era::Legacy, "both_eras_server.py");
}

#[test]
fn a_modern_client_of_a_server_on_the_python_sdk_over_http_loses_nothing() {
    nothing_is_lost_over_http(Era::Modern, "both_eras_server.py");
}

#[test]
fn a_legacy_client_of_a_server_on_fastmcp_over_http_loses_nothing() {
    nothing_is_lost_over_http(Era::Legacy, "fastmcp_server.py");
}

#[test]
fn a_modern_client_of_a_server_on_fastmcp_over_http_loses_nothing() {
    nothing_is_lost_over_http(Era::Modern, "fastmcp_server.py");
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Through {
    Wrap,
    ConnectAlone,
    Connect,
    Serve,
}

impl Through {
    const ALL: [Self; 4] = [Self::Wrap, Self::ConnectAlone, Self::Connect, Self::Serve];

    /// Whether the server meets Mainstay in place of the client.
    fn is_shared(self) -> bool {
        match self {
            Self::Wrap | Self::ConnectAlone => false,
            Self::Connect | Self::Serve => true,
        }
    }

    fn target(self, server: &Server, serving: &Serving, environment: &Value) -> Value {
        let words: &[&str] = match self {
            Self::Wrap => &["wrap", "--"],
            Self::ConnectAlone => &["connect", "--share", "never", "--env", CANCELLED, "--"],
            Self::Connect => &["connect", "--env", CANCELLED, "--"],
            Self::Serve => return json!({ "url": format!("{}/{}", serving.url(), server.name) }),
        };
        let mut args = words.to_vec();
        args.push(&server.command);
        args.extend(server.args.iter().map(String::as_str));
        json!({ "command": MAINSTAY, "args": args, "env": environment })
    }
}

impl fmt::Display for Through {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, formatter)
    }
}

/// Names the file that says at the server's side that a call was cancelled.
const CANCELLED: &str = "CANCELLED_FILE";

fn nothing_is_lost(era: Era, script: &str) {
    let Some(partners) = partners() else { return };
    let home = Home::new();
    let cancelled = home.path().join("cancelled").display().to_string();
    let scripts = partners.clients.scripts.with_file_name("partners");
    let server = Server::of_script("partner", &partners.clients.python, &scripts.join(script));
    let mut environment = home.variables();
    environment[CANCELLED] = json!(cancelled);
    let serve = || {
        let variables = json!({ CANCELLED: cancelled });
        Serving::start_with(&home, std::slice::from_ref(&server), &variables)
    };
    let serving = serve();

    let visit = |target: &Value| visit(&partners, &home, era, target, &cancelled);
    let direct = json!({ "command": server.command, "args": server.args, "env": environment });
    let direct = visit(&direct);
    assert_is_whole(&direct, era);
    for through in Through::ALL {
        let seen = visit(&through.target(&server, &serving, &environment));
        assert_same(
            &seen,
            &expected(&direct, through, era, true),
            &format!("{through}, {}", era.name()),
        );
    }
    serving.end();

    let serving = serve();
    let seen = visit(&Through::Serve.target(&server, &serving, &environment));
    let mut expected = expected(&direct, Through::Serve, era, false);
    // The first answers are from the catalog of the last run, in which a tool was added.
    expected.as_object_mut().expect("features").remove("offers");
    let way = format!("serve, for a client that it remembers, {}", era.name());
    assert_same(&seen, &expected, &way);
    serving.end();
    home.assert_nothing_is_left();
}

/// The same for a server over HTTP, which speaks both eras to Mainstay at once. Each visit is to a server that was just started, since a
/// visit changes what it offers.
fn nothing_is_lost_over_http(era: Era, script: &str) {
    let Some(partners) = partners() else { return };
    let home = Home::new();
    let cancelled = home.path().join("cancelled").display().to_string();
    let script = partners.clients.scripts.with_file_name("partners").join(script);
    let start = || {
        let port = free_port();
        let mut python = home.command(&partners.clients.python);
        python.env(CANCELLED, &cancelled).arg(&script);
        python.args(["streamable-http", &port.to_string()]);
        let running = Group::start(python.stdout(Stdio::null()).stderr(Stdio::null()));
        let listens = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
        assert!(poll::comes_true(WITHIN, listens), "it listens");
        (running, format!("http://127.0.0.1:{port}/mcp"))
    };
    let visit = |target: &Value| visit(&partners, &home, era, target, &cancelled);

    let (running, url) = start();
    let direct = visit(&json!({ "url": url }));
    assert_is_whole(&direct, era);
    drop(running);

    let mut expected = direct.clone();
    expected["client"]["client"] = json!("mainstay");
    let (running, url) = start();
    let args = ["connect", "--url", &url];
    let seen = visit(&json!({ "command": MAINSTAY, "args": args, "env": home.variables() }));
    assert_same(&seen, &expected, &format!("connect, {}", era.name()));
    drop(running);

    let (running, url) = start();
    let serving = Serving::start_configured(&home, &json!({ "partner": { "url": url } }));
    let seen = visit(&json!({ "url": format!("{}/partner", serving.url()) }));
    if era == Era::Legacy {
        // Its session was opened before the first client came. A modern client declares its extensions with each request.
        expected["client"]["extensions"] = Value::Null;
    }
    assert_same(&seen, &expected, &format!("serve, {}", era.name()));
    serving.end();
    drop(running);
    home.assert_nothing_is_left();
}

/// Does everything with a server, and returns what the client saw.
fn visit(partners: &Partners, home: &Home, era: Era, target: &Value, cancelled: &str) -> Value {
    let mut python = home.command(&partners.clients.python);
    python.env(CANCELLED, cancelled);
    python.arg(partners.clients.scripts.join("lossless.py"));
    let said = child::run(python.args([era.name(), &target.to_string()]), WITHIN);
    let seen = serde_json::from_str(said.stdout.trim());
    seen.unwrap_or_else(|error| panic!("{error}: {}\n{}", said.stdout, said.stderr))
}

/// What is seen through this way if nothing is lost.
fn expected(direct: &Value, through: Through, era: Era, is_first: bool) -> Value {
    let mut expected = direct.clone();
    if !through.is_shared() {
        return expected;
    }
    let client = &mut expected["client"];
    client["client"] = json!("mainstay");
    client["protocol"] = json!("2025-11-25");
    if through == Through::Serve && is_first {
        // The server was connected before its first client came. It learns of the extensions with its next connection.
        client["extensions"] = Value::Null;
    }
    if era == Era::Modern {
        // FastMCP declares its extension in the modern era only.
        expected["server"]["extensions"] = Value::Null;
        let declared = expected["server"]["capabilities"].as_array_mut();
        declared.expect("a list").retain(|name| name != "extensions");
    }
    expected
}

/// The comparison means something: directly, every feature works.
fn assert_is_whole(direct: &Value, era: Era) {
    let text = |feature: &str| &direct[feature]["result"]["content"][0]["text"];
    assert_eq!(direct["server"]["protocol"], era.version(), "{direct}");
    assert_eq!(text("elicit"), "accept:Ann", "{direct}");
    let [_method, _message, schema] = &direct["elicit"]["asked"][0].as_array().expect("a question")[..]
    else {
        panic!("one question: {direct}")
    };
    assert_eq!(schema["properties"]["name"], json!({ "type": "string" }));
    assert_eq!(text("sample"), "forty-two");
    assert_eq!(text("roots"), "file:///a file:///b");
    let rich = &direct["rich"]["result"];
    let kept = (&rich["_meta"], &rich["content"][0]["_meta"], &rich["isError"]);
    let (of_result, of_content) = (
        json!({ "com.example/of": "result" }),
        json!({ "com.example/of": "content" }),
    );
    assert_eq!(kept, (&of_result, &of_content, &json!(true)));
    let structured = json!({ "number": 1.5, "nothing": null, "list": [1, "two"] });
    assert_eq!(rich["structuredContent"], structured);
    assert_eq!(direct["progress"]["heard"].as_array().map(Vec::len), Some(3));
    let logged = direct["log"]["logged"].as_array().expect("messages");
    let logger = &direct["server"]["name"];
    let levels: Vec<_> = logged.iter().map(|message| &message[0]).collect();
    assert_eq!(levels, ["info", "warning", "error"]);
    assert!(logged.iter().all(|message| message[1] == *logger), "{logged:?}");
    let errors = &direct["errors"];
    assert_eq!(
        (&errors["method"][0], &errors["method"][2]),
        (&json!(-32601), &json!("x/unknown"))
    );
    assert_eq!(errors["resource"][0], -32602);
    assert_eq!(errors["resource"][2], json!({ "uri": "note://nothing" }));
    let value = json!({ "a": [1, null, 2.5], "b": "ä" });
    let extension = &direct["extension"];
    assert_eq!(extension["result"]["value"], value);
    assert_eq!(
        extension["result"]["_meta"],
        json!({ "com.example/kept": [1, { "a": null }] })
    );
    assert_eq!(extension["echoes"], json!([value]));
    assert_eq!(direct["cancel"], json!({ "cancelled": true }));
    let (changes, uri) = (&direct["changes"], &direct["offers"]["uri"]);
    assert!(uri.is_string(), "{direct}");
    assert_eq!(changes["has_grown"], true);
    match era {
        Era::Legacy => {
            assert_eq!(changes["uris"], json!([uri]));
            let level = &direct["level"];
            assert_eq!(level["few"], json!([logged[2]]));
            assert_eq!(level["all"], direct["log"]["logged"]);
        }
        Era::Modern => {
            let events = json!({ "ResourceUpdated": uri, "ToolsListChanged": "None" });
            assert_eq!(changes["events"], events);
        }
    }
    let client = &direct["client"];
    assert_eq!(client["kinds"], json!(["elicitation", "roots", "sampling"]));
    assert!(client["extensions"]["com.example/thing"].is_object());
}

#[track_caller]
fn assert_same(seen: &Value, expected: &Value, way: &str) {
    let features = expected.as_object().expect("an object");
    for (feature, expected) in features {
        assert_eq!(&seen[feature], expected, "{way}: {feature}");
    }
}
