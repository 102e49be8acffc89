//! How a fleet is made.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use tokio::sync::mpsc;

use super::{Fleet, FleetShared, Inner};
use crate::catalog::{CatalogDirectory, CatalogStore, Publisher, STORE_TARGET, log_conflicts};
use crate::config::ServerConfig;
use crate::event::{EventLog, Events};
use crate::handler::{ClientCapabilities, ClientHandler, DeclineAll};
use crate::keeper::start_queue::StartQueue;
use crate::keeper::{Inbox, Keeper, KeeperMessage, LoadedCatalog, load_stored};
use crate::large;
use crate::lock::Lock;
use crate::process::ShutdownDeadline;
use crate::protocol::{Introduction, named};
use crate::recorder::RecorderOptions;
use crate::server::{Server, Slot};
use crate::transport::http::CredentialSource;

/// How a fleet is made. Everything has a default. Clones make fleets of the same kind.
#[derive(Clone, Default)]
pub struct FleetBuilder {
    handler: Option<Arc<dyn ClientHandler>>,
    capabilities: Option<ClientCapabilities>,
    client: Option<(String, String)>,
    introduction: Option<Introduction>,
    store: Option<PathBuf>,
    start_queue: Option<StartQueue>,
    credential_source: Option<Arc<dyn CredentialSource>>,
    is_measured: bool,
    recorder: RecorderOptions,
    early: EarlyEvents,
}

/// The events of the fleet to come, if an embedder subscribed already. A clone makes another fleet, with events of its own.
#[derive(Default)]
struct EarlyEvents(Option<Arc<EventLog>>);

impl Clone for EarlyEvents {
    fn clone(&self) -> Self {
        Self(None)
    }
}

/// Two servers of a fleet have the same name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("two servers have the name {name:?}")]
pub struct DuplicateName {
    /// The name.
    pub name: String,
}

impl FleetBuilder {
    /// Who answers what the servers ask of their client. Without one, everything is declined.
    #[must_use]
    pub fn handler(mut self, handler: Arc<dyn ClientHandler>) -> Self {
        self.handler = Some(handler);
        self
    }

    /// What is advertised to the servers, where handlers of single calls can answer more than the fleet's.
    #[must_use]
    pub fn capabilities(mut self, capabilities: ClientCapabilities) -> Self {
        self.capabilities = Some(capabilities);
        self
    }

    /// The client's name and version, as the servers see them.
    #[must_use]
    pub fn client(mut self, name: impl Into<String>, version: impl Into<String>) -> Self {
        self.client = Some((name.into(), version.into()));
        self
    }

    /// See [`crate::gateway::introduced_as`].
    pub(crate) fn introduced_as(mut self, introduction: Introduction) -> Self {
        self.introduction = Some(introduction);
        self
    }

    /// Where catalogs and eras are remembered from one start to the next. Without it, nothing is kept on disk.
    #[must_use]
    pub fn store(mut self, directory: impl Into<PathBuf>) -> Self {
        self.store = Some(directory.into());
        self
    }

    /// How many servers start their processes at one time (default: two for each processor, at least four, for all fleets of
    /// this process together). The others wait for their turn: those that a call waits for come first, lazy ones last. A turn
    /// ends when its server is up or has failed, when its processes are idle, and after 10 s at the latest.
    #[must_use]
    pub fn starts_at_once(mut self, limit: NonZeroUsize) -> Self {
        self.start_queue = Some(StartQueue::new(limit.get()));
        self
    }

    /// Where servers over HTTP get their credentials from whose configuration has none.
    #[must_use]
    pub fn credential_source(mut self, source: Arc<dyn CredentialSource>) -> Self {
        self.credential_source = Some(source);
        self
    }

    /// Counts how long requests take by method, tool and error, for [`Server::operations`]. A call costs about a tenth of a
    /// microsecond more. Without this, only [`Server::call_counts`] are kept.
    #[must_use]
    pub fn measured(mut self) -> Self {
        self.is_measured = true;
        self
    }

    /// Whether it [counts](Self::measured) how long requests take.
    pub fn is_measured(&self) -> bool {
        self.is_measured
    }

    /// What is recorded of the messages of each server; their heads by default. See [`Server::recording`].
    #[must_use]
    pub fn recorder(mut self, options: RecorderOptions) -> Self {
        self.recorder = options;
        self
    }

    /// Keeps nothing on disk, and reads nothing from there.
    #[must_use]
    pub fn without_store(mut self) -> Self {
        self.store = None;
        self
    }

    /// Every change of state from the birth of the fleet on: [`Fleet::events`] begins later, when the first servers have
    /// changed their state already.
    pub fn events(&mut self) -> Events {
        self.early
            .0
            .get_or_insert_with(|| Arc::new(EventLog::new()))
            .subscribe()
    }

