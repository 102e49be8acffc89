//! The servers of the daemon in the control API: those of the configuration under their names, and each other one under a name that no
//! other server has.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use mainstay_control::{Attached, Control, ServerGroup};
use mainstay_gateway::Gateway;

use super::{Daemon, lock};

/// Lists servers.
pub(super) struct ServerListing {
    control: Control,
    configured: Gateway,
    /// The names that are in use beside those of the configuration.
    names: Mutex<BTreeSet<Arc<str>>>,
    _configured: Attached,
}

/// A server that one bridge has for itself, in the status of the daemon as long as this lives.
pub(super) struct UnsharedServer {
    daemon: Arc<Daemon>,
    listed: ListedServer,
}

impl UnsharedServer {
    pub(super) fn new(daemon: &Arc<Daemon>, listed: ListedServer, gateway: &Gateway) -> Self {
        lock(&daemon.own).insert(listed.name.clone(), gateway.clone());
        Self {
            daemon: daemon.clone(),
            listed,
        }
    }
}

impl Drop for UnsharedServer {
    fn drop(&mut self) {
        lock(&self.daemon.own).remove(&self.listed.name);
    }
}

/// A server that is listed, as long as this lives.
pub(super) struct ListedServer {
    listing: Arc<ServerListing>,
    /// The name under which it is listed.
    pub(super) name: Arc<str>,
    attached: Option<Attached>,
}

impl ServerListing {
    pub(super) fn new(control: Control, configured: Gateway) -> Arc<Self> {
        Arc::new(Self {
            _configured: control.attach(ServerGroup::configured(configured.clone())),
            control,
            configured,
            names: Mutex::default(),
        })
    }

    /// Lists the one server of this gateway, under its name or under one with a number behind it. What a person enables and disables is
    /// remembered under the key.
    pub(super) fn add(self: &Arc<Self>, name: &str, key: &str, gateway: &Gateway) -> ListedServer {
        let name = self.reserve(name);
        let group = ServerGroup::ad_hoc(name.clone(), gateway.clone()).remembered_as(key);
        ListedServer {
            listing: self.clone(),
            attached: Some(self.control.attach(group)),
            name,
        }
    }

    fn reserve(&self, name: &str) -> Arc<str> {
        let mut names = lock(&self.names);
        let mut number = 1_u64;
        loop {
            let candidate: Arc<str> = match number {
                1 => name.into(),
                number => format!("{name}-{number}").into(),
            };
            let is_configured = self.configured.fleet().server(&candidate).is_some();
            if !is_configured && names.insert(candidate.clone()) {
                return candidate;
            }
            number += 1;
        }
    }
}

impl Drop for ListedServer {
    fn drop(&mut self) {
        // It leaves the list before its name is free.
        drop(self.attached.take());
        lock(&self.listing.names).remove(&self.name);
    }
}
