//! Names that the published catalog does not have: of a server of which nothing is published now, or misspelt.

use mainstay::config::nearest;
use mainstay::gateway::ServerExt;
use mainstay::gateway::message::RpcError;

use super::naming::{Named, string};
use super::{Request, Router};
use crate::protocol::{invalid_params, text};

impl Router {
    /// The server that a public name must be of, and its own name for what is asked for, where nothing of the server is
    /// published: it was never listed, is disabled or has failed. The call waits for it, or fails and says how it is.
    pub(super) fn unlisted(&self, request: &Request<'_>) -> Option<Named> {
        if !matches!(request.method, "tools/call" | "prompts/get") {
            return None;
        }
        let name = string(&request.params, "name").ok()?;
        let (server, rest) = name.split_once("__")?;
        let handle = self.fleet().server(server)?;
        if self.catalog(request.client).server(server).is_some() {
            return None;
        }
        Some(Named {
            server: server.to_owned(),
            renaming: Some(("name", text(handle.view().original_name(rest)))),
        })
    }
}

/// What a client is told whose server was removed from the configuration.
pub(super) fn gone(server: &str) -> RpcError {
    invalid_params(format!("there is no server {server} any more"))
}

/// What is told of a name that nothing has, with the one that was perhaps meant.
pub(super) fn misspelt<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> RpcError {
    let meant = nearest(name, known).map(|near| format!("; did you mean {near}?"));
    invalid_params(format!("there is no {what} {name}{}", meant.unwrap_or_default()))
}
