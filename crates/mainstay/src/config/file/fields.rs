//! Reads an object key by key, with the place of everything.
//!
//! Each known key may be written in snake_case or camelCase, once. An unknown key is a warning with the nearest known
//! one; a wrong type is an error; `null` means "not set".

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::time::Duration;

use super::keys::{Keys, spells};
use super::report::ProblemReport;
use super::syntax::{Mapping, Node, Value};
use crate::config::duration::{self, DurationError};
use crate::config::nearest::nearest;
use crate::config::problem::{ProblemText, dotted, quoted};

/// The keys of one object that are understood, by their snake_case names.
pub(super) struct FieldSet<'a> {
    keys: &'static Keys,
    fields: Vec<(&'static str, Field<'a>)>,
}

/// One value, with its key and place. What is wrong with it is reported.
#[derive(Clone)]
pub(super) struct Field<'a> {
    /// The canonical path inside of the server: `restart.backoff.first`, `args[0]`.
    path: String,
    /// The whole path as it was written: `mcpServers.files.restart.backoff.first`.
    pub(super) shown: String,
    /// Where it stands: where the value begins, for the entry of a server its name.
    pub(super) at: usize,
    node: &'a Node<'a>,
    pub(super) report: &'a ProblemReport<'a>,
}

impl<'a> FieldSet<'a> {
    /// Sorts the keys of an object into known, foreign and unknown.
    fn of(field: &Field<'a>, object: &'a Mapping<'a>, keys: &'static Keys) -> Self {
        let report = field.report;
        let mut fields: Vec<(&'static str, Field<'a>)> = Vec::new();
        for property in &object.properties {
            let written = &*property.name;
            let name_at = property.name_at;
            let shown = dotted(&field.shown, written);
            if let Some(key) = keys.find(written) {
                let new = field.child(join(&field.path, key), shown, &property.node);
                match fields.iter().find(|(known, _)| *known == key) {
                    None => fields.push((key, new)),
                    Some((_, first)) => {
                        let problem = twice(report, first.at, &first.shown, &new.shown);
                        report.error(&new.shown, name_at, problem);
                    }
                }
            } else if let Some((_, fix)) = keys
                .ignored_with_warning
                .iter()
                .find(|(key, _)| spells(written, key))
            {
                let problem = ProblemText::new("this key of other programs is ignored", *fix);
                report.warning(&shown, name_at, problem);
            } else if !keys.foreign.contains(&written) {
                let meant = nearest(written, keys.names());
                report.warning(&shown, name_at, unknown(meant));
            }
        }
        Self { keys, fields }
    }

