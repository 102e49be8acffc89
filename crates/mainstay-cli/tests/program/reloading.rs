//! A configuration that changes while the program serves.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::Arc;

use mainstay_testkit::client::text;
use mainstay_testkit::http::{FaultyHttpServer, HttpScript};
use mainstay_testkit::{FaultyServer, Ledger, Script};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::host::Host;
use crate::leaving::wait_for;
use crate::sandbox::{MAINSTAY, Sandbox, good};
use crate::serving::{LONG, Serving, Visitor};

/// A server whose starts are noted.
fn noted() -> (FaultyServer, Ledger) {
    let ledger = Ledger::temporary();
    (FaultyServer::new().ledger(&ledger), ledger)
}

fn document(servers: &Value) -> String {
    json!({ "mcpServers": servers }).to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_file_is_applied_and_only_what_changed_is_restarted() {
    let ((same, same_ledger), (changed, changed_ledger)) = (noted(), noted());
    let servers = json!({ "same": same.config(), "changed": changed.config(), "gone": good() });
    let sandbox = Sandbox::with(&servers);
    let serving = Serving::start(&sandbox, &[]);
    let visitor = Visitor::legacy(serving.address, "/mcp").await;
    visitor.call("same__echo", json!({ "text": "1" })).await;
    visitor.call("changed__echo", json!({ "text": "1" })).await;
    let mut other = changed.config();
    other["env"]["OTHER"] = "value".into();
    let mut adjusted = good();
    adjusted["call_timeout"] = "2m".into();
    sandbox.configure(&json!({ "same": same.config(), "changed": other, "new": good() }));
    let line = serving.hears("applied ");
    assert!(
        line.contains("mcp.json: added new; removed gone; replaced changed; 1 server left alone"),
        "{line}"
    );
    let answer = visitor.call("changed__echo", json!({ "text": "2" })).await;
    assert_eq!(answer["isError"], Value::Null, "{answer}");
    visitor.call("same__echo", json!({ "text": "2" })).await;
    assert_eq!((same_ledger.pids().len(), changed_ledger.pids().len()), (1, 2));
    visitor.call("new__echo", json!({ "text": "3" })).await;
    assert!(
        !visitor
            .tools()
            .await
            .iter()
            .any(|tool| tool.starts_with("gone__"))
    );
    // What is only a setting touches no connection, and `enabled` stops and starts.
    sandbox.configure(&json!({ "same": same.config(), "changed": other, "new": adjusted }));
    assert!(
        serving
            .hears("applied ")
            .contains(": adjusted new; 2 servers left alone")
    );
    let mut off = same.config();
    off["enabled"] = false.into();
    sandbox.configure(&json!({ "same": off, "changed": other, "new": adjusted }));
    assert!(
        serving
            .hears("applied ")
            .contains(": disabled same; 2 servers left alone")
    );
    serving.signal(Signal::TERM);
    serving.ended().exits(143);
    sandbox.assert_nothing_is_left();
}

#[test]
fn every_way_to_replace_a_file_is_noticed() {
    let sandbox = Sandbox::new();
    let servers = |names: &[&str]| {
        let servers: serde_json::Map<_, _> = names.iter().map(|name| ((*name).to_owned(), good())).collect();
        document(&Value::Object(servers))
    };
    // As Kubernetes mounts it: a link to a file below a link to a directory.
    sandbox.write("etc/..1/mcp.json", &servers(&["a"]));
    sandbox.write("etc/..2/mcp.json", &servers(&["a", "b"]));
    symlink("..1", sandbox.path("etc/..data")).unwrap();
    symlink("..data/mcp.json", sandbox.path("etc/mcp.json")).unwrap();
    let file = sandbox.path("etc/mcp.json");
    let serving = Serving::start(&sandbox, &["--config", file.to_str().unwrap()]);
    symlink("..2", sandbox.path("etc/..data_tmp")).unwrap();
    fs::rename(sandbox.path("etc/..data_tmp"), sandbox.path("etc/..data")).unwrap();
    serving.hears(": added b; 1 server left alone");
    // As an editor saves: another file takes its name.
    sandbox.write("etc/mcp.json.new", &servers(&["a", "c"]));
    fs::rename(sandbox.path("etc/mcp.json.new"), &file).unwrap();
    serving.hears(": added c; removed b; 1 server left alone");
    // In place.
    fs::write(&file, servers(&["a", "c", "d"])).unwrap();
    serving.hears(": added d; 2 servers left alone");
    // Deleted, with its directory, and created again.
    fs::remove_dir_all(sandbox.path("etc")).unwrap();
    let line = serving.hears("error: ");
    assert!(
        line.contains("mcp.json: the file does not exist; create it, or name another"),
        "{line}"
    );
    serving.hears("the one before stays in force; it is read again when it changes");
    sandbox.write("etc/mcp.json", &servers(&["a"]));
    serving.hears(": removed c, d; 1 server left alone");
    serving.signal(Signal::TERM);
    serving.ended().exits(143);
}

#[test]
fn a_hangup_makes_it_read_the_file_changed_or_not() {
    let sandbox = Sandbox::with(&json!({ "a": good() }));
    let serving = Serving::start(&sandbox, &[]);
    serving.signal(Signal::HUP);
    serving.hears(": nothing changed; 1 server left alone");
    sandbox.configure(&json!({ "a": good(), "b": good() }));
    serving.signal(Signal::HUP);
    serving.hears(": added b; 1 server left alone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_are_told_which_server_has_an_error_in_its_configuration() {
    let wrong = json!({ "command": 7 });
    let sandbox = Sandbox::with(&json!({ "good": good(), "wrong": wrong }));
    let serving = Serving::start(&sandbox, &[]);
    let visitor = Visitor::modern(serving.address, "/mcp");
    visitor.call("good__echo", json!({ "text": "1" })).await;
    let said = visitor.ask("server/discover", json!({})).await["result"]["instructions"].clone();
    let said = said.as_str().unwrap_or_default();
    assert!(said.contains("wrong") && said.contains("mcp.json:"), "{said}");
    let refused = Visitor::modern(serving.address, "/mcp/wrong")
        .ask("tools/list", json!({}))
        .await;
    let said = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(
        said.contains("command") && said.contains("mcp.json:"),
        "{refused}"
    );
    sandbox.configure(&json!({ "good": good(), "wrong": good() }));
    serving.hears(": replaced wrong; 1 server left alone");
    visitor.call("wrong__echo", json!({ "text": "2" })).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_file_is_refused_with_its_place_and_disturbs_nothing() {
    let (server, ledger) = noted();
    let sandbox = Sandbox::with(&json!({ "one": server.config() }));
    let serving = Serving::start(&sandbox, &[]);
    let visitor = Visitor::legacy(serving.address, "/mcp/one").await;
    let running = tokio::spawn(async move { visitor.call("slow_then_answer", json!({ "ms": 4000 })).await });
    {
        assert!(ledger.wait_for(|ledger| ledger.count("call") == 1, LONG));
        let file = sandbox.write(
            "home/.config/mainstay/mcp.json",
            "{\n  \"mcpServers\": {\n    oops",
        );
        let line = serving.hears("error: ");
        assert!(
            line.contains(&format!("{}:3:5: not JSON", file.display())),
            "{line}"
        );
        serving.hears("the changed configuration is not applied, and the one before stays in force");
        // One server that is wrong costs no other, and not itself either, as long as the old one is in force.
        let one = server.config();
        let text =
            format!("{{\"mcpServers\": {{\n  \"one\": {one},\n  \"two\": {{ \"comand\": \"cat\" }}\n}}}}");
        fs::write(&file, text).unwrap();
        let line = serving.hears("error: ");
        assert!(
            line.contains(&format!(
                "{}:3:3: mcpServers.two: there is no `command`",
                file.display()
            )),
            "{line}"
        );
        serving.hears("stays in force");
    }
    let answer = running.await.unwrap();
    assert_eq!(answer["content"][0]["text"], "late", "{answer}");
    assert_eq!(ledger.pids().len(), 1, "it was never restarted");
    sandbox.configure(&json!({ "one": server.config(), "two": good() }));
    serving.hears(": added two; 1 server left alone");
}

#[test]
fn a_mistake_that_was_there_at_the_start_does_not_hold_up_other_changes() {
    let sandbox = Sandbox::with(&json!({ "a": good(), "typo": { "comand": "cat" } }));
    let serving = Serving::start(&sandbox, &[]);
    sandbox.configure(&json!({ "a": good(), "b": good(), "typo": { "comand": "cat" } }));
    serving.hears(": added b; 2 servers left alone");
    sandbox.configure(&json!({ "a": good(), "b": good(), "typo": good() }));
    serving.hears(": replaced typo; 2 servers left alone");
}

#[test]
fn a_file_that_is_written_in_pieces_is_read_when_it_is_whole() {
    let sandbox = Sandbox::with(&json!({ "a": good() }));
    let serving = Serving::start(&sandbox, &[]);
    let path = sandbox.path("home/.config/mainstay/mcp.json");
    let text = document(&json!({ "a": good(), "b": good() }));
    let (first, second) = text.split_at(text.len() / 2);
    let mut file = File::create(&path).unwrap();
    file.write_all(first.as_bytes()).unwrap();
    // Longer than a closed file is left alone: what matters is that this one is open.
    std::thread::sleep(std::time::Duration::from_millis(300));
    file.write_all(second.as_bytes()).unwrap();
    drop(file);
    let lines = serving.hears_up_to(": added b; 1 server left alone");
    assert!(!lines.iter().any(|line| line.contains("error")), "{lines:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotated_token_dials_first_and_drains_after() {
    let remote = FaultyHttpServer::start(Script::new(), HttpScript::new().bearer("first-token"));
    let remote = remote.await.unwrap();
    let sandbox = Sandbox::new();
    // The token stands in a file of its own, as secrets are mounted.
    sandbox.write("home/.config/mainstay/token", "first-token\n");
    sandbox.configure(&json!({ "web": {
        "url": remote.url("/mcp"), "headers": { "Authorization": "Bearer ${file:token}" }
    } }));
    let serving = Serving::start(&sandbox, &[]);
    let visitor = Arc::new(Visitor::legacy(serving.address, "/mcp/web").await);
    let slow = visitor.clone();
    let running = tokio::spawn(async move { slow.call("slow_then_answer", json!({ "ms": 10_000 })).await });
    assert!(remote.wait_for("tools/call", 1, LONG).await);
    remote.edit_http(|http| *http = HttpScript::new().bearer("second-token"));
    sandbox.write("home/.config/mainstay/token", "second-token\n");
    let line = serving.hears(": replaced web");
    assert!(!line.contains("second"), "{line}");
    let answer = visitor.call("echo", json!({ "text": "new" })).await;
    assert_eq!(answer["structuredContent"]["text"], "new", "{answer}");
    assert!(
        !running.is_finished(),
        "the old connection still works on its call"
    );
    let answer = running.await.unwrap();
    assert_eq!(answer["content"][0]["text"], "late", "{answer}");
}

#[test]
fn where_nothing_can_be_watched_it_is_said_once_and_a_hangup_still_works() {
    let sandbox = Sandbox::with(&json!({ "a": good() }));
    // In a user namespace of its own, this user may have no watcher.
    let script = "echo 0 > /proc/sys/user/max_inotify_instances && exec \"$0\" serve --listen 127.0.0.1:0";
    let wrapped = ["-Ur", "sh", "-c", script, MAINSTAY];
    let probe = ["-Ur", "sh", "-c", "echo 0 > /proc/sys/user/max_inotify_instances"];
    let can = Command::new("unshare").args(probe).output();
    if !can.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: this machine does not allow user namespaces");
        return;
    }
    let command = sandbox.command(&[]);
    let mut unshared = Command::new("unshare");
    unshared
        .args(wrapped)
        .env_clear()
        .envs(
            command
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .current_dir(sandbox.path("work"))
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let serving = Serving::of(&mut unshared);
    let line = serving.hears("changes of the configuration are not noticed");
    assert!(line.contains("fs.inotify.max_user_instances"), "{line}");
    assert!(
        line.contains(&format!("send SIGHUP to process {}", serving.pid())),
        "{line}"
    );
    sandbox.configure(&json!({ "a": good(), "b": good() }));
    serving.signal(Signal::HUP);
    let lines = serving.hears_up_to(": added b; 1 server left alone");
    assert!(
        !lines.iter().any(|line| line.contains("not noticed")),
        "{lines:?}"
    );
}

#[test]
fn a_host_on_stdin_gets_the_tools_of_a_changed_file() {
    let sandbox = Sandbox::with(&json!({ "a": good() }));
    let mut host = Host::start(&sandbox, &["serve", "--stdio"]);
    host.lists("a__echo");
    assert!(host.tools().iter().all(|tool| tool.starts_with("a__")));
    sandbox.configure(&json!({ "a": good(), "b": good() }));
    wait_for(&mut host.child, ": added b; 1 server left alone");
    let answer = host.call("b__echo", &json!({ "text": "hello" }));
    assert!(text(&json!({ "result": answer })).contains("hello"), "{answer}");
    kill_process(Pid::from_child(&host.child), Signal::HUP).unwrap();
    wait_for(&mut host.child, ": nothing changed; 2 servers left alone");
    host.leave().exits(0);
}

#[test]
fn a_file_that_appears_takes_the_place_of_the_demo_server() {
    let sandbox = Sandbox::new();
    let serving = Serving::start(&sandbox, &[]);
    sandbox.configure(&json!({ "mine": good() }));
    serving.hears(": added mine; removed demo");
}

#[test]
fn a_file_that_never_ends_holds_up_nothing() {
    let sandbox = Sandbox::with(&json!({ "a": good() }));
    let serving = Serving::start(&sandbox, &[]);
    let path = sandbox.path("home/.config/mainstay/mcp.json");
    fs::remove_file(&path).unwrap();
    symlink("/dev/zero", &path).unwrap();
    let line = serving.hears("error: ");
    assert!(line.contains("is it a configuration?"), "{line}");
    fs::remove_file(&path).unwrap();
    sandbox.configure(&json!({ "a": good(), "b": good() }));
    serving.hears(": added b; 1 server left alone");
    serving.signal(Signal::TERM);
    serving.ended().exits(143);
}
