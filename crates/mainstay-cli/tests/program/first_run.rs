//! A host that wraps a server for the first time, and what it sees of the server's stderr.

use std::fs;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::Stdio;

use mainstay_testkit::{Fault, FaultyServer, Ledger, Step};
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};

use crate::host::Host;
use crate::sandbox::{MAINSTAY, Sandbox, finish, keys};
use crate::serving::LONG;

/// A shell that writes a coloured line to stderr, and becomes the server that its arguments name.
const SPEAKS: &str = r#"printf '\033[31mup\033[0m\n' >&2; exec "$@""#;

fn initialize() -> Value {
    json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": { "name": "host", "version": "1" },
    })
}

/// Starts the program with these options in front of this server, which a shell starts with this script.
fn speaking(sandbox: &Sandbox, options: &[&str], server: &FaultyServer) -> Host {
    let (command, args) = (server.command(), server.args());
    let mut line = vec!["wrap"];
    line.extend(options);
    line.extend(["--", "sh", "-c", SPEAKS, "sh", &command]);
    line.extend(args.iter().map(String::as_str));
    Host::start(sandbox, &line)
}

#[test]
fn a_wrapped_server_introduces_itself_however_long_it_takes_to_start() {
    let sandbox = Sandbox::new();
    let go = sandbox.path("go");
    let script = format!(
        "while [ ! -e '{}' ]; do sleep 0.02; done; exec '{MAINSTAY}' demo-server",
        go.display()
    );
    let mut host = Host::silent(&sandbox, &["wrap", "--", "sh", "-c", &script]);
    let greeting = host.begin("initialize", &initialize());
    host.ask("ping", &json!({}));
    assert!(host.answered(greeting).is_none(), "it has not started yet");
    fs::write(go, "").unwrap();
    let about = host.answer(greeting)["result"].clone();
    let mut direct = Host::silent(&sandbox, &["demo-server"]);
    let expected = direct.ask("initialize", &initialize())["result"].clone();
    for said in ["serverInfo", "instructions"] {
        assert_eq!(about[said], expected[said], "{about}");
    }
    assert_eq!(
        keys(&about["capabilities"]),
        keys(&expected["capabilities"]),
        "{about}"
    );
    assert!(host.tools().contains(&"echo".to_owned()));
    direct.leave().exits(0);
    host.leave().exits(0);
    sandbox.assert_nothing_is_left();
}

#[test]
fn a_wrapped_server_that_cannot_start_fails_its_host_with_the_reason() {
    let dying = "echo 'cannot find my database' >&2; exit 3";
    for (command, reasons) in [
        (
            vec!["no-such-program-anywhere"],
            ["no-such-program-anywhere", "not tried again"],
        ),
        (
            vec!["sh", "-c", dying],
            ["exit status 3", "cannot find my database"],
        ),
    ] {
        for (method, params) in [("initialize", initialize()), ("tools/list", json!({}))] {
            let sandbox = Sandbox::new();
            let mut line = vec!["wrap", "--no-stderr", "--name", "files", "--"];
            line.extend(&command);
            let mut host = Host::silent(&sandbox, &line);
            let answer = host.ask(method, &params);
            let message = answer["error"]["message"].as_str().unwrap_or_default();
            assert!(message.starts_with("Server files "), "{method}: {answer}");
            for reason in reasons {
                assert!(message.contains(reason), "{reason} is not in {message}");
            }
            assert_eq!(answer["error"]["data"]["mainstay"]["server"], "files");
            host.leave().exits(0);
            sandbox.assert_nothing_is_left();
        }
    }
}

#[test]
fn the_first_list_after_a_server_was_upgraded_is_the_new_one() {
    let sandbox = Sandbox::new();
    let named = |name: &str| json!([{ "name": name, "inputSchema": { "type": "object" } }]).to_string();
    let file = sandbox.write("tools.json", &named("old"));
    let server = FaultyServer::new().script(|script| script.tools_file(&file));
    for name in ["old", "new"] {
        fs::write(&file, named(name)).unwrap();
        let mut host = speaking(&sandbox, &[], &server);
        assert_eq!(host.tools(), [name]);
        host.leave().exits(0);
    }
}

#[test]
fn a_host_reads_what_its_wrapped_server_writes_to_stderr_and_again_after_a_restart() {
    let coloured = "\u{1b}[31mup\u{1b}[0m\n";
    for (options, expected) in [
        (vec![], coloured.repeat(2)),
        (
            vec!["--stderr-prefix", "--name", "files"],
            format!("files: {coloured}").repeat(2),
        ),
        (vec!["--no-stderr"], String::new()),
    ] {
        let (sandbox, ledger) = (Sandbox::new(), Ledger::temporary());
        let mut host = speaking(&sandbox, &options, &FaultyServer::new().ledger(&ledger));
        host.call("echo", &json!({}));
        let pid = *ledger.pids().last().expect("a server runs");
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
        assert!(ledger.wait_for(|ledger| ledger.pids().len() == 2, LONG));
        host.call("echo", &json!({}));
        let ran = host.leave();
        ran.exits(0);
        assert_eq!(ran.stderr, expected, "{options:?}");
        sandbox.assert_nothing_is_left();
    }
}

#[test]
fn what_a_wrapped_server_writes_to_stderr_cannot_drive_a_terminal() {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let terminal = open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let sandbox = Sandbox::new();
    let mut child = sandbox
        .command(&["wrap", "--", "sh", "-c", SPEAKS, "sh", MAINSTAY, "demo-server"])
        .stdin(Stdio::piped())
        .stderr(Stdio::from(terminal))
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().expect("piped");
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize() });
    writeln!(input, "{request}").unwrap();
    let mut first = [0; 1];
    child
        .stdout
        .as_mut()
        .expect("piped")
        .read_exact(&mut first)
        .unwrap();
    drop(input);
    finish(child).exits(0);
    let mut screen = Vec::new();
    // A terminal that nobody holds open any more reads as an error, not as an end.
    let _ = File::from(master).read_to_end(&mut screen);
    let screen = String::from_utf8(screen).unwrap();
    assert!(
        screen.starts_with("up\r\n") && !screen.contains('\u{1b}'),
        "{screen:?}"
    );
}

#[test]
fn a_host_that_does_not_read_stderr_holds_up_neither_the_server_nor_its_own_calls() {
    let sandbox = Sandbox::new();
    let flood = FaultyServer::new().on(Step::Call, Fault::FillStderr(4_000_000));
    let mut host = speaking(&sandbox, &[], &flood);
    for round in 1..=3 {
        let result = host.call("echo", &json!({ "round": round }));
        assert_eq!(result["structuredContent"]["round"], round);
    }
    let ran = host.leave();
    ran.exits(0);
    assert!(ran.stderr.len() < 12_000_000, "nothing was dropped");
    sandbox.assert_nothing_is_left();
}

#[test]
fn a_wrapped_server_that_is_told_to_end_ends_without_a_word() {
    let sandbox = Sandbox::new();
    let mut host = Host::start(&sandbox, &["wrap", "--", MAINSTAY, "demo-server"]);
    host.tools();
    kill_process(Pid::from_child(&host.child), Signal::TERM).unwrap();
    let ran = finish(host.child);
    ran.exits(143);
    assert_eq!(ran.stderr, "");
    sandbox.assert_nothing_is_left();
}
