//! Each test provokes one finding with real files, processes and limits, and reads what the program says about it.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use mainstay_testkit::procfs::is_alive;
use mainstay_testkit::{Fault, FaultyServer, Ledger, Step, poll};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::sandbox::{MAINSTAY, Ran, Sandbox, finish, good, keys};

/// What the check of this name found.
#[track_caller]
fn findings(document: &Value, check: &str) -> Vec<Value> {
    let checks = document["checks"].as_array().expect("a list of checks");
    let found = checks.iter().find(|found| found["check"] == check);
    let found = found.unwrap_or_else(|| panic!("no check {check} in {document:#}"));
    found["findings"].as_array().expect("a list of findings").clone()
}

/// The one finding of a check that is a problem, which must be about this subject.
#[track_caller]
fn problem(document: &Value, check: &str, subject: &str) -> (String, String) {
    let found = findings(document, check);
    let about = found
        .iter()
        .find(|finding| finding["level"] == "problem" && finding["subject"] == subject);
    let about = about.unwrap_or_else(|| panic!("nothing about {subject} in {found:#?}"));
    let text = |key: &str| about[key].as_str().expect("a text").to_owned();
    (text("problem"), text("remedy"))
}

fn script(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs the doctor on a port of its own, which is free.
fn doctor(sandbox: &Sandbox) -> Ran {
    let mut command = sandbox.command(&["doctor", "--json", "--listen", "127.0.0.1:0"]);
    finish(
        command
            .env("MAINSTAY_RUNTIME", sandbox.path("run"))
            .spawn()
            .unwrap(),
    )
}

#[test]
fn where_all_is_well_every_check_says_so() {
    let sandbox = Sandbox::with(&json!({ "good": good() }));
    let ran = doctor(&sandbox);
    let document = ran.json();
    assert_eq!(keys(&document), ["checks", "ok", "version"]);
    let checks = document["checks"].as_array().unwrap();
    // Other tests may leave orphans for a moment; they are another test's subject.
    for check in checks.iter().filter(|check| check["check"] != "orphans") {
        assert_eq!(keys(check), ["check", "findings", "ok", "summary"]);
        assert_eq!(check["ok"], true, "{check:#}");
        assert_eq!(check["findings"], json!([]), "{check:#}");
        assert_ne!(check["summary"], "", "{check:#}");
    }
    let ok = document["ok"].as_bool().unwrap();
    ran.exits(if ok { 0 } else { 1 });
    assert!(!sandbox.path("home/.cache").exists(), "it changes nothing");
}

#[test]
fn a_program_outside_of_the_path_is_found_where_version_managers_put_it() {
    let sandbox = Sandbox::with(&json!({
        "web": { "command": "no-such-npx", "args": ["-y", "x"] },
        "gone": { "command": "no-such-program-anywhere" },
        "off": { "command": "no-such-program-either", "enabled": false },
    }));
    script(
        &sandbox.path("home/.nvm/versions/node/v9.0.0/bin/no-such-npx"),
        "",
    );
    let newest = sandbox.path("home/.nvm/versions/node/v20.1.0/bin/no-such-npx");
    script(&newest, "");
    let ran = doctor(&sandbox);
    let document = ran.exits(1).json();
    let (said, remedy) = problem(&document, "commands", "web");
    assert_eq!(said, "the program \"no-such-npx\" is not in PATH");
    assert!(remedy.contains(newest.to_str().unwrap()), "{remedy}");
    let path = format!(r#""PATH": "{}:${{PATH}}""#, newest.parent().unwrap().display());
    assert!(remedy.contains(&path), "{remedy}");
    let (_, remedy) = problem(&document, "commands", "gone");
    assert!(remedy.contains("install it"), "{remedy}");
    assert_eq!(
        findings(&document, "commands").len(),
        2,
        "a disabled server is not looked at"
    );
    // The remedy works as it is written.
    let env = json!({ "PATH": format!("{}:${{PATH}}", newest.parent().unwrap().display()) });
    sandbox.configure(&json!({ "web": { "command": "no-such-npx", "env": env } }));
    assert_eq!(findings(&doctor(&sandbox).json(), "commands"), [] as [Value; 0]);
}

#[test]
fn a_path_that_leads_nowhere_and_a_file_that_cannot_be_run_are_found() {
    let sandbox = Sandbox::new();
    let plain = sandbox.write("plain.py", "print()");
    sandbox.configure(&json!({
        "nowhere": { "command": "/nowhere/sh" },
        "plain": { "command": plain },
        "homeless": { "command": MAINSTAY, "cwd": "/no/such/directory" },
    }));
    let document = doctor(&sandbox).exits(1).json();
    let (said, remedy) = problem(&document, "commands", "nowhere");
    assert_eq!(said, "there is no program at \"/nowhere/sh\"");
    assert!(remedy.starts_with("it is at /"), "{remedy}");
    let (said, remedy) = problem(&document, "commands", "plain");
    assert!(
        said.ends_with("is not executable") && remedy.contains("chmod +x"),
        "{said}; {remedy}"
    );
    let (said, _) = problem(&document, "commands", "homeless");
    assert!(said.contains("/no/such/directory"), "{said}");
}

#[test]
fn a_runtime_that_is_too_old_missing_or_broken_is_found() {
    let sandbox = Sandbox::new();
    let path = |name: &str| sandbox.path(name).to_str().unwrap().to_owned();
    script(&sandbox.path("old/node"), "#!/bin/sh\necho v16.20.2\n");
    script(&sandbox.path("old/npx"), "#!/bin/sh\n");
    script(&sandbox.path("old/python3"), "#!/bin/sh\necho Python 3.9.1\n");
    script(&sandbox.path("bare/npx"), "#!/bin/sh\n");
    script(&sandbox.path("broken/node"), "#!/bin/sh\nexit 127\n");
    script(&sandbox.path("new/python3"), "#!/bin/sh\necho Python 3.10.0\n");
    sandbox.configure(&json!({
        "old": { "command": "npx", "env": { "PATH": path("old") } },
        "snake": { "command": path("old/python3") },
        "bare": { "command": "npx", "env": { "PATH": path("bare") } },
        "broken": { "command": "node", "env": { "PATH": path("broken") } },
        "new": { "command": "python3", "env": { "PATH": path("new") } },
    }));
    let document = doctor(&sandbox).exits(1).json();
    let (said, remedy) = problem(&document, "runtimes", "old");
    let expected = format!(
        "{} is Node.js 16.20.2; the SDK of MCP needs 18 or newer",
        path("old/node")
    );
    assert_eq!(said, expected);
    assert!(remedy.contains("newer Node.js"), "{remedy}");
    let (said, _) = problem(&document, "runtimes", "snake");
    assert!(
        said.contains("is Python 3.9.1; the SDK of MCP needs 3.10 or newer"),
        "{said}"
    );
    let (said, _) = problem(&document, "runtimes", "bare");
    assert_eq!(said, "Node.js is not in PATH");
    let (said, _) = problem(&document, "runtimes", "broken");
    assert!(said.ends_with("does not say its version"), "{said}");
    assert_eq!(findings(&document, "runtimes").len(), 4);
}

#[test]
fn a_runtime_that_hangs_does_not_hang_the_doctor() {
    let sandbox = Sandbox::new();
    script(&sandbox.path("slow/node"), "#!/bin/sh\nexec sleep 600\n");
    let path = format!("{}:/usr/bin:/bin", sandbox.path("slow").display());
    sandbox.configure(&json!({ "slow": { "command": "node", "env": { "PATH": path } } }));
    let document = doctor(&sandbox).exits(1).json();
    problem(&document, "runtimes", "slow");
    sandbox.assert_nothing_is_left();
}

#[test]
fn a_port_that_is_taken_names_the_process_that_has_it() {
    let sandbox = Sandbox::with(&json!({ "good": good() }));
    for any in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(taken) = TcpListener::bind(any) else {
            eprintln!("skipped: there is no {any}");
            continue;
        };
        let address = taken.local_addr().unwrap().to_string();
        let ran = sandbox.run(&["doctor", "--json", "--listen", &address]);
        let (said, remedy) = problem(&ran.exits(1).json(), "port", &address);
        assert!(
            said.contains(&format!("(process {})", std::process::id())),
            "{said}"
        );
        assert!(remedy.contains("--listen"), "{remedy}");
    }
}

#[test]
fn an_address_of_another_machine_is_found() {
    let sandbox = Sandbox::with(&json!({ "good": good() }));
    let ran = sandbox.run(&["doctor", "--json", "--listen", "192.0.2.1:7332"]);
    let (said, _) = problem(&ran.exits(1).json(), "port", "192.0.2.1:7332");
    assert_eq!(said, "this machine does not have that address");
}

#[test]
fn a_cache_that_cannot_be_written_is_found() {
    let sandbox = Sandbox::with(&json!({ "good": good() }));
    let file = sandbox.write("a-file", "");
    let cache = file.join("cache");
    let mut command = sandbox.command(&["doctor", "--json", "--listen", "127.0.0.1:0"]);
    let ran = finish(command.env("MAINSTAY_CACHE", &cache).spawn().unwrap());
    let (said, remedy) = problem(&ran.exits(1).json(), "cache", cache.to_str().unwrap());
    assert!(said.contains("is not a directory"), "{said}");
    assert!(remedy.contains("MAINSTAY_CACHE"), "{remedy}");
}

#[test]
fn a_socket_that_a_dead_daemon_left_and_a_directory_that_others_can_write_to_are_found() {
    let sandbox = Sandbox::with(&json!({ "good": good() }));
    let runtime = sandbox.path("run");
    let examine = || {
        let mut command = sandbox.command(&["doctor", "--json", "--listen", "127.0.0.1:0"]);
        finish(command.env("MAINSTAY_RUNTIME", &runtime).spawn().unwrap()).json()
    };
    assert_eq!(findings(&examine(), "daemon socket"), [] as [Value; 0]);
    assert!(!runtime.exists(), "it changes nothing");
    fs::create_dir(&runtime).unwrap();
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700)).unwrap();
    let socket = runtime.join("daemon.sock");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert_eq!(
        findings(&examine(), "daemon socket"),
        [] as [Value; 0],
        "it listens"
    );
    drop(listener);
    let found = findings(&examine(), "daemon socket");
    assert_eq!(found[0]["level"], "hint", "the next daemon replaces it");
    assert_eq!(found[0]["problem"], "a daemon that died left its socket");
    fs::remove_file(&socket).unwrap();
    fs::write(&socket, "").unwrap();
    let (said, remedy) = problem(&examine(), "daemon socket", socket.to_str().unwrap());
    assert!(
        said.contains("something else") && remedy.contains("rm "),
        "{said}; {remedy}"
    );
    fs::remove_file(&socket).unwrap();
    fs::create_dir(&socket).unwrap();
    let (_, remedy) = problem(&examine(), "daemon socket", socket.to_str().unwrap());
    assert!(remedy.contains("rm -r "), "{remedy}");
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o777)).unwrap();
    let (said, remedy) = problem(&examine(), "daemon socket", "runtime directory");
    assert!(said.contains("other users can write to"), "{said}");
    assert!(remedy.contains("chmod 700"), "{remedy}");
}

