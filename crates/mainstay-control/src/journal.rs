//! The journal: the last events of the program, in one sequence, for any number of readers.
//!
//! Each event is written as JSON once. Readers have no queues: each has a position in the one ring, and waits on the number of
//! the last event. A reader that falls behind the oldest event learns how many it missed. So neither the writer nor
//! another reader ever waits for a slow one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::watch;

use crate::api::{EventDetail, EventRecord, LagMarker, LagReason, now_ms};
use crate::audit::AuditLog;

/// Events that are kept: those of some hours, or of the worst seconds of a thousand servers.
pub(crate) const DEFAULT_EVENTS_LIMIT: usize = 8192;

/// Bytes of JSON that are kept: failures may quote stderr.
const BYTES_LIMIT: usize = 8 * 1024 * 1024;

/// Entries that a reader takes at a time.
const BATCH_LIMIT: usize = 128;

/// An event as it is kept.
pub(crate) struct JournalEntry {
    pub(crate) sequence: u64,
    pub(crate) server: Option<Arc<str>>,
    /// The record as JSON.
    pub(crate) json: Bytes,
}

impl JournalEntry {
    /// Whether it concerns this server; `None` matches all.
    pub(crate) fn is_of(&self, server: Option<&str>) -> bool {
        server.is_none_or(|server| self.server.as_deref() == Some(server))
    }
}

/// The last events.
pub(crate) struct Journal {
    node: Option<String>,
    events_limit: usize,
    ring: Mutex<Ring>,
    /// The number of the last event.
    last: watch::Sender<u64>,
    /// Where commands of people are kept on disk.
    audit: Option<AuditLog>,
}

#[derive(Default)]
struct Ring {
    entries: VecDeque<Arc<JournalEntry>>,
    bytes: usize,
    last: u64,
}

impl Journal {
    /// A journal that keeps so many events, and at least one.
    pub(crate) fn new(node: Option<String>, events_limit: usize) -> Self {
        Self {
            node,
            events_limit: events_limit.max(1),
            ring: Mutex::default(),
            last: watch::Sender::new(0),
            audit: None,
        }
    }

    /// Keeps commands of people on disk, too.
    pub(crate) fn kept_by(mut self, audit: Option<AuditLog>) -> Self {
        self.audit = audit;
        self
    }

    /// The number of the last event; zero before the first.
    pub(crate) fn last(&self) -> u64 {
        *self.last.borrow()
    }

    /// Writes an event that happens now.
    pub(crate) fn write(&self, server: Option<Arc<str>>, detail: EventDetail) {
        self.write_at(now_ms(), server, detail);
    }

    /// Writes an event that happened at this time.
    pub(crate) fn write_at(&self, at_ms: u64, server: Option<Arc<str>>, detail: EventDetail) {
        let mut record = EventRecord {
            sequence: 0,
            at_ms,
            node: self.node.clone(),
            server: server.as_deref().map(str::to_owned),
            detail,
        };
        let mut ring = self.ring();
        record.sequence = ring.last + 1;
        let json = serde_json::to_vec(&record).unwrap_or_default();
        ring.push(JournalEntry {
            sequence: record.sequence,
            server,
            json: json.into(),
        });
        ring.make_room(self.events_limit);
        // Under the lock, so that the numbers grow.
        self.last.send_replace(record.sequence);
        drop(ring);
        if let Some(audit) = &self.audit {
            audit.keep(&record);
        }
    }

    /// A reader of what comes after this event.
    pub(crate) fn reader(self: &Arc<Self>, after: u64) -> JournalReader {
        JournalReader {
            last: self.last.subscribe(),
            journal: self.clone(),
            after,
        }
    }

    /// The event after which come so many of this server, or of all; fewer if no more are kept.
    pub(crate) fn before_last(&self, count: u64, server: Option<&str>) -> u64 {
        let ring = self.ring();
        if count == 0 {
            return ring.last;
        }
        let wanted = ring.entries.iter().rev().filter(|entry| entry.is_of(server));
        let nth = usize::try_from(count).unwrap_or(usize::MAX);
        let first = wanted.take(nth).last();
        first.map_or(ring.last, |entry| entry.sequence - 1)
    }

