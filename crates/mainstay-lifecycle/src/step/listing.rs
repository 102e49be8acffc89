//! Listing what a server offers: once after each connect, and again when it changed, expired, failed or came back empty.
//!
//! Invariants: one listing at a time, and never two within `relist_pause`; a change that arrives during a listing is
//! listed after it.

use std::time::Duration;

use crate::effect::{Cause, Effect};
use crate::input::{Listing, Recovery};
use crate::state::{Attempt, Live, Refresh, RefreshStep, State};
use crate::step::Step;
use crate::time::{Generation, jittered};

impl Step<'_> {
    /// Starts a listing; `failures` of its kind came before it in a row.
    pub(super) fn list(&mut self, generation: Generation, failures: u32) -> Refresh {
        self.effects.push(Effect::List(generation));
        let policy = &self.machine.policy;
        let step = RefreshStep::Running {
            by: self.now + policy.limits.list,
            again: false,
        };
        Refresh {
            step,
            failures,
            not_before: self.now + policy.relist_pause,
        }
    }

    pub(super) fn relist(&mut self) {
        let Some(generation) = self.machine.state.generation() else {
            return;
        };
        let Some(failures) = self.refresh().map(|refresh| refresh.failures) else {
            return;
        };
        let next = self.list(generation, failures);
        if let Some(refresh) = self.refresh() {
            *refresh = next;
        }
    }

    fn refresh(&mut self) -> Option<&mut Refresh> {
        match &mut self.machine.state {
            State::Connected(live) => Some(&mut live.refresh),
            State::Connecting(Attempt::Listing(opened)) | State::Reconnecting(Attempt::Listing(opened)) => {
                Some(&mut opened.refresh)
            }
            State::Connecting(_)
            | State::Reconnecting(_)
            | State::Disabled
            | State::Disabling
            | State::Disconnected(_)
            | State::PermanentlyFailed => None,
        }
    }

    pub(super) fn listed(&mut self, listing: Listing) {
        let now = self.now;
        let fresh = match listing {
            Listing::Good { ttl } => Some(self.fresh(ttl)),
            Listing::Unconfirmed => None,
        };
        let Some(refresh) = self.refresh() else { return };
        let RefreshStep::Running { again, .. } = refresh.step else {
            return;
        };
        refresh.failures = 0;
        refresh.step = match fresh {
            Some(fresh) if !again => fresh,
            Some(_) | None => RefreshStep::Due(refresh.not_before.max(now)),
        };
        let refresh = refresh.clone();
        if let Some(Attempt::Listing(opened)) = self.attempt() {
            let live = Live {
                generation: opened.generation,
                proven_at: Some(now + self.machine.policy.stable_after),
                refresh,
                watch: self.listening(),
                idle_at: self.idle_at(),
                call_failures: 0,
            };
            self.machine.has_new_login = false;
            self.enter(State::Connected(live), Cause::Listed);
        }
    }

    /// Current from now on, until it expires: as late as a tenth of its time beyond it, so that a herd spreads.
    fn fresh(&mut self, ttl: Option<Duration>) -> RefreshStep {
        let (now, generation) = (self.now, self.machine.state.generation());
        let period = self.machine.policy.expiry.period(ttl);
        let not_before = self.refresh().map_or(now, |refresh| refresh.not_before);
        let until = period.zip(generation).map(|(period, generation)| {
            let spread = jittered(period / 10, now, generation);
            (now + period.saturating_add(spread)).max(not_before)
        });
        RefreshStep::Fresh { ttl, until }
    }

    /// The policy changed, and with it how long what was listed counts as current.
    pub(super) fn judge_expiry_again(&mut self) {
        let ttl = match self.refresh().map(|refresh| &refresh.step) {
            Some(RefreshStep::Fresh { ttl, .. }) => *ttl,
            Some(RefreshStep::Due(_) | RefreshStep::Running { .. }) | None => return,
        };
        let fresh = self.fresh(ttl);
        if let Some(refresh) = self.refresh() {
            refresh.step = fresh;
        }
    }

    pub(super) fn list_failed(&mut self, recovery: Recovery) {
        let lacks = recovery == Recovery::RetryLack;
        let lack_pause = if lacks {
            self.machine.policy.lack_pause
        } else {
            Duration::ZERO
        };
        let pause = self
            .machine
            .policy
            .relist_pause
            .max(self.pause_of(recovery))
            .max(lack_pause);
        let (now, limit) = (self.now, self.machine.policy.discovery_failures.get());
        let is_listed = matches!(self.machine.state, State::Connected(_));
        let waits = matches!(recovery, Recovery::RetryAfter(_));
        let Some(refresh) = self.refresh() else { return };
        if !matches!(refresh.step, RefreshStep::Running { .. }) {
            return;
        }
        // What this machine lacks is no fault of the connection. Nor is a pause that the server asks for, once it was listed:
        // what it listed then is still published, and its calls may go on.
        let is_forgiven = lacks || (is_listed && waits);
        refresh.failures = refresh.failures.saturating_add(u32::from(!is_forgiven));
        refresh.step = RefreshStep::Due(now + pause);
        if refresh.failures >= limit || !recovery.comes_with_time() {
            self.lose(Cause::ListingFailed, recovery);
        }
    }

    pub(super) fn list_changed(&mut self) {
        let now = self.now;
        let Some(refresh) = self.refresh() else { return };
        match &mut refresh.step {
            RefreshStep::Running { again, .. } => *again = true,
            RefreshStep::Due(_) => {}
            RefreshStep::Fresh { .. } if refresh.not_before <= now => self.relist(),
            RefreshStep::Fresh { .. } => refresh.step = RefreshStep::Due(refresh.not_before),
        }
    }
}
