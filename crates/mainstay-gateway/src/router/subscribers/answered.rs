//! Questions that a client was sent elsewhere to answer: the client that was asked hears when one is answered.

use mainstay::handler::ServerNotification;

use super::Subscribers;
use crate::client::Client;

impl Subscribers {
    /// Tells the sessions that were asked; `false` when none here was.
    pub(super) fn answered_elsewhere(&self, notification: &ServerNotification) -> bool {
        let (server, params) = (&notification.server, notification.params.as_ref());
        let mut asked = self.sessions_of(server, usize::MAX);
        asked.retain(|session| session.elicited.has(server, params));
        for session in &asked {
            session.overhear(notification.clone());
        }
        !asked.is_empty()
    }
}

impl super::Subscriber {
    /// Whether another client was asked what is answered here, and has been told. It came while this client's calls ran, and
    /// has nothing to do with them.
    pub(crate) fn is_another_s_answer(&self, client: &Client, notification: &ServerNotification) -> bool {
        let (server, params) = (&notification.server, notification.params.as_ref());
        !client.elicited.has(server, params) && self.subscribers.answered_elsewhere(notification)
    }
}
