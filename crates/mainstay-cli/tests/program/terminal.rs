use std::fs::File;
use std::io::Read as _;
use std::process::Stdio;

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::json;

use crate::sandbox::{Sandbox, dying, good, silent};

/// Runs the program on a terminal and returns all that the terminal was sent.
pub(crate) fn shown(sandbox: &Sandbox, arguments: &[&str], env: &[(&str, &str)]) -> String {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let terminal = open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let mut child = sandbox
        .command(arguments)
        .env("TERM", "xterm-256color")
        .envs(env.iter().copied())
        .stdout(Stdio::from(terminal.try_clone().unwrap()))
        .stderr(Stdio::from(terminal))
        .spawn()
        .unwrap();
    let mut screen = Vec::new();
    // A terminal that nobody holds open any more reads as an error, not as an end.
    let _ = File::from(master).read_to_end(&mut screen);
    child.wait().unwrap();
    String::from_utf8(screen).unwrap()
}

/// Whether a text sets a colour.
fn is_coloured(text: &str) -> bool {
    let mut sequences = text.split("\u{1b}[").skip(1);
    sequences.any(|sequence| {
        sequence
            .trim_start_matches(|c: char| c.is_ascii_digit())
            .starts_with('m')
    })
}

#[test]
fn a_terminal_is_redrawn_in_place_and_in_colour() {
    let sandbox = Sandbox::with(&json!({ "good": good(), "silent": silent() }));
    let screen = shown(&sandbox, &["check", "--timeout", "500ms"], &[]);
    assert!(is_coloured(&screen));
    assert!(
        screen.contains("\u{1b}[3A\r\u{1b}[J"),
        "the table of two servers goes back three lines: {screen:?}"
    );
    assert!(!screen.contains("silent: connecting"), "no line for each change");
    assert!(screen.contains("\u{1b}[?7h"), "lines wrap again");
}

#[test]
fn no_color_is_honoured() {
    let sandbox = Sandbox::with(&json!({ "good": good(), "dying": dying() }));
    for command in ["check", "tools"] {
        let screen = shown(&sandbox, &[command], &[("NO_COLOR", "1")]);
        assert!(!is_coloured(&screen), "{screen:?}");
        let dumb = shown(&sandbox, &[command], &[("TERM", "dumb")]);
        assert!(!dumb.contains('\u{1b}'), "neither colour nor redrawing: {dumb:?}");
    }
}

#[test]
fn what_a_tool_answers_cannot_drive_the_terminal() {
    let arguments = json!({ "text": "a\u{1b}[2Jb" }).to_string();
    let screen = shown(
        &Sandbox::new(),
        &["call", "demo", "echo", &arguments, "--quiet"],
        &[],
    );
    assert!(screen.ends_with("ab\r\n"), "{screen:?}");
}