#[test]
fn mistakes_of_the_configuration_and_variables_that_are_not_set_are_found() {
    let sandbox = Sandbox::with(&json!({
        "token": { "url": "https://example.com/mcp", "bearer_token_env": "NO_SUCH_TOKEN" },
        "variable": { "command": MAINSTAY, "args": ["${NO_SUCH_VARIABLE}"] },
        "typo": { "command": MAINSTAY, "retsart": "never" },
    }));
    let document = doctor(&sandbox).exits(1).json();
    let found = findings(&document, "configuration");
    let said = |level: &str, text: &str| {
        found.iter().any(|finding| {
            finding["level"] == level
                && finding["problem"].as_str().unwrap().contains(text)
                && finding["remedy"] != ""
        })
    };
    assert!(said("problem", "NO_SUCH_TOKEN is not set"), "{found:#?}");
    assert!(said("problem", "NO_SUCH_VARIABLE is not set"), "{found:#?}");
    assert!(said("hint", "mcpServers.typo.retsart: unknown key"), "{found:#?}");
    sandbox.write("home/.config/mainstay/mcp.json", "{ half");
    let document = doctor(&sandbox).exits(1).json();
    let (said, _) = problem(&document, "configuration", "configuration");
    assert!(
        said.contains("mcp.json:1:") && said.contains("not JSON"),
        "{said}"
    );
}

