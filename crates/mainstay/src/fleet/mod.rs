//! All servers of one process: look up, add, remove, apply a configuration, close; and their tools.

mod apply;
mod builder;
mod close;
mod startup;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use serde::Serialize;
use tokio::sync::oneshot;

use crate::catalog::{Catalog, CatalogReader, CatalogStore, Hints, PublicTool, Publisher};
use crate::config::{ServerConfig, ServerIdentity, Target};
use crate::event::{EventLog, Events};
use crate::handler::ClientHandler;
use crate::keeper::start_queue::StartQueue;
use crate::keeper::{Ending, ServerCommand};
use crate::lock::Lock;
use crate::process::ShutdownDeadline;
use crate::protocol::Introduction;
use crate::recorder::RecorderOptions;
use crate::server::{Call, CallError, CallErrorKind, Server, ToolPlaces};
use crate::transport::http::CredentialSource;
use crate::wire::{Outcome, RawJson};

pub use apply::{AddError, Changes};
pub use builder::{DuplicateName, FleetBuilder};
pub use close::{CloseReport, ClosedServer};
pub use startup::{Settled, StartupError};

/// The servers of one process, each kept by a task of its own. Clones are handles of the same fleet.
#[derive(Clone)]
pub struct Fleet(Arc<Inner>);

struct Inner {
    shared: Arc<FleetShared>,
    servers: ArcSwap<BTreeMap<Arc<str>, Server>>,
    /// One configuration is applied at a time. Servers that were removed are here until they are gone: one that comes
    /// back under the same name waits for the end of the old one.
    leaving: tokio::sync::Mutex<Leaving>,
    catalog: CatalogReader,
}

/// Removed servers that are not gone yet, by name.
type Leaving = BTreeMap<Arc<str>, Stopping>;

/// A server that is stopping, and the signal that it has ended.
struct Stopping {
    server: Server,
    end: oneshot::Receiver<Ending>,
}

impl Stopping {
    fn begin(server: Server) -> Self {
        let (reply, end) = oneshot::channel();
        server.0.inbox.command(ServerCommand::Stop(reply));
        Self { server, end }
    }
}

impl Fleet {
    /// How to make a fleet.
    pub fn builder() -> FleetBuilder {
        FleetBuilder::default()
    }

    /// The server of this name.
    pub fn server(&self, name: &str) -> Option<Server> {
        self.0.servers.load().get(name).cloned()
    }

    /// All servers, by name.
    pub fn servers(&self) -> Vec<Server> {
        self.0.servers.load().values().cloned().collect()
    }

    /// What all servers offer, as last listed with success. Takes no lock and never waits.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.0.catalog.load()
    }

    /// A reader of the catalog that can wait for its changes from now on.
    pub fn catalog_reader(&self) -> CatalogReader {
        self.0.catalog.renewed()
    }

    /// Every change of state from now on. For those since the birth of the fleet see [`FleetBuilder::events`].
    pub fn events(&self) -> Events {
        self.0.shared.events.subscribe()
    }

    /// Notifies every connected server that the handler's roots changed; servers then ask for them again.
    pub fn roots_changed(&self) {
        self.servers().iter().for_each(Server::roots_changed);
    }

    /// Calls a tool by its public name, such as `server__tool`.
    pub fn call(&self, tool: &str, arguments: &impl Serialize) -> Call {
        let catalog = self.catalog();
        let found = catalog.tool(tool);
        match found.and_then(|found| Some((self.server(found.server())?, found.original()))) {
            Some((server, original)) => server.call_original(original, arguments),
            None => {
                let kind = CallErrorKind::NotFound {
                    name: format!("tool {tool}"),
                };
                Call::failed(CallError::new(None, None, Outcome::NotSent, kind))
            }
        }
    }
}

/// The last handle of a fleet stops its servers when it is dropped. Handles of servers and tools do not keep it alive.
impl Drop for Inner {
    fn drop(&mut self) {
        for server in self.servers.load().values() {
            let (reply, _) = oneshot::channel();
            server.0.inbox.command(ServerCommand::Stop(reply));
        }
    }
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.servers.load().values()).finish()
    }
}

