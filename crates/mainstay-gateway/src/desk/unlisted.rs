//! Names that the published catalog does not have: of a server of which nothing is published now, or misspelt.

use mainstay::config::nearest;
use mainstay::message::RpcError;
use mainstay::{Catalog, Server};

use super::Desk;
use crate::protocol::invalid_params;

impl Desk {
    /// The server that a public name must be of, and the name that it gave, where nothing of that server is published: it
    /// was never listed, is disabled or has failed. The call waits for it, or fails and says how the server is.
    pub(super) fn unlisted(&self, catalog: &Catalog, name: &str) -> Option<(String, String)> {
        let (server, rest) = name.split_once("__")?;
        let handle = self.fleet().server(server)?;
        let is_published = catalog.server(server).is_some();
        (!is_published).then(|| (server.to_owned(), original(&handle, rest)))
    }
}

fn original(server: &Server, name: &str) -> String {
    server.view().original_name(name).to_owned()
}

/// What is told of a name that nothing has, with the one that was perhaps meant.
pub(super) fn misspelt<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> RpcError {
    let meant = nearest(name, known).map(|near| format!("; did you mean {near}?"));
    invalid_params(format!("there is no {what} {name}{}", meant.unwrap_or_default()))
}
