//! Writes the changes of a fleet's servers to the journal.

use std::sync::Arc;

use mainstay::event::EventOrLag;
use mainstay::{Event, Events};

use crate::api::{EventDetail, unix_ms};
use crate::journal::Journal;
use crate::status::failure;

/// Records a fleet's events until the fleet or the journal is gone. Its server may be shown under another name.
pub(crate) fn start(mut events: Events, shown_as: Option<Arc<str>>, journal: &Arc<Journal>) {
    let journal = Arc::downgrade(journal);
    tokio::spawn(async move {
        while let Some(event) = events.next().await {
            let Some(journal) = journal.upgrade() else { return };
            match event {
                EventOrLag::Event(event) => {
                    let server = shown_as.clone().unwrap_or_else(|| event.server.clone());
                    journal.write_at(unix_ms(event.at), Some(server), transition(&event));
                }
                EventOrLag::Lagged(count) => journal.write(shown_as.clone(), EventDetail::Lost { count }),
            }
        }
    });
}

fn transition(event: &Event) -> EventDetail {
    EventDetail::Transition {
        from: event.from.into(),
        to: event.to.into(),
        cause: event.cause.as_str().to_owned(),
        generation: event.generation.map(|generation| generation.0),
        attempt: event.attempt,
        next_retry_ms: event.next_retry.map(unix_ms),
        failure: event.error.as_deref().map(failure),
    }
}
