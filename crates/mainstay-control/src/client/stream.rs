//! Streams of server-sent events, as a client reads them.

use std::time::Duration;

use bytes::{Buf, BytesMut};
use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::Incoming;
use tokio::time::timeout;

use super::ControlError;
use crate::api::{EventMessage, EventRecord, LagMarker, StderrRecord};

/// How long a stream may be silent: the service sends a sign of life much more often.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);

/// The longest event in bytes: a failure with its lines of stderr has some ten thousand.
const EVENT_LIMIT: usize = 4 * 1024 * 1024;

/// The events of a program, as they happen.
pub struct EventStream {
    reader: SentEventReader,
    last_id: Option<String>,
}

impl EventStream {
    pub(super) fn new(reader: SentEventReader) -> Self {
        Self {
            reader,
            last_id: None,
        }
    }

    /// The next event, or how many are missing here; `None` when the program closed the stream.
    ///
    /// Cancel safety: dropping it loses nothing.
    pub async fn next(&mut self) -> Option<Result<EventMessage, ControlError>> {
        loop {
            let event = match self.reader.next().await? {
                Ok(event) => event,
                Err(error) => return Some(Err(error)),
            };
            if let Some(id) = event.id {
                self.last_id = Some(id);
            }
            let message = match event.kind.as_str() {
                "record" => {
                    parse::<EventRecord>(&event.data).map(|record| EventMessage::Event(Box::new(record)))
                }
                "lagged" => parse::<LagMarker>(&event.data).map(EventMessage::Lagged),
                _of_a_later_version => continue,
            };
            return Some(message);
        }
    }

    /// The id of the last event, to continue after it with
    /// [`ControlClient::events_after`](super::ControlClient::events_after).
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }
}

/// What a server writes to stderr, as it does.
pub struct StderrStream(pub(super) SentEventReader);

impl StderrStream {
    /// The next line, or how many are missing here; `None` when the server was removed, or the program closed the stream.
    ///
    /// Cancel safety: dropping it loses nothing.
    pub async fn next(&mut self) -> Option<Result<Result<StderrRecord, LagMarker>, ControlError>> {
        loop {
            let event = match self.0.next().await? {
                Ok(event) => event,
                Err(error) => return Some(Err(error)),
            };
            return Some(match event.kind.as_str() {
                "line" => parse(&event.data).map(Ok),
                "lagged" => parse(&event.data).map(Err),
                _of_a_later_version => continue,
            });
        }
    }
}

fn parse<T: serde::de::DeserializeOwned>(data: &str) -> Result<T, ControlError> {
    serde_json::from_str(data).map_err(|error| ControlError::BadAnswer(error.to_string()))
}

/// One server-sent event.
struct SentEvent {
    kind: String,
    id: Option<String>,
    data: String,
}

/// Reads server-sent events from a body.
pub(super) struct SentEventReader {
    body: Incoming,
    /// What was read and is no whole event yet.
    unread: BytesMut,
    /// How much of it was searched for the end of an event.
    searched: usize,
    is_ended: bool,
}

pub(super) fn open_stream(response: Response<Incoming>) -> SentEventReader {
    SentEventReader {
        body: response.into_body(),
        unread: BytesMut::new(),
        searched: 0,
        is_ended: false,
    }
}

impl SentEventReader {
    async fn next(&mut self) -> Option<Result<SentEvent, ControlError>> {
        loop {
            if let Some(block) = take_block(&mut self.unread, &mut self.searched) {
                match read_block(&block) {
                    Some(event) => return Some(Ok(event)),
                    // A comment, or the time to come back.
                    None => continue,
                }
            }
            if self.is_ended {
                return None;
            }
            if self.unread.len() > EVENT_LIMIT {
                self.is_ended = true;
                let what = format!("an event is longer than {EVENT_LIMIT} bytes");
                return Some(Err(ControlError::BadAnswer(what)));
            }
            let Ok(frame) = timeout(SILENCE_LIMIT, self.body.frame()).await else {
                self.is_ended = true;
                return Some(Err(ControlError::TimedOut(SILENCE_LIMIT)));
            };
            match frame {
                None => self.is_ended = true,
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.unread.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => {
                    self.is_ended = true;
                    return Some(Err(error.into()));
                }
            }
        }
    }
}

/// Takes the text up to the next empty line. The service ends lines with a line feed alone.
fn take_block(unread: &mut BytesMut, searched: &mut usize) -> Option<String> {
    // The first of the two may have been searched already.
    let start = searched.saturating_sub(1);
    let found = unread[start..].windows(2).position(|pair| pair == b"\n\n");
    let Some(at) = found else {
        *searched = unread.len();
        return None;
    };
    let block = unread.split_to(start + at);
    unread.advance(2);
    *searched = 0;
    Some(String::from_utf8_lossy(&block).into_owned())
}

fn read_block(block: &str) -> Option<SentEvent> {
    let mut event = SentEvent {
        kind: String::new(),
        id: None,
        data: String::new(),
    };
    for line in block.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut event.kind),
            "id" => event.id = Some(value.to_owned()),
            "data" => event.data.push_str(value),
            _other => {}
        }
    }
    (!event.kind.is_empty()).then_some(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_whole_and_comments_are_left_out() {
        let mut unread =
            BytesMut::from("retry: 1000\n: open\n\nid: a.1\nevent: record\ndata: {}\n\n:\n\neve");
        let mut searched = 0;
        assert!(read_block(&take_block(&mut unread, &mut searched).expect("a block")).is_none());
        let event = read_block(&take_block(&mut unread, &mut searched).expect("a block")).expect("an event");
        assert_eq!(
            (event.kind.as_str(), event.id.as_deref()),
            ("record", Some("a.1"))
        );
        assert_eq!(event.data, "{}");
        assert!(read_block(&take_block(&mut unread, &mut searched).expect("a block")).is_none());
        assert_eq!(take_block(&mut unread, &mut searched), None);
        assert_eq!(&unread[..], b"eve");
        // The end of an event may come in two pieces.
        for (piece, whole) in [("nt: lagged\n", None), ("\n", Some("event: lagged"))] {
            unread.extend_from_slice(piece.as_bytes());
            assert_eq!(take_block(&mut unread, &mut searched).as_deref(), whole);
        }
    }
}
