//! A tool of a fleet, as a handle that outlives changes of the catalog.

use std::sync::{Arc, Weak};

use serde::Serialize;

use super::{Fleet, Inner};
use crate::catalog::{CatalogReader, Hints, PublicTool};
use crate::server::{Call, CallError, CallErrorKind};
use crate::wire::RawJson;

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
