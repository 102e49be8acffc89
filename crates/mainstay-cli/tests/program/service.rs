//! The service: its files, whether they may be replaced, and the socket that a service manager passes.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use mainstay_testkit::http::Port;
use mainstay_testkit::poll;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::daemon::wait_until;
use crate::sandbox::{MAINSTAY, Ran, Sandbox, finish, good};

const UNITS: &str = "home/.config/systemd/user";

/// Runs the program without a session of systemd, as over ssh.
fn service(sandbox: &Sandbox, arguments: &[&str]) -> Ran {
    let mut command = sandbox.command(&[&["service", "--manager", "systemd"], arguments].concat());
    let runtime = sandbox.path("run");
    fs::create_dir_all(&runtime).unwrap();
    command.env("MAINSTAY_RUNTIME", runtime);
    finish(command.spawn().unwrap())
}

fn unit(sandbox: &Sandbox, name: &str) -> PathBuf {
    sandbox.path(UNITS).join(name)
}

#[test]
fn a_dry_run_prints_the_units_and_writes_nothing() {
    let sandbox = Sandbox::new();
    let ran = service(&sandbox, &["install", "--dry-run", "--config", "my servers.json"]);
    let config = sandbox.path("work/my servers.json");
    ran.exits(0)
        .prints("ListenStream=%t/mainstay/daemon.sock")
        .prints(&format!(
            "ExecStart={MAINSTAY} daemon run --socket-on-stdin --config \"{}\"",
            config.display()
        ))
        .prints("Environment=PATH=")
        .prints("run systemctl --user enable --now mainstay.socket");
    assert!(!sandbox.path("home/.config").exists());
    service(&sandbox, &["uninstall", "--dry-run"]).exits(0);
}

#[test]
fn the_configuration_that_the_environment_names_is_written_into_the_unit() {
    let sandbox = Sandbox::new();
    let install = |arguments: &[&str]| {
        let words = [
            &["service", "--manager", "systemd", "install", "--dry-run"],
            arguments,
        ]
        .concat();
        let mut command = sandbox.command(&words);
        command.env("MAINSTAY_CONFIG", "of-environment.json");
        finish(command.spawn().unwrap())
    };
    let named = |file: &str| {
        let path = sandbox.path("work").join(file);
        format!("daemon run --socket-on-stdin --config {}\n", path.display())
    };
    install(&[]).exits(0).prints(&named("of-environment.json"));
    install(&["--config", "of-flag.json"])
        .exits(0)
        .prints(&named("of-flag.json"));
}

#[test]
fn without_a_manager_the_units_are_written_and_the_commands_are_said() {
    let sandbox = Sandbox::new();
    service(&sandbox, &["status"]).exits(1).prints("not installed");
    let ran = service(&sandbox, &["install"]);
    ran.exits(1)
        .prints(&format!(
            "written {}",
            unit(&sandbox, "mainstay.service").display()
        ))
        .says("warning: `systemctl --user daemon-reload` failed")
        .says("systemctl --user enable --now mainstay.socket");
    service(&sandbox, &["status"])
        .exits(0)
        .prints("mainstay.socket: installed")
        .prints("mainstay.service: installed");
    service(&sandbox, &["install"]).prints("unchanged");
    service(&sandbox, &["uninstall"]).prints("removed");
    assert!(!unit(&sandbox, "mainstay.service").exists() && !unit(&sandbox, "mainstay.socket").exists());
    service(&sandbox, &["uninstall"]).exits(0).says("not installed");
}

