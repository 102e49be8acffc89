//! An item that is offered or not, and the notification when that changes.

use tokio::sync::watch;

/// Clones share what they offer.
#[derive(Clone)]
pub(crate) struct Toggle {
    offered: watch::Sender<bool>,
    /// Has seen no change. Each listener starts from a clone of it, so it misses no change after the client's subscription was
    /// acknowledged, which is before rmcp calls [`rmcp::ServerHandler::listen`].
    unseen: watch::Receiver<bool>,
}

impl Default for Toggle {
    fn default() -> Self {
        let (offered, unseen) = watch::channel(false);
        Self { offered, unseen }
    }
}

impl Toggle {
    pub(crate) fn is_offered(&self) -> bool {
        *self.offered.borrow()
    }

    pub(crate) fn flip(&self) {
        self.offered.send_modify(|offered| *offered = !*offered);
    }

    pub(crate) fn changes(&self) -> watch::Receiver<bool> {
        self.unseen.clone()
    }
}
