//! What a server's handle, its keeper and its connections share: the stable place that outlives them all.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use arc_swap::{ArcSwap, ArcSwapOption};
use mainstay_lifecycle::{Desired, StateKind};
use tokio::sync::watch;

use super::noise::StdoutNoise;
use super::{CallCounters, LifecycleCounters, OperationTable, StartTokens, Status};
use crate::catalog::{About, ServerCatalog};
use crate::config::{HttpTarget, ServerConfig, ServerIdentity, ToolView};
use crate::connection::{Connection, Interests};
use crate::fleet::FleetShared;
use crate::keeper::{Inbox, Listings};
use crate::lock::Lock;
use crate::process::StderrRing;
use crate::protocol::Introduction;
use crate::recorder::FlightRecorder;
use crate::redaction::Redaction;
use crate::transport::http::{Endpoint, HttpConfigError};
use crate::wire::RawJson;

/// The stable slot of one server. Only its keeper writes `current`, `status`, `settings`, `about` and `catalog`.
pub(crate) struct Slot {
    pub(crate) name: Arc<str>,
    pub(crate) shared: Arc<FleetShared>,
    pub(crate) inbox: Inbox,
    pub(crate) settings: ArcSwap<Settings>,
    /// The live generation: what a call leases.
    pub(crate) current: ArcSwapOption<Connection>,
    pub(crate) status: watch::Sender<Arc<Status>>,
    /// What the server last said of itself, on a live connection or on disk.
    pub(crate) about: ArcSwapOption<About>,
    /// Shared with the transport, which reads there what a call shows in headers.
    pub(crate) catalog: Arc<ArcSwapOption<ServerCatalog>>,
    pub(crate) stderr: Arc<StderrRing>,
    pub(crate) noise: StdoutNoise,
    pub(crate) recorder: Arc<FlightRecorder>,
    /// Calls that wait for a connection.
    pub(crate) waiting: AtomicUsize,
    pub(super) counters: CallCounters,
    pub(crate) lifecycle: LifecycleCounters,
    /// `None` if the fleet is not measured.
    pub(super) operations: Option<OperationTable>,
    stale: AtomicU64,
    /// When a call was last answered with a result, in milliseconds since the epoch; zero when none was.
    succeeded: AtomicU64,
    interests: Lock<Interests>,
    /// The log level among the interests, which every modern call reads: without a lock, and without the rest.
    log_level: ArcSwapOption<RawJson>,
}

impl Slot {
    pub(crate) fn new(config: &ServerConfig, shared: Arc<FleetShared>, inbox: Inbox) -> Self {
        let name: Arc<str> = config.name().into();
        let status = Status {
            server: name.clone(),
            state: StateKind::Disabled,
            since: SystemTime::now(),
            desired: if config.enabled() {
                Desired::Enabled
            } else {
                Desired::Disabled
            },
            reason: None,
            generation: None,
            attempt: 0,
            budget: config.policy().budget.get(),
            next_retry: None,
            no_attempt_before: None,
            calls_held_until: None,
            silent_since: None,
            start: None,
            last_error: None,
            pid: None,
            protocol: None,
            session: None,
            last_success: None,
            call_failures: 0,
            removed: false,
            is_leaving: false,
            listed_at: None,
            stale_since: None,
            listing_failure: None,
            next_listing: None,
            transport: None,
            stale_reports: 0,
            unrestored: 0,
            ended: None,
            listings: Listings::default(),
            starts: 0,
            start_tokens: StartTokens::default(),
            keeper_failures: 0,
        };
        let operations = shared.tool_places.clone().map(OperationTable::new);
        let recorder = Arc::new(FlightRecorder::new(shared.recorder));
        Self {
            name,
            shared,
            inbox,
            settings: ArcSwap::from_pointee(Settings::new(config.clone())),
            current: ArcSwapOption::empty(),
            status: watch::Sender::new(Arc::new(status)),
            about: ArcSwapOption::empty(),
            catalog: Arc::default(),
            stderr: Arc::default(),
            noise: StdoutNoise::default(),
            recorder,
            waiting: AtomicUsize::new(0),
            counters: CallCounters::default(),
            lifecycle: LifecycleCounters::default(),
            operations,
            stale: AtomicU64::new(0),
            succeeded: AtomicU64::new(0),
            interests: Lock::default(),
            log_level: ArcSwapOption::empty(),
        }
    }

