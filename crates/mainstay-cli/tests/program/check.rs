use serde_json::json;

use crate::sandbox::{Sandbox, dying, finish, good, keys, missing, shell, silent};

#[test]
fn without_a_configuration_the_demo_server_is_shown() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["check"]);
    ran.exits(0)
        .says("no configuration found: using the built-in demo server")
        .says("take over those of your hosts with `mainstay import`")
        .prints("✔  demo    connected")
        .prints("add, count, crash, echo")
        .prints("1 of 1 server up");
    sandbox.assert_nothing_is_left();
}

#[test]
fn a_bad_server_shows_its_reason_and_hides_nothing_of_a_good_one() {
    let sandbox = Sandbox::with(&json!({ "good": good(), "absent": missing(), "dying": dying() }));
    let ran = sandbox.run(&["check"]);
    ran.exits(1)
        .prints("echo")
        .prints("command `no-such-program-anywhere` not found")
        .prints("the server's process ended while starting: exit status 3")
        .prints("stderr     cannot find my database")
        .prints("sh -c 'echo '\\''cannot find my database'\\'' >&2; exit 3'")
        .prints("1 of 3 servers up; down: absent, dying");
    sandbox.assert_nothing_is_left();
}

#[test]
fn the_error_above_a_long_usage_is_the_reason() {
    let sandbox = Sandbox::new();
    let options: String = (0..12)
        .map(|n| format!("  -o{n} string\n\tan option (required)\n"))
        .collect();
    let script =
        format!("cat >&2 <<'END'\nflag provided but not defined: -x\nUsage of srv:\n{options}END\nexit 2\n");
    let file = sandbox.write("srv.sh", &script);
    let server = ["sh", file.to_str().unwrap()];
    let check = [&["check", "--"][..], &server].concat();
    let reason = "; it wrote: flag provided but not defined: -x";
    let child = sandbox.command(&check).env("MAINSTAY_LOG", "warn").spawn();
    finish(child.unwrap())
        .exits(1)
        .says(reason)
        .prints("  stderr     flag provided but not defined: -x\n");

    // What the daemon chose among all lines is not chosen again among those that it reports.
    sandbox.configure(&json!({ "srv": { "command": server[0], "args": [server[1]] } }));
    sandbox.run(&["daemon", "start"]).exits(0);
    sandbox.run(&["tools"]).exits(1).says(reason);
    sandbox
        .run(&["status"])
        .prints("(flag provided but not")
        .prints("  stderr     flag provided but not defined: -x\n");
    sandbox.run(&["daemon", "stop"]).exits(0);
    sandbox.assert_nothing_is_left();
}

#[test]
fn the_exit_code_hangs_on_required_servers_where_there_are_any() {
    let required = |mut server: serde_json::Value| {
        server["required"] = json!(true);
        server
    };
    let code = |servers| Sandbox::with(&servers).run(&["check"]).code;
    assert_eq!(code(json!({ "a": required(good()), "b": missing() })), Some(0));
    assert_eq!(code(json!({ "a": good(), "b": required(missing()) })), Some(1));
    assert_eq!(code(json!({ "a": good(), "b": missing() })), Some(1));
}

#[test]
fn a_disabled_server_is_shown_and_not_missed() {
    let mut disabled = missing();
    disabled["enabled"] = json!(false);
    let sandbox = Sandbox::with(&json!({ "good": good(), "off": disabled }));
    sandbox
        .run(&["check"])
        .exits(0)
        .prints("○  off     disabled")
        .prints("1 of 1 server up");
}

#[test]
fn a_lazy_server_is_woken() {
    let mut lazy = good();
    lazy["lazy"] = json!(true);
    let sandbox = Sandbox::with(&json!({ "lazy": lazy }));
    // The second time its catalog is known, and nothing but a demand starts it.
    for _ in 0..2 {
        let ran = sandbox.run(&["check", "--timeout", "10s"]);
        ran.exits(0).prints("✔  lazy    connected");
    }
}

#[test]
fn a_server_that_fails_twice_and_then_works_is_up() {
    let sandbox = Sandbox::new();
    let tries = sandbox.path("tries");
    let script = format!(
        "echo x >> '{0}'; [ $(wc -l < '{0}') -gt 2 ] && exec '{1}' demo-server; exit 1",
        tries.display(),
        crate::sandbox::MAINSTAY,
    );
    let config = json!({ "mcpServers": { "flaky": shell(&script) } });
    sandbox.write("flaky.json", &config.to_string());
    sandbox
        .run(&["check", "--config", "../flaky.json"])
        .exits(0)
        .prints("✔  flaky");
}

#[test]
fn a_server_that_is_still_starting_at_the_timeout_is_not_up() {
    let sandbox = Sandbox::with(&json!({ "silent": silent() }));
    sandbox
        .run(&["check", "--timeout", "300ms"])
        .exits(1)
        .prints("silent  is not up yet")
        .prints("give it longer with --timeout")
        .prints("0 of 1 server up; not up yet: silent");
    sandbox.assert_nothing_is_left();
}