#[test]
fn too_few_open_files_are_found() {
    let servers: serde_json::Map<_, _> = (0..40).map(|n| (format!("s{n}"), good())).collect();
    let sandbox = Sandbox::with(&Value::Object(servers));
    let mut shell = Command::new("sh");
    let child = shell
        .args([
            "-c",
            "ulimit -n 200 && exec \"$0\" doctor --json --listen 127.0.0.1:0",
            MAINSTAY,
        ])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", sandbox.path("home"))
        .current_dir(sandbox.path("work"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let ran = finish(child.unwrap());
    let (said, remedy) = problem(&ran.exits(1).json(), "open files", "open files");
    assert_eq!(
        said,
        "the hard limit is 200; the program and its servers need about 328"
    );
    assert!(remedy.contains("LimitNOFILE="), "{remedy}");
}

#[test]
fn too_few_watches_of_files_are_found() {
    let sandbox = Sandbox::with(&json!({ "good": good() }));
    // A user namespace has limits of its own, which its root may set.
    for (setting, says) in [
        ("max_inotify_instances", "no inotify instance left"),
        ("max_inotify_watches", "no inotify watch left"),
    ] {
        let set =
            format!("echo 0 > /proc/sys/user/{setting} && exec \"$0\" doctor --json --listen 127.0.0.1:0");
        let mut unshare = Command::new("unshare");
        let child = unshare
            .args(["--user", "--map-root-user", "sh", "-c", &set, MAINSTAY])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", sandbox.path("home"))
            .current_dir(sandbox.path("work"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let Ok(child) = child else {
            eprintln!("skipped: there is no unshare");
            return;
        };
        let ran = finish(child);
        if ran.stdout.is_empty() {
            eprintln!("skipped: no user namespace can be made: {}", ran.stderr);
            return;
        }
        let (said, remedy) = problem(&ran.exits(1).json(), "file watches", "inotify");
        assert!(said.contains(says), "{said}");
        assert!(remedy.contains("sysctl"), "{remedy}");
    }
}

#[test]
fn processes_that_outlived_their_program_are_found_and_those_of_a_live_one_are_not() {
    let ledger = Ledger::temporary();
    let stubborn = FaultyServer::new().ledger(&ledger).on(Step::Eof, Fault::Hang);
    let sandbox = Sandbox::with(&json!({
        "stubborn": { "command": stubborn.command(), "args": stubborn.args(), "era": "legacy" },
    }));
    let mut program = sandbox
        .command(&["serve", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let server = wait_for(|| ledger.pids().first().copied());
    let subject = format!("process {server}");
    let is_found = |document: &Value| {
        findings(document, "orphans")
            .iter()
            .any(|finding| finding["subject"] == json!(subject))
    };
    assert!(!is_found(&doctor(&sandbox).json()), "its program lives");
    // The guardian would end the server, so it is killed first, while the program cannot replace it.
    let guardian = wait_for(|| child_named(program.id(), "mainstay-guardian"));
    signal(i32::try_from(program.id()).unwrap(), Signal::STOP);
    signal(guardian, Signal::KILL);
    assert!(
        !is_found(&doctor(&sandbox).json()),
        "its program lives, without a guardian"
    );
    program.kill().unwrap();
    program.wait().unwrap();
    let document = doctor(&sandbox).json();
    if !is_found(&document) && !is_alive(server) {
        eprintln!("skipped: a program of another test has ended the server already");
        return;
    }
    let (said, remedy) = problem(&document, "orphans", &subject);
    assert!(
        said.contains("was started by a Mainstay program that is gone"),
        "{said}"
    );
    assert_eq!(
        remedy,
        format!("the next server that Mainstay starts ends it, or end it now: `kill {server}`")
    );
    // It may have been ended meanwhile.
    let _ = kill_process(Pid::from_raw(server).unwrap(), Signal::KILL);
    sandbox.assert_nothing_is_left();
}

#[test]
fn a_host_that_starts_a_missing_or_an_old_mainstay_is_found() {
    let sandbox = Sandbox::with(&json!({ "good": good() }));
    let old = sandbox.path("old/mainstay");
    script(&old, "#!/bin/sh\necho mainstay 0.0.9\n");
    let servers = json!({ "mcpServers": {
        "gone": { "command": "/no/longer/here/mainstay", "args": ["connect", "--", "npx"], "env": { "T": "${NOT_SET}" } },
        "old": { "command": old, "args": ["wrap", "npx"] },
        "fine": { "command": MAINSTAY, "args": ["connect"] },
        "other": { "command": "/no/longer/here/another" },
    } });
    sandbox.write("home/.cursor/mcp.json", &servers.to_string());
    sandbox.write("home/.codex/config.toml", "model = \"x\"\n");
    sandbox.write("home/.gemini/settings.json", "{ half");
    let document = doctor(&sandbox).exits(1).json();
    let (said, remedy) = problem(&document, "hosts", "Cursor (gone)");
    assert!(
        said.contains("\"/no/longer/here/mainstay\", which is not there"),
        "{said}"
    );
    assert!(remedy.contains(MAINSTAY), "{remedy}");
    let (said, _) = problem(&document, "hosts", "Cursor (old)");
    assert!(said.contains("older than this program"), "{said}");
    let found = findings(&document, "hosts");
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(found.iter().any(|finding| {
        finding["level"] == "hint"
            && finding["subject"]
                .as_str()
                .unwrap()
                .ends_with(".gemini/settings.json")
    }));
}

#[test]
fn no_program_of_a_project_is_run() {
    let sandbox = Sandbox::with(&json!({
        "relative": { "command": "./x/python3" },
        "in the path": { "command": "node", "env": { "PATH": "x:/usr/bin:/bin" } },
    }));
    let left_behind = sandbox.path("left-behind");
    let hostile = format!(
        "#!/bin/sh\necho ran >> {}\necho mainstay 0.0.9\n",
        left_behind.display()
    );
    for name in ["mainstay", "python3", "node"] {
        script(&sandbox.path("work/x").join(name), &hostile);
    }
    let directory = sandbox.path("work/x");
    let servers = json!({ "mcpServers": {
        "relative": { "command": "./x/mainstay" },
        "absolute": { "command": directory.join("mainstay") },
        "by path": { "command": "mainstay", "env": { "PATH": directory } },
        "gone": { "command": "./no/mainstay" },
        "fine": { "command": MAINSTAY },
    } });
    sandbox.write("work/.mcp.json", &servers.to_string());
    sandbox.write("work/.cursor/mcp.json", &servers.to_string());
    // A relative path in a file of the user leads into the project, too.
    let relative = json!({ "mcpServers": { "relative": { "command": "./x/mainstay" } } });
    sandbox.write("home/.gemini/settings.json", &relative.to_string());
    let document = doctor(&sandbox).exits(1).json();
    assert!(
        !left_behind.exists(),
        "a program of the project ran: {document:#}"
    );
    let found = findings(&document, "hosts");
    let about = |level: &str, subject: &str| {
        let same = |finding: &&Value| finding["level"] == level && finding["subject"] == subject;
        found.iter().find(same).is_some()
    };
    for host in ["Claude Code", "Cursor"] {
        for server in ["relative", "absolute", "by path"] {
            assert!(about("hint", &format!("{host} ({server})")), "{found:#?}");
        }
        assert!(about("problem", &format!("{host} (gone)")), "{found:#?}");
    }
    assert!(about("hint", "Gemini CLI (relative)"), "{found:#?}");
    assert_eq!(found.len(), 9, "{found:#?}");
}

#[test]
fn a_person_reads_the_same() {
    let sandbox = Sandbox::with(&json!({ "gone": { "command": "no-such-program\u{1b}[2J" } }));
    let ran = sandbox.run(&["doctor", "--listen", "127.0.0.1:0"]);
    ran.exits(1)
        .prints("✘ commands")
        .prints("→ install it, or write its whole path")
        .prints("✔ port");
    assert!(!ran.stdout.contains('\u{1b}'), "{:?}", ran.stdout);
}

fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// The child of a process that has this argument.
fn child_named(parent: u32, argument: &str) -> Option<i32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.find(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let is_child = after_name.split_whitespace().nth(1) == Some(parent.to_string().as_str());
        let arguments = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        is_child && arguments.split('\0').any(|found| found == argument)
    })
}

/// Waits until something is there.
fn wait_for<T>(look: impl FnMut() -> Option<T>) -> T {
    poll::look_for(poll::LIMIT, look).expect("it does not come")
}
