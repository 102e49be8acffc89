//! What `cargo mutants --list` finds: where the sources could be wrong, and how.

use std::ops::Range;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::child;

const LIST_WITHIN: Duration = Duration::from_secs(120);

/// One wrong version of the sources.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Mutant {
    pub(crate) package: String,
    /// The path of the source file below the project's root.
    pub(crate) file: String,
    /// A sentence with the place and the change. It is unique.
    pub(crate) name: String,
    pub(crate) genre: Genre,
    pub(crate) replacement: String,
    pub(crate) span: LineSpan,
    /// `None` in a constant, which cannot be switched while the program runs.
    pub(crate) function: Option<Function>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Function {
    pub(crate) span: LineSpan,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub(crate) enum Genre {
    FnValue,
    BinaryOperator,
    UnaryOperator,
    MatchArm,
    MatchArmGuard,
    StructField,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct LineSpan {
    pub(crate) start: LineColumn,
    pub(crate) end: LineColumn,
}

/// Both count from one; columns count characters.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct LineColumn {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl LineColumn {
    /// The number of bytes before this place.
    pub(crate) fn offset(self, text: &str) -> Option<usize> {
        let line_start = match self.line.checked_sub(2) {
            None => 0,
            Some(newlines_before) => text.match_indices('\n').nth(newlines_before)?.0 + 1,
        };
        let before = text[line_start..].chars().take(self.column.checked_sub(1)?);
        Some(line_start + before.map(char::len_utf8).sum::<usize>())
    }
}

impl LineSpan {
    pub(crate) fn range(self, text: &str) -> Option<Range<usize>> {
        Some(self.start.offset(text)?..self.end.offset(text)?)
    }
}

/// All mutants of the packages, as the project's `.cargo/mutants.toml` limits them.
pub(crate) fn list(cargo: &mut Command, packages: &[&str]) -> Result<Vec<Mutant>> {
    cargo.args(["mutants", "--list", "--json", "--colors", "never"]);
    for package in packages {
        cargo.args(["--package", package]);
    }
    let text = child::output(cargo, LIST_WITHIN).context("cannot list the mutants")?;
    serde_json::from_str(&text).context("the list of cargo mutants is not as expected")
}

#[cfg(test)]
mod tests {
    use super::LineColumn;

    #[test]
    fn a_column_counts_characters_and_an_offset_bytes() {
        let text = "äb\ncöd\n";
        let offset = |line, column| LineColumn { line, column }.offset(text);
        assert_eq!(offset(1, 1), Some(0));
        assert_eq!(offset(1, 2), Some(2));
        assert_eq!(offset(2, 1), Some(4));
        assert_eq!(offset(2, 3), Some(7));
        assert_eq!(offset(9, 1), None);
    }
}
