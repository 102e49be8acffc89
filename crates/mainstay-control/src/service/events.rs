//! The events: as a page of those that are kept, or as a stream that goes on.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use hyper::header::{self, HeaderMap};
use hyper::{Response, StatusCode};
use mainstay_gateway::MountBody;
use tokio::time::{Instant, timeout_at};

use super::ControlService;
use super::answer::{bytes_answer, stream_answer};
use super::request::{Query, bad_parameter};
use super::stream::{HEARTBEAT, HEARTBEAT_INTERVAL, Pieces, STREAM_START, lagged, write_event};
use crate::api::{ApiProblem, LagMarker, LagReason};
use crate::control::Hub;
use crate::journal::{JournalEntry, JournalReader, JournalReading};

/// Events in a page by default.
const DEFAULT_PAGE: u64 = 100;

impl ControlService {
    pub(super) fn events(
        &self,
        headers: &HeaderMap,
        query: &Query<'_>,
    ) -> Result<Response<MountBody>, ApiProblem> {
        let hub = &self.0.hub;
        let server = match query.get("server") {
            Some(name) => Some(hub.server(name)?.name),
            None => None,
        };
        if !wants_stream(headers) {
            let limit = query.number("limit")?.unwrap_or(DEFAULT_PAGE);
            let start = Start::of(hub, headers, query, server.as_deref(), limit)?;
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            return Ok(page(hub, &start, server.as_deref(), limit));
        }
        let start = Start::of(hub, headers, query, server.as_deref(), 0)?;
        let mut first = BytesMut::from(STREAM_START);
        if start.is_of_another_run {
            let marker = LagMarker {
                lost: None,
                reason: LagReason::Restarted,
            };
            first.put(lagged(&marker));
        }
        let pieces = EventPieces {
            first: Some(first.freeze()),
            reader: hub.journal.reader(start.after),
            instance: hub.instance.clone(),
            server,
        };
        Ok(stream_answer(self.stream(pieces, headers)?))
    }
}

fn wants_stream(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    accepted
        .filter_map(|accepted| accepted.to_str().ok())
        .any(|accepted| accepted.contains("text/event-stream"))
}

/// Where a reader begins.
struct Start {
    after: u64,
    /// The reader knows an event of another run of the program. It gets everything that is kept.
    is_of_another_run: bool,
}

impl Start {
    /// Reads `Last-Event-ID`, `after` and `tail`, in this order. Without any, a reader begins `tail` events before the end.
    fn of(
        hub: &Hub,
        headers: &HeaderMap,
        query: &Query<'_>,
        server: Option<&str>,
        tail: u64,
    ) -> Result<Self, ApiProblem> {
        let last_seen = headers
            .get("last-event-id")
            .map(|id| id.to_str().unwrap_or_default());
        let last = hub.journal.last();
        if let Some(id) = last_seen.or_else(|| query.get("after")) {
            let (instance, number) = match id.split_once('.') {
                Some((instance, number)) => (Some(instance), number),
                None => (None, id),
            };
            let wanted = "the id of an event: a number, or an instance and a number";
            let after: u64 = number.parse().map_err(|_| bad_parameter("after", id, wanted))?;
            let is_of_another_run = match instance {
                Some(instance) => instance != hub.instance,
                // A number that this run has not reached.
                None => after > last,
            };
            return Ok(Self {
                after: if is_of_another_run { 0 } else { after.min(last) },
                is_of_another_run,
            });
        }
        let tail = query.number("tail")?.unwrap_or(tail);
        Ok(Self {
            after: hub.journal.before_last(tail, server),
            is_of_another_run: false,
        })
    }
}

/// A page of events, put together from the JSON that the journal keeps.
fn page(hub: &Hub, start: &Start, server: Option<&str>, limit: usize) -> Response<MountBody> {
    let mut reader = hub.journal.reader(start.after);
    let mut lost = 0;
    let mut entries: Vec<Arc<JournalEntry>> = Vec::new();
    while entries.len() < limit {
        match reader.read() {
            None => break,
            Some(JournalReading::Lagged(marker)) => lost += marker.lost.unwrap_or_default(),
            Some(JournalReading::Entries(read)) => {
                let wanted = read.into_iter().filter(|entry| entry.is_of(server));
                entries.extend(wanted.take(limit - entries.len()));
            }
        }
    }
    let lost = match start.is_of_another_run {
        true => "null".to_owned(),
        false => lost.to_string(),
    };
    let mut json = BytesMut::new();
    let head = format!(
        r#"{{"instance":"{}","lost":{lost},"last":{},"events":["#,
        hub.instance,
        hub.journal.last()
    );
    json.put_slice(head.as_bytes());
    for (at, entry) in entries.iter().enumerate() {
        if at > 0 {
            json.put_u8(b',');
        }
        json.put_slice(&entry.json);
    }
    json.put_slice(b"]}");
    bytes_answer(StatusCode::OK, "application/json", json.freeze())
}

/// The pieces of an event stream.
struct EventPieces {
    first: Option<Bytes>,
    reader: JournalReader,
    instance: String,
    server: Option<Arc<str>>,
}

impl Pieces for EventPieces {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        // Events of other servers do not put it off: to this reader, the stream is silent.
        let heartbeat = Instant::now() + HEARTBEAT_INTERVAL;
        loop {
            let Ok(reading) = timeout_at(heartbeat, self.reader.next()).await else {
                return Some(HEARTBEAT);
            };
            match reading {
                JournalReading::Lagged(marker) => return Some(lagged(&marker)),
                JournalReading::Entries(entries) => {
                    let wanted = entries.iter().filter(|entry| entry.is_of(self.server.as_deref()));
                    let mut out = BytesMut::new();
                    for entry in wanted {
                        let id = format!("{}.{}", self.instance, entry.sequence);
                        write_event(&mut out, "record", Some(&id), &entry.json);
                    }
                    if !out.is_empty() {
                        return Some(out.freeze());
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{interval, timeout};

    use super::*;
    use crate::api::EventDetail;
    use crate::journal::Journal;

    #[tokio::test(start_paused = true)]
    async fn a_stream_of_one_server_shows_that_it_is_alive_while_others_are_busy() {
        let journal = Arc::new(Journal::new(None, 100));
        let mut pieces = EventPieces {
            first: None,
            reader: journal.reader(0),
            instance: "run".to_owned(),
            server: Some("silent".into()),
        };
        let busy = async {
            let mut ticks = interval(Duration::from_secs(1));
            loop {
                ticks.tick().await;
                journal.write(Some("busy".into()), EventDetail::Added);
            }
        };
        let began = Instant::now();
        let piece = tokio::select! {
            piece = timeout(HEARTBEAT_INTERVAL * 4, pieces.next()) => piece,
            () = busy => unreachable!("it does not end"),
        };
        assert_eq!(piece, Ok(Some(HEARTBEAT)));
        assert_eq!(began.elapsed(), HEARTBEAT_INTERVAL);
    }
}
