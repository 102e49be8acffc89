//! Server-sent events, read from whatever pieces they arrive in: `SseEvents` takes pieces, `ResponseEvents` reads them from an
//! answer, and yields after each turn, whatever the stream holds.
//!
//! Invariants: no event, and no line, is kept beyond the limit; nothing is copied twice but an event whose data spans
//! several lines.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};

use super::connection::Response;
use super::pool::ExchangeError;
use crate::transport::{Turn, receiving};

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::transport) struct SseEvent {
    /// The id, where it has one.
    pub(in crate::transport) id: Option<String>,
    /// The type; empty for a message.
    pub(in crate::transport) kind: String,
    /// The data; `None` when it has none at all.
    pub(in crate::transport) data: Option<Bytes>,
    /// How long to wait before the stream is requested again.
    pub(in crate::transport) retry: Option<Duration>,
}

impl SseEvent {
    /// Whether it carries a message.
    pub(in crate::transport) fn message(&self) -> Option<&Bytes> {
        let is_message = self.kind.is_empty() || self.kind == "message";
        self.data.as_ref().filter(|data| is_message && !data.is_empty())
    }
}

/// What was found in the pieces so far.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::transport) enum NextEvent {
    Event(SseEvent),
    /// Many lines, and no event among them. There are more; the reader yields first.
    Searching,
    /// All was read; the next event needs another piece.
    Starved,
}

/// An event longer than the limit.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::transport) struct TooLong;

/// The longest id that is kept, since it is sent back in a header.
const LONGEST_ID: usize = 4 * 1024;

/// Lines that are read for one event before it counts in the turn. Events have some lines; comments may come without end.
pub(super) const LINES_AT_ONCE: usize = 16;

pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Takes pieces of a stream, gives events.
#[derive(Debug)]
pub(in crate::transport) struct SseEvents {
    limit: usize,
    buffer: BytesMut,
    /// How much of the buffer was searched for a line end already.
    searched: usize,
    at_start: bool,
    /// The last line ended in a carriage return, to which a line feed may belong.
    after_return: bool,
    event: SseEvent,
    /// Whether the event has any field.
    begun: bool,
}

impl SseEvents {
    pub(in crate::transport) fn new(limit: usize) -> Self {
        Self {
            limit,
            buffer: BytesMut::new(),
            searched: 0,
            at_start: true,
            after_return: false,
            event: SseEvent::default(),
            begun: false,
        }
    }

    /// Takes the next piece.
    pub(in crate::transport) fn push(&mut self, piece: &[u8]) {
        if self.buffer.capacity() - self.buffer.len() < piece.len() {
            let room = receiving::capacity_to_add(self.buffer.len(), piece.len(), self.limit);
            self.buffer.reserve(room);
        }
        self.buffer.extend_from_slice(piece);
    }

    /// How much of the next event has come.
    fn come(&self) -> usize {
        self.buffer.len() + self.event.data.as_ref().map_or(0, Bytes::len)
    }

    /// The next event that is whole, as far as it can be found in some lines.
    pub(in crate::transport) fn next(&mut self) -> Result<NextEvent, TooLong> {
        for _ in 0..LINES_AT_ONCE {
            let Some(line) = self.line()? else {
                return Ok(NextEvent::Starved);
            };
            if !line.is_empty() {
                self.field(&line)?;
            } else if std::mem::take(&mut self.begun) {
                return Ok(NextEvent::Event(std::mem::take(&mut self.event)));
            }
        }
        Ok(NextEvent::Searching)
    }

    /// The next line that is whole. One that is too long is refused whether its end has come yet or not, so that it makes no
    /// difference how the stream is cut.
    fn line(&mut self) -> Result<Option<Bytes>, TooLong> {
        // A line may be a little longer than the data in it.
        let longest = self.limit.saturating_add(LONGEST_ID);
        if self.after_return && !self.buffer.is_empty() {
            self.after_return = false;
            if self.buffer[0] == b'\n' {
                self.buffer.advance(1);
                self.searched = 0;
            }
        }
        let found = memchr::memchr2(b'\n', b'\r', &self.buffer[self.searched..]);
        let Some(at) = found.map(|at| at + self.searched) else {
            self.searched = self.buffer.len();
            return if self.searched > longest {
                Err(TooLong)
            } else {
                Ok(None)
            };
        };
        if at > longest {
            return Err(TooLong);
        }
        self.searched = 0;
        self.after_return = self.buffer[at] == b'\r';
        let mut line = self.buffer.split_to(at).freeze();
        self.buffer.advance(1);
        if receiving::is_large(at) {
            // Its memory goes with it.
            self.buffer = BytesMut::from(&self.buffer[..]);
        }
        if std::mem::take(&mut self.at_start) && line.starts_with(BYTE_ORDER_MARK) {
            line.advance(BYTE_ORDER_MARK.len());
        }
        Ok(Some(line))
    }

