//! What a person can do about a server that is not up.

use std::path::Path;

use mainstay::config::Target;
use mainstay::{Reason, ServerConfig, StateKind, Status};

use crate::startup::Standing;

/// The way out, where one is known. The library's messages name the fault; this names the next step.
pub(super) fn advice(status: &Status, config: &ServerConfig, file: Option<&Path>) -> Option<String> {
    match Standing::of(status) {
        Standing::Up => return None,
        Standing::Off => return in_file(file, |file| format!("set `enabled` to true in {file}")),
        Standing::Starting | Standing::Down => {}
    }
    if status.reason == Some(Reason::AuthRequired) {
        return Some("log in to it".to_owned());
    }
    let exited = status.last_error.as_ref().is_some_and(|error| error.exit.is_some());
    match (status.state, status.last_error.is_some(), exited) {
        (StateKind::PermanentlyFailed, _, false) => {
            in_file(file, |file| format!("mend its entry in {file}, then check again"))
        }
        (_, true, true) => by_hand(config).map(|line| format!("run it by hand to see why it ends: {line}")),
        (_, true, false) => {
            by_hand(config).map(|line| format!("is it an MCP server on stdin and stdout? run it by hand: {line}"))
        }
        (_, false, _) => Some("it is still starting: give it longer with --timeout".to_owned()),
    }
}

fn in_file(file: Option<&Path>, advice: impl Fn(std::path::Display<'_>) -> String) -> Option<String> {
    file.map(|file| advice(file.display()))
}

/// The command line as configured; secrets stay variables.
fn by_hand(config: &ServerConfig) -> Option<String> {
    match config.target() {
        Target::Stdio(program) => {
            let words = std::iter::once(program.command()).chain(program.args());
            let words: Vec<_> = words.map(|word| quoted(word.shown())).collect();
            Some(words.join(" "))
        }
        // What is not a program cannot be run by hand.
        _ => None,
    }
}

/// A word as a shell would take it. Variables stay outside of quotes' reach on purpose: the shell has them too.
fn quoted(word: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,~".contains(c);
    if !word.is_empty() && word.chars().all(bare) {
        word.to_owned()
    } else if word.contains("${") {
        format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_command_line_can_be_pasted_into_a_shell() {
        for (word, shown) in [
            ("npx", "npx"),
            ("--root=/srv/a", "--root=/srv/a"),
            ("two words", "'two words'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
            ("--token=${TOKEN}", r#""--token=${TOKEN}""#),
        ] {
            assert_eq!(quoted(word), shown);
        }
    }
}
