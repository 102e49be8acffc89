//! How an address with a secret reaches the browser: by a private file or a code, and never by a command line.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use mainstay_partner::ProtectedServer;
use serde_json::json;

use crate::login::pseudo_terminal::PseudoTerminal;
use crate::sandbox::{Ran, Sandbox, finish, good};
use crate::serving::Serving;

/// A browser that notes its command line, and the file that it is to open, then does this.
struct FakeBrowser {
    command: String,
    notes: std::path::PathBuf,
}

impl FakeBrowser {
    fn new(sandbox: &Sandbox, then: &str) -> Self {
        let notes = sandbox.path("notes");
        let made = Command::new("mkfifo").arg(&notes).status();
        assert!(made.expect("mkfifo is there").success());
        let script = format!(
            "#!/bin/sh\nfile=${{1#file://}}\n{{ echo \"$@\"; stat -c '%a' \"$file\"; cat \"$file\"; }} >{} 2>/dev/null\ntrue\n{then}\n",
            notes.display()
        );
        let path = sandbox.write("browser", &script);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
        let command = path.display().to_string();
        Self { command, notes }
    }

    /// Its command line, and the rest of its notes. Waits until it was started.
    fn noted(&self) -> (String, String) {
        let notes = fs::read_to_string(&self.notes).expect("readable");
        let (line, rest) = notes.split_once('\n').expect("a line");
        (line.to_owned(), rest.to_owned())
    }
}

/// The address that a document sends the browser on to.
fn target(document: &str) -> String {
    let (_, rest) = document
        .split_once("content=\"0; url=")
        .unwrap_or_else(|| panic!("no redirect in {document}"));
    rest.split('"').next().unwrap_or_default().replace("&amp;", "&")
}