    /// The value of a key, unless it is absent or `null`.
    pub(super) fn get(&self, key: &'static str) -> Option<&Field<'a>> {
        debug_assert!(
            self.keys.find(key) == Some(key),
            "the reader asks for {key:?}, which its table of keys lacks"
        );
        let (_, field) = self.fields.iter().find(|(known, _)| *known == key)?;
        (!matches!(field.node.value, Value::Null)).then_some(field)
    }

    /// The value of the first of these keys that is set.
    pub(super) fn first_of(&self, keys: &[&'static str]) -> Option<&Field<'a>> {
        keys.iter().find_map(|key| self.get(key))
    }

    /// What a reader such as [`Field::duration`] makes of the value of a key, if it is set.
    pub(super) fn read<T>(
        &self,
        key: &'static str,
        reader: impl FnOnce(&Field<'a>) -> Option<T>,
    ) -> Option<T> {
        reader(self.get(key)?)
    }

    /// The same, put in its place if there is anything to put there.
    pub(super) fn read_into<T>(
        &self,
        place: &mut T,
        key: &'static str,
        reader: impl FnOnce(&Field<'a>) -> Option<T>,
    ) {
        if let Some(read) = self.read(key, reader) {
            *place = read;
        }
    }

    /// The items of an array; none if the key is not set.
    pub(super) fn items(&self, key: &'static str) -> Vec<Field<'a>> {
        self.read(key, Field::items).unwrap_or_default()
    }

    /// The entries of an object whose keys are the person's own; none if the key is not set.
    pub(super) fn entries(&self, key: &'static str) -> Vec<(&'a str, Field<'a>)> {
        self.read(key, Field::entries).unwrap_or_default()
    }
}

impl<'a> Field<'a> {
    /// The entry of a server whose name stands at `at`. What concerns it as a whole stands there too.
    pub(super) fn entry(shown: String, at: usize, node: &'a Node<'a>, report: &'a ProblemReport<'a>) -> Self {
        Self {
            path: String::new(),
            shown,
            at,
            node,
            report,
        }
    }

    fn child(&self, path: String, shown: String, node: &'a Node<'a>) -> Self {
        let child = Self {
            path,
            shown,
            at: node.start,
            node,
            report: self.report,
        };
        child.stands_for(&child.path);
        child
    }

    /// Lets problems of the setting at this path, which are found when all is read, stand here.
    pub(super) fn stands_for(&self, path: &str) {
        self.report.saw(path, &self.shown, self.at);
    }

    pub(super) fn error(&self, problem: impl Into<ProblemText>) {
        self.report.error(&self.shown, self.at, problem);
    }

    /// A value that is not there.
    pub(super) fn lack(&self, problem: impl Into<ProblemText>) {
        self.report.lack(&self.shown, self.at, problem);
    }

    pub(super) fn warning(&self, problem: impl Into<ProblemText>) {
        self.report.warning(&self.shown, self.at, problem);
    }

    /// Something a person may want to know.
    pub(super) fn note(&self, problem: impl Into<ProblemText>) {
        self.report.note(&self.shown, self.at, problem);
    }

    pub(super) fn value(&self) -> &'a Value<'a> {
        &self.node.value
    }

    pub(super) fn as_object(&self) -> Option<&'a Mapping<'a>> {
        self.node.as_object()
    }

    /// The byte after the value.
    pub(super) fn end(&self) -> usize {
        self.node.end
    }

    pub(super) fn text(&self) -> Option<&'a str> {
        match self.value() {
            Value::Text(text) => Some(text),
            other => self.mistyped("a string", other),
        }
    }

    /// A text, or a number or boolean as it is written: people write `"PORT": 8080`.
    pub(super) fn scalar(&self) -> Option<&'a str> {
        match self.value() {
            Value::Number(number) => Some(number),
            Value::Flag(flag) => Some(if *flag { "true" } else { "false" }),
            Value::Text(_) | Value::Object(_) | Value::Array(_) | Value::Null => self.text(),
        }
    }

    pub(super) fn flag(&self) -> Option<bool> {
        match self.value() {
            Value::Flag(flag) => Some(*flag),
            other => self.mistyped("true or false", other),
        }
    }

    /// One of these words. Any other is an error with this fix.
    pub(super) fn one_of<T: Copy>(&self, words: &[(&str, T)], fix: &str) -> Option<T> {
        let written = self.text()?;
        let found = words.iter().find(|(word, _)| *word == written);
        if found.is_none() {
            self.not_understood(written, fix);
        }
        found.map(|(_, meaning)| *meaning)
    }

    pub(super) fn not_understood(&self, written: &str, fix: &str) {
        let message = format!("{} is not understood", quoted(written));
        self.error(ProblemText::new(message, fix));
    }

    fn object(&self) -> Option<&'a Mapping<'a>> {
        match self.value() {
            Value::Object(object) => Some(object),
            other => self.mistyped("an object", other),
        }
    }

    /// The keys of an object.
    pub(super) fn fields(&self, keys: &'static Keys) -> Option<FieldSet<'a>> {
        Some(FieldSet::of(self, self.object()?, keys))
    }

    /// A whole number of at least one.
    pub(super) fn count(&self) -> Option<NonZeroU32> {
        let count = self.whole_number()?;
        let count = NonZeroU32::new(count);
        if count.is_none() {
            self.error("must be at least 1");
        }
        count
    }

    /// A whole number, zero included.
    pub(super) fn whole_number(&self) -> Option<u32> {
        let Value::Number(number) = self.value() else {
            return self.mistyped("a whole number", self.value());
        };
        let parsed = number.parse().ok();
        if parsed.is_none() {
            self.error(format!(
                "expected a whole number up to {}, found {number}",
                u32::MAX
            ));
        }
        parsed
    }

    pub(super) fn duration(&self) -> Option<Duration> {
        self.duration_in(1.0)
    }

    /// A duration whose plain numbers count units of so many seconds.
    pub(super) fn duration_in(&self, unit: f64) -> Option<Duration> {
        let (written, parsed) = match self.value() {
            Value::Number(number) => (number.clone().into_owned(), duration::scaled(number, unit)),
            Value::Text(text) => (quoted(text), duration::from_text(text)),
            other => return self.mistyped("a duration", other),
        };
        match parsed {
            Ok(duration) => return Some(duration),
            Err(DurationError::NotADuration) => {
                self.error(ProblemText::new(
                    format!("{written} is not a duration"),
                    duration::SPELLINGS,
                ));
            }
            Err(DurationError::Negative) => self.error("a duration cannot be negative"),
            Err(DurationError::TooLong) => self.error("a duration cannot be longer than a year"),
        }
        None
    }

    /// The items of an array, each with its own path.
    pub(super) fn items(&self) -> Option<Vec<Field<'a>>> {
        let Value::Array(array) = self.value() else {
            return self.mistyped("an array", self.value());
        };
        let items = array.iter().enumerate().map(|(n, node)| {
            let (path, shown) = (format!("{}[{n}]", self.path), format!("{}[{n}]", self.shown));
            self.child(path, shown, node)
        });
        Some(items.collect())
    }

    /// The entries of an object whose keys are the person's own, each key once.
    pub(super) fn entries(&self) -> Option<Vec<(&'a str, Field<'a>)>> {
        let object = self.object()?;
        let mut entries: Vec<(&'a str, Field<'a>)> = Vec::with_capacity(object.properties.len());
        let mut first_at: HashMap<&'a str, usize> = HashMap::new();
        for property in &object.properties {
            let name = &*property.name;
            // In YAML a slip such as `{KEY:value}` makes one key of a name and its value, which may be a secret.
            let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            let may_be_both = matches!(property.node.value, Value::Null) && !name.chars().all(is_plain);
            let shown = dotted(&self.shown, if may_be_both { "…" } else { name });
            let entry = self.child(dotted(&self.path, name), shown, &property.node);
            let name_at = property.name_at;
            match first_at.get(name) {
                Some(first) => {
                    let problem = twice(self.report, *first, &entry.shown, &entry.shown);
                    self.report.error(&entry.shown, name_at, problem);
                }
                None => {
                    first_at.insert(name, name_at);
                    entries.push((name, entry));
                }
            }
        }
        Some(entries)
    }

    fn mistyped<T>(&self, expected: &str, found: &Value<'_>) -> Option<T> {
        self.error(format!("expected {expected}, found {}", found.kind()));
        None
    }
}

/// An unknown key, and the one that was probably meant.
pub(super) fn unknown(meant: Option<&str>) -> ProblemText {
    ProblemText {
        message: "unknown key".to_owned(),
        fix: meant.map(|key| format!("did you mean {key:?}?")),
        unset_variable: None,
    }
}

fn twice(report: &ProblemReport<'_>, first_at: usize, first: &str, second: &str) -> ProblemText {
    let line = report.line(first_at);
    let first = if first == second {
        format!("first on line {line}")
    } else {
        format!("first as {first} on line {line}")
    };
    ProblemText::new(format!("written twice, {first}"), "keep one")
}

fn join(parent: &str, key: &str) -> String {
    if parent.is_empty() {
        key.to_owned()
    } else {
        format!("{parent}.{key}")
    }
}
