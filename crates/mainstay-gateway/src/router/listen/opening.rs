//! The line of a listen until it is acknowledged: nothing may come before the acknowledgement.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::client::Outbox;

/// Messages that wait for the acknowledgement; more are dropped. Each is a change that happened in the moment between.
const MAX_WAITING: usize = 1024;

pub(super) struct Opening {
    line: Arc<dyn Outbox>,
    /// None once it is open.
    waiting: Mutex<Option<Vec<Bytes>>>,
}

impl Opening {
    pub(super) fn new(line: Arc<dyn Outbox>) -> Arc<Self> {
        Arc::new(Self {
            line,
            waiting: Mutex::new(Some(Vec::new())),
        })
    }

    /// Sends the acknowledgement, then all that has waited for it, and from now on whatever comes.
    pub(super) fn open(&self, acknowledgement: Bytes) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.line.send(acknowledgement);
        for message in waiting.take().into_iter().flatten() {
            self.line.send(message);
        }
    }
}

impl Outbox for Opening {
    fn send(&self, message: Bytes) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *waiting {
            None => self.line.send(message),
            Some(waiting) if waiting.len() < MAX_WAITING => {
                waiting.push(message);
                true
            }
            Some(_) => false,
        }
    }

    fn offer(&self, message: Bytes) -> bool {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // What can be missed does not wait.
        waiting.is_none() && self.line.offer(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Sent(Mutex<Vec<Bytes>>);

    impl Outbox for Sent {
        fn send(&self, message: Bytes) -> bool {
            self.0.lock().unwrap().push(message);
            true
        }

        fn offer(&self, message: Bytes) -> bool {
            self.send(message)
        }
    }

    #[test]
    fn what_comes_before_the_acknowledgement_is_sent_after_it() {
        let sent = Arc::new(Sent::default());
        let opening = Opening::new(sent.clone());
        for n in 0..=MAX_WAITING {
            let fits = opening.send(n.to_string().into());
            assert_eq!(fits, n < MAX_WAITING);
        }
        assert!(!opening.offer("can be missed".into()));
        assert!(sent.0.lock().unwrap().is_empty());
        opening.open("acknowledged".into());
        opening.send("after".into());
        let sent = sent.0.lock().unwrap();
        assert_eq!(sent[0], "acknowledged");
        assert_eq!((&sent[1], &sent[MAX_WAITING]), (&"0".into(), &"1023".into()));
        assert_eq!(sent[MAX_WAITING + 1], "after");
    }
}
