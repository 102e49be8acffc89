//! What is wrong with a configuration, where, and how to mend it.

use std::fmt;
use std::path::PathBuf;

/// One thing wrong with a configuration. Its text names the place, the key, the fault and the mend.
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
    pub place: Option<Place>,
    /// The file; `None` for a server that was configured from Rust.
    pub file: Option<PathBuf>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub mend: Option<String>,
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
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.place) {
            (Some(file), Some(place)) => write!(f, "{}:{place}: ", file.display())?,
            (Some(file), None) => write!(f, "{}: ", file.display())?,
            (None, Some(place)) => write!(f, "{place}: ")?,
            (None, None) => {}
        }
        if let Some(key) = &self.key {
            write!(f, "{key}: ")?;
        }
        f.write_str(&self.message)?;
        if let Some(mend) = &self.mend {
            write!(f, "; {mend}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Place {
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
