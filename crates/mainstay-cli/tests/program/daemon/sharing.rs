use std::collections::BTreeSet;
use std::fs;

use mainstay_testkit::procfs::session_of;
use mainstay_testkit::{FaultyServer, Ledger, Speaks};
use serde_json::json;

use super::{Shared, noting, server_pid, wait_until};
use crate::host::Host;
use crate::sandbox::MAINSTAY;

#[test]
fn hosts_with_the_same_server_share_one_process_and_it_outlives_each_of_them() {
    let shared = Shared::new();
    let ledger = Ledger::temporary();
    let server = noting(&ledger);
    let mut first = shared.host(&[], &server);
    let mut second = shared.host(&[], &server);
    let pid = server_pid(&mut first);
    assert_eq!(server_pid(&mut second), pid);
    let ran = first.leave();
    ran.exits(0);
    assert_eq!(ran.stderr, "", "a bridge says nothing");
    assert_eq!(server_pid(&mut second), pid);
    assert_eq!(server_pid(&mut shared.host(&[], &server)), pid);
    assert_eq!(ledger.pids().len(), 1);
    let status = shared.status().expect("a daemon runs");
    assert_eq!(status["servers"].as_array().unwrap().len(), 1);
    assert_eq!(status["servers"][0]["state"], "connected");
}

/// The trees of servers: each has a mark of its own in the environment of its processes.
fn server_trees(shared: &Shared) -> BTreeSet<Vec<u8>> {
    let pids = shared.tree().pids().into_iter();
    let mark = |pid: i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let mut variables = environment.split(|byte| *byte == 0);
        let mark = variables.find(|variable| variable.starts_with(b"MAINSTAY_TREE="))?;
        Some(mark.to_vec())
    };
    pids.filter_map(mark).collect()
}

#[test]
fn ten_hosts_with_six_servers_hold_six_trees_and_none_after_the_daemon_has_stopped() {
    let shared = Shared::new();
    let servers: Vec<FaultyServer> = (0..6)
        .map(|number| FaultyServer::new().tool(&format!("tool-{number}")))
        .collect();
    // All at once: a host does not wait for another, nor for its first server.
    let mut bridges: Vec<Host> = (0..10)
        .flat_map(|_host| &servers)
        .map(|server| Host::of(&mut shared.bridge(&[], server)))
        .collect();
    let introduction = json!({
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "host", "version": "1" },
    });
    for bridge in &mut bridges {
        bridge.begin("initialize", &introduction);
    }
    for bridge in &mut bridges {
        let answer = bridge.answer(1);
        assert!(answer["result"].is_object(), "{answer}");
        bridge.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }
    let pids: BTreeSet<i64> = bridges.iter_mut().map(server_pid).collect();
    assert_eq!(pids.len(), 6, "{pids:?}");
    let trees = server_trees(&shared);
    assert_eq!(trees.len(), 6, "{trees:?}");
    assert_eq!(shared.daemons().len(), 1);
    shared.sandbox.run(&["daemon", "stop"]).exits(0);
    // The hosts are still there.
    assert_eq!(server_trees(&shared), BTreeSet::new());
    for bridge in bridges {
        bridge.leave().exits(0);
    }
    shared.assert_nothing_is_left();
}