#[test]
fn elsewhere_than_on_a_terminal_each_change_is_a_line() {
    // The silent server keeps `connecting` in sight: a good one can pass through it between two looks.
    let sandbox = Sandbox::with(&json!({ "good": good(), "silent": silent() }));
    let ran = sandbox.run(&["check", "--timeout", "8s"]);
    ran.says("silent: connecting\n").says("good: connected after ");
    assert!(!ran.stderr.contains("starting, "), "{}", ran.stderr);
    assert!(!ran.stderr.contains('\u{1b}') && !ran.stdout.contains('\u{1b}'));
    let quiet = Sandbox::new().run(&["check", "--quiet"]);
    assert_eq!(quiet.exits(0).stderr, "");
}

#[test]
fn json_has_the_documented_keys_and_no_colour() {
    let sandbox = Sandbox::with(&json!({ "good": good(), "dying": dying() }));
    let ran = sandbox.run(&["check", "--json"]);
    let document = ran.exits(1).json();
    assert!(!ran.stdout.contains('\u{1b}'));
    assert_eq!(document["version"], 1);
    assert_eq!(document["ok"], false);
    assert_eq!(keys(&document), ["configuration", "ok", "servers", "version"]);
    assert_eq!(
        keys(&document["configuration"]),
        [
            "format", "found_by", "not_used", "path", "problems", "refused", "source"
        ]
    );
    let (dying, good) = (&document["servers"][0], &document["servers"][1]);
    let expected = [
        "address",
        "attempt",
        "budget",
        "counts",
        "era",
        "error",
        "fix",
        "generation",
        "listed_at_ms",
        "next_retry_ms",
        "prompts",
        "protocol_version",
        "reason",
        "required",
        "resources",
        "server",
        "set_aside",
        "stale",
        "start",
        "state",
        "stderr",
        "templates",
        "time_ms",
        "title",
        "tools",
        "transport",
        "up",
    ];
    assert_eq!(keys(dying), expected);
    assert_eq!(keys(good), expected);
    assert_eq!(good["state"], "connected");
    assert_eq!(good["tools"][0], "add");
    assert_eq!(dying["up"], false);
    assert_eq!(
        keys(&dying["error"]),
        ["exit_code", "login", "message", "signal", "stderr"]
    );
    assert_eq!(dying["error"]["exit_code"], 3);
    assert_eq!(dying["error"]["stderr"][0], "cannot find my database");
}

#[test]
fn a_server_that_is_still_starting_shows_what_it_does_and_what_it_wrote() {
    let mut busy = shell("echo 'fetching the package' >&2; npx() { while :; do :; done; }; npx");
    busy["startup_timeout"] = json!("2s");
    let sandbox = Sandbox::with(&json!({ "cold": busy }));
    sandbox
        .run(&["check", "--timeout", "6s"])
        .exits(1)
        .says("cold: connecting, installing: sh, ")
        .prints("connecting, installing: sh, ")
        .prints("doing      installing: sh, ")
        .prints("stderr     fetching the package")
        .prints("it is still being installed: give it longer with --timeout");
    let ran = sandbox.run(&["check", "--timeout", "6s", "--json"]);
    let document = ran.json();
    let server = &document["servers"][0];
    assert_eq!(server["start"]["stage"], "installing");
    assert_eq!(server["start"]["program"], "sh");
    assert_eq!(server["stderr"][0], "fetching the package");
    assert_eq!(server["error"], json!(null));
    sandbox.assert_nothing_is_left();
}

#[test]
fn the_program_may_open_as_many_files_as_the_system_allows_and_its_servers_as_many_as_before() {
    // The limit of a child is set just after it has begun.
    let script = "sleep 1; ulimit -Sn >&2; grep 'Max open files' /proc/$PPID/limits >&2; exit 3";
    let sandbox = Sandbox::with(&json!({ "limits": shell(script) }));
    let mut command = std::process::Command::new("sh");
    let check = sandbox.command(&["check"]);
    let limited = format!(
        "ulimit -Sn 200; exec {} check --timeout 30s --json",
        crate::sandbox::MAINSTAY
    );
    command
        .args(["-c", &limited])
        .env_clear()
        .envs(check.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .current_dir(check.get_current_dir().expect("the sandbox"))
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let ran = finish(command.spawn().expect("a shell starts"));
    let stderr = ran.json()["servers"][0]["error"]["stderr"].clone();
    assert_eq!(stderr[0], "200", "{stderr}");
    let limits: Vec<&str> = stderr[1].as_str().expect("a line").split_whitespace().collect();
    // "Max open files SOFT HARD files"
    assert_eq!(limits[3], limits[4], "{limits:?}");
    assert_ne!(limits[3], "200");
}
