use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use mainstay_bridge::lock::LockFile;
use mainstay_testkit::FaultyServer;
use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::json;

use super::{Shared, server_pid, socket, wait_until};
use crate::sandbox::MAINSTAY;
use crate::schemas::assert_output_fits;

fn demo(shared: &Shared) -> crate::sandbox::Ran {
    let mut command = shared
        .sandbox
        .command(&["connect", "--", MAINSTAY, "demo-server"]);
    crate::sandbox::finish(command.spawn().unwrap())
}

#[test]
fn the_socket_belongs_to_this_user_alone() {
    let shared = Shared::new();
    shared.sandbox.run(&["daemon", "start"]).exits(0);
    let mode = |name: &str| {
        fs::metadata(shared.sandbox.path(name))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode("run"), 0o700);
    assert_eq!(mode("run/daemon.sock"), 0o600);
    assert_eq!(mode("run/daemon.lock"), 0o600);
    assert_eq!(mode("run/daemon.log"), 0o600);
}

#[test]
fn what_a_dead_daemon_left_is_no_hindrance() {
    let shared = Shared::new();
    let run = shared.sandbox.path("run");
    fs::create_dir(&run).unwrap();
    fs::set_permissions(&run, fs::Permissions::from_mode(0o700)).unwrap();
    // A socket that no process listens on, and locks that no process holds.
    drop(UnixListener::bind(run.join("daemon.sock")).unwrap());
    fs::write(run.join("daemon.lock"), "4711\n").unwrap();
    fs::write(run.join("daemon.start.lock"), "").unwrap();
    let mut host = shared.host(&[], &FaultyServer::new());
    server_pid(&mut host);
}

#[test]
fn a_daemon_that_is_about_to_die_does_not_count_as_one_that_runs() {
    let shared = Shared::new();
    let run = shared.sandbox.path("run");
    fs::create_dir(&run).unwrap();
    fs::set_permissions(&run, fs::Permissions::from_mode(0o700)).unwrap();
    // A process that was killed: it still has its lock and its socket, and answers nothing.
    let lock = LockFile::try_acquire(&run.join("daemon.lock")).unwrap();
    let listener = UnixListener::bind(run.join("daemon.sock")).unwrap();
    let dying = thread::spawn(move || {
        drop(listener.accept().unwrap());
        drop((listener, lock));
    });
    shared
        .sandbox
        .run(&["daemon", "start"])
        .exits(0)
        .says("the daemon runs");
    dying.join().unwrap();
    assert!(shared.status().is_some(), "it answers");
    shared
        .sandbox
        .run(&["daemon", "start"])
        .exits(0)
        .says("a daemon runs already");
}

#[test]
fn a_directory_that_cannot_be_trusted_is_refused_with_the_remedy() {
    let shared = Shared::new();
    let run = shared.sandbox.path("run");
    fs::create_dir(&run).unwrap();
    fs::set_permissions(&run, fs::Permissions::from_mode(0o777)).unwrap();
    demo(&shared)
        .exits(1)
        .says("other users can write to")
        .says("chmod 700");
    fs::remove_dir(&run).unwrap();
    symlink(shared.sandbox.path("work"), &run).unwrap();
    demo(&shared)
        .exits(1)
        .says("is not a directory")
        .says("MAINSTAY_RUNTIME");
    fs::remove_file(&run).unwrap();

    let long = shared.sandbox.path(&"x".repeat(120)).display().to_string();
    let mut command = shared.sandbox.command(&["connect", "--", "true"]);
    let ran = crate::sandbox::finish(command.env("MAINSTAY_RUNTIME", long).spawn().unwrap());
    ran.exits(1).says("107 are the most").says("MAINSTAY_RUNTIME");
}

#[test]
fn the_status_is_a_document_also_if_the_directory_cannot_be_used() {
    let shared = Shared::new();
    let mut command = shared.sandbox.command(&["daemon", "status", "--json"]);
    let ran = crate::sandbox::finish(command.env("MAINSTAY_RUNTIME", "relative").spawn().unwrap());
    assert_output_fits(&["daemon", "status", "--json"], &ran.stdout);
    let document = ran.exits(1).json();
    assert_eq!(
        (&document["running"], &document["socket"], &document["daemon"]),
        (&json!(false), &json!(null), &json!(null))
    );
    let problem = document["problem"].as_str().unwrap();
    assert!(problem.contains("MAINSTAY_RUNTIME"), "{problem}");
}

