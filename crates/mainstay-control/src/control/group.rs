//! A gateway whose servers are controlled, and the names that the API gives them.

use std::sync::Arc;

use mainstay::{Events as FleetEvents, Server};
use mainstay_gateway::Gateway;

use crate::api::ServerOrigin;

/// A gateway whose servers are controlled.
pub struct ServerGroup {
    pub(super) origin: ServerOrigin,
    pub(super) gateway: Gateway,
    pub(super) events: FleetEvents,
    pub(super) shown_as: Option<Arc<str>>,
    pub(super) remembered_as: Option<Arc<str>>,
}

impl ServerGroup {
    /// The servers of the configuration file.
    pub fn configured(gateway: Gateway) -> Self {
        Self::new(ServerOrigin::Configured, gateway, None)
    }

    /// The one server that a host asked for, shown under this name. The name must differ from those of all other servers.
    pub fn ad_hoc(shown_as: impl Into<Arc<str>>, gateway: Gateway) -> Self {
        Self::new(ServerOrigin::AdHoc, gateway, Some(shown_as.into()))
    }

    fn new(origin: ServerOrigin, gateway: Gateway, shown_as: Option<Arc<str>>) -> Self {
        Self {
            origin,
            events: gateway.fleet().events(),
            gateway,
            shown_as,
            remembered_as: None,
        }
    }

    /// Remembers under this key what a person wants of the server that a host asked for. Without this, it is forgotten when the group
    /// is detached.
    #[must_use]
    pub fn remembered_as(mut self, key: impl Into<Arc<str>>) -> Self {
        self.remembered_as = Some(key.into());
        self
    }

    /// Records these events of its fleet, which [`FleetBuilder::events`](mainstay::FleetBuilder::events) returned before the
    /// start. Without this, changes before the attachment are not recorded.
    #[must_use]
    pub fn events(mut self, events: FleetEvents) -> Self {
        self.events = events;
        self
    }
}

/// A group as the hub keeps it.
pub(crate) struct AttachedGroup {
    pub(crate) number: u64,
    pub(crate) origin: ServerOrigin,
    pub(crate) gateway: Gateway,
    pub(crate) shown_as: Option<Arc<str>>,
    pub(super) remembered_as: Option<Arc<str>>,
}

/// A server and the name under which the API shows it.
pub(crate) struct Named {
    pub(crate) name: Arc<str>,
    pub(crate) server: Server,
    pub(crate) group: Arc<AttachedGroup>,
}

impl AttachedGroup {
    /// Its servers, under the names of the API.
    pub(crate) fn servers(self: &Arc<Self>) -> impl Iterator<Item = Named> {
        let group = self.clone();
        self.gateway
            .fleet()
            .servers()
            .into_iter()
            .map(move |server| Named {
                name: group.shown(server.name()),
                server,
                group: group.clone(),
            })
    }

    /// The name under which the API shows one of its servers.
    pub(crate) fn shown(&self, server: &str) -> Arc<str> {
        self.shown_as.clone().unwrap_or_else(|| server.into())
    }
}
