//! Collects problems while a file is read, and knows where everything stands.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use crate::config::problem::{Position, Problem, ProblemText, SettingProblem, Severity};

/// How many problems of one file are kept. A person reads no more, and a hostile file could hold millions.
pub(super) const MAX_PROBLEMS: usize = 200;

/// The problems of one file. Whatever is said between two `begin`s concerns one server. Every field that is read shares it.
pub(super) struct ProblemReport<'t> {
    lines: LineIndex<'t>,
    file: &'t Path,
    values: ValuesOwner,
    found: RefCell<Findings>,
}

/// Which process needs the values that variables and files hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValuesOwner {
    /// The one that reads the configuration.
    Reader,
    /// Another: what is missing here may be there.
    Another,
}

#[derive(Default)]
struct Findings {
    problems: Vec<Problem>,
    refused: BTreeSet<String>,
    server: Option<String>,
    /// Whether the current server is disabled.
    is_off: bool,
    /// The first value that the current server lacks, if it does not need it here.
    lacking: Option<String>,
    /// Where each key of the current server stands, by its canonical path.
    seen: HashMap<String, Seen>,
}

/// A key as it was written.
struct Seen {
    shown: String,
    at: usize,
}

impl<'t> ProblemReport<'t> {
    pub(super) fn new(text: &'t str, file: &'t Path, values: ValuesOwner) -> Self {
        Self {
            lines: LineIndex::new(text),
            file,
            values,
            found: RefCell::default(),
        }
    }

    /// From here on, problems concern this server.
    pub(super) fn begin(&self, server: &str) {
        let mut found = self.found.borrow_mut();
        found.server = Some(server.to_owned());
        found.is_off = false;
        found.lacking = None;
        found.seen.clear();
    }

    /// The current server is disabled: it needs no values.
    pub(super) fn is_disabled(&self) {
        self.found.borrow_mut().is_off = true;
    }

    /// A value that is not there: an error, unless nothing needs it here because the current server is disabled, or another
    /// process has the values.
    pub(super) fn lack(&self, shown: &str, at: usize, problem: impl Into<ProblemText>) {
        let problem = problem.into();
        let is_elsewhere = self.values == ValuesOwner::Another;
        if !self.found.borrow().is_off && !is_elsewhere {
            return self.error(shown, at, problem);
        }
        let lacking = || problem.message.clone();
        self.found.borrow_mut().lacking.get_or_insert_with(lacking);
        if is_elsewhere {
            return;
        }
        let message = format!(
            "{}, which matters only when the server is enabled",
            problem.message
        );
        self.note(shown, at, ProblemText { message, ..problem });
    }

    /// The first value that the current server lacks, if it does not need it here.
    pub(super) fn lacking(&self) -> Option<String> {
        self.found.borrow().lacking.clone()
    }

    /// Remembers where a key of the current server stands, for problems found when all is read.
    pub(super) fn saw(&self, path: &str, shown: &str, at: usize) {
        let shown = shown.to_owned();
        let mut found = self.found.borrow_mut();
        found.seen.entry(path.to_owned()).or_insert(Seen { shown, at });
    }

    /// Something that costs the current server.
    pub(super) fn error(&self, shown: &str, at: usize, problem: impl Into<ProblemText>) {
        self.add(Severity::Error, shown, at, problem.into());
    }

    /// Something worth a look.
    pub(super) fn warning(&self, shown: &str, at: usize, problem: impl Into<ProblemText>) {
        self.add(Severity::Warning, shown, at, problem.into());
    }

    /// Something a person may want to know, which needs no change of the file.
    pub(super) fn note(&self, shown: &str, at: usize, problem: impl Into<ProblemText>) {
        self.add(Severity::Note, shown, at, problem.into());
    }

    /// A problem of the finished server: stands where its key was written, or the nearest key around it.
    pub(super) fn setting(&self, problem: SettingProblem) {
        let mut path = problem.key.as_str();
        let found = self.found.borrow();
        let seen = loop {
            match found.seen.get(path) {
                Some(seen) => break Some((seen.shown.clone(), seen.at)),
                None if path.is_empty() => break None,
                None => path = &path[..path.rfind(['.', '[']).unwrap_or(0)],
            }
        };
        drop(found);
        let (shown, at) = seen.unwrap_or_default();
        self.add(problem.severity, &shown, at, problem.text);
    }

    /// Whether this server has an error.
    pub(super) fn is_refused(&self, server: &str) -> bool {
        self.found.borrow().refused.contains(server)
    }

    /// The line a byte of the text stands on.
    pub(super) fn line(&self, at: usize) -> usize {
        self.lines.line(at)
    }

    /// The text between two bytes, as it stands in the file.
    pub(super) fn raw(&self, start: usize, end: usize) -> &'t str {
        self.lines.text.get(start..end).unwrap_or("")
    }

    /// The problems, in the order of the file, and the names of the servers with errors.
    pub(super) fn finish(self) -> (Vec<Problem>, BTreeSet<String>) {
        let mut found = self.found.into_inner();
        found.problems.sort_by_key(|problem| problem.position);
        (found.problems, found.refused)
    }

    fn add(&self, severity: Severity, shown: &str, at: usize, problem: ProblemText) {
        if self.values == ValuesOwner::Another && problem.unset_variable.is_some() {
            return;
        }
        let mut found = self.found.borrow_mut();
        let Findings {
            problems,
            refused,
            server,
            ..
        } = &mut *found;
        if let (Severity::Error, Some(server)) = (severity, &*server) {
            refused.insert(server.clone());
        }
        if problems.len() < MAX_PROBLEMS {
            problems.push(Problem {
                severity,
                server: server.clone(),
                key: Some(shown.to_owned()),
                position: Some(self.lines.position(at)),
                file: Some(self.file.to_owned()),
                message: problem.message,
                fix: problem.fix,
                unset_variable: problem.unset_variable,
            });
        }
    }
}

/// Turns bytes into lines and columns.
pub(super) struct LineIndex<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> LineIndex<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let after_breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            text,
            starts: std::iter::once(0).chain(after_breaks).collect(),
        }
    }

    fn line(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at)
    }

    pub(super) fn position(&self, at: usize) -> Position {
        let at = (0..=at.min(self.text.len()))
            .rfind(|at| self.text.is_char_boundary(*at))
            .unwrap_or(0);
        let line = self.line(at);
        let before = &self.text[self.starts[line - 1]..at];
        Position {
            line,
            column: before.chars().count() + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LineIndex;
    use crate::config::Position;

    #[test]
    fn places_count_lines_and_characters_from_one() {
        let lines = LineIndex::new("ab\r\né⟂x\n");
        for (at, line, column) in [
            (0, 1, 1),
            (3, 1, 4),
            (4, 2, 1),
            (6, 2, 2),
            (9, 2, 3),
            (11, 3, 1),
            (99, 3, 1),
        ] {
            assert_eq!(lines.position(at), Position { line, column }, "{at}");
        }
    }
}
