//! The standing question of a modern connection, whose long answer carries the server's notifications.
//!
//! It stands as long as the connection does: a server that ends it, by a result or by `notifications/cancelled`, and a
//! stream that breaks, are asked again, ever more slowly while that is vain. What changed meanwhile went unheard, so
//! everything is listed again.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::inbound::InboundHandler;
use super::standing::OpenListen;
use super::tasks::TASKS_EXTENSION;
use super::{Connection, LONGEST_REQUEST};
use crate::transport::HttpFailure;
use crate::transport::http::ReconnectBackoff;
use crate::wire::{Peer, RawJson, RequestError, RequestOptions};

/// An answer that stood this long was not vain.
const STABLE_LISTEN_TIME: Duration = Duration::from_secs(30);

/// How a long answer ended.
enum ListenEnd {
    /// The server does not listen so, or the connection is gone.
    ForGood,
    /// As the server wished.
    Gracefully,
    /// The server has too much to do, perhaps for this long.
    Throttled(Option<Duration>),
    /// Its stream broke, and the server perhaps with it.
    Broken,
}

struct Listening {
    peer: Peer,
    params: RawJson,
    inbound: Arc<InboundHandler>,
    standing: Arc<OpenListen>,
}

impl Connection {
    /// Opens the long answer, in place of the one before it. It is queued before this returns, so that over a transport
    /// that keeps the order whatever is listed afterwards is listed by a server that tells of changes.
    ///
    /// What is wanted is read in turn: of two who want something at the same time, whoever comes later asks for both.
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
        let standing = OpenListen {
            tasks: interests.tasks.clone(),
            ..OpenListen::default()
        };
        let listening = Listening {
            peer: self.peer.clone(),
            params,
            inbound: self.inbound.clone(),
            standing: Arc::new(standing),
        };
        let standing = listening.standing.clone();
        let mut listening = Box::pin(listening.keep());
        let begun = listening.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if begun.is_pending() {
            self.inbound
                .replace_listen(tokio::spawn(listening).abort_handle(), standing);
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

    /// Asks, and waits for the end of the answer. Whoever asks `again` has missed something, and lists once he listens.
    async fn once(&self, again: bool) -> ListenEnd {
        let taken = self.inbound.next_listen();
        let options = RequestOptions::within(LONGEST_REQUEST)
            .number(self.standing.number.clone())
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
            answer = &mut answer => how(&answer),
            () = self.standing.cancelled.notified() => ListenEnd::Gracefully,
            never = &mut missed => never,
        }
    }
}

fn how(answer: &Result<RawJson, RequestError>) -> ListenEnd {
    match answer {
        Ok(_) | Err(RequestError::TimedOut { .. } | RequestError::BadAnswer(_)) => ListenEnd::Gracefully,
        Err(RequestError::Rpc(_) | RequestError::Lost { .. }) => ListenEnd::ForGood,
        Err(RequestError::Send(failure)) => match failure.error().downcast_ref() {
            Some(HttpFailure::Status { status, .. }) if *status < 500 => ListenEnd::ForGood,
            Some(
                HttpFailure::AuthRequired { status: 403, .. }
                | HttpFailure::Redirect { .. }
                | HttpFailure::WrongContentType { .. }
                | HttpFailure::Compressed { .. },
            ) => ListenEnd::ForGood,
            // Whatever is asked next learns of a login that is wanted, too.
            Some(HttpFailure::Status { .. } | HttpFailure::AuthRequired { .. }) => ListenEnd::Gracefully,
            Some(HttpFailure::Throttled { retry_after, .. }) => ListenEnd::Throttled(*retry_after),
            Some(_) | None => ListenEnd::Broken,
        },
    }
}
