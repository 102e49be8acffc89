//! Events and challenges, held against plainer ways to read and to write them.

use std::time::Duration;

use bytes::Bytes;

use super::Challenge;
use super::events::{NextEvent, SseEvent, SseEvents, TooLong};
use crate::fuzzing::FuzzStream;

/// The longest id that is kept.
const LONGEST_ID: usize = 4 * 1024;

/// Reads a stream of events that arrives in pieces, and holds that they make no difference.
pub fn events(input: &[u8]) {
    let Some(stream) = FuzzStream::from_input(input) else {
        return;
    };
    let limit = stream.choice * 4;
    let expected = plainly(stream.whole, limit);
    assert_eq!(read(&[stream.whole], limit), expected, "in one read");
    assert_eq!(read(&stream.pieces(), limit), expected, "in pieces");
}

/// The events up to one that is too long, if there is one.
type Read = (Vec<SseEvent>, Result<(), TooLong>);

fn read(pieces: &[&[u8]], limit: usize) -> Read {
    let mut events = SseEvents::new(limit);
    let mut read = Vec::new();
    for piece in pieces {
        events.push(piece);
        loop {
            match events.next() {
                Ok(NextEvent::Event(event)) => read.push(event),
                Ok(NextEvent::Searching) => {}
                Ok(NextEvent::Starved) => break,
                Err(too_long) => return (read, Err(too_long)),
            }
        }
    }
    (read, Ok(()))
}

fn plainly(stream: &[u8], limit: usize) -> Read {
    let mut read = Vec::new();
    let mut event: Option<SseEvent> = None;
    let mut lines = split(stream);
    let rest = lines.pop().unwrap_or_default();
    for (n, line) in lines.into_iter().enumerate() {
        if line.len() > limit + LONGEST_ID {
            return (read, Err(TooLong));
        }
        let line = match line.strip_prefix("\u{feff}".as_bytes()) {
            Some(line) if n == 0 => line,
            Some(_) | None => line,
        };
        if line.is_empty() {
            read.extend(event.take());
        } else if let Err(too_long) = field(&mut event, line, limit) {
            return (read, Err(too_long));
        }
    }
    let is_too_long = rest.len() > limit + LONGEST_ID;
    (read, if is_too_long { Err(TooLong) } else { Ok(()) })
}

/// The lines; the last one has no end.
fn split(stream: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    let mut rest = stream;
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
        lines.push(&rest[..at]);
        let ends = if rest[at..].starts_with(b"\r\n") { 2 } else { 1 };
        rest = &rest[at + ends..];
    }
    lines.push(rest);
    lines
}

fn field(event: &mut Option<SseEvent>, line: &[u8], limit: usize) -> Result<(), TooLong> {
    let (name, value) = match line.iter().position(|byte| *byte == b':') {
        Some(at) => (&line[..at], &line[at + 1..]),
        None => (line, &b""[..]),
    };
    let value = value.strip_prefix(b" ").unwrap_or(value);
    let text = || String::from_utf8_lossy(value).into_owned();
    match name {
        b"data" => {
            let event = event.get_or_insert_default();
            let joined = match &event.data {
                Some(before) => [before, &b"\n"[..], value].concat(),
                None => value.to_vec(),
            };
            if joined.len() > limit {
                return Err(TooLong);
            }
            event.data = Some(Bytes::from(joined));
        }
        b"event" => event.get_or_insert_default().kind = text(),
        b"id" if value.len() <= LONGEST_ID && !value.contains(&0) => {
            event.get_or_insert_default().id = Some(text());
        }
        b"retry" => {
            event.get_or_insert_default().retry = text().parse().ok().map(Duration::from_millis);
        }
        _other => {}
    }
    Ok(())
}

/// Longer headers are not read.
const LONGEST_HEADER: usize = 16 * 1024;

/// Reads any challenge, and one that is written from the same text.
pub fn challenge(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let read = Challenge::parse([&*text]);
    assert_eq!(read.www_authenticate.as_deref(), Some(&*text));
    let is_word = |scope: &String| !scope.is_empty() && !scope.contains(|c: char| c.is_ascii_whitespace());
    assert!(read.scopes.iter().all(is_word), "{:?}", read.scopes);

    let mut parts = text.splitn(3, '\n');
    let mut part = || parts.next().unwrap_or_default();
    let (scope, error, metadata) = (part(), part(), part());
    let written = format!(
        "Bearer realm=\"x\", scope={}, error={},resource_metadata={}",
        quoted(scope),
        quoted(error),
        quoted(metadata)
    );
    let read = Challenge::parse(["Basic realm=\"other\"", &written]);
    if written.len() > LONGEST_HEADER {
        return;
    }
    let mut scopes: Vec<&str> = Vec::new();
    for scope in scope.split_ascii_whitespace() {
        let is_scope = scope
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'));
        if is_scope && !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    assert_eq!(read.scopes, scopes);
    assert_eq!(read.error.as_deref(), Some(error));
    assert_eq!(read.resource_metadata.as_deref(), Some(metadata));
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
