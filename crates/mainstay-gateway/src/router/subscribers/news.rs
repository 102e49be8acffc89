//! Something that several are told at once.

use std::cell::OnceCell;

use bytes::Bytes;
use mainstay::gateway::message::{self, RawJson};

use super::{SubscriberEntry, Way, labelled, unlabelled};

/// What several are told: written once for all sessions, and for each listen under its own id.
pub(super) struct News<'a> {
    method: &'a str,
    params: Option<&'a RawJson>,
    /// That something changed, and not to what: who has it unread need not be told again.
    is_of_change: bool,
    for_sessions: OnceCell<Bytes>,
}

impl<'a> News<'a> {
    /// That something changed. Who has the same news unread is not told again.
    pub(super) fn of_change(method: &'a str, params: Option<&'a RawJson>) -> Self {
        Self {
            method,
            params,
            is_of_change: true,
            for_sessions: OnceCell::new(),
        }
    }

    /// How something is now. Each of them is told.
    pub(super) fn of_state(method: &'a str, params: Option<&'a RawJson>) -> Self {
        Self {
            is_of_change: false,
            ..Self::of_change(method, params)
        }
    }

    fn for_sessions(&self) -> Bytes {
        let written = self.for_sessions.get_or_init(|| {
            let params = self.params.map(unlabelled);
            message::notification(self.method, params.as_ref())
        });
        written.clone()
    }

    fn for_listen(&self, id: &RawJson) -> Bytes {
        let params = labelled(self.params, id);
        message::notification(self.method, Some(&params))
    }
}

impl SubscriberEntry {
    pub(super) fn tell(&self, news: &News<'_>) {
        let (line, message) = match &self.way {
            Way::Session(client) => {
                let Some(line) = client.upgrade().and_then(|client| client.standing()) else {
                    return;
                };
                (line, news.for_sessions())
            }
            Way::Listen(line, id) => (line.clone(), news.for_listen(id)),
        };
        match news.is_of_change {
            true => line.send_once(message),
            false => line.send(message),
        };
    }
}