#[test]
fn what_stands_in_the_place_of_the_daemons_files_is_refused_and_not_touched() {
    let shared = Shared::new();
    let other = shared.sandbox.write("other", "precious\n");
    let run = shared.sandbox.path("run");
    fs::create_dir(&run).unwrap();
    fs::set_permissions(&run, fs::Permissions::from_mode(0o700)).unwrap();
    type Place = fn(&Path, &Path);
    let link: Place = |other, path| symlink(other, path).unwrap();
    let directory: Place = |_, path| fs::create_dir(path).unwrap();
    let pipe: Place = |_, path| mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).unwrap();
    for (name, place) in [
        ("daemon.log", link),
        ("daemon.log", pipe),
        ("daemon.lock", link),
        ("daemon.lock", directory),
        ("daemon.lock", pipe),
        ("daemon.start.lock", pipe),
        ("daemon.sock", directory),
    ] {
        let path = run.join(name);
        place(Path::new(&other), &path);
        demo(&shared).exits(1).says(name).says("remove it");
        match fs::symlink_metadata(&path).unwrap().is_dir() {
            true => fs::remove_dir(&path).unwrap(),
            false => fs::remove_file(&path).unwrap(),
        }
        assert_eq!(fs::read_to_string(&other).unwrap(), "precious\n", "{name}");
    }
    // Without the dashboard, the daemon serves hosts all the same.
    pipe(Path::new(&other), &run.join("page.port"));
    demo(&shared).exits(0);
    let log = fs::read_to_string(run.join("daemon.log")).unwrap();
    assert!(
        log.contains("page.port: it is not a regular file: remove it"),
        "{log}"
    );
}

#[test]
fn without_a_runtime_directory_one_in_tmp_is_found() {
    let shared = Shared::new();
    let mut command = shared.sandbox.command(&["daemon", "status"]);
    command
        .env_remove("MAINSTAY_RUNTIME")
        .env("XDG_RUNTIME_DIR", "/no/such/directory");
    let ran = crate::sandbox::finish(command.spawn().unwrap());
    assert!(ran.code == Some(1) || ran.code == Some(0), "{}", ran.stderr);
    let user = rustix::process::geteuid().as_raw();
    let made = fs::metadata(format!("/tmp/mainstay-{user}")).unwrap();
    assert_eq!(made.permissions().mode() & 0o777, 0o700);
}

