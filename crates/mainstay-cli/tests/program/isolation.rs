use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::host::Host;
use crate::sandbox::{MAINSTAY, Sandbox, finish, shell};
use crate::serving::{Serving, Visitor};

/// More time than a server needs to end in its own way.
const PATIENTLY: &str = "--stop-within=1m";

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
        let mut host = Host::start(&sandbox, &["serve", "--stdio", PATIENTLY]);
        host.lists("mine__echo");
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_servers_of_all_sessions_over_http_end_in_their_own_way_when_the_program_is_terminated() {
    let sandbox = Sandbox::new();
    let config = json!({ "mcpServers": { "mine": isolated(&sandbox) } });
    sandbox.write("home/.config/mainstay/mcp.json", &config.to_string());
    let serving = Serving::start(&sandbox, &[PATIENTLY]);
    for _ in 0..2 {
        let visitor = Visitor::legacy(serving.address, "/mcp").await;
        visitor.lists("mine__echo").await;
        let called = visitor.call("mine__echo", json!({ "text": "hello" })).await;
        assert!(called.to_string().contains("hello"), "{called}");
    }
    serving.signal(Signal::TERM);
    serving.ended().exits(143);
    assert_eq!(ended(&sandbox), 3, "two sessions', and the pattern");
    sandbox.assert_nothing_is_left();
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
    host.lists("mine__echo");
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
    sandbox.run(&["check", PATIENTLY]).exits(0);
    let called = sandbox.run(&["call", PATIENTLY, "mine", "echo", "text=hello"]);
    called.exits(0).prints("hello");
    assert_eq!(ended(&sandbox), 2, "one server each");
    sandbox.assert_nothing_is_left();
}