/// What all keepers of a fleet share.
pub(crate) struct FleetShared {
    pub(crate) handler: Arc<dyn ClientHandler>,
    pub(crate) introduction: Introduction,
    /// Whether the introduction is that of a gateway's client. Servers may show that client other tools than they show Mainstay.
    pub(crate) is_for_another: bool,
    pub(crate) events: Arc<EventLog>,
    /// Writers of the published catalog take turns; readers never come here.
    pub(crate) publisher: Lock<Publisher>,
    pub(crate) store: Option<Arc<dyn CatalogStore>>,
    /// Bounds how many servers start their processes at one time.
    pub(crate) start_queue: StartQueue,
    /// Called when the fleet is closed.
    pub(crate) shutdown_deadline: ShutdownDeadline,
    /// Places for tools in the metrics of servers; `None` if no durations are counted by tool.
    pub(crate) tool_places: Option<Arc<ToolPlaces>>,
    /// Where servers get their credentials from that have none.
    pub(crate) credential_source: Option<Arc<dyn CredentialSource>>,
    /// What is recorded of the messages.
    pub(crate) recorder: RecorderOptions,
}

impl FleetShared {
    /// The same server with the provider that the source has for it.
    pub(crate) fn with_credentials(&self, config: ServerConfig) -> ServerConfig {
        let source = self.credential_source.as_ref();
        match source.and_then(|source| source.provider(&config)) {
            Some(provider) => config.with_credentials(provider),
            None => config,
        }
    }

    /// Under which name the store has what is known of this server. What one login was shown is kept apart from what
    /// another one was.
    pub(crate) fn stored_as(&self, server: &ServerIdentity, target: &Target) -> String {
        let owner = target.credential_owner();
        let server = &owner.map_or(*server, |owner| server.seen_by_owner(&owner));
        if self.is_for_another {
            self.introduction.seen(server).to_string()
        } else {
            server.to_string()
        }
    }
}

/// A tool of a fleet, found by its public name. The handle is live: it shows the tool as the catalog has it now, and its calls
/// go to the server that offers it now. It does not keep the fleet alive.
#[derive(Clone)]
pub struct Tool {
    fleet: Weak<Inner>,
    catalog: CatalogReader,
    /// The tool as it was found, for when the catalog has it no longer.
    found: PublicTool,
}

impl Tool {
    fn current(&self) -> PublicTool {
        let catalog = self.catalog.load();
        catalog.tool(self.found.name()).unwrap_or(&self.found).clone()
    }

    /// The public name, such as `files__read_file`.
    pub fn name(&self) -> &str {
        self.found.name()
    }

    /// The server that offers the tool.
    pub fn server(&self) -> String {
        self.current().server().to_owned()
    }

    /// Whether the catalog has the tool now.
    pub fn is_offered(&self) -> bool {
        self.catalog.load().tool(self.found.name()).is_some()
    }

    /// What the tool is for, in the words of its server or of the configuration.
    pub fn description(&self) -> Option<String> {
        self.current().description()
    }

    /// The JSON Schema of the tool's arguments.
    pub fn input_schema(&self) -> RawJson {
        self.current().input_schema()
    }

    /// What the server says of the tool's behaviour, as it sent it.
    pub fn annotations(&self) -> Option<RawJson> {
        self.current().annotations()
    }

    /// The annotations, read with caution.
    pub fn hints(&self) -> Hints {
        self.current().hints()
    }

    /// Calls the tool.
    pub fn call(&self, arguments: &impl Serialize) -> Call {
        match self.fleet.upgrade() {
            Some(fleet) => Fleet(fleet).call(self.name(), arguments),
            None => {
                let server: Arc<str> = self.found.server().into();
                Call::failed(CallError::not_sent(&server, CallErrorKind::Gone))
            }
        }
    }
}

impl std::fmt::Debug for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Tool").field(&self.name()).finish()
    }
}

impl Fleet {
    /// The tool with this public name, such as `files__read_file`, if the catalog has it.
    pub fn tool(&self, name: &str) -> Option<Tool> {
        Some(Tool {
            found: self.catalog().tool(name)?.clone(),
            fleet: Arc::downgrade(&self.0),
            catalog: self.0.catalog.clone(),
        })
    }
}