/// Each way in which two bridges can differ, and whether they share then.
#[test]
fn bridges_share_exactly_if_command_arguments_directory_and_named_variables_are_equal() {
    let shared = Shared::new();
    let sandbox = &shared.sandbox;
    let plain = FaultyServer::new();
    let other_arguments = FaultyServer::new().tool("another");
    let other_command = FaultyServer::new().ignores_term();
    fs::create_dir(sandbox.path("work/elsewhere")).unwrap();
    let elsewhere = sandbox.path("work/elsewhere").display().to_string();
    let here = sandbox.path("work").display().to_string();

    let mut base = shared.host(&[], &plain);
    let base_pid = server_pid(&mut base);
    let mut seen = BTreeSet::from([base_pid]);
    let connect = |options: &[&str], server: &FaultyServer, env: &[(&str, &str)]| {
        let mut bridge = shared.bridge(options, server);
        bridge.envs(env.iter().copied());
        let mut host = Host::of(&mut bridge).introduced();
        let pid = server_pid(&mut host);
        (host, pid)
    };
    // The same server: variables that are not named do not count, and neither does the name.
    for (options, env) in [
        (&["--name", "other"][..], &[][..]),
        (&["--cwd", &here][..], &[][..]),
        (
            &["--share", "yes"][..],
            &[("TOKEN", "unnamed"), ("TERM", "dumb")][..],
        ),
    ] {
        let (_host, pid) = connect(options, &plain, env);
        assert_eq!(pid, base_pid, "{options:?} {env:?}");
    }
    // Another server each.
    let mut hosts = Vec::new();
    for (options, server, env) in [
        (&[][..], &other_arguments, &[][..]),
        (&[][..], &other_command, &[][..]),
        (&["--cwd", &elsewhere][..], &plain, &[][..]),
        (&["--env", "TOKEN"][..], &plain, &[("TOKEN", "one")][..]),
        (&["--env", "TOKEN"][..], &plain, &[("TOKEN", "two")][..]),
        (&["--env", "OTHER"][..], &plain, &[("OTHER", "one")][..]),
        (&["--share", "never"][..], &plain, &[][..]),
        (&["--share", "never"][..], &plain, &[][..]),
    ] {
        let (host, pid) = connect(options, server, env);
        assert!(seen.insert(pid), "{options:?} {env:?} shares");
        hosts.push(host);
    }
    // And equal values share again.
    let (_host, pid) = connect(&["--env", "TOKEN"], &plain, &[("TOKEN", "one")]);
    assert!(seen.contains(&pid));
}

#[test]
fn a_host_that_pins_the_era_has_a_process_of_that_era_apart_from_the_others() {
    let shared = Shared::new();
    let ledger = Ledger::temporary();
    let server = noting(&ledger).script(|script| script.speaks(Speaks::Both));
    let pinned = ["--era", "modern"];
    let mut modern = shared.host(&pinned, &server);
    let pid = server_pid(&mut modern);
    let greeted = || (ledger.count("initialize 2025-11-25"), ledger.count("discover"));
    assert_eq!(greeted(), (0, 1));
    let mut usual = shared.host(&[], &server);
    assert_ne!(server_pid(&mut usual), pid);
    assert_eq!(greeted(), (1, 1));
    assert_eq!(server_pid(&mut shared.host(&pinned, &server)), pid);
    let status = shared.sandbox.run(&["status", "--json"]).exits(0).json();
    let servers = status["servers"].as_array().expect("a list").iter();
    let versions: BTreeSet<_> = servers
        .filter_map(|server| server["protocol_version"].as_str())
        .collect();
    assert_eq!(versions, BTreeSet::from(["2025-11-25", "2026-07-28"]), "{status}");
}

#[test]
fn servers_that_hosts_have_for_themselves_are_in_the_status() {
    let shared = Shared::new();
    let server = FaultyServer::new();
    let [mut one, mut two] = [(); 2].map(|()| shared.host(&["--share", "never", "--name", "own"], &server));
    server_pid(&mut one);
    server_pid(&mut two);
    let servers = || shared.status().expect("a daemon runs")["servers"].clone();
    let own = |name: &str| json!({ "name": name, "state": "connected", "configured": false, "share": "never", "bridges": 1 });
    assert_eq!(servers(), json!([own("own"), own("own-2")]));
    shared
        .sandbox
        .run(&["daemon", "status"])
        .exits(0)
        .prints("own    connected  1 bridge, not shared\n");
    drop(one);
    wait_until("the first one is gone", || servers() == json!([own("own-2")]));
}

