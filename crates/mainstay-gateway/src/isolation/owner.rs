//! Who answers what a session's own server asks: that session's client, whenever it asks.

use std::sync::Weak;

use mainstay::ClientHandler;
use mainstay::gateway::message::RpcError;
use mainstay::handler::{Answer, ServerNotification, ServerRequest};

use super::OwnServers;
use crate::client::Client;

/// The handler of a session's own servers. It keeps neither the session nor its servers alive.
pub(super) struct Owner {
    pub(super) session: Weak<Client>,
    pub(super) own: Weak<OwnServers>,
}

impl ClientHandler for Owner {
    fn request(&self, request: ServerRequest) -> Answer<'_> {
        let session = self.session.upgrade();
        Box::pin(async move {
            let declined = |why: &str| {
                let what = format!("{} declined: {why}", request.method);
                RpcError::new(RpcError::INVALID_REQUEST, what)
            };
            let session = session.ok_or_else(|| declined("the session has ended"))?;
            if !session.is_introduced() {
                return Err(declined(
                    "the client opened no session, and can be asked only while a call of it runs",
                ));
            }
            ClientHandler::request(&*session, request).await
        })
    }

    fn notification(&self, notification: ServerNotification) {
        let (server, params) = (&notification.server, notification.params.as_ref());
        match (notification.method.as_str(), self.own.upgrade()) {
            ("notifications/resources/updated", Some(own)) => return own.resource_updated(server, params),
            ("notifications/tasks", Some(own)) => return own.task_changed(server, params),
            ("notifications/resources/updated" | "notifications/tasks", None) => return,
            (_other, Some(_) | None) => {}
        }
        if let Some(session) = self.session.upgrade() {
            session.hear(notification);
        }
    }
}
