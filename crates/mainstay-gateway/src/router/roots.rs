//! The roots of clients: a shared server learns those of its caller while a call runs. Outside of calls it learns those of
//! the one session that sees it; where several do, nobody's.

use std::sync::Arc;

use mainstay::gateway::message::RpcError;
use mainstay::handler::{Answer, ServerRequest};
use mainstay::{ClientHandler, Server};

use super::{Router, Subscribers};
use crate::client::Client;
use crate::scope::Scope;

impl Router {
    /// The client says that its roots changed: the servers that it sees ask again.
    pub(super) fn roots_changed(&self, client: &Client) {
        for server in self.shared(&client.scope) {
            server.roots_changed();
        }
        if let Some(own) = client.own() {
            own.roots_changed();
        }
    }

    /// A session came or went: a server that has one session now may have been declined before, and asks again.
    pub(super) fn roots_may_have_changed(&self, scope: &Scope) {
        for server in self.shared(scope) {
            let only = self.subscribers.only_session(server.name());
            if only.is_ok_and(|session| session.lacks_for("roots/list").is_none()) {
                server.roots_changed();
            }
        }
    }

    /// The servers of this scope that sessions share.
    fn shared(&self, scope: &Scope) -> impl Iterator<Item = Server> {
        let servers = scope.servers(self.fleet()).into_iter();
        servers.filter(|server| !self.isolated.holds(server.name()))
    }
}

impl Subscribers {
    /// Asks the one session that sees the server, where there is but one.
    pub(super) fn ask_for_roots(&self, request: ServerRequest) -> Answer<'static> {
        let session = self.only_session(&request.server);
        Box::pin(async move {
            match session {
                Ok(session) => session.request(request).await,
                Err(why) => Err(RpcError::new(
                    RpcError::INVALID_REQUEST,
                    format!("roots/list declined: {why}"),
                )),
            }
        })
    }

    /// The session that sees this server, if it is the only one; otherwise why there is none.
    pub(super) fn only_session(&self, server: &str) -> Result<Arc<Client>, &'static str> {
        let mut sessions = self.sessions_of(server, 2).into_iter();
        match (sessions.next(), sessions.next()) {
            (None, _) => Err("no client is there"),
            (Some(only), None) => Ok(only),
            (Some(_), Some(_)) => {
                Err("several clients share this server, and no call tells which one it is for")
            }
        }
    }
}
