//! What a client sees: all servers as one, or one server as if there were no gateway.

use std::sync::Arc;

use mainstay::{Fleet, Server};

/// What a client sees.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// All servers as one; tools and prompts are named `server__name`.
    Union,
    /// One server, under its own names.
    Server(Arc<str>),
}

impl Scope {
    /// Whether this server is part of what is seen.
    pub(crate) fn holds(&self, server: &str) -> bool {
        match self {
            Self::Union => true,
            Self::Server(name) => **name == *server,
        }
    }

    /// The servers that are seen.
    pub(crate) fn servers(&self, fleet: &Fleet) -> Vec<Server> {
        match self {
            Self::Union => fleet.servers(),
            Self::Server(name) => fleet.server(name).into_iter().collect(),
        }
    }
}