    /// Starts the fleet, as [`start`](Self::start) does, unless two servers have the same name: then nothing is started.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn try_start(self, servers: impl IntoIterator<Item = ServerConfig>) -> Result<Fleet, DuplicateName> {
        let servers: Vec<ServerConfig> = servers.into_iter().collect();
        let mut names = BTreeSet::new();
        match servers.iter().find(|server| !names.insert(server.name())) {
            Some(twice) => Err(DuplicateName {
                name: twice.name().to_owned(),
            }),
            None => Ok(self.start(servers)),
        }
    }

    /// Starts the fleet. Returns at once: each server comes up in its own time and delays no other. Where two servers
    /// have the same name, the first one counts and the other is an error in the log;
    /// [`try_start`](Self::try_start) refuses both.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(self, servers: impl IntoIterator<Item = ServerConfig>) -> Fleet {
        let handler = self.handler.unwrap_or_else(|| Arc::new(DeclineAll));
        let is_for_another = self.introduction.is_some();
        let introduction = self.introduction.unwrap_or_else(|| {
            let capabilities = self.capabilities.unwrap_or_else(|| handler.capabilities());
            let (name, version) = self
                .client
                .unwrap_or_else(|| ("mainstay".to_owned(), env!("CARGO_PKG_VERSION").to_owned()));
            Introduction::new(capabilities.to_json()).client_info(named(&name, &version))
        });
        let publisher = Publisher::new();
        let catalog = publisher.reader();
        tokio::spawn(log_conflicts(publisher.reader()));
        let shared = Arc::new(FleetShared {
            introduction,
            is_for_another,
            handler,
            events: self.early.0.unwrap_or_else(|| Arc::new(EventLog::new())),
            publisher: Lock::new(publisher),
            store: self.store.as_deref().and_then(open_store),
            start_queue: self.start_queue.unwrap_or_else(StartQueue::of_this_process),
            shutdown_deadline: ShutdownDeadline::default(),
            tool_places: self.is_measured.then(Arc::default),
            credential_source: self.credential_source,
            recorder: self.recorder,
        });
        let mut new = BTreeMap::new();
        let mut identities = BTreeSet::new();
        for config in servers {
            let config = shared.with_credentials(config);
            let name: Arc<str> = config.name().into();
            if new.contains_key(&name) {
                tracing::error!(server = %name, "two servers have this name; the second one is not started");
            }
            identities.insert(shared.stored_as(&config.identity(), config.target()));
            new.entry(name).or_insert_with(|| NewServer::new(&shared, config));
        }
        let slots: Vec<_> = new.values().map(|new| new.slot.clone()).collect();
        let mut stored = load_stored(&slots);
        let keep = |(name, new): (Arc<str>, NewServer)| {
            let stored = stored.remove(&name);
            (name, new.keep(stored))
        };
        let kept: BTreeMap<_, _> = new.into_iter().map(keep).collect();
        if let Some(store) = &shared.store {
            sweep_store(store.clone(), identities);
        }
        let servers = ArcSwap::from_pointee(kept);
        Fleet(Arc::new(Inner {
            shared,
            servers,
            leaving: tokio::sync::Mutex::default(),
            catalog,
        }))
    }
}

/// The store forgets servers that were not configured for this long.
const FORGET_AFTER: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// Clears the store of what is long out of use, beside everything else.
fn sweep_store(store: Arc<dyn CatalogStore>, keep: BTreeSet<String>) {
    tokio::task::spawn_blocking(move || {
        let since = SystemTime::now() - FORGET_AFTER;
        if let Err(error) = store.prune(&keep, since) {
            tracing::debug!(%error, "the store could not be swept");
        }
    });
}

/// A server that is not kept yet.
pub(super) struct NewServer {
    slot: Arc<Slot>,
    messages: mpsc::Receiver<KeeperMessage>,
    config: ServerConfig,
}

impl NewServer {
    pub(super) fn new(shared: &Arc<FleetShared>, config: ServerConfig) -> Self {
        let (inbox, messages) = Inbox::new();
        let slot = Arc::new(Slot::new(&config, shared.clone(), inbox));
        Self {
            slot,
            messages,
            config,
        }
    }

    /// Reads what the store has of the server, on threads that may block.
    ///
    /// Cancel safety: dropping it changes nothing.
    pub(super) async fn load_stored(&self) -> Option<LoadedCatalog> {
        self.slot.shared.store.as_ref()?;
        let (name, slots) = (self.slot.name.clone(), [self.slot.clone()]);
        let load = move || load_stored(&slots).remove(&name);
        large::process(usize::MAX, load).await
    }

    /// Starts the keeper.
    pub(super) fn keep(self, stored: Option<LoadedCatalog>) -> Server {
        Keeper::start(self.slot.clone(), self.messages, &self.config, stored);
        Server(self.slot)
    }
}

/// A store that cannot be opened is missed, and keeps nothing from starting.
fn open_store(directory: &Path) -> Option<Arc<dyn CatalogStore>> {
    match CatalogDirectory::open(directory) {
        Ok(store) => Some(Arc::new(store)),
        Err(error) => {
            tracing::warn!(target: STORE_TARGET, directory = %directory.display(), %error, "catalogs are not kept on disk");
            None
        }
    }
}
