//! `mainstay login` on a terminal, at a real authorization server: browser, pasted address, device, denial, two at the same time,
//! an interrupt. `auth status` and `logout` after it.

mod ended;
mod forgotten;
mod keyring;
pub(crate) mod pseudo_terminal;
mod secrets;
mod served;
mod system_keyring;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use mainstay_partner::ProtectedServer;
use rustix::process::Signal;
use serde_json::json;

use self::pseudo_terminal::PseudoTerminal;
use crate::sandbox::{Sandbox, finish};

/// A protected server, and a user who has it in the configuration.
fn start(token_seconds: u32) -> Option<(ProtectedServer, Sandbox)> {
    let protected = ProtectedServer::start(token_seconds)?;
    let sandbox = Sandbox::with(&json!({ "search": { "url": protected.resource } }));
    Some((protected, sandbox))
}

fn status(sandbox: &Sandbox) -> serde_json::Value {
    sandbox.run(&["auth", "status", "--json"]).exits(0).json()
}

#[test]
fn a_browser_logs_in_and_the_server_can_be_called() {
    let Some((protected, sandbox)) = start(600) else {
        return;
    };
    let before = sandbox.run(&["call", "search", "echo"]);
    assert_ne!(before.code, Some(0));
    before.says("mainstay login search");
    assert_eq!(status(&sandbox)["logins"][0]["state"], "logged_out");

    let browser = protected.browser();
    let terminal = PseudoTerminal::start(&sandbox, &["login", "search"], &[("BROWSER", &browser)]);
    let screen = terminal.finish(0);
    assert!(screen.contains("logged in to search"), "{screen}");
    assert!(screen.contains("the browser should show the login"), "{screen}");
    sandbox.run(&["call", "search", "echo"]).exits(0).prints("ok");

    let shown = status(&sandbox);
    let login = &shown["logins"][0];
    assert_eq!(login["state"], "logged_in");
    assert_eq!(login["issuer"], protected.issuer.as_str());
    assert_eq!(login["renewable"], true);
    assert_eq!(shown["store"]["protection"], "plain");
    let said = sandbox.run(&["auth", "status"]);
    said.exits(0).says("not encrypted");

    let out = sandbox.run(&["logout", "search", "--json"]).exits(0).json();
    assert_eq!(out["logins"][0]["revoked"], true);
    assert_ne!(sandbox.run(&["call", "search", "echo"]).code, Some(0));
    sandbox.assert_nothing_is_left();
}

#[test]
fn a_pasted_address_logs_in_and_a_wrong_one_does_not() {
    let Some((protected, sandbox)) = start(600) else {
        return;
    };
    let mut terminal = PseudoTerminal::start(&sandbox, &["login", "search", "--no-browser"], &[]);
    let address = terminal.wait_for_word(&format!("{}/auth?", protected.issuer));
    terminal.wait_for("paste that address here");
    terminal.write("http://127.0.0.1:1/callback?code=stolen&state=wrong\n");
    terminal.wait_for("not accepted");
    terminal.wait_for("belongs to another one");
    terminal.write("\n\u{1b}[31mnonsense\n");
    terminal.wait_for("not accepted");
    terminal.wait_for("not the address that the browser was sent to");
    // The person's browser is on another machine: it gets as far as the redirect, and the person pastes where that leads.
    let redirect = last_redirect(&protected, &address);
    terminal.write(&format!("{redirect}\n"));
    let screen = terminal.finish(0);
    assert!(screen.contains("logged in to search"), "{screen}");
    sandbox.run(&["call", "search", "echo"]).exits(0);
}

/// Where the browser is sent at the end, without going there.
fn last_redirect(protected: &ProtectedServer, address: &str) -> String {
    protected.browse(address, Some("--stop-at=/callback"))
}

#[test]
fn a_code_on_another_device_logs_in() {
    let Some((protected, sandbox)) = start(600) else {
        return;
    };
    let mut terminal = PseudoTerminal::start(&sandbox, &["login", "search", "--device"], &[]);
    let page = terminal.wait_for_word(&format!("{}/device", protected.issuer));
    terminal.wait_for("enter the code ");
    let code = terminal.wait_for_word_after("enter the code ");
    let ended_at = protected.browse(&page, Some(&code));
    assert!(ended_at.starts_with(&protected.issuer), "{ended_at}");
    let screen = terminal.finish(0);
    assert!(screen.contains("logged in to search"), "{screen}");
    sandbox.run(&["call", "search", "echo"]).exits(0);
}

