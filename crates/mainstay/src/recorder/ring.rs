//! The ring of one server, and what is set aside of connections that were lost.

use std::collections::VecDeque;
use std::time::SystemTime;

use mainstay_lifecycle::Generation;

use super::entry::RingEntry;
use super::{RecordedKind, RecordedLoss, RecorderOptions, Recording};
use crate::lock::Lock;
use crate::redaction::Redaction;

/// Messages of a lost connection that are set aside.
const LOSS_MESSAGES_LIMIT: usize = 64;

/// Losses that are set aside: with slow probes every five minutes, those of more than an hour.
const LOSSES_LIMIT: usize = 32;

/// Messages that are set aside for all losses of a server.
const ALL_LOSS_MESSAGES_LIMIT: usize = 512;

/// Bytes of payloads that are set aside for all losses of a server. They are shared with the ring while it has them too.
const LOSS_PAYLOAD_BYTES_LIMIT: usize = 1024 * 1024;

/// The largest payload, as a part of all that may be kept.
const LARGEST_PAYLOAD_PART: usize = 4;

/// The recorder of one server.
pub(crate) struct FlightRecorder {
    options: RecorderOptions,
    kept: Lock<RecorderState>,
}

#[derive(Default)]
struct RecorderState {
    messages: VecDeque<RingEntry>,
    payload_bytes: usize,
    dropped: u64,
    /// The number of the next message.
    next: u64,
    losses: VecDeque<LossEntry>,
}

struct LossEntry {
    at: SystemTime,
    generation: Generation,
    reason: String,
    messages: Vec<RingEntry>,
}

impl FlightRecorder {
    pub(crate) fn new(options: RecorderOptions) -> Self {
        Self {
            options,
            kept: Lock::default(),
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.options.messages > 0
    }

    /// Whether the payload of a message of this length is to be kept.
    pub(super) fn keeps_payload(&self, length: usize) -> bool {
        self.options.payload_bytes > 0 && length <= self.options.payload_bytes / LARGEST_PAYLOAD_PART
    }

    pub(super) fn push(&self, mut entry: RingEntry) {
        let mut kept = self.kept.lock();
        entry.sequence = kept.next;
        kept.next += 1;
        if entry.kind == RecordedKind::Unreadable
            && entry.payload.is_none()
            && let Some(last) = kept.messages.back_mut()
            && last.kind == RecordedKind::Unreadable
            && last.payload.is_none()
            && last.generation == entry.generation
        {
            // A server that writes a flood of text does not displace the messages before it.
            last.bytes += entry.bytes;
            last.count += 1;
            return;
        }
        kept.payload_bytes += entry.payload_length();
        kept.messages.push_back(entry);
        kept.make_room(self.options);
    }

    /// Sets aside the last messages of a connection that failed. If that was done before, only what came since is reason to do
    /// it again.
    pub(crate) fn set_aside(&self, generation: Generation, reason: &str) {
        let mut kept = self.kept.lock();
        let of_connection = kept.messages.iter().rev();
        let of_connection = of_connection.filter(|entry| entry.generation == generation);
        let mut messages: Vec<RingEntry> = of_connection.take(LOSS_MESSAGES_LIMIT).cloned().collect();
        messages.reverse();
        let last = |messages: &[RingEntry]| messages.last().map(|message| message.sequence);
        let before = kept.losses.iter().position(|loss| loss.generation == generation);
        match before {
            Some(before) if last(&messages) <= last(&kept.losses[before].messages) => return,
            Some(before) => drop(kept.losses.remove(before)),
            None if !self.is_on() => return,
            None => {}
        }
        kept.losses.push_back(LossEntry {
            at: SystemTime::now(),
            generation,
            reason: reason.to_owned(),
            messages,
        });
        kept.bound_losses();
    }

    /// Everything that is kept, with these secrets replaced.
    pub(crate) fn read(&self, redaction: &Redaction) -> Recording {
        // Copied under the lock, and made readable outside of it.
        let kept = self.kept.lock();
        let (messages, dropped) = (kept.messages.clone(), kept.dropped);
        let losses: Vec<_> = kept.losses.iter().map(LossEntry::copied).collect();
        drop(kept);
        Recording {
            has_payloads: self.options.payload_bytes > 0,
            dropped,
            messages: messages.iter().map(|entry| entry.read(redaction)).collect(),
            losses: losses.iter().map(|loss| loss.read(redaction)).collect(),
        }
    }
}

impl RecorderState {
    fn make_room(&mut self, options: RecorderOptions) {
        while self.messages.len() > options.messages || self.payload_bytes > options.payload_bytes {
            let Some(oldest) = self.messages.pop_front() else {
                return;
            };
            self.payload_bytes -= oldest.payload_length();
            self.dropped += oldest.count;
        }
    }

    fn bound_losses(&mut self) {
        let messages = |losses: &VecDeque<LossEntry>| -> usize {
            losses.iter().map(|loss| loss.messages.len()).sum::<usize>()
        };
        // The latest loss is always kept.
        while self.losses.len() > 1
            && (self.losses.len() > LOSSES_LIMIT || messages(&self.losses) > ALL_LOSS_MESSAGES_LIMIT)
        {
            self.losses.pop_front();
        }
        let mut room = LOSS_PAYLOAD_BYTES_LIMIT;
        for loss in self.losses.iter_mut().rev() {
            for entry in loss.messages.iter_mut().rev() {
                match room.checked_sub(entry.payload_length()) {
                    Some(left) => room = left,
                    None => entry.payload = None,
                }
            }
        }
    }
}

impl LossEntry {
    fn copied(&self) -> Self {
        Self {
            at: self.at,
            generation: self.generation,
            reason: self.reason.clone(),
            messages: self.messages.clone(),
        }
    }

    fn read(&self, redaction: &Redaction) -> RecordedLoss {
        RecordedLoss {
            at: self.at,
            generation: self.generation,
            reason: self.reason.clone(),
            messages: self.messages.iter().map(|entry| entry.read(redaction)).collect(),
        }
    }
}
