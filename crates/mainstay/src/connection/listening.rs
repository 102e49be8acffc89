//! `subscriptions/listen`: the long request of the modern era whose answer stream carries the server's notifications. A server that
//! speaks both eras gets one beside its session, since it may report a change only in the era in which it happened.
//!
//! It stays open as long as the connection. If the server ends it, by a result or by `notifications/cancelled`, or if its
//! stream breaks, it is sent again, with backoff. Notifications may have been missed in between, so everything is listed
//! again. A new one replaces the current one, which stays open until the server has acknowledged the new one.

use std::collections::BTreeSet;
use std::future::{Future, pending};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use serde_json::json;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use super::inbound::InboundHandler;
use super::tasks::TASKS_EXTENSION;
use super::{Connection, LONGEST_REQUEST};
use crate::transport::HttpFailure;
use crate::transport::http::ReconnectBackoff;
use crate::wire::{Peer, RawJson, RequestError, RequestOptions};

/// A listen that stayed open this long resets the backoff.
const STABLE_LISTEN_TIME: Duration = Duration::from_secs(30);

/// How long a listing waits until the server has taken the listen that reports its changes.
const LISTEN_HEAD_START_TIMEOUT: Duration = Duration::from_millis(500);

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
    /// Whether the connection has a session, which the request does not belong to.
    is_beside: bool,
}

impl Connection {
    /// Sends a listen that replaces the one before it. It is queued before this returns: over a transport that keeps the
    /// order, a listing that follows misses no change.
    ///
    /// The interests are read under a lock: of two concurrent listens, the later one names the interests of both.
    pub(crate) fn listen(&self) {
        let (meta, offers, is_beside) = match (&self.meta, self.beside()) {
            (Some(meta), _) => (meta, self.greeting.offers, false),
            (None, Some(beside)) => (&beside.meta, beside.greeting.offers, true),
            (None, None) => return,
        };
        let _turn = self.inbound.listen_turn.lock();
        let interests = self.inbound.interests();
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
            is_beside,
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
        let mut options = RequestOptions::within(LONGEST_REQUEST)
            .number(self.open.number.clone())
            .standing();
        if self.is_beside {
            options = options.sessionless();
        }
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

/// The listens of a modern connection. The old one is cancelled only when the server has acknowledged the new one, so that
/// no change is missed in between.
#[derive(Default)]
pub(super) struct Listens {
    current: Option<Listen>,
    retiring: Option<Listen>,
}

struct Listen {
    task: AbortHandle,
    open: Arc<OpenListen>,
}

/// What is known of an open listen.
#[derive(Default)]
pub(super) struct OpenListen {
    /// The id of its latest request.
    pub(super) number: Arc<AtomicU64>,
    /// The server ended it by `notifications/cancelled`.
    pub(super) cancelled: Notify,
    /// The tasks that it names.
    pub(super) tasks: BTreeSet<String>,
}

impl InboundHandler {
    /// Replaces the current listen, which stays open until the new one is acknowledged.
    pub(super) fn replace_listen(&self, task: AbortHandle, open: Arc<OpenListen>) {
        let mut listens = self.listens.lock();
        let old = listens.current.replace(Listen { task, open });
        let older = std::mem::replace(&mut listens.retiring, old);
        drop(listens);
        if let Some(older) = older {
            older.task.abort();
        }
        self.none_after_the_end();
    }

    pub(super) fn listen_acknowledged(&self, params: Option<&RawJson>) {
        self.tasks_agreed(params);
        self.listen_taken();
        let old = self.listens.lock().retiring.take();
        if let Some(old) = old {
            old.task.abort();
        }
    }

    /// A listen was acknowledged, or came to its end.
    pub(super) fn listen_taken(&self) {
        self.listens_taken.send_modify(|taken| *taken += 1);
    }

    /// Completes when a listen that is sent from now on was taken, or after a short timeout: a server must acknowledge, but
    /// nothing may depend on it.
    pub(super) fn next_listen(&self) -> impl Future<Output = ()> + use<> {
        let mut taken = self.listens_taken.subscribe();
        let before = *taken.borrow_and_update();
        async move {
            let _ = timeout(LISTEN_HEAD_START_TIMEOUT, taken.wait_for(|taken| *taken > before)).await;
        }
    }

    /// The open listen with this request id.
    pub(super) fn open_listen(&self, number: u64) -> Option<Arc<OpenListen>> {
        let listens = self.listens.lock();
        let mut all = listens.current.iter().chain(&listens.retiring);
        let asked = all.find(|listen| listen.open.number.load(Ordering::Acquire) == number);
        asked.map(|listen| listen.open.clone())
    }

    /// The request id of the current listen.
    pub(super) fn current_listen(&self) -> Option<u64> {
        let listens = self.listens.lock();
        let current = listens.current.as_ref()?;
        Some(current.open.number.load(Ordering::Acquire))
    }

    /// Ends all listens.
    pub(super) fn end_listens(&self) {
        let listens = std::mem::take(&mut *self.listens.lock());
        for listen in listens.retiring.into_iter().chain(listens.current) {
            listen.task.abort();
        }
    }

    /// The server ends the listen with this request id.
    pub(super) fn end_listen(&self, request: &RawJson) {
        let Ok(number) = request.parse::<u64>() else {
            return;
        };
        if let Some(open) = self.open_listen(number) {
            open.cancelled.notify_one();
        }
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
