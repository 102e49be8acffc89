//! Counts of what became of a server's connections. Its keeper writes them, at each change of state.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use mainstay_lifecycle::{Cause, StateKind};
use tokio::time::Instant;

use super::counts::{DurationCounts, DurationHistogram};
use crate::lock::Lock;

/// What became of a server's connections since it was added to the fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LifecycleCounts {
    /// How often a state was entered for a cause.
    pub transitions: Vec<(StateKind, Cause, u64)>,
    /// How long the server was gone after each loss of its connection, until it was connected again.
    pub recoveries: DurationCounts,
    /// How long the connections lasted that have ended.
    pub sessions: DurationCounts,
    /// How often a listing changed the catalog.
    pub catalog_changes: u64,
}

/// The counters behind [`LifecycleCounts`].
#[derive(Debug, Default)]
pub(crate) struct LifecycleCounters {
    // Taken by one keeper at a change of state, and by readers of metrics. No call comes here.
    transitions: Lock<BTreeMap<(StateKind, Cause), u64>>,
    recoveries: DurationHistogram,
    sessions: DurationHistogram,
    catalog_changes: AtomicU64,
}

/// When the connection began, and when it was lost. Kept by the keeper.
#[derive(Debug, Default)]
pub(crate) struct ConnectionTimes {
    connected: Option<Instant>,
    lost: Option<Instant>,
}

impl LifecycleCounters {
    pub(crate) fn catalog_changed(&self) {
        self.catalog_changes.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a change of state. `is_failure` if something went wrong; `is_resting` if nothing but a call or a person starts
    /// the server again.
    pub(crate) fn changed(
        &self,
        times: &mut ConnectionTimes,
        to: StateKind,
        cause: Cause,
        is_failure: bool,
        is_resting: bool,
    ) {
        *self.transitions.lock().entry((to, cause)).or_default() += 1;
        let connected = times.connected.take();
        if let Some(connected) = connected {
            self.sessions.record(connected.elapsed());
        }
        match to {
            StateKind::Connected => {
                times.connected = Some(Instant::now());
                if let Some(lost) = times.lost.take() {
                    self.recoveries.record(lost.elapsed());
                }
            }
            StateKind::Connecting | StateKind::Reconnecting | StateKind::Disconnected if !is_resting => {
                if connected.is_some() && is_failure {
                    times.lost = Some(Instant::now());
                }
            }
            // A person or the idle time ended it: the time until it is wanted again is no outage.
            StateKind::Connecting
            | StateKind::Reconnecting
            | StateKind::Disconnected
            | StateKind::Disabled
            | StateKind::Disabling
            | StateKind::PermanentlyFailed => times.lost = None,
        }
    }

    pub(crate) fn read(&self) -> LifecycleCounts {
        let transitions = self
            .transitions
            .lock()
            .iter()
            .map(|((to, cause), count)| (*to, *cause, *count))
            .collect();
        LifecycleCounts {
            transitions,
            recoveries: self.recoveries.read(),
            sessions: self.sessions.read(),
            catalog_changes: self.catalog_changes.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_outage_lasts_from_the_loss_until_the_next_connection() {
        let (counters, mut times) = (LifecycleCounters::default(), ConnectionTimes::default());
        let mut change = |to, cause, is_failure, is_resting| {
            counters.changed(&mut times, to, cause, is_failure, is_resting);
        };
        change(StateKind::Connecting, Cause::Enabled, false, false);
        change(StateKind::Connected, Cause::Listed, false, false);
        advance(Duration::from_secs(40)).await;
        change(StateKind::Reconnecting, Cause::Lost, true, false);
        advance(Duration::from_secs(3)).await;
        change(StateKind::Disconnected, Cause::OpenFailed, true, false);
        advance(Duration::from_secs(4)).await;
        change(StateKind::Connecting, Cause::SlowProbe, false, false);
        change(StateKind::Connected, Cause::Listed, false, false);
        // Neither the end by a person nor that for idleness is an outage.
        advance(Duration::from_secs(1)).await;
        change(StateKind::Disconnected, Cause::WentIdle, false, true);
        advance(Duration::from_secs(100)).await;
        change(StateKind::Connected, Cause::Listed, false, false);
        change(StateKind::Reconnecting, Cause::Lost, true, false);
        change(StateKind::Disabled, Cause::Disabled, false, false);
        advance(Duration::from_secs(100)).await;
        change(StateKind::Connected, Cause::Listed, false, false);
        let counts = counters.read();
        assert_eq!(counts.recoveries.count(), 1);
        assert_eq!(counts.recoveries.total(), Duration::from_secs(7));
        assert_eq!(counts.sessions.count(), 3);
        assert_eq!(counts.sessions.total(), Duration::from_secs(41));
        assert!(
            counts
                .transitions
                .contains(&(StateKind::Connected, Cause::Listed, 4))
        );
    }
}
