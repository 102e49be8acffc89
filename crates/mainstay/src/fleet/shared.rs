//! What all keepers of a fleet share.

use std::sync::{Arc, Mutex};

use crate::catalog::{CatalogStore, Publisher};
use crate::config::{ServerConfig, ServerIdentity, Target};
use crate::event::EventLog;
use crate::handler::ClientHandler;
use crate::keeper::start_queue::StartQueue;
use crate::process::ShutdownDeadline;
use crate::protocol::Introduction;
use crate::recorder::RecorderOptions;
use crate::server::ToolPlaces;
use crate::transport::http::CredentialSource;

pub(crate) struct FleetShared {
    pub(crate) handler: Arc<dyn ClientHandler>,
    pub(crate) introduction: Introduction,
    /// Whether that is a client of somebody else's, which the servers may show other tools than they would show Mainstay.
    pub(crate) is_for_another: bool,
    pub(crate) events: Arc<EventLog>,
    /// Writers of the published catalog take turns; readers never come here.
    pub(crate) publisher: Mutex<Publisher>,
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
