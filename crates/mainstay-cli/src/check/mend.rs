//! What a person can do about a server that is not up.

use std::fmt;
use std::path::Path;

use mainstay::config::Target;
use mainstay::{Reason, ServerConfig, StateKind, Status};

use crate::startup::Standing;

/// The next step.
#[derive(Debug)]
pub(crate) struct Mend {
    pub(crate) advice: String,
    /// A command to run for it, to be copied as it stands.
    pub(crate) command: Option<String>,
}

/// The way out, where one is known. The library's messages name the fault; this names the next step.
pub(super) fn mend(status: &Status, config: &ServerConfig, file: Option<&Path>) -> Option<Mend> {
    match Standing::of(status) {
        Standing::Up | Standing::Off => return None,
        Standing::Starting | Standing::Down => {}
    }
    if status.reason == Some(Reason::AuthRequired) {
        return Some(Mend::plain("log in to it"));
    }
    let Some(error) = &status.last_error else {
        return Some(Mend::plain("it is still starting: give it longer with --timeout"));
    };
    let advice = match (status.state, &error.exit) {
        (StateKind::PermanentlyFailed, None) => {
            let advice = file.map(|file| format!("mend its entry in {}, then check again", file.display()));
            return advice.map(Mend::plain);
        }
        (_, Some(_)) => "run it by hand to see why it ends",
        (_, None) => "is it an MCP server on stdin and stdout? run it by hand",
    };
    by_hand(config).map(|command| Mend {
        advice: advice.to_owned(),
        command: Some(command),
    })
}

impl Mend {
    fn plain(advice: impl Into<String>) -> Self {
        let (advice, command) = (advice.into(), None);
        Self { advice, command }
    }
}

impl fmt::Display for Mend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.advice)?;
        match &self.command {
            Some(command) => write!(f, ": {command}"),
            None => Ok(()),
        }
    }
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

/// A word as a shell would take it. Variables stay variables: the shell has them too.
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