#[test]
fn a_person_who_refuses_is_told_so() {
    let Some((protected, sandbox)) = start(600) else {
        return;
    };
    protected.set_person("ann", false);
    let browser = protected.browser();
    let terminal = PseudoTerminal::start(&sandbox, &["login", "search"], &[("BROWSER", &browser)]);
    let screen = terminal.finish(1);
    assert!(
        screen.contains("access_denied") || screen.contains("refused"),
        "{screen}"
    );
    assert_eq!(status(&sandbox)["logins"][0]["state"], "logged_out");
    sandbox.assert_nothing_is_left();
}

#[test]
fn two_logins_at_the_same_time_both_succeed() {
    let Some((protected, sandbox)) = start(600) else {
        return;
    };
    let mut one = PseudoTerminal::start(&sandbox, &["login", "search", "--no-browser"], &[]);
    let mut other = PseudoTerminal::start(&sandbox, &["login", "search", "--no-browser"], &[]);
    let start = format!("{}/auth?", protected.issuer);
    let (first, second) = (one.wait_for_word(&start), other.wait_for_word(&start));
    assert_ne!(first, second, "each has a state of its own");
    let _ended_at = protected.browse(&second, None);
    let _ended_at = protected.browse(&first, None);
    for terminal in [one, other] {
        let screen = terminal.finish(0);
        assert!(screen.contains("logged in to search"), "{screen}");
    }
    sandbox.run(&["call", "search", "echo"]).exits(0);
    let shown = status(&sandbox);
    assert_eq!(shown["logins"].as_array().map(Vec::len), Some(1), "{shown}");
}

#[test]
fn an_interrupt_ends_a_login_and_leaves_nothing() {
    let Some((protected, sandbox)) = start(600) else {
        return;
    };
    let mut terminal = PseudoTerminal::start(&sandbox, &["login", "search", "--no-browser"], &[]);
    terminal.wait_for_word(&format!("{}/auth?", protected.issuer));
    terminal.signal(Signal::INT);
    terminal.finish(130);
    assert_eq!(status(&sandbox)["logins"][0]["state"], "logged_out");
    sandbox.assert_nothing_is_left();
}

#[test]
fn logins_are_encrypted_with_a_key_file_that_is_chosen_once() {
    let Some((protected, sandbox)) = start(600) else {
        return;
    };
    let key = sandbox.write("keys/login.key", "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let key = key.to_str().unwrap();
    let log_in = |arguments: &[&str]| {
        let mut command = sandbox.command(arguments);
        command.env("BROWSER", protected.browser()).stdin(Stdio::null());
        finish(command.spawn().unwrap())
    };
    let logged_in = log_in(&["login", "search", "--key-file", key, "--json"]);
    assert_eq!(logged_in.exits(0).json()["store"]["protection"], "key_file");
    // Every other command finds the key by itself.
    sandbox.run(&["call", "search", "echo"]).exits(0);
    sandbox
        .run(&["auth", "status"])
        .exits(0)
        .says("encrypted with a key from a file");
    let refresh_token = protected.latest_refresh_token().unwrap();
    for entry in fs::read_dir(sandbox.path("home/.local/state/mainstay/logins")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read(&path).unwrap_or_default();
        assert!(
            !String::from_utf8_lossy(&text).contains(&refresh_token),
            "{}",
            path.display()
        );
    }
    // Another choice is refused while there are logins.
    let other = log_in(&["login", "search", "--key-command", "printf x"]);
    other.exits(1).says("printf");
    fs::rename(key, format!("{key}.gone")).unwrap();
    let gone = sandbox.run(&["auth", "status"]);
    gone.exits(1).says("not there");
}

#[test]
fn a_key_that_cannot_be_had_is_named_by_calls_and_a_server_without_logins_needs_none() {
    let Some((protected, sandbox)) = start(600) else {
        return;
    };
    let key = sandbox.write("keys/login.key", "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=");
    let command = format!("cat {}", key.display());
    let mut login = sandbox.command(&["login", "search", "--key-command", &command]);
    login.env("BROWSER", protected.browser()).stdin(Stdio::null());
    finish(login.spawn().unwrap()).exits(0);
    fs::rename(&key, sandbox.path("keys/gone")).unwrap();
    let call = sandbox.run(&["call", "search", "echo"]);
    call.says("the command `cat`, which prints the key of the logins, failed");
    assert_ne!(call.code, Some(0));
    assert!(!call.stderr.contains("mainstay login"), "{}", call.stderr);
    fs::rename(sandbox.path("keys/gone"), &key).unwrap();
    sandbox.run(&["call", "search", "echo"]).exits(0).prints("ok");

    sandbox.configure(&json!({ "here": { "command": "cat" } }));
    let stdio = sandbox.run(&["login", "here"]);
    stdio.exits(2).says("server here needs no login");
}
