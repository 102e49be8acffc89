//! An item that is offered or not, and the notification when that changes.

use tokio::sync::watch;

/// Clones share what they offer.
#[derive(Clone)]
pub(crate) struct Toggle {
    offered: watch::Sender<bool>,
    /// Has seen no change. Whoever listens starts from a clone of it, and so misses none that comes after a client heard
    /// that it is subscribed, which is before rmcp calls [`rmcp::ServerHandler::listen`].
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
