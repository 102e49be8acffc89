//! What is wrong with a configuration, where, and how to fix it.

use std::fmt;
use std::path::PathBuf;

/// One thing wrong with a configuration. Its text names the place, the key, the problem and the fix.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// Whether it costs the server or is only worth a look.
    pub severity: Severity,
    /// The server it concerns; `None` for the file as a whole.
    pub server: Option<String>,
    /// The key it concerns, from the top of the file: `mcpServers.files.args[0]`.
    pub key: Option<String>,
    /// Where in the file.
    pub position: Option<Position>,
    /// The file; `None` for a server that was configured from Rust.
    pub file: Option<PathBuf>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub fix: Option<String>,
    /// The variable that is not set, if that is the problem. A program that reads files for people with another environment, such as
    /// a daemon, can say where to set it.
    pub unset_variable: Option<String>,
}

/// What a problem costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The server is not used; the others are.
    Error,
    /// The server is used; the person probably meant something else.
    Warning,
    /// Nothing is wrong; it says what was made of the file where that is not plain from the file itself.
    Note,
}

/// A place in a text, both counted from one, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.position) {
            (Some(file), Some(position)) => write!(f, "{}:{position}: ", file.display())?,
            (Some(file), None) => write!(f, "{}: ", file.display())?,
            (None, Some(position)) => write!(f, "{position}: ")?,
            (None, None) => {}
        }
        if let Some(key) = &self.key {
            write!(f, "{key}: ")?;
        }
        f.write_str(&self.message)?;
        if let Some(fix) = &self.fix {
            write!(f, "; {fix}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

/// What is wrong and how to fix it, without the place.
pub(super) struct ProblemText {
    pub(super) message: String,
    pub(super) fix: Option<String>,
    /// The variable that is not set, if that is the problem.
    pub(super) unset_variable: Option<String>,
}

/// What is wrong with a setting, by the path of its key: `restart.backoff.first`. The server itself has the empty path.
pub(super) struct SettingProblem {
    pub(super) severity: Severity,
    pub(super) key: String,
    pub(super) text: ProblemText,
}

impl ProblemText {
    /// What is wrong, and what to do about it.
    pub(super) fn new(message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            fix: Some(fix.into()),
            unset_variable: None,
        }
    }

    /// A variable that is not set, and what to do about it.
    #[cfg(feature = "config-file")]
    pub(super) fn unset(variable: &str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            unset_variable: Some(variable.to_owned()),
            ..Self::new(message, fix)
        }
    }
}

impl From<&str> for ProblemText {
    fn from(message: &str) -> Self {
        Self::from(message.to_owned())
    }
}

impl From<String> for ProblemText {
    fn from(message: String) -> Self {
        Self {
            message,
            fix: None,
            unset_variable: None,
        }
    }
}

impl SettingProblem {
    pub(super) fn error(key: impl Into<String>, text: impl Into<ProblemText>) -> Self {
        Self {
            severity: Severity::Error,
            key: key.into(),
            text: text.into(),
        }
    }

    pub(super) fn warning(key: impl Into<String>, text: impl Into<ProblemText>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(key, text)
        }
    }
}

/// How many characters of a person's own text a message repeats.
const MAX_QUOTED: usize = 80;

/// `parent.key`, the key in quotes where it would be misread without.
pub(super) fn dotted(parent: &str, key: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$');
    let key = if (1..=MAX_QUOTED).contains(&key.len()) && key.chars().all(plain) {
        key.to_owned()
    } else {
        quoted(key)
    };
    if parent.is_empty() {
        key
    } else {
        format!("{parent}.{key}")
    }
}

/// A person's own text inside a message: in quotes, control characters escaped, cut where it would fill the screen.
pub(super) fn quoted(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}…", &text[..end]),
    }
}