#[test]
fn another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can start a process of another user");
        return;
    }
    let shared = Shared::new();
    shared.sandbox.run(&["daemon", "start"]).exits(0);
    // The system refuses the way to the socket; opened up, the daemon itself refuses.
    let script = "import os,socket,sys\nos.setgid(65534); os.setuid(65534)\ns=socket.socket(socket.AF_UNIX)\n\
                  s.settimeout(10)\ntry: s.connect(sys.argv[1])\nexcept PermissionError: print('refused by the system'); sys.exit()\n\
                  try:\n s.sendall(b'{\"mainstay\":1,\"version\":\"0\",\"ask\":\"status\"}\\n')\n print('answer:', s.recv(100))\n\
                  except (ConnectionResetError, BrokenPipeError): print('answer:', b'')";
    let attempt = || {
        let path = shared.sandbox.path("run/daemon.sock");
        let output = Command::new("python3")
            .args(["-c", script])
            .arg(path)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    assert_eq!(attempt(), "refused by the system");
    let open = |name: &str, mode| {
        fs::set_permissions(shared.sandbox.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    open("", 0o711);
    open("run", 0o711);
    open("run/daemon.sock", 0o666);
    assert_eq!(attempt(), "answer: b''");
    open("run/daemon.sock", 0o600);
    open("run", 0o700);
    wait_until("the log tells of another user", || {
        let log = fs::read_to_string(shared.sandbox.path("run/daemon.log")).unwrap();
        log.contains("another user")
    });
}

#[test]
fn garbage_on_the_socket_disturbs_no_host() {
    let shared = Shared::new();
    let mut host = shared.host(&[], &FaultyServer::new());
    let pid = server_pid(&mut host);
    let said = |bytes: &[u8]| {
        let mut stream = socket(&shared).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    };
    assert!(said(b"{}\n").contains("no introduction"));
    assert!(said(b"{\"mainstay\":2}\n").contains("protocol 2"));
    assert!(said(b"{\"mainstay\":2}\n").contains("mainstay daemon restart"));
    assert!(said(b"{\"mainstay\":1,\"version\":\"9.9.9\"}\n").contains("error"));
    assert!(
        said(b"{\"mainstay\":1,\"version\":\"9.9.9\",\"connect\":{\"server\":{\"later\":1}}}\n")
            .contains("daemon restart")
    );
    assert!(said(b"{\"mainstay\":\n").contains("error"));
    assert!(said(&vec![b'{'; 2_000_000]).contains("error"));
    said(b"\xff\xfe\x00garbage");
    said(b"");
    let later = "{\"mainstay\":1,\"version\":\"9.9.9\",\"connect\":{\"server\":\"union\",\"new\":true},\"more\":[]}\n";
    assert!(
        said(later.as_bytes()).starts_with("{\"mainstay\":1,"),
        "a later version works"
    );
    // Garbage behind a good introduction is answered as on stdin.
    let mut bridge = shared.host(&[], &FaultyServer::new());
    bridge.write(&"this is no message");
    let refused = bridge.wait_for(|message| message.get("error").is_some());
    assert_eq!(refused["error"]["code"], -32700);
    assert_eq!(server_pid(&mut bridge), pid);
    assert_eq!(server_pid(&mut host), pid);
}

#[test]
fn a_daemon_of_another_protocol_is_named_with_the_remedy() {
    for reply in [
        "{\"mainstay\":2,\"version\":\"9.9.9\",\"server\":\"x\"}\n",
        "{\"mainstay\":2,\"version\":9}\n",
        "HTTP/1.1 400 Bad Request\r\n",
    ] {
        let shared = Shared::new();
        fs::DirBuilder::new()
            .mode(0o700)
            .create(shared.sandbox.path("run"))
            .unwrap();
        let listener = UnixListener::bind(shared.sandbox.path("run/daemon.sock")).unwrap();
        let answering = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut first = [0; 64];
            assert!(stream.read(&mut first).unwrap() > 0);
            stream.write_all(reply.as_bytes()).unwrap();
        });
        demo(&shared).exits(1).says("mainstay daemon restart");
        answering.join().unwrap();
    }
}

#[test]
fn a_bridge_that_names_another_configuration_than_the_daemon_has_is_refused() {
    let shared = Shared::new();
    shared
        .sandbox
        .configure(&json!({ "one": crate::sandbox::good() }));
    shared.sandbox.run(&["daemon", "start"]).exits(0);
    let other = json!({ "mcpServers": { "one": crate::sandbox::good() } }).to_string();
    let other = shared.sandbox.write("other.json", &other).display().to_string();
    for words in [&["connect", "one"][..], &["connect"]] {
        shared
            .sandbox
            .run(&[&["--config", other.as_str()], words].concat())
            .exits(1)
            .says(&format!("this bridge is to use {other}"))
            .says("MAINSTAY_RUNTIME");
    }
    let mut one = crate::host::Host::start(&shared.sandbox, &["connect", "one"]);
    assert!(
        one.tools().contains(&"echo".to_owned()),
        "the daemon's own is served"
    );
}

