//! One place in the ring. Everything but a payload stands in the place itself, so that recording a head allocates nothing.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mainstay_lifecycle::Generation;

use super::{Direction, RecordedKind, RecordedMessage};
use crate::PlainText;
use crate::redaction::Redaction;

/// The methods of the protocol have at most 40 bytes.
const METHOD_BYTES: usize = 40;
/// Most names of tools fit.
const NAME_BYTES: usize = 40;
/// The method and the name of most requests fit, and what waits for an answer stays small.
const LABEL_BYTES: usize = 64;
/// The ids of most servers fit.
const ID_BYTES: usize = 24;

/// A message as the ring keeps it.
#[derive(Clone)]
pub(super) struct RingEntry {
    /// Grows by one with each message of the server.
    pub(super) sequence: u64,
    /// Microseconds since the epoch.
    pub(super) at: u64,
    pub(super) generation: Generation,
    pub(super) bytes: u64,
    pub(super) count: u64,
    pub(super) error_code: Option<i64>,
    pub(super) id: RecordedId,
    pub(super) payload: Option<Arc<[u8]>>,
    pub(super) direction: Direction,
    pub(super) kind: RecordedKind,
    pub(super) method: InlineText<METHOD_BYTES>,
    pub(super) name: InlineText<NAME_BYTES>,
}

/// The id of a message.
#[derive(Clone, Copy)]
pub(super) enum RecordedId {
    None,
    /// One of ours, which is written out only when it is read.
    Number(u64),
    Text(InlineText<ID_BYTES>),
}

impl RecordedId {
    pub(super) fn text(id: &str) -> Self {
        Self::Text(InlineText::new(id))
    }

    fn read(self) -> Option<String> {
        match self {
            Self::None => None,
            Self::Number(number) => Some(number.to_string()),
            Self::Text(text) => text.read(),
        }
    }
}

impl RingEntry {
    /// The message as a reader gets it.
    pub(super) fn read(&self, redaction: &Redaction) -> RecordedMessage {
        let payload = self.payload.as_deref();
        RecordedMessage {
            at: SystemTime::UNIX_EPOCH + Duration::from_micros(self.at),
            generation: self.generation,
            direction: self.direction,
            kind: self.kind,
            method: self.method.read(),
            name: self.name.read(),
            id: self.id.read(),
            error_code: self.error_code,
            bytes: self.bytes,
            count: self.count,
            payload: payload
                .map(|bytes| redaction.apply_to_json(String::from_utf8_lossy(bytes).into_owned())),
        }
    }

    pub(super) fn payload_length(&self) -> usize {
        self.payload.as_ref().map_or(0, |payload| payload.len())
    }
}

/// What a request asks for, to show it while it waits. It stands inside its owner.
#[derive(Clone, Copy)]
pub(crate) struct RequestLabel {
    /// The method, and the name right behind it.
    text: InlineText<LABEL_BYTES>,
    method_length: u8,
}

impl RequestLabel {
    pub(crate) fn new(method: &str, name: Option<&str>) -> Self {
        let mut text = InlineText::new(method);
        let method_length = text.length;
        text.push(name.unwrap_or_default());
        Self { text, method_length }
    }

    pub(crate) fn method(&self) -> Option<String> {
        self.text.read_part(0..usize::from(self.method_length))
    }

    pub(crate) fn name(&self) -> Option<String> {
        self.text
            .read_part(usize::from(self.method_length)..usize::from(self.text.length))
    }
}

impl Default for RequestLabel {
    fn default() -> Self {
        Self::new("", None)
    }
}

/// A short text inside its owner. A longer one is cut.
#[derive(Clone, Copy)]
pub(super) struct InlineText<const N: usize> {
    bytes: [u8; N],
    length: u8,
    is_cut: bool,
}

impl<const N: usize> InlineText<N> {
    pub(super) fn new(text: &str) -> Self {
        const { assert!(N <= u8::MAX as usize) };
        let mut inline = Self {
            bytes: [0; N],
            length: 0,
            is_cut: false,
        };
        inline.push(text);
        inline
    }

    /// Adds as much of a text as there is room for.
    fn push(&mut self, text: &str) {
        let begin = usize::from(self.length);
        let mut length = text.len().min(N - begin);
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        self.bytes[begin..begin + length].copy_from_slice(&text.as_bytes()[..length]);
        self.length = u8::try_from(begin + length).unwrap_or_default();
        self.is_cut |= length < text.len();
    }

    /// The text without control characters; `None` if it is empty.
    fn read(&self) -> Option<String> {
        self.read_part(0..usize::from(self.length))
    }

    /// The same of a part. Only the end of the whole can be cut.
    fn read_part(&self, part: Range<usize>) -> Option<String> {
        let is_end = part.end == usize::from(self.length);
        let text = String::from_utf8_lossy(&self.bytes[part]);
        if text.is_empty() {
            return None;
        }
        let mut text = PlainText::line(&text).into_string();
        if self.is_cut && is_end {
            text.push('…');
        }
        Some(text)
    }
}
