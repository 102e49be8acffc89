//! Makes what callers want for longer than a connection known to a legacy server, which is told each wish by a request of its
//! own.
//!
//! One task for a connection brings what the server was told to what is wanted: several requests at a time, and again what
//! failed. It ends when both are the same, when it has tried often enough, or with the connection.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::inbound::InboundHandler;
use super::subscriptions::Interests;
use crate::wire::{Peer, RawJson, RequestError, RequestOptions, RpcError};

/// How long a server may take to grant one wish.
const WISH_TIMEOUT: Duration = Duration::from_secs(10);

/// Wishes that are made known at the same time: enough that the way there and back is not paid for each, and few enough that
/// calls come between them.
const MAX_AT_ONCE: usize = 16;

/// Rounds in which something failed, until the rest is left to the next connection.
const MAX_ROUNDS: u32 = 8;

/// The pause after the first round in which something failed; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// The longest pause between two rounds.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

pub(super) struct Restoring {
    peer: Peer,
    inbound: Arc<InboundHandler>,
    told: Mutex<Told>,
    /// Something is wanted that was not when the task last looked.
    changed: Notify,
    missing: AtomicUsize,
}

/// What the task told the server. What callers told it themselves is not in here: telling a server twice does no harm.
#[derive(Default)]
struct Told {
    interests: Interests,
    is_running: bool,
}

/// What the server has to be told about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wish {
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
            told: Mutex::default(),
            changed: Notify::new(),
            missing: AtomicUsize::new(0),
        }
    }

    /// How many wishes the server was not told yet, or refused.
    pub(super) fn missing(&self) -> usize {
        self.missing.load(Ordering::Relaxed)
    }

    /// Begins to make known what is wanted and was not told, unless that is under way, and comes back when each of those
    /// wishes was tried once.
    pub(super) fn start(self: &Arc<Self>) -> impl Future<Output = ()> + use<> {
        let (tried, once) = oneshot::channel();
        let mut told = self.told();
        if told.is_running {
            self.changed.notify_one();
        } else {
            let wishes = self.wishes(&told);
            if !wishes.is_empty() {
                told.is_running = true;
                tokio::spawn(self.clone().run(tried));
            }
        }
        drop(told);
        async move {
            let _ = once.await;
        }
    }

    async fn run(self: Arc<Self>, tried: oneshot::Sender<()>) {
        let mut tried = Some(tried);
        let (mut rounds, mut pause) = (0, FIRST_PAUSE);
        while let Some(wishes) = self.next_round() {
            let failed = self.tell_all(wishes).await;
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
                self.told().is_running = false;
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

    /// What has to be told next. When that is nothing, the task has ended: whoever wants something from then on starts another.
    fn next_round(&self) -> Option<Vec<Wish>> {
        let mut told = self.told();
        let wishes = self.wishes(&told);
        told.is_running = !wishes.is_empty();
        drop(told);
        self.show(wishes.len());
        (!wishes.is_empty()).then_some(wishes)
    }

    /// The level first, and then each resource that is wanted and was not told, or was told and is not wanted.
    fn wishes(&self, told: &Told) -> Vec<Wish> {
        let told = &told.interests;
        self.inbound.with_interests(|wanted| {
            let level = (wanted.log_level != told.log_level).then_some(Wish::LogLevel);
            let resources = wanted.resources.symmetric_difference(&told.resources);
            let resources = resources.cloned().map(Wish::Resource);
            level.into_iter().chain(resources).collect()
        })
    }

    async fn tell_all(self: &Arc<Self>, wishes: Vec<Wish>) -> Option<RestoreFailure> {
        let mut wishes = wishes.into_iter();
        let mut telling = JoinSet::new();
        let mut failed: Option<RestoreFailure> = None;
        loop {
            while telling.len() < MAX_AT_ONCE
                && let Some(wish) = wishes.next()
            {
                let this = self.clone();
                telling.spawn(async move { this.tell(&wish).await });
            }
            let Some(done) = telling.join_next().await else {
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

    /// Tells the server what is wanted now. A caller who changes that meanwhile tells the server too, and may be overtaken: the
    /// next round finds the difference.
    async fn tell(&self, wish: &Wish) -> Result<(), RequestError> {
        match wish {
            Wish::LogLevel => {
                let level = self.inbound.log_level();
                if let Some(level) = &level {
                    unless_unknown(self.set_log_level(level).await)?;
                }
                self.told().interests.log_level = level;
            }
            Wish::Resource(uri) => {
                let is_wanted = |wanted: &Interests| wanted.resources.contains(uri);
                if self.inbound.with_interests(is_wanted) {
                    unless_unknown(self.subscribe(uri).await)?;
                    self.told().interests.resources.insert(uri.clone());
                } else {
                    unless_unknown(self.unsubscribe(uri).await)?;
                    self.told().interests.resources.remove(uri);
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
        let options = RequestOptions::within(WISH_TIMEOUT);
        self.peer.request(method, Some(params), options).await.map(drop)
    }

    /// Has the status show how many wishes the server was not told yet.
    fn show(&self, missing: usize) {
        self.missing.store(missing, Ordering::Relaxed);
        self.inbound.show_restoring();
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A server that does not know a method need not be told by it again.
fn unless_unknown(told: Result<(), RequestError>) -> Result<(), RequestError> {
    match told {
        Err(RequestError::Rpc(error)) if error.code() == RpcError::METHOD_NOT_FOUND => Ok(()),
        told => told,
    }
}
