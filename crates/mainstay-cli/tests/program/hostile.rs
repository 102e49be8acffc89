//! What a server says never drives a terminal, hides or passes for something else, wherever it says it.

use mainstay::gateway::PlainText;
use mainstay_testkit::{HARMLESS_TEXT, HOSTILE_TEXT, hostile, hostile_on_stderr};
use serde_json::json;

use crate::sandbox::Sandbox;
use crate::terminal::shown;

/// The sequences by which the program itself redraws lines in place. `NO_COLOR` spares its colours.
const OWN_SEQUENCES: [&str; 2] = ["\u{1b}[?7l", "\u{1b}[?7h"];

fn sandbox() -> Sandbox {
    let (command, args) = hostile_on_stderr();
    Sandbox::with(&json!({
        "evil": hostile().config(),
        "dying": { "command": command, "args": args },
    }))
}

/// Everything that a server can make the program say, by the command that shows it and its exit code.
fn commands() -> Vec<(Vec<String>, i32)> {
    let told =
        json!({ "message": HOSTILE_TEXT, "text": HOSTILE_TEXT, "steps": 3, "interval_ms": 30 }).to_string();
    let line = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    vec![
        (line(&["check"]), 1),
        (line(&["tools"]), 1),
        (line(&["describe", "evil", "say"]), 0),
        (line(&["describe", "dying", "say"]), 3),
        (line(&["prompt", "evil", &format!("greet{HOSTILE_TEXT}")]), 0),
        (line(&["prompt", "evil", "nothing"]), 2),
        (line(&["read", "evil", &format!("mem://{HOSTILE_TEXT}")]), 0),
        (line(&["call", "evil", "say"]), 0),
        (line(&["call", "evil", "fails"]), 1),
        (line(&["call", "evil", "refuses"]), 1),
        (line(&["call", "evil", "progress", &told]), 0),
        (line(&["call", "evil", "log", &told]), 0),
        (line(&["call", "dying", "say"]), 3),
        (line(&["ping", "dying", "--timeout", "5s"]), 1),
    ]
}

#[test]
fn nothing_that_a_server_says_anywhere_drives_the_terminal() {
    let sandbox = sandbox();
    for (command, _) in commands() {
        let words: Vec<_> = command.iter().map(String::as_str).collect();
        let screen = shown(&sandbox, &words, &[("NO_COLOR", "1")]);
        let seen = without_own_sequences(&screen);
        assert_harmless(&seen, &command);
        assert!(
            !seen.replace("\r\n", "\n").contains('\r'),
            "{command:?}: {screen:?}"
        );
        let is_quoted = ["say", "fails", "refuses", "progress"]
            .iter()
            .any(|word| words.contains(word));
        if is_quoted || words.len() == 1 {
            assert!(seen.contains("after"), "it is shown: {seen}");
        }
    }
}

#[test]
fn nothing_that_a_server_says_anywhere_is_hidden_in_a_log_file_or_a_document() {
    let sandbox = sandbox();
    for (command, code) in commands() {
        let words: Vec<_> = command.iter().map(String::as_str).collect();
        let ran = sandbox.run(&words);
        assert_harmless(&ran.exits(code).stderr, &command);
        let mut words = words.clone();
        words.push("--json");
        let ran = sandbox.run(&words);
        assert_harmless(&ran.exits(code).stdout, &command);
        if code != 2 {
            ran.json();
        }
    }
}

#[test]
fn a_document_says_what_the_server_said_and_a_pipe_gets_every_byte() {
    let sandbox = sandbox();
    let document = sandbox.run(&["call", "evil", "say", "--json"]).exits(0).json();
    assert_eq!(document["result"]["content"][0]["text"], HOSTILE_TEXT);
    let ran = sandbox.run(&["call", "evil", "say"]);
    assert!(ran.exits(0).stdout.starts_with(HOSTILE_TEXT));
    let ran = sandbox.run(&["call", "evil", "refuses"]);
    ran.exits(1).says(HARMLESS_TEXT);
}

/// The sequences that redraw a table in place: `ESC [ n A CR ESC [ J`.
fn without_own_sequences(screen: &str) -> String {
    let mut screen = screen.to_owned();
    for sequence in OWN_SEQUENCES {
        screen = screen.replace(sequence, "");
    }
    for lines in 1..100 {
        screen = screen.replace(&format!("\u{1b}[{lines}A\r\u{1b}[J"), "");
    }
    screen
}

#[track_caller]
fn assert_harmless(seen: &str, command: &[String]) {
    let hidden = seen.chars().find(|&c| PlainText::is_hidden(c));
    assert_eq!(hidden, None, "{command:?}: {seen:?}");
}
