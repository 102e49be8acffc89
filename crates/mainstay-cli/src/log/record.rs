//! One event, as the log has it.

use std::fmt;
use std::time::{Duration, SystemTime};

use mainstay::gateway::PlainText;
use serde::Serialize;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

use super::{stamp, state};
use crate::output::{Ink, Paint, Text, plain, text};

/// The target of changes of state.
pub(super) const STATE: &str = "mainstay::state";
/// The target of what cannot be kept on disk.
pub(super) const STORE: &str = "mainstay::store";
/// The target of answered requests.
pub(super) const ACCESS: &str = "mainstay_gateway::access";
/// The target of what is asked and answered.
pub(super) const PAYLOAD: &str = "mainstay_gateway::payload";

/// How long one field may be: it may hold what a server or a client sent.
const MAX_FIELD_CHARS: usize = 2000;

/// An event with its fields.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) at: SystemTime,
    pub(super) level: Level,
    pub(super) target: &'static str,
    pub(super) message: Text,
    /// In the order in which they were written.
    fields: Vec<(&'static str, Value)>,
}

impl Record {
    pub(super) fn of(event: &Event<'_>) -> Self {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut record = Self {
            at: SystemTime::now(),
            level: *event.metadata().level(),
            target: event.metadata().target(),
            message: fields.message,
            fields: fields.others,
        };
        if record.target == STATE {
            record.message = state::words(&record);
        }
        record
    }

    /// A text among the fields.
    pub(super) fn text(&self, name: &str) -> Option<Text> {
        self.field(name).and_then(Value::as_str).map(plain)
    }

    /// A number among the fields.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.field(name).and_then(Value::as_u64)
    }

    fn field(&self, name: &str) -> Option<&Value> {
        self.fields
            .iter()
            .find(|(field, _)| *field == name)
            .map(|(_, value)| value)
    }

    /// The line for a person: when, which server, what; how bad it is, where it is.
    pub(super) fn line(&self, paint: Paint, left_out: u64) -> Text {
        let mut line = text!("{} ", paint.dim(stamp(self.at)));
        let (ink, word) = match self.level {
            Level::ERROR => (Ink::Red, "error: "),
            Level::WARN => (Ink::Yellow, "warning: "),
            Level::INFO => (Ink::None, ""),
            Level::DEBUG => (Ink::Dim, "debug: "),
            _ => (Ink::Dim, "trace: "),
        };
        line.push(paint.ink(ink, word));
        if let Some(server) = self.text("server") {
            line.push(text!("{}: ", paint.ink(Ink::Cyan, server)));
        }
        line.push(&self.message);
        if self.target != STATE {
            let others = self.fields.iter().filter(|(name, _)| *name != "server");
            let others = others.map(|(name, value)| text!("{}={}", *name, shown(value)));
            let others = Text::join(others, " ");
            if !others.is_empty() {
                line.push(text!(" {}", others));
            }
        }
        if left_out > 0 {
            line.push(text!(" (and {} lines like it just before)", left_out));
        }
        line
    }

    /// The record as one sentence among others of a command.
    pub(super) fn sentence(&self) -> Text {
        let mut sentence = self.message.clone();
        if let Some(why) = self.text("error").or_else(|| self.text("why")) {
            sentence.push(text!(": {}", why));
        }
        if self.target == STORE {
            sentence.push(" (MAINSTAY_CACHE names another directory; --no-cache needs none)");
        }
        sentence
    }

    /// The line for a program.
    pub(super) fn object(&self, left_out: u64) -> Text {
        #[derive(Serialize)]
        struct Line<'a> {
            time: &'a str,
            level: &'static str,
            target: &'a str,
            message: &'a str,
            #[serde(flatten)]
            fields: Map<String, Value>,
            #[serde(skip_serializing_if = "Option::is_none")]
            left_out: Option<u64>,
        }
        let mut fields: Map<_, _> = self
            .fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect();
        if let Some(pause) = self.number("next_retry_ms") {
            let at = self.at + Duration::from_millis(pause);
            fields.insert("next_retry".to_owned(), stamp(at).as_str().into());
        }
        Text::object(&Line {
            time: stamp(self.at).as_str(),
            level: level_word(self.level),
            target: self.target,
            message: self.message.as_str(),
            fields,
            left_out: (left_out > 0).then_some(left_out),
        })
    }
}

fn level_word(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        _ => "trace",
    }
}

/// A value behind `name=`: text with spaces in quotes.
fn shown(value: &Value) -> Text {
    match value.as_str() {
        Some(words) if words.is_empty() || words.contains([' ', '"', '=']) => plain(&value.to_string()),
        Some(word) => plain(word),
        None => plain(&value.to_string()),
    }
}

/// Reads the fields of an event; text is cleaned.
#[derive(Default)]
struct Fields {
    message: Text,
    others: Vec<(&'static str, Value)>,
}

impl Fields {
    fn text(&mut self, field: &Field, text: &str) {
        let text = PlainText::line(text).cut(MAX_FIELD_CHARS);
        if field.name() == "message" {
            self.message = text.into();
        } else {
            self.others.push((field.name(), text.as_str().into()));
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.others.push((field.name(), value.into()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.others.push((field.name(), value.into()));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.others.push((field.name(), value.into()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.others.push((field.name(), value.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_many_like_it_were_left_out_before_it() {
        let record = Record {
            at: SystemTime::UNIX_EPOCH,
            level: Level::INFO,
            target: STATE,
            message: "connected".into(),
            fields: vec![("server", "well".into())],
        };
        let line = |left_out| record.line(Paint::PLAIN, left_out).to_string();
        assert!(line(0).ends_with(" well: connected"), "{}", line(0));
        let expected = " well: connected (and 7 lines like it just before)";
        assert!(line(7).ends_with(expected), "{}", line(7));
    }
}
