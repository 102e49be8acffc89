//! Restores subscriptions and the log level on a legacy server, one request for each.
//!
//! One task per connection compares what the server was sent with what callers want, and sends the difference: several
//! requests at a time, and failed ones again. It ends when there is no difference, after [`MAX_ROUNDS`] failed rounds, or
//! with the connection.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::inbound::InboundHandler;
use super::subscriptions::Interests;
use crate::lock::Lock;
use crate::wire::{Peer, RawJson, RequestError, RequestOptions, RpcError};

/// How long a server may take to answer one of these requests.
const RESTORE_TIMEOUT: Duration = Duration::from_secs(10);

/// Requests in flight at the same time: enough to hide the round trip, and few enough that calls come between them.
const MAX_AT_ONCE: usize = 16;

/// Failed rounds until the rest is left to the next connection.
const MAX_ROUNDS: u32 = 8;

/// The pause after the first failed round; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// The longest pause between two rounds.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

pub(super) struct Restoring {
    peer: Peer,
    inbound: Arc<InboundHandler>,
    sent: Lock<SentInterests>,
    /// Notified when the interests changed while the task runs.
    changed: Notify,
    missing: AtomicUsize,
}

/// What the task has sent to the server. Requests of callers are not in here: sending one twice does no harm.
#[derive(Default)]
struct SentInterests {
    interests: Interests,
    is_running: bool,
}

/// One difference between what was sent and what is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
enum InterestChange {
    LogLevel,
    Resource(String),
}

/// A round in which something failed.
struct RestoreFailure {
    count: usize,
    /// The last failure.
    error: Option<RequestError>,
}

impl Restoring {
    pub(super) fn new(peer: Peer, inbound: Arc<InboundHandler>) -> Self {
        Self {
            peer,
            inbound,
            sent: Lock::default(),
            changed: Notify::new(),
            missing: AtomicUsize::new(0),
        }
    }

    /// How many differences are left: requests that were not sent yet, or failed.
    pub(super) fn missing(&self) -> usize {
        self.missing.load(Ordering::Relaxed)
    }

    /// Starts the task unless it runs. The future completes when each difference was tried once.
    pub(super) fn start(self: &Arc<Self>) -> impl Future<Output = ()> + use<> {
        let (tried, once) = oneshot::channel();
        let mut sent = self.sent.lock();
        if sent.is_running {
            self.changed.notify_one();
        } else {
            let changes = self.changes(&sent);
            if !changes.is_empty() {
                sent.is_running = true;
                tokio::spawn(self.clone().run(tried));
            }
        }
        drop(sent);
        async move {
            let _ = once.await;
        }
    }

    async fn run(self: Arc<Self>, tried: oneshot::Sender<()>) {
        let mut tried = Some(tried);
        let (mut rounds, mut pause) = (0, FIRST_PAUSE);
        while let Some(changes) = self.next_round() {
            let failed = self.send_all(changes).await;
            tried.take();
            let Some(RestoreFailure { count, error }) = failed else {
                continue;
            };
            if matches!(error, Some(RequestError::Lost { .. })) {
                return;
            }
            rounds += 1;
            self.show(count);
            let is_last = rounds == MAX_ROUNDS;
            if rounds == 1 || is_last {
                let (server, generation) = (self.inbound.server(), self.inbound.generation().0);
                let error = error.map(|error| error.to_string());
                tracing::warn!(
                    %server, generation, missing = count, error, retry = !is_last,
                    "subscriptions or the log level could not be restored"
                );
            }
            if is_last {
                self.sent.lock().is_running = false;
                return;
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = self.changed.notified() => {}
                _ = self.peer.closed() => return,
            }
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    /// What to send next. If there is nothing, the task counts as ended: a later change starts another.
    fn next_round(&self) -> Option<Vec<InterestChange>> {
        let mut sent = self.sent.lock();
        let changes = self.changes(&sent);
        sent.is_running = !changes.is_empty();
        drop(sent);
        self.show(changes.len());
        (!changes.is_empty()).then_some(changes)
    }

    /// The log level first, then each resource to subscribe or unsubscribe.
    fn changes(&self, sent: &SentInterests) -> Vec<InterestChange> {
        let sent = &sent.interests;
        self.inbound.with_interests(|wanted| {
            let level = (wanted.log_level != sent.log_level).then_some(InterestChange::LogLevel);
            let resources = wanted.resources.symmetric_difference(&sent.resources);
            let resources = resources.cloned().map(InterestChange::Resource);
            level.into_iter().chain(resources).collect()
        })
    }

    async fn send_all(self: &Arc<Self>, changes: Vec<InterestChange>) -> Option<RestoreFailure> {
        let mut changes = changes.into_iter();
        let mut sending = JoinSet::new();
        let mut failed: Option<RestoreFailure> = None;
        loop {
            while sending.len() < MAX_AT_ONCE
                && let Some(change) = changes.next()
            {
                let this = self.clone();
                sending.spawn(async move { this.send(&change).await });
            }
            let Some(done) = sending.join_next().await else {
                return failed;
            };
            let error = match done {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => Some(error),
                Err(_) => None,
            };
            let count = failed.map_or(0, |failed| failed.count) + 1;
            failed = Some(RestoreFailure { count, error });
        }
    }

    /// Sends what is wanted now. A request of a caller may overtake this one; the next round then finds the difference.
    async fn send(&self, change: &InterestChange) -> Result<(), RequestError> {
        match change {
            InterestChange::LogLevel => {
                let level = self.inbound.log_level();
                if let Some(level) = &level {
                    unless_unknown(self.set_log_level(level).await)?;
                }
                self.sent.lock().interests.log_level = level;
            }
            InterestChange::Resource(uri) => {
                let is_wanted = |wanted: &Interests| wanted.resources.contains(uri);
                if self.inbound.with_interests(is_wanted) {
                    unless_unknown(self.subscribe(uri).await)?;
                    self.sent.lock().interests.resources.insert(uri.clone());
                } else {
                    unless_unknown(self.unsubscribe(uri).await)?;
                    self.sent.lock().interests.resources.remove(uri);
                }
            }
        }
        Ok(())
    }

    pub(super) async fn subscribe(&self, uri: &str) -> Result<(), RequestError> {
        self.request("resources/subscribe", json!({ "uri": uri })).await
    }

    pub(super) async fn unsubscribe(&self, uri: &str) -> Result<(), RequestError> {
        self.request("resources/unsubscribe", json!({ "uri": uri })).await
    }

    pub(super) async fn set_log_level(&self, level: &RawJson) -> Result<(), RequestError> {
        self.request("logging/setLevel", json!({ "level": level })).await
    }

    async fn request(&self, method: &str, params: serde_json::Value) -> Result<(), RequestError> {
        let Ok(params) = RawJson::from_value(&params) else {
            return Ok(());
        };
        let options = RequestOptions::within(RESTORE_TIMEOUT);
        self.peer.request(method, Some(params), options).await.map(drop)
    }

    /// Reports how many differences are left, for the status.
    fn show(&self, missing: usize) {
        self.missing.store(missing, Ordering::Relaxed);
        self.inbound.show_restoring();
    }
}

/// A server that does not know the method is not asked again.
fn unless_unknown(sent: Result<(), RequestError>) -> Result<(), RequestError> {
    match sent {
        Err(RequestError::Rpc(error)) if error.code() == RpcError::METHOD_NOT_FOUND => Ok(()),
        sent => sent,
    }
}
