//! A person who puts Mainstay between a host and a server loses nothing: what a client sees and answers directly, it sees and answers through
//! `wrap`, `connect` and `serve`.
//!
//! The servers use every way in which a server reaches its client, in both eras; the client of the Python SDK does all of it and says what came of
//! it. Through a server that hosts share, the server meets Mainstay, in a session: that alone may differ, and is written out here.

use std::fmt;
use std::time::Duration;

use mainstay_partner::partners;
use serde_json::{Value, json};

use super::child;
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
    let serving = Serving::start_with(
        &home,
        std::slice::from_ref(&server),
        &json!({ CANCELLED: cancelled }),
    );

    let visit = |target: &Value| -> Value {
        let mut python = home.command(&partners.clients.python);
        python.env(CANCELLED, &cancelled);
        python.arg(partners.clients.scripts.join("lossless.py"));
        let said = child::run(python.args([era.name(), &target.to_string()]), WITHIN);
        let seen = serde_json::from_str(said.stdout.trim());
        seen.unwrap_or_else(|error| panic!("{error}: {}\n{}", said.stdout, said.stderr))
    };
    let direct = json!({ "command": server.command, "args": server.args, "env": environment });
    let direct = visit(&direct);
    assert_is_whole(&direct, era);
    for through in Through::ALL {
        let seen = visit(&through.target(&server, &serving, &environment));
        assert_same(
            &seen,
            &expected(&direct, through, era),
            &format!("{through}, {}", era.name()),
        );
    }
    serving.end();
    home.assert_nothing_is_left();
}

/// What is seen through this way if nothing is lost.
fn expected(direct: &Value, through: Through, era: Era) -> Value {
    let mut expected = direct.clone();
    if !through.is_shared() {
        return expected;
    }
    let client = &mut expected["client"];
    client["client"] = json!("mainstay");
    client["protocol"] = json!("2025-11-25");
    if through == Through::Serve {
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
    assert_eq!(direct["server"]["protocol"], era.version(), "{direct}");
    assert_eq!(
        direct["elicit"]["result"],
        json!([false, ["accept:Ann"]]),
        "{direct}"
    );
    assert_eq!(direct["sample"]["result"], json!([false, ["forty-two"]]));
    assert_eq!(direct["roots"]["result"], json!([false, ["file:///a file:///b"]]));
    assert_eq!(direct["progress"]["heard"].as_array().map(Vec::len), Some(3));
    assert_eq!(direct["log"]["logged"].as_array().map(Vec::len), Some(3));
    assert_eq!(direct["cancel"], json!({ "cancelled": true }));
    assert_eq!(direct["changes"]["has_grown"], true);
    assert!(direct["client"]["extensions"]["com.example/thing"].is_object());
}

#[track_caller]
fn assert_same(seen: &Value, expected: &Value, way: &str) {
    let features = expected.as_object().expect("an object");
    for (feature, expected) in features {
        assert_eq!(&seen[feature], expected, "{way}: {feature}");
    }
}
