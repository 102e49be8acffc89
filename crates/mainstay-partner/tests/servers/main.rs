//! The partners are what the other tests take them for: they start, speak, and list their tools.

mod stdio;

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{self, Command};

use mainstay_partner::{Partner, partners};
use serde_json::{Value, json};
use stdio::Stdio;

const MODERN: &str = "2026-07-28";

#[test]
fn every_installed_partner_initializes_and_lists_its_tools() {
    let Some(partners) = partners() else { return };
    for (name, partner) in partners.each() {
        let mut server = Stdio::start(partner);
        let initialized = server.initialize();
        assert_eq!(
            initialized["result"]["protocolVersion"], "2025-11-25",
            "{name}: {initialized}"
        );
        let listed = server.request("tools/list", &json!({}));
        assert!(
            listed["result"]["tools"]
                .as_array()
                .is_some_and(|tools| !tools.is_empty()),
            "{name}: {listed}"
        );
    }
}

#[test]
fn the_partners_on_the_typescript_sdk_refuse_the_modern_handshake() {
    let Some(partners) = partners() else { return };
    for partner in [&partners.everything, &partners.filesystem, &partners.memory] {
        let discovered = Stdio::start(partner).request("server/discover", &modern(json!({})));
        assert_eq!(discovered["error"]["code"], -32601, "{discovered}");
    }
}

#[test]
fn the_partners_on_the_python_sdk_and_on_rmcp_speak_the_modern_era() {
    let Some(partners) = partners() else { return };
    for partner in [&partners.time, &partners.git, &partners.python, &partners.rmcp] {
        let discovered = Stdio::start(partner).request("server/discover", &modern(json!({})));
        let versions = &discovered["result"]["supportedVersions"];
        assert!(
            versions
                .as_array()
                .is_some_and(|all| all.contains(&json!(MODERN))),
            "{discovered}"
        );
    }
}

#[test]
fn the_rmcp_server_answers_calls_prompts_and_resources() {
    let mut server = Stdio::start(&rmcp_server());
    server.initialize();
    assert_eq!(
        tool_names(&mut server),
        ["echo", "pid", "sleep", "level", "touch", "toggle"]
    );

    let echoed = server.request(
        "tools/call",
        &json!({ "name": "echo", "arguments": { "text": "hi" } }),
    );
    assert_eq!(echoed["result"]["content"][0]["text"], "hi");
    let pid = server.request("tools/call", &json!({ "name": "pid" }));
    assert_eq!(pid["result"]["content"][0]["text"], server.id().to_string());
    let prompt = server.request(
        "prompts/get",
        &json!({ "name": "greet", "arguments": { "name": "Ada" } }),
    );
    assert_eq!(prompt["result"]["messages"][0]["content"]["text"], "Hello, Ada!");
    let note = server.request("resources/read", &json!({ "uri": "note://rmcp-server/hello" }));
    assert_eq!(note["result"]["contents"][0]["text"], "hello");
}

#[test]
fn the_rmcp_server_reports_progress_to_a_caller_who_asked() {
    let mut server = Stdio::start(&rmcp_server());
    server.initialize();
    let arguments = json!({ "millis": 6, "steps": 3 });
    let call = json!({ "name": "sleep", "arguments": arguments, "_meta": { "progressToken": "p" } });
    let answer = server.request("tools/call", &call);
    assert_eq!(answer["result"]["content"][0]["text"], "slept 6 ms");
    let steps: Vec<_> = server
        .notifications("notifications/progress")
        .map(|note| note["params"]["progress"].clone())
        .collect();
    assert_eq!(steps, [json!(1.0), json!(2.0), json!(3.0)]);
}

#[test]
fn the_rmcp_server_tells_a_legacy_client_when_its_tools_change() {
    let mut server = Stdio::start(&rmcp_server());
    server.initialize();
    server.request("tools/call", &json!({ "name": "toggle" }));
    assert_eq!(
        tool_names(&mut server),
        ["echo", "pid", "sleep", "level", "touch", "toggle", "extra"]
    );
    assert_eq!(
        server.notifications("notifications/tools/list_changed").count(),
        1
    );
}

#[test]
fn the_rmcp_server_tells_a_modern_subscriber_when_its_tools_change() {
    let mut server = Stdio::start(&rmcp_server());
    server.send(
        "subscriptions/listen",
        &modern(json!({ "notifications": { "toolsListChanged": true } })),
    );
    server.await_notification("notifications/subscriptions/acknowledged");
    server.request("tools/call", &modern(json!({ "name": "toggle" })));
    server.await_notification("notifications/tools/list_changed");
}

#[test]
fn the_rmcp_server_says_on_which_port_it_serves() {
    let mut server = Command::new(env!("CARGO_BIN_EXE_rmcp-server"))
        .args(["--http", "0"])
        .stdout(process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(server.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    let port = line.trim().parse::<u16>();
    let connected = port.map(|port| TcpStream::connect(("127.0.0.1", port)));
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(matches!(connected, Ok(Ok(_))), "{line:?}: {connected:?}");
}

fn rmcp_server() -> Partner {
    Partner {
        command: PathBuf::from(env!("CARGO_BIN_EXE_rmcp-server")),
        args: Vec::new(),
        env: std::collections::BTreeMap::new(),
    }
}

/// Adds to `params` what every request of the modern era carries.
fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "mainstay-partner", "version": "0" },
    });
    params
}

fn tool_names(server: &mut Stdio) -> Vec<String> {
    let listed = server.request("tools/list", &json!({}));
    let tools = listed["result"]["tools"].as_array().cloned().unwrap_or_default();
    tools
        .iter()
        .filter_map(|tool| tool["name"].as_str().map(str::to_owned))
        .collect()
}
