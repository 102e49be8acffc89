//! Reads the events of an answer, and yields after each turn, whatever the stream holds.

use super::connection::Response;
use super::events::{NextEvent, SseEvent, SseEvents, TooLong};
use super::pool::ExchangeError;
use crate::transport::Turn;

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

    /// The next event.
    ///
    /// Cancel safety: no event is lost.
    pub(in crate::transport) async fn next(&mut self) -> Result<SseEvent, EventsEnd> {
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
                Ok(NextEvent::Starved) => match self.response.chunk().await {
                    Ok(Some(piece)) => self.events.push(&piece),
                    Ok(None) => return Err(EventsEnd::Ended),
                    Err(error) => return Err(EventsEnd::Broken(error)),
                },
                Err(TooLong) => return Err(EventsEnd::TooLong),
            }
        }
    }
}
