//! A span, as it is exported.

use mainstay::gateway::PlainText;

/// Characters of a text that are exported: it may hold what a peer sent.
const TEXT_LIMIT: usize = 1024;

/// Events of one span that are exported.
const EVENTS_LIMIT: usize = 64;

pub(super) type Attributes = Vec<(String, AttributeValue)>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AttributeValue {
    Text(String),
    Flag(bool),
    Number(i64),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SpanKind {
    #[default]
    Internal,
    Server,
    Client,
}

#[derive(Clone, Debug, Default)]
pub(super) struct SpanRecord {
    pub(super) trace_id: [u8; 16],
    pub(super) span_id: [u8; 8],
    pub(super) parent_span_id: Option<[u8; 8]>,
    pub(super) trace_state: Option<String>,
    pub(super) name: String,
    pub(super) kind: SpanKind,
    pub(super) began_ns: u64,
    pub(super) ended_ns: u64,
    pub(super) attributes: Attributes,
    pub(super) events: Vec<SpanEvent>,
    pub(super) dropped_events: u64,
    pub(super) has_failed: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct SpanEvent {
    pub(super) at_ns: u64,
    pub(super) name: String,
    pub(super) attributes: Attributes,
}

impl SpanRecord {
    /// Whether it belongs to a trace. One without ids is not exported.
    pub(super) fn is_traced(&self) -> bool {
        self.trace_id != [0; 16] && self.span_id != [0; 8]
    }

    pub(super) fn add(&mut self, event: SpanEvent) {
        if self.events.len() < EVENTS_LIMIT {
            self.events.push(event);
        } else {
            self.dropped_events += 1;
        }
    }

    /// Takes a field of the `tracing` span.
    pub(super) fn set(&mut self, field: &str, value: AttributeValue) {
        let text = match &value {
            AttributeValue::Text(text) => text.as_str(),
            AttributeValue::Flag(_) | AttributeValue::Number(_) => "",
        };
        match field {
            "trace_id" => self.trace_id = unhex(text).unwrap_or_default(),
            "span_id" => self.span_id = unhex(text).unwrap_or_default(),
            "parent_span_id" => self.parent_span_id = unhex(text),
            "trace_state" => self.trace_state = Some(text.to_owned()),
            "otel.name" => self.name = text.to_owned(),
            "otel.kind" => {
                self.kind = match text {
                    "server" => SpanKind::Server,
                    "client" => SpanKind::Client,
                    _other => SpanKind::Internal,
                }
            }
            field => {
                self.has_failed |= field == "error.type";
                self.attributes.retain(|(key, _)| key != field);
                self.attributes.push((field.to_owned(), value));
            }
        }
    }
}

/// A text on one line, without control characters, and not too long.
pub(super) fn clean(text: &str) -> String {
    PlainText::line(text).cut(TEXT_LIMIT).into_string()
}

fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N || !text.is_ascii() {
        return None;
    }
    let mut bytes = [0; N];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}
