//! What a scripted server has seen of its client.

use std::collections::{BTreeMap, VecDeque};

use crate::ledger::begins_with_words;
use crate::responder::Incoming;

/// Messages kept for `MemoryServer::received`; a flood forgets its oldest.
const KEPT_MESSAGES: usize = 4096;

#[derive(Default)]
pub(crate) struct SeenMessages {
    total: usize,
    methods: BTreeMap<String, usize>,
    messages: VecDeque<Incoming>,
    /// A short line per message; a test that floods its server past its memory is its own fault.
    notes: Vec<String>,
}

impl SeenMessages {
    pub(crate) fn add(&mut self, message: Incoming) {
        self.total += 1;
        *self.methods.entry(message.method().to_owned()).or_default() += 1;
        if self.messages.len() == KEPT_MESSAGES {
            self.messages.pop_front();
        }
        self.messages.push_back(message);
    }

    pub(crate) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    pub(crate) fn total(&self) -> usize {
        self.total
    }

    pub(crate) fn count(&self, method: &str) -> usize {
        self.methods.get(method).copied().unwrap_or_default()
    }

    pub(crate) fn noted(&self, words: &str) -> usize {
        self.notes
            .iter()
            .filter(|note| begins_with_words(note, words))
            .count()
    }

    /// The last messages, oldest first.
    pub(crate) fn messages(&self) -> impl DoubleEndedIterator<Item = &Incoming> {
        self.messages.iter()
    }
}
