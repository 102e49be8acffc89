//! The renewals of this process that are under way.
//!
//! A refresh token that was sent and not answered may be spent. So a program waits for its renewals before it ends.

use std::sync::LazyLock;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

static IN_FLIGHT: LazyLock<watch::Sender<usize>> = LazyLock::new(|| watch::Sender::new(0));

/// Waits until no renewal of this process is under way; `false` if some still are when the time is over.
///
/// Cancel safety: dropping it changes nothing.
pub async fn finish_renewals(within: Duration) -> bool {
    let mut in_flight = IN_FLIGHT.subscribe();
    timeout(within, in_flight.wait_for(|count| *count == 0))
        .await
        .is_ok()
}

/// Counts a renewal until it is dropped.
pub(super) struct RenewalInFlight(());

impl RenewalInFlight {
    pub(super) fn begin() -> Self {
        IN_FLIGHT.send_modify(|count| *count += 1);
        Self(())
    }
}

impl Drop for RenewalInFlight {
    fn drop(&mut self) {
        IN_FLIGHT.send_modify(|count| *count -= 1);
    }
}