#[test]
fn a_server_gets_the_default_variables_and_the_named_ones_of_its_bridge_and_no_others() {
    let shared = Shared::new();
    let out = shared.sandbox.path("environment");
    let script = format!("env > {}.part && mv {0}.part {0}; cat > /dev/null", out.display());
    let mut bridge = shared
        .sandbox
        .command(&["connect", "--env", "TOKEN", "--", "sh", "-c", &script]);
    bridge
        .env("TOKEN", "secret value")
        .env("UNNAMED", "private")
        .env("TERM", "xterm-test")
        .env("MAINSTAY_LOG", "debug");
    let mut host = Host::of(&mut bridge);
    host.begin_call("any", &json!({}));
    wait_until("the server starts", || out.exists());
    let environment = fs::read_to_string(&out).unwrap();
    let names: BTreeSet<&str> = environment
        .lines()
        .filter_map(|line| Some(line.split_once('=')?.0))
        .collect();
    assert!(environment.contains("TOKEN=secret value\n"));
    assert!(environment.contains("TERM=xterm-test\n"));
    for name in ["HOME", "PATH"] {
        assert!(names.contains(name), "{names:?}");
    }
    let allowed = [
        "HOME",
        "LOGNAME",
        "PATH",
        "SHELL",
        "TERM",
        "USER",
        "TOKEN",
        // The mark of Mainstay's process trees, and what the shell sets itself.
        "MAINSTAY_TREE",
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
    ];
    let extra: Vec<_> = names.iter().filter(|name| !allowed.contains(name)).collect();
    assert!(
        extra
            .iter()
            .all(|name| name.starts_with("MAINSTAY") && !name.contains("LOG")),
        "{extra:?}"
    );
    let log = fs::read_to_string(shared.sandbox.path("run/daemon.log")).unwrap_or_default();
    assert!(!log.contains("secret value"), "the log holds no value");
    // The daemon outlives the host that started it, and serves others.
    let daemon = shared.daemon_pid();
    let own = i32::try_from(std::process::id()).unwrap();
    assert_ne!(session_of(daemon), session_of(own), "it left this session");
    let environment = fs::read(format!("/proc/{daemon}/environ")).unwrap();
    let environment = String::from_utf8_lossy(&environment);
    assert!(environment.contains("MAINSTAY_LOG=debug"), "{environment}");
    for name in ["TOKEN=", "UNNAMED="] {
        assert!(!environment.contains(name), "{environment}");
    }
}

#[test]
fn bridges_with_different_tokens_never_see_each_other_s_tools_results_logs_or_questions() {
    let shared = Shared::new();
    let of = |token: &str| {
        let server = FaultyServer::new().tool("same");
        let mut bridge = shared.bridge(&["--env", "TOKEN"], &server);
        bridge.env("TOKEN", token);
        let mut host = Host::of(&mut bridge);
        let params = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": { "elicitation": {} },
            "clientInfo": { "name": token, "version": "1" },
        });
        host.ask("initialize", &params);
        host.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        host.ask("logging/setLevel", &json!({ "level": "debug" }));
        host
    };
    let (mut one, mut two) = (of("one"), of("two"));
    assert_ne!(server_pid(&mut one), server_pid(&mut two));
    // A question goes to the host whose call caused it.
    let call = one.begin_call("ask", &json!({ "kind": "elicitation", "key": "one" }));
    let question = one.wait_for(|message| message["method"] == "elicitation/create");
    let log = two.call("log", &json!({ "level": "error", "text": "of two" }));
    assert_ne!(log["isError"], true);
    one.write(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "decline" } }));
    one.answer(call);
    // Nothing of the other's has reached either of them: every message is looked at.
    let last = one.begin_call("echo", &json!({ "key": "last" }));
    one.wait_for(|message| {
        assert!(!message.to_string().contains("of two"), "{message}");
        message["id"] == last
    });
    let last = two.begin_call("echo", &json!({ "key": "last" }));
    two.wait_for(|message| {
        assert_ne!(message["method"], "elicitation/create", "{message}");
        message["id"] == last
    });
}

/// A host with these roots, which answers when it is asked for them, and the process of its server. Without roots here, it has some
/// and refuses to say which.
fn with_roots(shared: &Shared, server: &FaultyServer, roots: Option<&[&str]>) -> (Host, i64) {
    let mut host = Host::of(&mut shared.bridge(&["--share", "roots"], server));
    let params = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": { "roots": { "listChanged": true } },
        "clientInfo": { "name": "host", "version": "1" },
    });
    host.ask("initialize", &params);
    host.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    // The host does not wait before its first call.
    let call = host.begin_call("pid", &json!({}));
    let pid = answer_roots(&mut host, roots, call);
    (host, pid)
}

/// Answers the bridge's question for the roots, and every such question of the server, until the call is answered.
fn answer_roots(host: &mut Host, roots: Option<&[&str]>, call: u64) -> i64 {
    let roots = roots.map(|roots| roots.iter().map(|uri| json!({ "uri": uri })).collect::<Vec<_>>());
    loop {
        let message = host.wait_for(|message| message["method"] == "roots/list" || message["id"] == call);
        if message["id"] == call {
            return message["result"]["structuredContent"]["pid"]
                .as_i64()
                .expect("a process");
        }
        host.write(&match &roots {
            Some(roots) => json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "roots": roots } }),
            None => {
                let error = json!({ "code": -32603, "message": "no" });
                json!({ "jsonrpc": "2.0", "id": message["id"], "error": error })
            }
        });
    }
}

