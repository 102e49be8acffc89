use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::host::Host;
use crate::sandbox::{MAINSTAY, Sandbox, finish, shell};

/// A server for each session, which notes in this folder that it ended in its own way.
fn isolated(sandbox: &Sandbox) -> Value {
    let folder = sandbox.path("work");
    let script = format!("'{MAINSTAY}' demo-server; touch '{}'/ended.$$", folder.display());
    let mut server = shell(&script);
    server["isolation"] = json!("session");
    server
}

fn ended(sandbox: &Sandbox) -> usize {
    let entries = fs::read_dir(sandbox.path("work")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("ended.")).count()
}

#[test]
fn the_servers_of_sessions_end_with_the_program_and_in_their_own_way() {
    for (end, code) in [(None, 0), (Some(Signal::TERM), 143)] {
        let sandbox = Sandbox::new();
        let config = json!({ "mcpServers": { "mine": isolated(&sandbox) } });
        sandbox.write("home/.config/mainstay/mcp.json", &config.to_string());
        let mut host = Host::start(&sandbox, &["serve", "--stdio"]);
        assert!(host.tools().contains(&"mine__echo".to_owned()));
        let result = host.call("mine__echo", &json!({ "text": "hello" }));
        assert_eq!(result["content"][0]["text"], "hello");
        match end {
            None => host.leave(),
            Some(signal) => {
                kill_process(Pid::from_child(&host.child), signal).unwrap();
                finish(host.child)
            }
        }
        .exits(code);
        assert_eq!(ended(&sandbox), 2, "the session's, and the pattern: {end:?}");
        sandbox.assert_nothing_is_left();
    }
}

#[test]
fn the_servers_of_all_sessions_over_http_end_in_their_own_way_when_the_program_is_terminated() {
    let sandbox = Sandbox::new();
    let config = json!({ "mcpServers": { "mine": isolated(&sandbox) } });
    sandbox.write("home/.config/mainstay/mcp.json", &config.to_string());
    let mut child = sandbox
        .command(&["serve", "--listen", "127.0.0.1:0"])
        .spawn()
        .unwrap();
    let address = address(&mut child);
    for _ in 0..2 {
        let initialize = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        });
        let opened = post(&address, None, "initialize", &initialize);
        let head = opened.to_ascii_lowercase();
        let at = head.find("mcp-session-id: ").expect("a session") + "mcp-session-id: ".len();
        let session = opened[at..].lines().next().unwrap().to_owned();
        let call = json!({ "name": "mine__echo", "arguments": { "text": "hello" } });
        // The first list waits until there is something to list.
        let listed = post(&address, Some(&session), "tools/list", &json!({}));
        assert!(listed.contains("mine__echo"), "{listed}");
        let called = post(&address, Some(&session), "tools/call", &call);
        assert!(called.contains("hello"), "{called}");
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    finish(child).exits(143);
    assert_eq!(ended(&sandbox), 3, "two sessions', and the pattern");
    sandbox.assert_nothing_is_left();
}

/// Where the program says that it serves.
fn address(child: &mut Child) -> String {
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    loop {
        line.clear();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "it says where");
        if let Some((_, rest)) = line.split_once("http://") {
            let address = rest.split('/').next().unwrap().to_owned();
            child.stderr = Some(stderr.into_inner());
            return address;
        }
    }
}

/// The whole answer to a request, head and body.
fn post(address: &str, session: Option<&str>, method: &str, params: &Value) -> String {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let session = session.map_or_else(String::new, |id| format!("mcp-session-id: {id}\r\n"));
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\naccept: application/json\r\n\
         connection: close\r\n{session}content-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn no_server_of_a_session_survives_a_program_that_is_killed() {
    let sandbox = Sandbox::new();
    let config = json!({ "mcpServers": { "mine": isolated(&sandbox) } });
    sandbox.write("home/.config/mainstay/mcp.json", &config.to_string());
    let mut host = Host::start(&sandbox, &["serve", "--stdio"]);
    host.call("mine__echo", &json!({ "text": "hello" }));
    kill_process(Pid::from_child(&host.child), Signal::KILL).unwrap();
    finish(host.child);
    sandbox.assert_nothing_is_left();
}

#[test]
fn a_session_that_finds_no_room_is_told_which_option_makes_more() {
    let sandbox = Sandbox::new();
    let config = json!({ "mcpServers": { "mine": isolated(&sandbox) } });
    sandbox.write("home/.config/mainstay/mcp.json", &config.to_string());
    let mut host = Host::start(&sandbox, &["serve", "--stdio", "--max-isolated", "0"]);
    let call = json!({ "name": "mine__echo", "arguments": { "text": "hello" } });
    assert!(host.tools().contains(&"mine__echo".to_owned()));
    let refused = host.ask("tools/call", &call);
    let words = refused["error"]["message"].as_str().unwrap();
    assert!(words.contains("--max-isolated"), "{words}");
    host.leave().exits(0);
    sandbox.assert_nothing_is_left();
}

#[test]
fn who_may_share_a_server_is_no_concern_of_a_check_or_a_call() {
    let sandbox = Sandbox::new();
    let config = json!({ "mcpServers": { "mine": isolated(&sandbox) } });
    sandbox.write("home/.config/mainstay/mcp.json", &config.to_string());
    sandbox.run(&["check"]).exits(0);
    let called = sandbox.run(&["call", "mine", "echo", "text=hello"]);
    called.exits(0).prints("hello");
    assert_eq!(ended(&sandbox), 2, "one server each");
    sandbox.assert_nothing_is_left();
}
