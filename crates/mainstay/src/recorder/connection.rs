//! What one connection hands to the recorder of its server.

use std::sync::Arc;
use std::time::SystemTime;

use mainstay_lifecycle::Generation;

use super::entry::{InlineText, RecordedId, RingEntry};
use super::ring::FlightRecorder;
use super::{Direction, RecordedKind};
use crate::wire::{Message, our_number};

/// Records the messages of one connection; of none, where the recorder is off.
#[derive(Clone, Default)]
pub(crate) struct ConnectionRecorder(Option<(Arc<FlightRecorder>, Generation)>);

/// What is known of a message that is sent.
#[derive(Clone, Copy)]
pub(crate) enum MessageHead<'a> {
    Request {
        id: u64,
        method: &'a str,
        /// The tool or prompt that it names.
        name: Option<&'a str>,
    },
    Notification {
        method: &'a str,
    },
    /// An answer to a request of the server; with the code of the error, if it is one.
    Answer {
        id: &'a str,
        error_code: Option<i64>,
    },
}

impl ConnectionRecorder {
    pub(crate) fn new(recorder: &Arc<FlightRecorder>, generation: Generation) -> Self {
        Self(recorder.is_on().then(|| (recorder.clone(), generation)))
    }

    /// Records a message that is handed to the transport now.
    pub(crate) fn sent(&self, head: MessageHead<'_>, line: &[u8]) {
        let Some((recorder, generation)) = &self.0 else {
            return;
        };
        let (kind, method, name, id, error_code) = match head {
            MessageHead::Request { id, method, name } => {
                let (id, name) = (RecordedId::Number(id), name.unwrap_or_default());
                (RecordedKind::Request, method, name, id, None)
            }
            MessageHead::Notification { method } => {
                (RecordedKind::Notification, method, "", RecordedId::None, None)
            }
            MessageHead::Answer { id, error_code } => {
                let kind = match error_code {
                    Some(_) => RecordedKind::Error,
                    None => RecordedKind::Result,
                };
                (kind, "", "", RecordedId::text(id), error_code)
            }
        };
        recorder.push(RingEntry {
            id,
            error_code,
            method: InlineText::new(method),
            name: InlineText::new(name),
            ..entry(recorder, *generation, Direction::ToServer, kind, line)
        });
    }

    /// Records a message that was just read. The parts of a batch are recorded one by one, when they are read.
    pub(crate) fn received(&self, message: &Message<'_>, line: &[u8]) {
        let Some((recorder, generation)) = &self.0 else {
            return;
        };
        let (kind, method, id, error_code) = match message {
            Message::Request { id, method, .. } => {
                let id = RecordedId::text(id.as_str());
                (RecordedKind::Request, &**method, id, None)
            }
            Message::Notification { method, .. } => {
                (RecordedKind::Notification, &**method, RecordedId::None, None)
            }
            Message::Response { id, result } => {
                let id = our_number(id).map_or_else(|| RecordedId::text(id.as_str()), RecordedId::Number);
                match result {
                    Ok(_) => (RecordedKind::Result, "", id, None),
                    Err(error) => (RecordedKind::Error, "", id, Some(error.code())),
                }
            }
            Message::Batch(_) => return,
            Message::Garbage(_) => (RecordedKind::Unreadable, "", RecordedId::None, None),
        };
        recorder.push(RingEntry {
            id,
            error_code,
            method: InlineText::new(method),
            ..entry(recorder, *generation, Direction::FromServer, kind, line)
        });
    }

    /// Records that a message was skipped because of its length.
    pub(crate) fn skipped(&self, length: u64) {
        let Some((recorder, generation)) = &self.0 else {
            return;
        };
        recorder.push(RingEntry {
            bytes: length,
            ..entry(
                recorder,
                *generation,
                Direction::FromServer,
                RecordedKind::Unreadable,
                &[],
            )
        });
    }

    /// Records that the transport could not carry a request.
    pub(crate) fn failed(&self, request: u64) {
        let Some((recorder, generation)) = &self.0 else {
            return;
        };
        recorder.push(RingEntry {
            id: RecordedId::Number(request),
            ..entry(
                recorder,
                *generation,
                Direction::FromServer,
                RecordedKind::Failed,
                &[],
            )
        });
    }
}

/// A message of this length, of which nothing else is known yet.
fn entry(
    recorder: &FlightRecorder,
    generation: Generation,
    direction: Direction,
    kind: RecordedKind,
    line: &[u8],
) -> RingEntry {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let keeps_payload = !line.is_empty() && recorder.keeps_payload(line.len());
    RingEntry {
        // The ring numbers it.
        sequence: 0,
        at: u64::try_from(since_epoch.unwrap_or_default().as_micros()).unwrap_or(u64::MAX),
        generation,
        bytes: line.len() as u64,
        count: 1,
        error_code: None,
        id: RecordedId::None,
        payload: keeps_payload.then(|| line.into()),
        direction,
        kind,
        method: InlineText::new(""),
        name: InlineText::new(""),
    }
}
