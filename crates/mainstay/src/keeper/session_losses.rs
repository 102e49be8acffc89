//! How often a server loses its sessions. A server that speaks both eras and keeps losing sessions is better spoken to without one.

use std::time::Duration;

use tokio::time::Instant;

/// After this many losses, the next connection begins with `server/discover`. A deployment loses one session, and replicas that do
/// not share their sessions lose one with every other request.
const LOSSES_LIMIT: u32 = 3;

/// Losses count together within this time.
const LOSSES_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// The losses of the last minutes.
#[derive(Debug, Default)]
pub(super) struct SessionLosses {
    count: u32,
    since: Option<Instant>,
}

impl SessionLosses {
    /// Counts a loss. Returns whether it is the last of too many; then the count begins again.
    pub(super) fn add(&mut self) -> bool {
        let now = Instant::now();
        if self.since.is_none_or(|since| now - since >= LOSSES_INTERVAL) {
            self.count = 0;
            self.since = Some(now);
        }
        self.count += 1;
        let is_last = self.count == LOSSES_LIMIT;
        if is_last {
            *self = Self::default();
        }
        is_last
    }

    /// The server was down: it loses its sessions by a restart, and may keep them otherwise.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_third_loss_within_five_minutes_is_one_too_many() {
        let mut losses = SessionLosses::default();
        assert_eq!([losses.add(), losses.add(), losses.add()], [false, false, true]);
        assert_eq!([losses.add(), losses.add()], [false, false], "it begins again");
        advance(LOSSES_INTERVAL).await;
        assert_eq!([losses.add(), losses.add(), losses.add()], [false, false, true]);
    }
}
