//! Why a text cannot be expanded, and what a person can do about it.

use super::{MAX_EXPANDED_BYTES, MAX_NESTING};
use crate::config::file::layout::input_variable;
use crate::config::problem::{ProblemText, quoted};

/// Why a text cannot be expanded, and at which of its bytes.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::config::file) struct ExpandError {
    pub(in crate::config::file) at: usize,
    pub(super) kind: ExpandErrorKind,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ExpandErrorKind {
    NotSet(String),
    Unterminated,
    NotAName,
    /// Something that only an editor can know, such as `${config:…}`.
    OfEditors(String),
    /// An input that no variable answers.
    NoInput {
        id: String,
        is_declared: bool,
    },
    NoHome,
    NotUnicode,
    File {
        path: String,
        reason: String,
    },
    TooDeep,
    TooLong,
}

impl ExpandError {
    /// Whether the text is in order, and what it stands for is not there.
    pub(in crate::config::file) fn is_lack(&self) -> bool {
        match self.kind {
            ExpandErrorKind::NotSet(_)
            | ExpandErrorKind::NoInput { .. }
            | ExpandErrorKind::NoHome
            | ExpandErrorKind::File { .. } => true,
            ExpandErrorKind::Unterminated
            | ExpandErrorKind::NotAName
            | ExpandErrorKind::OfEditors(_)
            | ExpandErrorKind::NotUnicode
            | ExpandErrorKind::TooDeep
            | ExpandErrorKind::TooLong => false,
        }
    }
}

impl From<ExpandError> for ProblemText {
    fn from(error: ExpandError) -> Self {
        match error.kind {
            ExpandErrorKind::OfEditors(name) => Self::new(
                format!("`${{{name}}}` is known to editors only"),
                "write what it stands for",
            ),
            ExpandErrorKind::NotSet(name) => Self::unset(
                &name,
                format!("the variable {name} is not set"),
                format!("set it, or give it a default: ${{{name}:-default}}"),
            ),
            ExpandErrorKind::Unterminated => Self::new(
                "`${` without its `}`",
                "close it, or write `$${` for a plain `${`",
            ),
            ExpandErrorKind::NotAName => Self::new(
                "`${` is not followed by the name of a variable",
                "use letters, digits and `_`, or write `$${` for a plain `${`",
            ),
            ExpandErrorKind::NoInput { id, is_declared } => {
                let variable = input_variable(&id);
                let id = quoted(&id);
                let message = if is_declared {
                    format!("VS Code asks a person for the input {id}, and it has no default")
                } else {
                    format!("VS Code asks a person for the input {id}, which `inputs` does not declare")
                };
                let fix = format!("set the variable {variable} to the answer");
                Self::unset(&variable, message, fix)
            }
            ExpandErrorKind::NoHome => Self::new(
                "the home directory is not known, since HOME is not set",
                "set it, or write the whole path",
            ),
            ExpandErrorKind::NotUnicode => Self::new(
                "the workspace folder has a name that is not Unicode",
                "write the whole path",
            ),
            ExpandErrorKind::File { path, reason } => Self::new(
                format!("the file {} {reason}", quoted(&path)),
                "name a file that holds the value",
            ),
            ExpandErrorKind::TooDeep => Self::new(
                format!("defaults nest deeper than {MAX_NESTING}"),
                "set the variable instead",
            ),
            ExpandErrorKind::TooLong => {
                Self::from(format!("longer than {MAX_EXPANDED_BYTES} bytes when expanded"))
            }
        }
    }
}