fn exchange(authority: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(authority).expect("a connection");
    let request = request.replace(
        "HTTP/1.1\r\n",
        &format!("HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n"),
    );
    stream.write_all(request.as_bytes()).expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// Uses a link to the dashboard, as the page does.
fn use_link(link: &str) -> String {
    let (base, code) = link.split_once("/ui/#/login/").expect("a link");
    let body = json!({ "code": code }).to_string();
    let request = format!(
        "POST /ui/login HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    exchange(base.trim_start_matches("http://"), &request)
}

fn ui(sandbox: &Sandbox, serving: &Serving, browser: &FakeBrowser, option: Option<&str>) -> Child {
    let url = format!("http://{}", serving.address);
    let mut command = sandbox.command(&["ui", "--url", &url]);
    command.args(option).env("BROWSER", &browser.command);
    command.spawn().expect("the program starts")
}

fn files_for_browsers(sandbox: &Sandbox) -> usize {
    let entries = fs::read_dir(sandbox.path("run")).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("open-"))
        .count()
}

#[test]
fn the_browser_gets_the_dashboard_by_a_private_file_that_is_gone_when_the_page_is_open() {
    let sandbox = Sandbox::with(&json!({ "one": good() }));
    let serving = Serving::start(&sandbox, &["--admin"]);
    let browser = FakeBrowser::new(&sandbox, "");
    let opening = ui(&sandbox, &serving, &browser, None);
    let (line, rest) = browser.noted();
    assert!(line.starts_with("file:///") && line.ends_with(".html"), "{line}");
    let (mode, document) = rest.split_once('\n').expect("a mode");
    assert_eq!(mode, "600");
    let link = target(document);
    let (_, code) = link.split_once("/ui/#/login/").expect("a link");
    assert!(!line.contains(code), "{line}");
    assert!(use_link(&link).starts_with("HTTP/1.1 200"));
    finish(opening).exits(0).says("opened http://");
    assert_eq!(files_for_browsers(&sandbox), 0);
    // Who else has the link gets nothing by it, and costs the page its login.
    assert!(use_link(&link).starts_with("HTTP/1.1 403"));
    serving.hears("used twice");
}

#[test]
fn a_browser_in_a_sandbox_gets_a_page_without_a_secret_which_asks_for_the_code_in_the_terminal() {
    let sandbox = Sandbox::with(&json!({ "one": good() }));
    let serving = Serving::start(&sandbox, &["--admin"]);
    // The comment makes it what a wrapper of a snap is.
    for (then, option) in [("", Some("--code")), ("# /snap/bin/firefox", None)] {
        let browser = FakeBrowser::new(&sandbox, then);
        let mut opening = ui(&sandbox, &serving, &browser, option);
        let (address, _no_file) = browser.noted();
        let mut said = BufReader::new(opening.stderr.take().expect("piped")).lines();
        let line = said.next().expect("a line").expect("text");
        let code = line.rsplit(' ').next().expect("a code").to_owned();
        assert!(
            address.starts_with("http://127.0.0.1:") && !address.contains(&code),
            "{address}"
        );
        let authority = address.trim_start_matches("http://").trim_end_matches('/');
        let asked = exchange(authority, "GET / HTTP/1.1\r\n\r\n");
        assert!(asked.contains("<form") && !asked.contains("login/"), "{asked}");
        let answer = exchange(authority, &format!("GET /open?code={code} HTTP/1.1\r\n\r\n"));
        assert!(use_link(&target(&answer)).starts_with("HTTP/1.1 200"));
        let Ran { code, .. } = finish(opening);
        assert_eq!(code, Some(0));
        fs::remove_file(&browser.notes).expect("removed");
    }
    assert_eq!(files_for_browsers(&sandbox), 0);
}

#[test]
fn a_browser_that_cannot_be_started_leaves_the_person_the_address() {
    let sandbox = Sandbox::with(&json!({ "one": good() }));
    let serving = Serving::start(&sandbox, &["--admin"]);
    let url = format!("http://{}", serving.address);
    for browser in ["false", "/no/such/browser"] {
        let mut command = sandbox.command(&["ui", "--url", &url]);
        command.env("BROWSER", browser).stdin(Stdio::null());
        let ran = finish(command.spawn().expect("the program starts"));
        ran.exits(0).prints("/ui/#/login/");
        assert!(use_link(ran.stdout.trim()).starts_with("HTTP/1.1 200"));
    }
    assert_eq!(files_for_browsers(&sandbox), 0);
}

#[test]
fn the_address_of_a_login_is_in_no_command_line() {
    let Some(protected) = ProtectedServer::start(600) else {
        return;
    };
    let sandbox = Sandbox::with(&json!({ "search": { "url": protected.resource } }));
    let browser = FakeBrowser::new(&sandbox, &format!("exec {} \"$1\"", protected.browser()));
    let terminal = PseudoTerminal::start(&sandbox, &["login", "search"], &[("BROWSER", &browser.command)]);
    let (line, rest) = browser.noted();
    assert!(line.starts_with("file:///"), "{line}");
    let (mode, document) = rest.split_once('\n').expect("a mode");
    assert_eq!(mode, "600");
    let address = target(document);
    for secret in ["state=", "code_challenge=", "redirect_uri="] {
        assert!(
            address.contains(secret) && !line.contains(secret),
            "{line}: {address}"
        );
    }
    let screen = terminal.finish(0);
    assert!(screen.contains("logged in to search"), "{screen}");
    assert_eq!(files_for_browsers(&sandbox), 0);
}

/// Listens as a program of another user does, and says what it gets.
const OTHER_PROGRAM: &str = "import socket
listener = socket.create_server(('127.0.0.1', 0))
print(listener.getsockname()[1], flush=True)
print(listener.accept()[0].recv(4096))";

#[test]
fn the_control_token_is_not_sent_to_another_user_who_took_the_port() {
    const NOBODY: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can start a program of another user");
        return;
    }
    let sandbox = Sandbox::with(&json!({ "one": good() }));
    let mut other = Command::new("python3");
    other
        .args(["-c", OTHER_PROGRAM])
        .uid(NOBODY)
        .stdout(Stdio::piped());
    let mut other = other.spawn().expect("Python is there");
    let mut said = BufReader::new(other.stdout.take().expect("piped")).lines();
    let mut line = || said.next().expect("a line").expect("text");
    let url = format!("http://127.0.0.1:{}", line());
    let refused = sandbox.run(&["ui", "--print", "--url", &url]);
    refused
        .exits(1)
        .says("another user's program (user 65534) listens at");
    assert_eq!(line(), "b''");
    assert!(other.wait().expect("it ends").success());
}