#[test]
fn with_share_roots_hosts_share_if_their_roots_are_equal() {
    let shared = Shared::new();
    let server = FaultyServer::new();
    let (_one, a) = with_roots(&shared, &server, Some(&["file:///a", "file:///b"]));
    let (_two, same) = with_roots(&shared, &server, Some(&["file:///b", "file:///a"]));
    let (mut three, other) = with_roots(&shared, &server, Some(&["file:///a"]));
    let (_four, none) = with_roots(&shared, &server, Some(&[]));
    assert_eq!(a, same);
    assert!(a != other && a != none && other != none, "{a} {other} {none}");
    // Without the option they share with none of these.
    assert!(![a, other, none].contains(&server_pid(&mut shared.host(&[], &server))));
    // The roots change, and with them the server.
    three.write(&json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" }));
    let call = three.begin_call("pid", &json!({}));
    assert_eq!(
        answer_roots(&mut three, Some(&["file:///a", "file:///b"]), call),
        a
    );
}

#[test]
fn with_share_roots_a_host_whose_roots_are_unknown_shares_with_no_other() {
    let shared = Shared::new();
    let server = FaultyServer::new();
    let (_none, none) = with_roots(&shared, &server, Some(&[]));
    let (mut one, first) = with_roots(&shared, &server, None);
    let (_two, second) = with_roots(&shared, &server, None);
    assert!(
        none != first && none != second && first != second,
        "{none} {first} {second}"
    );
    // It says them after all.
    one.write(&json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" }));
    let call = one.begin_call("pid", &json!({}));
    assert_eq!(answer_roots(&mut one, Some(&[]), call), none);
}

#[test]
fn a_server_that_was_given_up_is_tried_again_with_the_next_host() {
    let shared = Shared::new();
    let tool = shared.sandbox.path("bin/late-tool");
    let connect = |path: &str| {
        let mut command = shared
            .sandbox
            .command(&["connect", "--", "late-tool", "demo-server"]);
        command.env("PATH", path);
        Host::of(&mut command)
    };
    let params = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": { "name": "host", "version": "1" },
    });
    let mut first = connect("/usr/bin:/bin");
    let refused = first.ask("initialize", &params);
    assert!(
        refused["error"]["message"]
            .as_str()
            .unwrap()
            .contains("not found"),
        "{refused}"
    );
    fs::create_dir_all(tool.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(MAINSTAY, &tool).unwrap();
    let path = format!("{}:/usr/bin:/bin", tool.parent().unwrap().display());
    let mut second = connect(&path).introduced();
    assert!(second.tools().contains(&"echo".to_owned()));
}

#[test]
fn a_server_that_lacks_a_variable_of_its_host_fails_with_a_word_about_env() {
    let shared = Shared::new();
    let script =
        "test -n \"$NEED_TOKEN\" || { echo NEED_TOKEN is required >&2; exit 1; }; exec \"$0\" demo-server";
    let connect = |options: &[&str]| {
        let line = [&["connect"], options, &["--", "sh", "-c", script, MAINSTAY]].concat();
        Host::of(shared.sandbox.command(&line).env("NEED_TOKEN", "abc"))
    };
    let params = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": { "name": "host", "version": "1" },
    });
    let refused = connect(&[]).ask("initialize", &params);
    let words = refused["error"]["message"].as_str().unwrap();
    assert!(words.contains("NEED_TOKEN is required"), "{words}");
    assert!(words.ends_with(mainstay_bridge::VARIABLES_HINT), "{words}");
    shared
        .sandbox
        .run(&["status"])
        .prints("note       A server behind `mainstay connect --` gets only the variables HOME, LOGNAME");
    let mut named = connect(&["--env", "NEED_TOKEN"]).introduced();
    assert!(named.tools().contains(&"echo".to_owned()));
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_that_is_not_shared_may_open_as_many_files_as_its_host() {
    let shared = Shared::new();
    shared.sandbox.run(&["daemon", "start"]).exits(0);
    // The limit comes a moment after the start of the server.
    let server =
        format!("until test \"$(ulimit -n)\" = 222; do sleep 0.05; done; exec '{MAINSTAY}' demo-server");
    let mut host = shared.sandbox.other("sh");
    host.args(["-c", "ulimit -n 222; exec \"$@\"", "sh", MAINSTAY]);
    host.args(["connect", "--share", "never", "--", "sh", "-c", &server]);
    let mut host = Host::of(&mut host).introduced();
    host.lists("echo");
    host.leave().exits(0);
}
