//! The gateway as a whole.

use std::sync::Arc;

use mainstay::config::ServerConfig;
use mainstay::{ClientCapabilities, Fleet, FleetBuilder};

use crate::desk::{Audience, Desk};

/// Serves a fleet to clients. Clones are handles of the same gateway.
#[derive(Clone)]
pub struct Gateway(pub(crate) Arc<Desk>);

impl Gateway {
    /// Starts a fleet behind a gateway. Returns at once: each server comes up in its own time.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(fleet: FleetBuilder, servers: impl IntoIterator<Item = ServerConfig>) -> Self {
        let audience = Arc::new(Audience::default());
        // What a client cannot answer is declined when it is asked.
        let capabilities = ClientCapabilities {
            sampling: true,
            elicitation: true,
            roots: true,
            ..ClientCapabilities::default()
        };
        let fleet = fleet
            .handler(audience.clone())
            .capabilities(capabilities)
            .start(servers);
        let mut catalog = fleet.catalog_reader();
        audience.catalog_changed(&catalog.load());
        let hears = Arc::downgrade(&audience);
        tokio::spawn(async move {
            while let Some(catalog) = catalog.changed().await {
                let Some(audience) = hears.upgrade() else { return };
                audience.catalog_changed(&catalog);
            }
        });
        Self(Arc::new(Desk::new(fleet, audience)))
    }

    /// The fleet behind it.
    pub fn fleet(&self) -> &Fleet {
        self.0.fleet()
    }
}
