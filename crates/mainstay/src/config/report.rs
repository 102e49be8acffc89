//! Collects problems while a file is read, and knows where everything stands.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use super::check::Flaw;
use super::problem::{Place, Problem, Severity};

/// How many problems of one file are kept. Nobody reads more, and a hostile file could hold millions.
pub(super) const MAX_PROBLEMS: usize = 200;

/// The problems of one file. Whatever is said between two `begin`s concerns one server.
pub(super) struct Report<'t> {
    lines: Lines<'t>,
    file: &'t Path,
    problems: Vec<Problem>,
    refused: BTreeSet<String>,
    server: Option<String>,
    /// Whether the current server is disabled.
    is_off: bool,
    /// The first value that the current server lacks, if it is disabled.
    lacking: Option<String>,
    /// Where each key of the current server stands, by its canonical path.
    seen: HashMap<String, Seen>,
}

/// A key as it was written.
struct Seen {
    shown: String,
    at: usize,
}

/// What is wrong, without the place.
pub(super) struct Fault {
    pub(super) message: String,
    pub(super) mend: Option<String>,
}

impl<'t> Report<'t> {
    pub(super) fn new(text: &'t str, file: &'t Path) -> Self {
        Self {
            lines: Lines::new(text),
            file,
            problems: Vec::new(),
            refused: BTreeSet::new(),
            server: None,
            is_off: false,
            lacking: None,
            seen: HashMap::new(),
        }
    }

    /// From here on, problems concern this server.
    pub(super) fn begin(&mut self, server: &str) {
        self.server = Some(server.to_owned());
        self.is_off = false;
        self.lacking = None;
        self.seen.clear();
    }

    /// The current server is disabled: it needs no values.
    pub(super) fn is_disabled(&mut self) {
        self.is_off = true;
    }

    /// A value that is not there: an error, unless nothing needs it because the current server is disabled.
    pub(super) fn lack(&mut self, shown: &str, at: usize, fault: impl Into<Fault>) {
        let fault = fault.into();
        if !self.is_off {
            return self.error(shown, at, fault);
        }
        self.lacking.get_or_insert_with(|| fault.message.clone());
        let message = format!("{}, which matters only when the server is enabled", fault.message);
        self.note(shown, at, Fault { message, ..fault });
    }

    /// The first value that the current server lacks, if it is disabled.
    pub(super) fn lacking(&self) -> Option<&str> {
        self.lacking.as_deref()
    }

    /// Remembers where a key of the current server stands, for flaws found when all is read.
    pub(super) fn saw(&mut self, path: &str, shown: &str, at: usize) {
        let shown = shown.to_owned();
        self.seen.entry(path.to_owned()).or_insert(Seen { shown, at });
    }

    /// Something that costs the current server.
    pub(super) fn error(&mut self, shown: &str, at: usize, fault: impl Into<Fault>) {
        self.add(Severity::Error, shown, at, fault.into());
    }

    /// Something worth a look.
    pub(super) fn warning(&mut self, shown: &str, at: usize, fault: impl Into<Fault>) {
        self.add(Severity::Warning, shown, at, fault.into());
    }

    /// Something a person may want to know, which needs no change of the file.
    pub(super) fn note(&mut self, shown: &str, at: usize, fault: impl Into<Fault>) {
        self.add(Severity::Note, shown, at, fault.into());
    }

    /// A flaw of the finished server: stands where its key was written, or the nearest key around it.
    pub(super) fn flaw(&mut self, flaw: Flaw) {
        let mut path = flaw.key.as_str();
        let seen = loop {
            match self.seen.get(path) {
                Some(seen) => break Some((seen.shown.clone(), seen.at)),
                None if path.is_empty() => break None,
                None => path = &path[..path.rfind(['.', '[']).unwrap_or(0)],
            }
        };
        let (shown, at) = seen.unwrap_or_default();
        self.add(flaw.severity, &shown, at, flaw.fault);
    }

    /// Whether this server has an error.
    pub(super) fn is_refused(&self, server: &str) -> bool {
        self.refused.contains(server)
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
    pub(super) fn finish(mut self) -> (Vec<Problem>, BTreeSet<String>) {
        self.problems.sort_by_key(|problem| problem.place);
        (self.problems, self.refused)
    }

    fn add(&mut self, severity: Severity, shown: &str, at: usize, fault: Fault) {
        if let (Severity::Error, Some(server)) = (severity, &self.server) {
            self.refused.insert(server.clone());
        }
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem {
                severity,
                server: self.server.clone(),
                key: Some(shown.to_owned()),
                place: Some(self.lines.place(at)),
                file: Some(self.file.to_owned()),
                message: fault.message,
                mend: fault.mend,
            });
        }
    }
}

impl Fault {
    /// What is wrong, and what to do about it.
    pub(super) fn new(message: impl Into<String>, mend: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            mend: Some(mend.into()),
        }
    }
}

impl From<&str> for Fault {
    fn from(message: &str) -> Self {
        Self::from(message.to_owned())
    }
}

impl From<String> for Fault {
    fn from(message: String) -> Self {
        Self { message, mend: None }
    }
}

/// Turns bytes into lines and columns.
pub(super) struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
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

    pub(super) fn place(&self, at: usize) -> Place {
        let at = (0..=at.min(self.text.len()))
            .rfind(|at| self.text.is_char_boundary(*at))
            .unwrap_or(0);
        let line = self.line(at);
        let before = &self.text[self.starts[line - 1]..at];
        Place {
            line,
            column: before.chars().count() + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;
    use crate::config::Place;

    #[test]
    fn places_count_lines_and_characters_from_one() {
        let lines = Lines::new("ab\r\né⟂x\n");
        for (at, line, column) in [
            (0, 1, 1),
            (3, 1, 4),
            (4, 2, 1),
            (6, 2, 2),
            (9, 2, 3),
            (11, 3, 1),
            (99, 3, 1),
        ] {
            assert_eq!(lines.place(at), Place { line, column }, "{at}");
        }
    }
}
