//! What the flight recorder has, in the types of the API.

use std::time::UNIX_EPOCH;

use mainstay::RawJson;
use mainstay::gateway::PlainText;
use mainstay::recorder::RecordedMessage;

use crate::api::{LossRecord, MessageRecord, RecordingDocument, now_ms, unix_ms};
use crate::control::Named;

/// The last messages of a server, with their payloads if those are wanted.
pub(crate) fn recording(named: &Named, with_payloads: bool) -> RecordingDocument {
    let recording = named.server.recording();
    let messages = |messages: Vec<RecordedMessage>| -> Vec<MessageRecord> {
        let messages = messages.into_iter();
        messages.map(|message| record(message, with_payloads)).collect()
    };
    let losses = recording.losses.into_iter().map(|loss| LossRecord {
        at_ms: unix_ms(loss.at),
        generation: loss.generation.0,
        reason: loss.reason,
        messages: messages(loss.messages),
    });
    RecordingDocument {
        server: named.name.to_string(),
        at_ms: now_ms(),
        has_payloads: recording.has_payloads,
        dropped: recording.dropped,
        losses: losses.collect(),
        messages: messages(recording.messages),
    }
}

fn record(message: RecordedMessage, with_payload: bool) -> MessageRecord {
    let since_epoch = message.at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (payload, text) = match message.payload.filter(|_| with_payload) {
        None => (None, None),
        // A line break of JSON is white space; a recording is written in lines.
        Some(payload) => match RawJson::from_text(payload.replace(['\n', '\r'], " ")) {
            Ok(json) => (Some(json), None),
            Err(_) => (None, Some(PlainText::lines(&payload).into_string())),
        },
    };
    MessageRecord {
        at_us: u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX),
        generation: message.generation.0,
        direction: message.direction.as_str().to_owned(),
        kind: message.kind.as_str().to_owned(),
        method: message.method,
        name: message.name,
        id: message.id,
        error_code: message.error_code,
        bytes: message.bytes,
        count: message.count,
        payload,
        text,
    }
}