    fn field(&mut self, line: &Bytes) -> Result<(), TooLong> {
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        let name = &line[..colon];
        let mut value = line.slice((colon + 1).min(line.len())..);
        if value.first() == Some(&b' ') {
            value.advance(1);
        }
        match name {
            b"data" => self.event.data = Some(joined(self.event.data.take(), value, self.limit)?),
            b"event" => self.event.kind = text(&value),
            b"id" if value.len() <= LONGEST_ID && !value.contains(&0) => self.event.id = Some(text(&value)),
            b"retry" => self.event.retry = text(&value).parse().ok().map(Duration::from_millis),
            // A comment, or an unknown field.
            _other => return Ok(()),
        }
        self.begun = true;
        Ok(())
    }
}

fn joined(before: Option<Bytes>, line: Bytes, limit: usize) -> Result<Bytes, TooLong> {
    let length = before.as_ref().map_or(0, |before| before.len() + 1) + line.len();
    if length > limit {
        return Err(TooLong);
    }
    let Some(before) = before else {
        return Ok(line);
    };
    let mut both = before
        .try_into_mut()
        .unwrap_or_else(|shared| BytesMut::from(&shared[..]));
    both.extend_from_slice(b"\n");
    both.extend_from_slice(&line);
    Ok(both.freeze())
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}

/// The events of an answer.
pub(in crate::transport) struct ResponseEvents {
    response: Response,
    events: SseEvents,
    /// Counts what is done for this stream. Events without a message are counted by the reader, messages by their delivery.
    pub(in crate::transport) turn: Turn,
}

/// Why there are no more events.
#[derive(Debug)]
pub(in crate::transport) enum EventsEnd {
    /// The server has ended the stream.
    Ended,
    /// The stream broke.
    Broken(ExchangeError),
    /// An event is longer than the limit.
    TooLong,
}

impl ResponseEvents {
    /// Reads events up to this many bytes.
    pub(in crate::transport) fn new(response: Response, limit: usize) -> Self {
        Self {
            response,
            events: SseEvents::new(limit),
            turn: Turn::new(),
        }
    }