    /// The next entries after this event, and how many between are no longer kept.
    fn after(&self, after: u64, limit: usize) -> (u64, Vec<Arc<JournalEntry>>) {
        let ring = self.ring();
        let oldest = ring.entries.front().map_or(ring.last + 1, |entry| entry.sequence);
        let next = after.saturating_add(1);
        let lost = oldest.saturating_sub(next);
        // The numbers in the ring have no gaps.
        let skipped = usize::try_from(next.saturating_sub(oldest)).unwrap_or(usize::MAX);
        let entries = ring.entries.iter().skip(skipped).take(limit).cloned();
        (lost, entries.collect())
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring {
    fn push(&mut self, entry: JournalEntry) {
        self.last = entry.sequence;
        self.bytes += entry.json.len();
        self.entries.push_back(Arc::new(entry));
    }

    fn make_room(&mut self, events_limit: usize) {
        // The newest event is always kept.
        while self.entries.len() > events_limit || (self.bytes > BYTES_LIMIT && self.entries.len() > 1) {
            let Some(oldest) = self.entries.pop_front() else {
                return;
            };
            self.bytes -= oldest.json.len();
        }
    }
}

/// What a reader gets.
pub(crate) enum JournalReading {
    /// The next events.
    Entries(Vec<Arc<JournalEntry>>),
    /// Events are missing here.
    Lagged(LagMarker),
}

/// A reader of the journal.
pub(crate) struct JournalReader {
    journal: Arc<Journal>,
    last: watch::Receiver<u64>,
    after: u64,
}

impl JournalReader {
    /// What is kept after the reader's position, without waiting.
    pub(crate) fn read(&mut self) -> Option<JournalReading> {
        let (lost, entries) = self.journal.after(self.after, BATCH_LIMIT);
        if lost > 0 {
            self.after += lost;
            return Some(JournalReading::Lagged(LagMarker {
                lost: Some(lost),
                reason: LagReason::Lagged,
            }));
        }
        self.after = entries.last()?.sequence;
        Some(JournalReading::Entries(entries))
    }

    /// What comes next.
    ///
    /// Cancel safety: dropping it loses nothing.
    pub(crate) async fn next(&mut self) -> JournalReading {
        loop {
            self.last.borrow_and_update();
            if let Some(reading) = self.read() {
                return reading;
            }
            // The sender is in the journal, which this reader holds.
            let _ = self.last.changed().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequences(reading: Option<JournalReading>) -> (Option<u64>, Vec<u64>) {
        match reading {
            None => (None, Vec::new()),
            Some(JournalReading::Lagged(marker)) => (marker.lost, Vec::new()),
            Some(JournalReading::Entries(entries)) => {
                (None, entries.iter().map(|entry| entry.sequence).collect())
            }
        }
    }

    #[test]
    fn a_reader_continues_after_any_event_and_learns_what_is_no_longer_kept() {
        let journal = Arc::new(Journal::new(None, DEFAULT_EVENTS_LIMIT));
        for _ in 0..DEFAULT_EVENTS_LIMIT + 10 {
            journal.write(None, EventDetail::Added);
        }
        let last = journal.last();
        assert_eq!(last, DEFAULT_EVENTS_LIMIT as u64 + 10);
        let mut from_the_start = journal.reader(0);
        assert_eq!(sequences(from_the_start.read()).0, Some(10));
        assert_eq!(sequences(from_the_start.read()).1[0], 11);
        assert_eq!(sequences(journal.reader(10).read()).1[0], 11);
        assert_eq!(sequences(journal.reader(last - 2).read()).1, [last - 1, last]);
        assert!(journal.reader(last).read().is_none());
        assert!(journal.reader(u64::MAX).read().is_none());
    }

    #[test]
    fn large_events_make_room_by_bytes() {
        let journal = Arc::new(Journal::new(None, DEFAULT_EVENTS_LIMIT));
        let title = "x".repeat(1024 * 1024);
        for _ in 0..20 {
            let by = crate::api::Actor::via(crate::api::ActorKind::File);
            journal.write(
                None,
                EventDetail::ReloadRefused {
                    by,
                    title: title.clone(),
                    remedy: None,
                },
            );
        }
        let ring = journal.ring();
        assert!(ring.bytes <= BYTES_LIMIT);
        assert_eq!(ring.entries.len(), 7);
    }

    #[test]
    fn the_last_events_of_a_server_are_found_among_those_of_others() {
        let journal = Arc::new(Journal::new(None, 100));
        for number in 0..120 {
            let server = if number % 10 == 0 { "rare" } else { "common" };
            journal.write(Some(server.into()), EventDetail::Added);
        }
        assert_eq!(journal.before_last(0, Some("rare")), 120);
        assert_eq!(journal.before_last(2, Some("rare")), 100);
        assert_eq!(journal.before_last(3, None), 117);
        // Of the twelve, two are no longer kept: those that are follow, and nothing counts as missed.
        assert_eq!(journal.before_last(50, Some("rare")), 20);
        assert_eq!(journal.before_last(5, Some("none")), 120);
        assert_eq!(
            sequences(journal.reader(journal.before_last(1000, None)).read()).1[0],
            21
        );
    }
}