#[test]
fn a_configured_server_and_all_of_them_as_one_are_served() {
    let shared = Shared::new();
    shared
        .sandbox
        .configure(&json!({ "one": crate::sandbox::good(), "two": crate::sandbox::good() }));
    let mut one = crate::host::Host::start(&shared.sandbox, &["connect", "one"]);
    assert!(one.tools().contains(&"echo".to_owned()));
    let mut all = crate::host::Host::start(&shared.sandbox, &["connect"]);
    let result = all.call("two__add", &json!({ "a": 2, "b": 3 }));
    assert_eq!(result["structuredContent"]["sum"], 5.0, "{result}");
    shared
        .sandbox
        .run(&["connect", "tow"])
        .exits(1)
        .says("no server \"tow\"")
        .says("did you mean \"two\"?");
    let other = shared
        .sandbox
        .write("other.json", r#"{"mcpServers":{}}"#)
        .display()
        .to_string();
    shared
        .sandbox
        .run(&["connect", "--config", &other, "one"])
        .exits(1)
        .says("the daemon uses")
        .says("daemon restart");
}

#[test]
fn without_a_configuration_the_status_says_so_until_there_is_one() {
    let shared = Shared::new();
    shared.sandbox.run(&["daemon", "start"]).exits(0);
    for command in [&["status"][..], &["daemon", "status"]] {
        let ran = shared.sandbox.run(command);
        ran.exits(0)
            .prints("no configuration file exists")
            .prints("mainstay add");
    }
    let log = shared.sandbox.path("run/daemon.log");
    wait_until("the log says so", || {
        let said = fs::read_to_string(&log).unwrap();
        said.contains("no configuration found: the built-in demo server starts when a host asks")
    });
    assert!(
        shared.status().unwrap()["servers"] == json!([]),
        "it does not run"
    );
    let missing =
        || shared.sandbox.run(&["status", "--json"]).json()["program"]["configuration_missing"].clone();
    assert_eq!(missing(), true);
    shared
        .sandbox
        .configure(&json!({ "one": crate::sandbox::good() }));
    wait_until("the daemon has read it", || missing() == false);
    let state = || shared.sandbox.run(&["status", "--json"]).json()["servers"][0]["state"].clone();
    wait_until("its server runs, though no host wants it", || {
        state() == "connected"
    });
    let ran = shared.sandbox.run(&["daemon", "status"]);
    assert!(
        !ran.exits(0).stdout.contains("no configuration"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_server_whose_variable_the_daemon_lacks_is_not_added_while_it_runs() {
    let shared = Shared::new();
    let add = |name: &str, variable: &str| {
        let words = ["add", name, "--env", variable, "--", MAINSTAY, "demo-server"];
        let mut command = shared.sandbox.command(&words);
        command.env("OF_SHELL", "value");
        crate::sandbox::finish(command.spawn().unwrap())
    };
    // No daemon runs, and one that a host starts would not have it.
    let ran = add("one", "OF_SHELL");
    ran.exits(0)
        .says("added one")
        .says("OF_SHELL would come from Mainstay's environment");
    let ran = add("whole", "OF_SHELL=value");
    assert!(!ran.exits(0).stderr.contains("warning"), "{}", ran.stderr);
    shared.sandbox.run(&["daemon", "start"]).exits(0);
    let file = || fs::read_to_string(shared.sandbox.path("home/.config/mainstay/mcp.json")).unwrap();
    let before = file();
    for _ in 0..2 {
        add("two", "OF_SHELL")
            .exits(2)
            .says("the variable OF_SHELL is not set")
            .says("so it is not written")
            .says("mainstay daemon restart --env OF_SHELL");
        assert_eq!(file(), before);
    }
    // The daemon has the default variables.
    add("three", "HOME").exits(0).says("added three");
}

#[test]
fn a_daemon_adds_and_removes_the_servers_of_its_file_itself() {
    let shared = Shared::new();
    let own = shared.sandbox.path("own.json");
    fs::write(&own, r#"{ "mcpServers": {} }"#).unwrap();
    let named = own.to_str().unwrap();
    shared
        .sandbox
        .run(&["--config", named, "daemon", "start"])
        .exits(0);
    let pid = shared.status().unwrap()["pid"].to_string();
    let says = format!("the daemon (process {pid}) has applied it: ");
    let text = || fs::read_to_string(&own).unwrap();
    // The file is that of the daemon, as for the commands that read it, and may be named too.
    let add = ["add", "one", "--", MAINSTAY, "demo-server"];
    let ran = shared.sandbox.run(&add);
    ran.exits(0)
        .says("added one to ")
        .says(&(says.clone() + "added one"));
    assert!(text().contains("demo-server"), "{}", text());
    shared
        .sandbox
        .run(&add)
        .exits(2)
        .says("there is a server \"one\" already");
    let status = shared.sandbox.run(&["status", "--json"]).json();
    assert_eq!(status["servers"][0]["name"], "one", "{status}");
    let ran = shared.sandbox.run(&["--config", named, "remove", "one"]);
    ran.exits(0).says(&(says + "removed one"));
    assert!(!text().contains("demo-server"), "{}", text());
    shared
        .sandbox
        .run(&["remove", "one"])
        .exits(2)
        .says("there is no server");
    // Another file is none of its business.
    let other = shared.sandbox.path("other.json");
    let ran = shared
        .sandbox
        .run(&["--config", other.to_str().unwrap(), "add", "two", "--", "x"]);
    ran.exits(0).says("a new file");

    let events = shared.sandbox.run(&["events", "--json"]);
    let events = events.exits(0).stdout.lines();
    let events: Vec<serde_json::Value> = events.map(|line| serde_json::from_str(line).unwrap()).collect();
    let given = events.iter().filter(|event| event["type"] == "command");
    let given: Vec<_> = given
        .map(|event| {
            assert_eq!(event["by"]["via"], "command", "{event}");
            (event["command"].as_str().unwrap(), event["refused"].is_null())
        })
        .collect();
    assert_eq!(
        given,
        [("add", true), ("add", false), ("remove", true), ("remove", false)]
    );
}

#[test]
fn a_configuration_with_errors_refuses_only_those_who_need_it() {
    let shared = Shared::new();
    shared.sandbox.write("home/.config/mainstay/mcp.json", "{ half");
    let mut host = shared.host(&[], &FaultyServer::new());
    server_pid(&mut host);
    shared
        .sandbox
        .run(&["connect"])
        .exits(1)
        .says("the daemon's configuration cannot be used")
        .says("mcp.json:1:3")
        .says("fix it");
}

#[test]
fn a_configuration_that_cannot_be_used_at_the_start_is_applied_when_it_is_fixed() {
    for start in [
        &["daemon", "start"][..],
        &["connect", "--", MAINSTAY, "demo-server"],
    ] {
        let shared = Shared::new();
        shared.sandbox.write("home/.config/mainstay/mcp.json", "{ half");
        shared.sandbox.run(start).exits(0);
        let problem =
            |document: &serde_json::Value| document.as_str().unwrap_or_default().contains("mcp.json:1:3");
        assert!(problem(&shared.status().unwrap()["config_problem"]));
        let status = shared.sandbox.run(&["status", "--json"]).json();
        assert!(problem(&status["program"]["configuration_problem"]), "{status}");
        for command in [&["daemon", "status"][..], &["status"]] {
            shared
                .sandbox
                .run(command)
                .prints("the configuration file is not applied:")
                .prints("mcp.json:1:3");
        }
        // A server with a mistake costs the others nothing, as at a start.
        shared
            .sandbox
            .configure(&json!({ "one": crate::sandbox::good(), "bad": { "command": 7 } }));
        wait_until("the daemon has read it", || {
            shared.status().unwrap()["config_problem"].is_null()
        });
        let mut one = crate::host::Host::start(&shared.sandbox, &["connect", "one"]);
        assert!(one.tools().contains(&"echo".to_owned()));
        // What comes after a good one is refused, and the good one stays.
        shared.sandbox.write("home/.config/mainstay/mcp.json", "[]");
        wait_until("the daemon has refused it", || {
            !shared.status().unwrap()["config_problem"].is_null()
        });
        crate::host::Host::start(&shared.sandbox, &["connect", "one"]);
    }
}

#[test]
fn a_daemon_whose_configuration_cannot_be_used_starts_with_a_warning() {
    let shared = Shared::new();
    shared.sandbox.write("home/.config/mainstay/mcp.json", "{ half");
    for command in ["start", "restart"] {
        shared
            .sandbox
            .run(&["daemon", command])
            .exits(0)
            .says("the daemon runs")
            .says("warning: the daemon has none of the configured servers: ")
            .says("mcp.json:1:3");
    }
    shared
        .sandbox
        .configure(&json!({ "one": crate::sandbox::good() }));
    let ran = shared.sandbox.run(&["daemon", "restart"]);
    assert!(!ran.exits(0).stderr.contains("warning"), "{}", ran.stderr);
}

#[test]
fn the_bridge_is_a_small_program_and_without_it_mainstay_is_the_bridge_itself() {
    let shared = Shared::new();
    let alone = shared.sandbox.write("alone/mainstay", "");
    fs::copy(MAINSTAY, &alone).unwrap();
    let whole = Path::new(MAINSTAY).to_owned();
    for (program, becomes) in [
        (&whole, whole.with_file_name("mainstay-bridge")),
        (&alone, alone.clone()),
    ] {
        let mut command = shared.sandbox.other(program);
        command.args(["connect", "--", MAINSTAY, "demo-server"]);
        let mut host = crate::host::Host::of(&mut command).introduced();
        let running = fs::read_link(format!("/proc/{}/exe", host.child.id())).unwrap();
        assert_eq!(running, becomes.canonicalize().unwrap());
        assert!(host.tools().contains(&"echo".to_owned()));
        host.leave().exits(0);
    }
    // It is no program for a person.
    let mut bridge = shared.sandbox.other(whole.with_file_name("mainstay-bridge"));
    crate::sandbox::finish(bridge.spawn().unwrap())
        .exits(1)
        .says("run `mainstay connect`");
    let mut bridge = shared.sandbox.other(whole.with_file_name("mainstay-bridge"));
    let of_another_version = bridge.env("MAINSTAY_BRIDGE", r#"{"later":true}"#);
    crate::sandbox::finish(of_another_version.spawn().unwrap())
        .exits(1)
        .says("install both programs from one release");
}

#[test]
fn a_full_file_system_is_named_with_the_remedy() {
    let shared = Shared::new();
    let run = shared.sandbox.path("run");
    fs::create_dir(&run).unwrap();
    // A file system of its own, which has room for its directory alone.
    let script = format!(
        "mount -t tmpfs -o nr_inodes=1,mode=700 tmpfs '{}' || exit 77; exec '{MAINSTAY}' connect -- true",
        run.display()
    );
    let mut command = shared.sandbox.other("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]);
    let Ok(child) = command.spawn() else {
        eprintln!("skipped: there is no unshare");
        return;
    };
    let ran = crate::sandbox::finish(child);
    if ran.code == Some(77) || ran.stderr.starts_with("unshare") {
        eprintln!("skipped: no file system can be mounted: {}", ran.stderr);
        return;
    }
    ran.exits(1)
        .says("daemon.log")
        .says("make room on its file system, or set MAINSTAY_RUNTIME");
}

#[test]
fn a_connection_that_is_one_too_many_is_refused_with_what_takes_the_room() {
    let shared = Shared::new();
    shared.sandbox.run(&["daemon", "start"]).exits(0);
    // Bridges, until the daemon refuses one. It says the first refusal, and holds the others until its input ends.
    let script = "import json, resource, socket, sys\n\
                  hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n\
                  resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))\n\
                  held = []\n\
                  while True:\n\
                  \x20s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n\
                  \x20try: s.sendall(b'{\"mainstay\":1,\"version\":\"0\",\"connect\":{\"server\":\"union\"}}\\n')\n\
                  \x20except BrokenPipeError: pass\n\
                  \x20answer = json.loads(s.makefile().readline())\n\
                  \x20if 'error' in answer: break\n\
                  \x20held.append(s)\n\
                  print(len(held), flush=True); sys.stdin.read()";
    let mut command = shared.sandbox.other("python3");
    command
        .args(["-c", script])
        .arg(shared.sandbox.path("run/daemon.sock"))
        .stdin(Stdio::piped());
    let mut holder = command.spawn().unwrap();
    let mut held = String::new();
    BufReader::new(holder.stdout.as_mut().unwrap())
        .read_line(&mut held)
        .unwrap();
    if held.is_empty() {
        let ran = crate::sandbox::finish(holder);
        assert!(ran.stderr.contains("Too many open files"), "{}", ran.stderr);
        eprintln!("skipped: this user may not open so many files");
        return;
    }
    assert_eq!(held, "4096\n");
    let refused = demo(&shared);
    refused
        .exits(1)
        .says("the daemon has no room: 4096 connections are the most")
        .says("close hosts that you do not need");
    assert!(!refused.stderr.contains("restart"), "{}", refused.stderr);
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
    wait_until("there is room again", || demo(&shared).code == Some(0));
}

#[test]
fn mistakes_on_the_command_line_are_said() {
    let shared = Shared::new();
    let sandbox = &shared.sandbox;
    sandbox.run(&["connect", "--"]).exits(2).says("name a command");
    sandbox
        .run(&["connect", "--env", "A=b", "--", "true"])
        .exits(2)
        .says("no value");
    sandbox
        .run(&["connect", "--cwd", "/no/such", "--", "true"])
        .exits(2)
        .says("/no/such");
    sandbox.run(&["connect", "one", "--", "true"]).exits(2);
    sandbox
        .run(&["connect", "--url", "ftp://example.com"])
        .exits(2)
        .says("scheme");
    assert!(shared.status().is_none(), "no daemon was started for these");
    // The server may do without it, and says so if it cannot.
    sandbox
        .run(&["connect", "--env", "NOT_SET", "--", "true"])
        .says("NOT_SET is not set, and is not passed on");
}
