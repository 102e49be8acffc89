//! `subscriptions/listen`: the long request of a modern connection whose answer stream carries the server's notifications.
//!
//! It stays open as long as the connection. If the server ends it, by a result or by `notifications/cancelled`, or if its
//! stream breaks, it is sent again, with backoff. Notifications may have been missed in between, so everything is listed
//! again.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::inbound::InboundHandler;
use super::listens::OpenListen;
use super::tasks::TASKS_EXTENSION;
use super::{Connection, LONGEST_REQUEST};
use crate::transport::HttpFailure;
use crate::transport::http::ReconnectBackoff;
use crate::wire::{Peer, RawJson, RequestError, RequestOptions};

/// A listen that stayed open this long resets the backoff.
const STABLE_LISTEN_TIME: Duration = Duration::from_secs(30);

/// How a listen ended.
enum ListenEnd {
    /// The server does not support it, or the connection is gone.
    ForGood,
    /// The server ended it.
    Gracefully,
    /// The server is overloaded, and may have named a pause.
    Throttled(Option<Duration>),
    /// Its stream broke.
    Broken,
}

struct Listening {
    peer: Peer,
    params: RawJson,
    inbound: Arc<InboundHandler>,
    open: Arc<OpenListen>,
}

impl Connection {
    /// Sends a listen that replaces the one before it. It is queued before this returns: over a transport that keeps the
    /// order, a listing that follows misses no change.
    ///
    /// The interests are read under a lock: of two concurrent listens, the later one names the interests of both.
    pub(crate) fn listen(&self) {
        let Some(meta) = &self.meta else { return };
        let _turn = self.inbound.listen_turn();
        let interests = self.inbound.interests();
        let offers = self.greeting.offers;
        let mut filter = json!({
            "toolsListChanged": offers.tools,
            "promptsListChanged": offers.prompts,
            "resourcesListChanged": offers.resources,
            "resourceSubscriptions": interests.resources,
        });
        if !interests.tasks.is_empty() {
            filter["taskIds"] = json!(interests.tasks);
        }
        let Ok(params) = RawJson::from_value(&json!({ "notifications": filter })) else {
            return;
        };
        let params = if interests.tasks.is_empty() {
            meta.stamp(Some(&params))
        } else {
            meta.stamp_with_extension(&params, TASKS_EXTENSION)
        };
        let open = OpenListen {
            tasks: interests.tasks.clone(),
            ..OpenListen::default()
        };
        let listening = Listening {
            peer: self.peer.clone(),
            params,
            inbound: self.inbound.clone(),
            open: Arc::new(open),
        };
        let open = listening.open.clone();
        let mut listening = Box::pin(listening.keep());
        let begun = listening.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if begun.is_pending() {
            self.inbound
                .replace_listen(tokio::spawn(listening).abort_handle(), open);
        }
    }
}

impl Listening {
    async fn keep(self) {
        let mut pace = ReconnectBackoff::default();
        let mut again = false;
        loop {
            let asked = Instant::now();
            let ended = self.once(again).await;
            self.inbound.listen_taken();
            if asked.elapsed() >= STABLE_LISTEN_TIME {
                pace.reset();
            }
            match ended {
                ListenEnd::ForGood => return,
                ListenEnd::Gracefully => sleep(pace.next_pause(false)).await,
                ListenEnd::Throttled(pause) => {
                    pace.set_retry(pause.unwrap_or_default());
                    sleep(pace.next_pause(false)).await;
                }
                ListenEnd::Broken => sleep(pace.next_pause(true)).await,
            }
            again = true;
        }
    }

    /// Sends the request and waits for its end. `again`: notifications may have been missed, so the lists are read again
    /// once the server has taken the listen.
    async fn once(&self, again: bool) -> ListenEnd {
        let taken = self.inbound.next_listen();
        let options = RequestOptions::within(LONGEST_REQUEST)
            .number(self.open.number.clone())
            .standing();
        let params = Some(self.params.clone());
        let mut answer = pin!(self.peer.request("subscriptions/listen", params, options));
        let mut missed = pin!(async {
            if again {
                taken.await;
                self.inbound.list_changed();
            }
            pending().await
        });
        tokio::select! {
            biased;
            answer = &mut answer => end_of(&answer),
            () = self.open.cancelled.notified() => ListenEnd::Gracefully,
            never = &mut missed => never,
        }
    }
}

fn end_of(answer: &Result<RawJson, RequestError>) -> ListenEnd {
    match answer {
        Ok(_)
        | Err(RequestError::TimedOut { .. } | RequestError::Cancelled { .. } | RequestError::BadAnswer(_)) => {
            ListenEnd::Gracefully
        }
        Err(RequestError::Rpc(_) | RequestError::Lost { .. }) => ListenEnd::ForGood,
        Err(RequestError::Send(failure)) => match failure.error().downcast_ref() {
            Some(HttpFailure::Status { status, .. }) if *status < 500 => ListenEnd::ForGood,
            Some(
                HttpFailure::AuthRequired { status: 403, .. }
                | HttpFailure::Redirect { .. }
                | HttpFailure::WrongContentType { .. }
                | HttpFailure::Compressed { .. },
            ) => ListenEnd::ForGood,
            // The next request meets the same demand for a login.
            Some(HttpFailure::Status { .. } | HttpFailure::AuthRequired { .. }) => ListenEnd::Gracefully,
            Some(HttpFailure::Throttled { retry_after, .. }) => ListenEnd::Throttled(*retry_after),
            Some(_) | None => ListenEnd::Broken,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::SendFailure;
    use crate::wire::Outcome;

    #[test]
    fn a_server_that_fails_is_listened_to_again_and_one_that_refuses_is_not() {
        for (status, is_final) in [(400, true), (499, true), (500, false), (503, false)] {
            let failure = HttpFailure::Status {
                status,
                body: String::new(),
            };
            let answer = Err(RequestError::Send(SendFailure::new(Outcome::Refused, failure)));
            let is_ended = matches!(end_of(&answer), ListenEnd::ForGood);
            assert_eq!(is_ended, is_final, "{status}");
        }
    }
}