    /// A call was answered with a result.
    pub(crate) fn note_success(&self) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let millis = u64::try_from(now.unwrap_or_default().as_millis()).unwrap_or(u64::MAX);
        self.succeeded.store(millis, Ordering::Relaxed);
    }

    pub(crate) fn last_success(&self) -> Option<SystemTime> {
        let millis = self.succeeded.load(Ordering::Relaxed);
        (millis > 0).then(|| SystemTime::UNIX_EPOCH + Duration::from_millis(millis))
    }

    /// Something of an old generation came late.
    pub(crate) fn count_stale(&self) {
        self.stale.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stale_reports(&self) -> u64 {
        self.stale.load(Ordering::Relaxed)
    }

    /// What callers want of every generation.
    /// How the next connection introduces its client: with the extensions of all whom it speaks for.
    pub(crate) fn introduction(&self) -> Introduction {
        let introduction = &self.shared.introduction;
        self.with_interests(|interests| introduction.with_extensions(&interests.extensions))
    }

    pub(crate) fn interests(&self) -> Interests {
        self.with_interests(Interests::clone)
    }

    /// Looks at what callers want of every generation, without a copy.
    pub(crate) fn with_interests<T>(&self, look: impl FnOnce(&Interests) -> T) -> T {
        look(&self.interests.lock())
    }

    /// The log level that callers want of every generation.
    pub(crate) fn log_level(&self) -> Option<RawJson> {
        self.log_level.load().as_deref().cloned()
    }

    /// Changes what callers want of every generation.
    pub(crate) fn change_interests<T>(&self, change: impl FnOnce(&mut Interests) -> T) -> T {
        let mut interests = self.interests.lock();
        let changed = change(&mut interests);
        if self.log_level.load().as_deref() != interests.log_level.as_ref() {
            self.log_level.store(interests.log_level.clone().map(Arc::new));
        }
        changed
    }
}

/// A server's configuration, with what is derived from it worked out once.
pub(crate) struct Settings {
    config: ServerConfig,
    identity: ServerIdentity,
    /// The part of the configuration that the published catalog shares.
    pub(crate) view: Arc<ToolView>,
    /// The HTTP client, made at its first use. Its connections are of use to every generation.
    endpoint: OnceLock<Endpoint>,
    redaction: Arc<Redaction>,
}

impl Settings {
    pub(crate) fn new(config: ServerConfig) -> Self {
        Self {
            identity: config.identity(),
            view: Arc::new(config.tools().clone()),
            redaction: Arc::new(Redaction::of(&config)),
            config,
            endpoint: OnceLock::new(),
        }
    }

    /// The endpoint of a server over HTTP. If it cannot be created, for example because a file is missing, the next use tries again.
    pub(crate) fn endpoint(&self, target: &HttpTarget) -> Result<&Endpoint, Arc<HttpConfigError>> {
        if let Some(endpoint) = self.endpoint.get() {
            return Ok(endpoint);
        }
        let endpoint = Endpoint::of(target).map_err(Arc::new)?;
        Ok(self.endpoint.get_or_init(|| endpoint))
    }

    /// The way to a server over HTTP, if it was ever used.
    pub(crate) fn used_endpoint(&self) -> Option<&Endpoint> {
        self.endpoint.get()
    }

    /// The values of its configuration that must not be shown.
    pub(crate) fn redaction(&self) -> &Arc<Redaction> {
        &self.redaction
    }

    pub(crate) fn config(&self) -> &ServerConfig {
        &self.config
    }

    pub(crate) fn identity(&self) -> &ServerIdentity {
        &self.identity
    }
}

impl Deref for Settings {
    type Target = ServerConfig;

    fn deref(&self) -> &ServerConfig {
        &self.config
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use crate::wire::RawJson;
    use crate::{Fleet, ServerConfig};

    /// Every modern call reads it.
    #[tokio::test]
    async fn the_log_level_is_read_while_another_thread_holds_the_subscriptions() {
        let config = ServerConfig::stdio("s", "never-started").enabled(false).build();
        let fleet = Fleet::builder().start([config.expect("valid")]);
        let slot = fleet.server("s").expect("just configured").0.clone();
        let level = RawJson::from_value("warning").expect("a word");
        slot.change_interests(|interests| interests.log_level = Some(level.clone()));
        let held = slot.interests.lock();
        let (read, reading) = mpsc::channel();
        let reader = slot.clone();
        std::thread::spawn(move || read.send(reader.log_level()));
        let read = reading.recv_timeout(Duration::from_secs(30));
        drop(held);
        assert_eq!(read.expect("it waits for nobody"), Some(level));
    }
}
