//! Reads an object key by key, with the place of everything.
//!
//! Each known key may be written in snake_case or camelCase, once. An unknown key is a warning with the nearest known
//! one; a wrong type is an error; `null` means "not set".

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::time::Duration;

use super::keys::{Keys, spells};
use super::report::ProblemReport;
use super::syntax::{Mapping, Node, Property, Value};
use crate::config::duration::{self, DurationError};
use crate::config::nearest::nearest;
use crate::config::problem::{ProblemText, dotted, quoted};

/// The keys of one object that are understood, by their snake_case names.
pub(super) struct FieldSet<'a> {
    keys: &'static Keys,
    fields: Vec<(&'static str, Field<'a>)>,
}

/// One value, with its key and place.
#[derive(Clone)]
pub(super) struct Field<'a> {
    /// The canonical path inside of the server: `restart.backoff.first`, `args[0]`.
    pub(super) path: String,
    /// The whole path as it was written: `mcpServers.files.restart.backoff.first`.
    pub(super) shown: String,
    /// Where it stands: where the value begins, for the entry of a server its name.
    pub(super) at: usize,
    node: &'a Node<'a>,
}

impl<'a> FieldSet<'a> {
    /// Sorts the keys of an object into known, foreign and unknown.
    pub(super) fn of(
        field: &Field<'_>,
        object: &'a Mapping<'a>,
        keys: &'static Keys,
        report: &mut ProblemReport<'_>,
    ) -> Self {
        let mut fields: Vec<(&'static str, Field<'a>)> = Vec::new();
        for property in &object.properties {
            let written = &*property.name;
            let name_at = property.name_at;
            let shown = dotted(&field.shown, written);
            if let Some(key) = keys.find(written) {
                let new = Field {
                    path: join(&field.path, key),
                    shown,
                    at: property.node.start,
                    node: &property.node,
                };
                report.saw(&new.path, &new.shown, new.at);
                match fields.iter().find(|(known, _)| *known == key) {
                    None => fields.push((key, new)),
                    Some((_, first)) => report.error(
                        &new.shown,
                        name_at,
                        twice(report, first.at, &first.shown, &new.shown),
                    ),
                }
            } else if let Some((_, fix)) = keys.unheeded.iter().find(|(key, _)| spells(written, key)) {
                report.warning(
                    &shown,
                    name_at,
                    ProblemText::new("this key of other programs is ignored", *fix),
                );
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

    /// What a reader such as [`Field::duration`] makes of the value of a key, if it is set.
    pub(super) fn read<T>(
        &self,
        key: &'static str,
        reader: impl FnOnce(&Field<'a>, &mut ProblemReport<'_>) -> Option<T>,
        report: &mut ProblemReport<'_>,
    ) -> Option<T> {
        reader(self.get(key)?, report)
    }

    /// The items of an array; none if the key is not set.
    pub(super) fn items(&self, key: &'static str, report: &mut ProblemReport<'_>) -> Vec<Field<'a>> {
        self.read(key, Field::items, report).unwrap_or_default()
    }

    /// The entries of an object whose keys are the person's own; none if the key is not set.
    pub(super) fn entries(
        &self,
        key: &'static str,
        report: &mut ProblemReport<'_>,
    ) -> Vec<(&'a str, Field<'a>)> {
        self.read(key, Field::entries, report).unwrap_or_default()
    }
}

impl<'a> Field<'a> {
    /// The entry of a server. What concerns it as a whole stands at its name.
    pub(super) fn entry(shown: String, property: &'a Property<'a>) -> Self {
        Self::at_name(shown, property.name_at, &property.node)
    }

    /// The entry of a server whose name stands at `at`.
    pub(super) fn at_name(shown: String, at: usize, node: &'a Node<'a>) -> Self {
        Self {
            path: String::new(),
            shown,
            at,
            node,
        }
    }

    pub(super) fn error(&self, report: &mut ProblemReport<'_>, problem: impl Into<ProblemText>) {
        report.error(&self.shown, self.at, problem);
    }

    /// A value that is not there.
    pub(super) fn lack(&self, report: &mut ProblemReport<'_>, problem: impl Into<ProblemText>) {
        report.lack(&self.shown, self.at, problem);
    }

    pub(super) fn warning(&self, report: &mut ProblemReport<'_>, problem: impl Into<ProblemText>) {
        report.warning(&self.shown, self.at, problem);
    }

    /// Something a person may want to know.
    pub(super) fn note(&self, report: &mut ProblemReport<'_>, problem: impl Into<ProblemText>) {
        report.note(&self.shown, self.at, problem);
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

    pub(super) fn text(&self, report: &mut ProblemReport<'_>) -> Option<&'a str> {
        match self.value() {
            Value::Text(text) => Some(text),
            other => self.mistyped(report, "a string", other),
        }
    }

    /// A text, or a number or boolean as it is written: people write `"PORT": 8080`.
    pub(super) fn scalar(&self, report: &mut ProblemReport<'_>) -> Option<&'a str> {
        match self.value() {
            Value::Number(number) => Some(number),
            Value::Flag(flag) => Some(if *flag { "true" } else { "false" }),
            Value::Text(_) | Value::Object(_) | Value::Array(_) | Value::Null => self.text(report),
        }
    }

    pub(super) fn flag(&self, report: &mut ProblemReport<'_>) -> Option<bool> {
        match self.value() {
            Value::Flag(flag) => Some(*flag),
            other => self.mistyped(report, "true or false", other),
        }
    }

    /// One of these words. Any other is an error with this fix.
    pub(super) fn one_of<T: Copy>(
        &self,
        words: &[(&str, T)],
        fix: &str,
        report: &mut ProblemReport<'_>,
    ) -> Option<T> {
        let written = self.text(report)?;
        let found = words.iter().find(|(word, _)| *word == written);
        if found.is_none() {
            self.not_understood(written, fix, report);
        }
        found.map(|(_, meaning)| *meaning)
    }

    pub(super) fn not_understood(&self, written: &str, fix: &str, report: &mut ProblemReport<'_>) {
        let message = format!("{} is not understood", quoted(written));
        self.error(report, ProblemText::new(message, fix));
    }

    pub(super) fn object(&self, report: &mut ProblemReport<'_>) -> Option<&'a Mapping<'a>> {
        match self.value() {
            Value::Object(object) => Some(object),
            other => self.mistyped(report, "an object", other),
        }
    }

    /// A whole number of at least one.
    pub(super) fn count(&self, report: &mut ProblemReport<'_>) -> Option<NonZeroU32> {
        let count = self.whole_number(report)?;
        let count = NonZeroU32::new(count);
        if count.is_none() {
            self.error(report, "must be at least 1");
        }
        count
    }

    /// A whole number, zero included.
    pub(super) fn whole_number(&self, report: &mut ProblemReport<'_>) -> Option<u32> {
        let Value::Number(number) = self.value() else {
            return self.mistyped(report, "a whole number", self.value());
        };
        let parsed = number.parse().ok();
        if parsed.is_none() {
            self.error(
                report,
                format!("expected a whole number up to {}, found {number}", u32::MAX),
            );
        }
        parsed
    }

    pub(super) fn duration(&self, report: &mut ProblemReport<'_>) -> Option<Duration> {
        self.duration_in(1.0, report)
    }

    /// A duration whose plain numbers count units of so many seconds.
    pub(super) fn duration_in(&self, unit: f64, report: &mut ProblemReport<'_>) -> Option<Duration> {
        let (written, parsed) = match self.value() {
            Value::Number(number) => (number.clone().into_owned(), duration::scaled(number, unit)),
            Value::Text(text) => (quoted(text), duration::from_text(text)),
            other => return self.mistyped(report, "a duration", other),
        };
        match parsed {
            Ok(duration) => return Some(duration),
            Err(DurationError::NotADuration) => {
                self.error(
                    report,
                    ProblemText::new(format!("{written} is not a duration"), duration::SPELLINGS),
                );
            }
            Err(DurationError::Negative) => self.error(report, "a duration cannot be negative"),
            Err(DurationError::TooLong) => self.error(report, "a duration cannot be longer than a year"),
        }
        None
    }

    /// The items of an array, each with its own path.
    pub(super) fn items(&self, report: &mut ProblemReport<'_>) -> Option<Vec<Field<'a>>> {
        let Value::Array(array) = self.value() else {
            return self.mistyped(report, "an array", self.value());
        };
        let items = array.iter().enumerate().map(|(n, node)| {
            let item = Field {
                path: format!("{}[{n}]", self.path),
                shown: format!("{}[{n}]", self.shown),
                at: node.start,
                node,
            };
            report.saw(&item.path, &item.shown, item.at);
            item
        });
        Some(items.collect())
    }

    /// The entries of an object whose keys are the person's own, each key once.
    pub(super) fn entries(&self, report: &mut ProblemReport<'_>) -> Option<Vec<(&'a str, Field<'a>)>> {
        let object = self.object(report)?;
        let mut entries: Vec<(&'a str, Field<'a>)> = Vec::with_capacity(object.properties.len());
        let mut first_at: HashMap<&'a str, usize> = HashMap::new();
        for property in &object.properties {
            let name = &*property.name;
            // In YAML a slip such as `{KEY:value}` makes one key of a name and its value, which may be a secret.
            let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            let may_be_both = matches!(property.node.value, Value::Null) && !name.chars().all(is_plain);
            let entry = Field {
                path: dotted(&self.path, name),
                shown: dotted(&self.shown, if may_be_both { "…" } else { name }),
                at: property.node.start,
                node: &property.node,
            };
            let name_at = property.name_at;
            report.saw(&entry.path, &entry.shown, entry.at);
            match first_at.get(name) {
                Some(first) => report.error(
                    &entry.shown,
                    name_at,
                    twice(report, *first, &entry.shown, &entry.shown),
                ),
                None => {
                    first_at.insert(name, name_at);
                    entries.push((name, entry));
                }
            }
        }
        Some(entries)
    }

    fn mistyped<T>(&self, report: &mut ProblemReport<'_>, expected: &str, found: &Value<'_>) -> Option<T> {
        self.error(report, format!("expected {expected}, found {}", found.kind()));
        None
    }
}

/// An unknown key, and the one that was probably meant.
pub(super) fn unknown(meant: Option<&str>) -> ProblemText {
    ProblemText {
        message: "unknown key".to_owned(),
        fix: meant.map(|key| format!("did you mean {key:?}?")),
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