    /// The next event. The one before was delivered.
    ///
    /// Cancel safety: no event is lost.
    pub(in crate::transport) async fn next(&mut self) -> Result<SseEvent, EventsEnd> {
        if !receiving::is_large(self.events.come()) {
            self.response.leave_room();
        }
        loop {
            self.turn.yield_if_over().await;
            match self.events.next() {
                Ok(NextEvent::Event(event)) => {
                    if event.message().is_none() {
                        self.turn.count_message();
                    }
                    return Ok(event);
                }
                Ok(NextEvent::Searching) => self.turn.count_message(),
                Ok(NextEvent::Starved) => {
                    if receiving::is_large(self.events.come()) {
                        self.response.take_room(self.events.limit).await;
                    }
                    match self.response.chunk().await {
                        Ok(Some(piece)) => self.events.push(&piece),
                        Ok(None) => return Err(EventsEnd::Ended),
                        Err(error) => return Err(EventsEnd::Broken(error)),
                    }
                }
                Err(TooLong) => return Err(EventsEnd::TooLong),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_event_grows_where_it_lies_and_takes_its_memory_with_it() {
        let mut events = SseEvents::new(64 << 20);
        let mut places = Vec::new();
        events.push(b"data: ");
        for _ in 0..8 << 6 {
            events.push(&[b'x'; 16 << 10]);
            assert_eq!(events.next(), Ok(NextEvent::Starved));
            places.push(events.buffer.as_ptr());
        }
        places.drain(..=16);
        places.dedup();
        assert_eq!(places.len(), 1);
        events.push(b"\n\n");
        let Ok(NextEvent::Event(event)) = events.next() else {
            panic!("the event is whole");
        };
        assert_eq!(event.data.unwrap().len(), 8 << 20);
        assert!(events.buffer.capacity() < 16 << 10);
    }

    fn read(pieces: &[&[u8]], limit: usize) -> Result<Vec<SseEvent>, TooLong> {
        let mut events = SseEvents::new(limit);
        let mut read = Vec::new();
        for piece in pieces {
            events.push(piece);
            loop {
                match events.next()? {
                    NextEvent::Event(event) => read.push(event),
                    NextEvent::Searching => {}
                    NextEvent::Starved => break,
                }
            }
        }
        Ok(read)
    }

    fn data(event: &SseEvent) -> &str {
        std::str::from_utf8(event.data.as_ref().unwrap()).unwrap()
    }

    #[test]
    fn events_are_the_same_however_they_are_cut() {
        let stream = "\u{feff}: hello\n\nid: 7\r\nevent: message\r\ndata: {\"a\":1}\r\n\r\nretry: 250\rdata:one\rdata: two\r\rdata\n\nid: 8\ndata:\n\nid: no end";
        let whole = read(&[stream.as_bytes()], 100).unwrap();
        assert_eq!(whole.len(), 4);
        assert_eq!(
            (whole[0].id.as_deref(), data(&whole[0])),
            (Some("7"), "{\"a\":1}")
        );
        assert_eq!(whole[1].retry, Some(Duration::from_millis(250)));
        assert_eq!(data(&whole[1]), "one\ntwo");
        assert_eq!(whole[2].message(), None, "a priming event carries nothing");
        assert_eq!(whole[3].id.as_deref(), Some("8"));
        for at in 0..stream.len() {
            let (head, tail) = stream.as_bytes().split_at(at);
            assert_eq!(read(&[head, tail], 100).unwrap(), whole, "cut at {at}");
        }
        let bytes: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
        assert_eq!(read(&bytes, 100).unwrap(), whole);
    }

    #[test]
    fn comments_without_end_are_read_a_part_at_a_time_and_an_event_among_them_is_whole() {
        let comments = ":\n".repeat(LINES_AT_ONCE);
        let mut events = SseEvents::new(100);
        events.push(format!("{comments}data: one\n{comments}\n").as_bytes());
        for _ in 0..2 {
            assert_eq!(events.next(), Ok(NextEvent::Searching));
        }
        let Ok(NextEvent::Event(event)) = events.next() else {
            panic!("the event is whole");
        };
        assert_eq!(data(&event), "one");
        assert_eq!(events.next(), Ok(NextEvent::Starved));
    }

    #[test]
    fn only_one_line_feed_belongs_to_a_carriage_return_however_the_pieces_are_cut() {
        let pieces: [&[u8]; 4] = [b"data: one\r", b"\n", b"\n", b"data: two\n\n"];
        let read = read(&pieces, 100).unwrap();
        assert_eq!(read.iter().map(data).collect::<Vec<_>>(), ["one", "two"]);
    }

    #[test]
    fn an_event_beyond_the_limit_is_refused_before_it_is_kept() {
        let long = format!("data: {}\n\n", "x".repeat(101));
        assert_eq!(read(&[long.as_bytes()], 100), Err(TooLong));
        let many = "data: xxxxxxxxxx\n".repeat(20);
        assert_eq!(read(&[many.as_bytes()], 100), Err(TooLong));
        let endless = vec![b'x'; 100 + LONGEST_ID + 1];
        assert_eq!(read(&[&endless], 100), Err(TooLong));
        let comment = format!(": {}\n\n", "x".repeat(100 + LONGEST_ID));
        assert_eq!(read(&[comment.as_bytes()], 100), Err(TooLong), "in one piece");
        let pieces: Vec<&[u8]> = comment.as_bytes().chunks(1000).collect();
        assert_eq!(read(&pieces, 100), Err(TooLong), "in several");
        let fits = format!("data: {}\n\n", "x".repeat(100));
        assert_eq!(read(&[fits.as_bytes()], 100).unwrap().len(), 1);
    }
}