#[test]
fn a_unit_that_a_person_changed_is_replaced_and_removed_only_with_force() {
    let sandbox = Sandbox::new();
    service(&sandbox, &["install"]);
    let path = unit(&sandbox, "mainstay.service");
    let mine = fs::read_to_string(&path).unwrap() + "Nice=5\n";
    fs::write(&path, &mine).unwrap();
    for action in ["install", "uninstall"] {
        service(&sandbox, &[action])
            .exits(1)
            .says("was changed by hand, so it stays as it is")
            .says("--force");
        assert_eq!(fs::read_to_string(&path).unwrap(), mine);
    }
    service(&sandbox, &["status"]).exits(1).prints("changed by hand");
    service(&sandbox, &["install", "--force"]).prints("replaced");
    assert!(!fs::read_to_string(&path).unwrap().contains("Nice=5"));
    fs::write(&path, &mine).unwrap();
    service(&sandbox, &["uninstall", "--force"]);
    assert!(!path.exists());
}

#[test]
fn a_unit_of_an_earlier_place_is_renewed_and_a_program_that_is_gone_is_said() {
    let sandbox = Sandbox::new();
    let elsewhere = sandbox.path("bin/mainstay");
    fs::create_dir_all(elsewhere.parent().unwrap()).unwrap();
    fs::copy(MAINSTAY, &elsewhere).unwrap();
    let install = |program: &Path| {
        let mut command = Command::new(program);
        let command = command
            .args(["service", "--manager", "systemd", "install"])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", sandbox.path("home"))
            .env("MAINSTAY_RUNTIME", sandbox.path("run"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        finish(command.spawn().unwrap())
    };
    install(&elsewhere).prints("written");
    fs::remove_file(&elsewhere).unwrap();
    service(&sandbox, &["status"])
        .exits(1)
        .prints("from another place")
        .says(&format!(
            "it starts {}, which does not exist",
            elsewhere.display()
        ));
    install(Path::new(MAINSTAY)).prints("replaced");
}

#[test]
fn systemd_accepts_the_units() {
    let sandbox = Sandbox::new();
    service(&sandbox, &["install"]);
    let verify = Command::new("systemd-analyze")
        .args(["--user", "--man=no", "verify"])
        .args([
            unit(&sandbox, "mainstay.service"),
            unit(&sandbox, "mainstay.socket"),
        ])
        .env("XDG_RUNTIME_DIR", sandbox.path("run"))
        .env("HOME", sandbox.path("home"))
        .output();
    let Ok(verify) = verify else {
        eprintln!("skipped: there is no systemd-analyze");
        return;
    };
    let said = String::from_utf8_lossy(&verify.stderr);
    let about_us: Vec<_> = said.lines().filter(|line| line.contains("mainstay")).collect();
    assert!(verify.status.success() && about_us.is_empty(), "{said}");
}

#[test]
fn the_property_list_says_what_is_started() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(&[
        "service",
        "--manager",
        "launchd",
        "install",
        "--config",
        "a & <b>.json",
    ]);
    let ran = finish(
        command
            .env("PATH", "/usr/bin:/opt/a&b")
            .env("MAINSTAY_RUNTIME", sandbox.path("run"))
            .spawn()
            .unwrap(),
    );
    // There is no launchctl here.
    if !cfg!(target_os = "macos") {
        ran.exits(1).says("launchctl bootstrap gui/");
    }
    let file = sandbox.path("home/Library/LaunchAgents/io.github.mainstay-mcp.mainstay.plist");
    let list = plist::Value::from_file(&file).unwrap();
    let list = list.as_dictionary().unwrap();
    let arguments: Vec<_> = list["ProgramArguments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|word| word.as_string().unwrap().to_owned())
        .collect();
    let config = sandbox.path("work/a & <b>.json").display().to_string();
    assert_eq!(
        arguments,
        [MAINSTAY, "daemon", "run", "--at-login", "--config", &config]
    );
    let path = &list["EnvironmentVariables"].as_dictionary().unwrap()["PATH"];
    assert_eq!(path.as_string(), Some("/usr/bin:/opt/a&b"));
    assert_eq!(list["RunAtLoad"].as_boolean(), Some(true));
    let keep_alive = list["KeepAlive"].as_dictionary().unwrap();
    assert_eq!(keep_alive["SuccessfulExit"].as_boolean(), Some(false));
}

/// A daemon with the socket as its standard input, as systemd starts it. It runs.
fn activated(sandbox: &Sandbox, socket: &UnixListener) -> Child {
    let mut command = sandbox.command(&["daemon", "run", "--socket-on-stdin"]);
    let daemon = command
        .env("MAINSTAY_RUNTIME", sandbox.path("run"))
        .stdin(Stdio::from(OwnedFd::from(socket.try_clone().unwrap())))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the daemon runs", || daemon_status(sandbox).code == Some(0));
    daemon
}

fn daemon_status(sandbox: &Sandbox) -> Ran {
    let mut command = sandbox.command(&["daemon", "status", "--json"]);
    let child = command.env("MAINSTAY_RUNTIME", sandbox.path("run")).spawn();
    finish(child.unwrap())
}

fn runtime(sandbox: &Sandbox) -> PathBuf {
    let runtime = sandbox.path("run");
    fs::DirBuilder::new().mode(0o700).create(&runtime).unwrap();
    runtime
}

#[test]
fn the_daemon_serves_the_socket_that_it_inherits_and_leaves_it_behind() {
    let sandbox = Sandbox::with(&json!({ "good": good() }));
    let path = runtime(&sandbox).join("daemon.sock");
    let socket = UnixListener::bind(&path).unwrap();
    // A client that connects first waits in the socket's queue.
    let waiting = UnixStream::connect(&path).unwrap();
    for _ in 0..2 {
        let mut daemon = activated(&sandbox, &socket);
        assert_eq!(
            daemon_status(&sandbox).exits(0).json()["daemon"]["pid"],
            daemon.id()
        );
        kill_process(Pid::from_child(&daemon), Signal::TERM).unwrap();
        let ended = daemon.wait().unwrap();
        assert!(ended.success(), "{ended}");
        assert!(path.exists(), "the manager keeps its socket");
        UnixStream::connect(&path).expect("clients wait for the next daemon");
    }
    drop(waiting);
    sandbox.assert_nothing_is_left();
}

#[test]
fn a_daemon_that_is_started_by_hand_leaves_the_managers_socket_alone() {
    let sandbox = Sandbox::with(&json!({ "good": good() }));
    let path = runtime(&sandbox).join("daemon.sock");
    let socket = UnixListener::bind(&path).unwrap();
    let begin = |words: &[&str]| {
        let mut command = sandbox.command(words);
        let command = command.env("MAINSTAY_RUNTIME", sandbox.path("run"));
        command.spawn().unwrap()
    };
    let command = |words: &[&str]| finish(begin(words));
    let starting = begin(&["daemon", "start"]);
    // What the manager does when a client connects.
    let mut daemon = activated(&sandbox, &socket);
    finish(starting).exits(0).says("a daemon runs already");
    let is_current = |daemon: &Child| {
        let status = daemon_status(&sandbox);
        assert_eq!(status.exits(0).json()["daemon"]["pid"], daemon.id());
    };
    is_current(&daemon);
    // The manager would start one without these options.
    for action in ["start", "restart"] {
        command(&["daemon", action, "--idle", "never"])
            .exits(1)
            .says("--idle does not apply to it")
            .says("systemctl --user edit mainstay.service");
        is_current(&daemon);
    }
    command(&["daemon", "restart"])
        .exits(0)
        .says("the service manager that listens on its socket starts the next one");
    assert!(daemon.wait().unwrap().success(), "it made way for the next");
    let mut next = activated(&sandbox, &socket);
    is_current(&next);
    command(&["daemon", "stop"]).exits(0);
    assert!(next.wait().unwrap().success());
    sandbox.assert_nothing_is_left();
}

#[test]
fn commands_to_the_daemon_do_not_start_one_through_the_managers_socket() {
    let sandbox = Sandbox::with(&json!({ "good": good() }));
    let path = runtime(&sandbox).join("daemon.sock");
    let socket = UnixListener::bind(&path).unwrap();
    // What a daemon that was killed left. The number may be that of another process now.
    fs::write(path.with_file_name("daemon.lock"), std::process::id().to_string()).unwrap();
    for (words, code) in [
        (&["status"][..], 1),
        (&["sessions"], 1),
        (&["restart", "good"], 1),
        (&["record", "good"], 1),
        (&["daemon", "status"], 1),
        (&["daemon", "stop"], 0),
    ] {
        let mut command = sandbox.command(words);
        let command = command.env("MAINSTAY_RUNTIME", sandbox.path("run"));
        let ran = finish(command.spawn().unwrap());
        let said = format!("{}{}", ran.exits(code).stdout, ran.stderr);
        assert!(said.contains("no daemon runs"), "{words:?}: {said}");
    }
    socket.set_nonblocking(true).unwrap();
    let connected = socket.accept();
    assert!(connected.is_err(), "a command has connected: {connected:?}");
}

#[test]
fn an_input_that_is_not_the_socket_is_refused() {
    let sandbox = Sandbox::new();
    let runtime = runtime(&sandbox);
    let elsewhere = UnixListener::bind(sandbox.path("other.sock")).unwrap();
    let (end, _other_end) = UnixStream::pair().unwrap();
    let inputs = [OwnedFd::from(elsewhere), OwnedFd::from(end)];
    for input in inputs.map(Stdio::from).into_iter().chain([Stdio::null()]) {
        let mut command = sandbox.command(&["daemon", "run", "--socket-on-stdin"]);
        let ran = finish(
            command
                .env("MAINSTAY_RUNTIME", &runtime)
                .stdin(input)
                .spawn()
                .unwrap(),
        );
        ran.exits(1)
            .says("the standard input is not a socket that listens at");
    }
}

#[test]
fn the_images_command_serves_and_its_health_check_tells() {
    let file = include_str!("../../../../Containerfile");
    let words = |start: &str| -> Vec<String> {
        let line = file.lines().find(|line| line.starts_with(start)).expect(start);
        let list = line.find('[').map(|at| &line[at..]).expect("a list of words");
        serde_json::from_str(list).expect("a list of words")
    };
    assert!(file.contains("\nUSER 10001:10001\n"), "not as root");
    for program in ["--bin mainstay-bridge", "/src/target/release/mainstay-bridge "] {
        assert!(
            file.contains(program),
            "the bridge is installed beside: {program}"
        );
    }
    let sandbox = Sandbox::with(&json!({ "good": good() }));
    let held = Port::free().unwrap();
    let port = held.number();
    // The same command, on a port and with a file of this test.
    let config = sandbox
        .path("home/.config/mainstay/mcp.json")
        .display()
        .to_string();
    let command: Vec<String> = words("CMD ")
        .iter()
        .map(|word| {
            word.replace("/etc/mainstay/mcp.json", &config)
                .replace(":7332", &format!(":{port}"))
        })
        .collect();
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let mut check = words("HEALTHCHECK ");
    if Command::new(&check[0]).arg("--version").output().is_err() {
        eprintln!("skipped: there is no {}", check[0]);
        return;
    }
    for word in &mut check {
        *word = word.replace(":7332", &format!(":{port}"));
    }
    let is_healthy = || {
        Command::new(&check[0])
            .args(&check[1..])
            .status()
            .unwrap()
            .success()
    };
    assert!(!is_healthy(), "nothing serves yet");
    let mut serve = sandbox
        .command(&command)
        .env("MAINSTAY_TOKEN", "0123456789abcdef0123456789abcdef")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let becomes_healthy = poll::comes_true(poll::LIMIT, || {
        assert!(serve.try_wait().unwrap().is_none(), "it ended");
        is_healthy()
    });
    assert!(becomes_healthy, "it never becomes healthy");
    kill_process(Pid::from_child(&serve), Signal::TERM).unwrap();
    serve.wait().unwrap();
    assert!(!is_healthy());
    sandbox.assert_nothing_is_left();
}
