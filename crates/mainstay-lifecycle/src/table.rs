//! The table of the machine: what each input does in each state, and what each expired timer does.
//!
//! A row reads `(state, input) => action`. The actions are in `step`. A report counts only if it names the current
//! generation, so a row for a report sees the states that have one.

use crate::effect::{Cause, CloseMode, Effect};
use crate::input::{Input, Recovery, Vitals};
use crate::machine::Timer;
use crate::state::Attempt::{Listing, Opening, Pausing, Queued};
use crate::state::DisconnectReason::{AuthRequired, BudgetSpent, CredentialRefused, Idle, Lost};
use crate::state::State::{Connected, Connecting, Disabled, Disabling, Disconnected, PermanentlyFailed};
use crate::step::MachineStep;
use crate::time::Generation;

/// Each expired timer moves a deadline on, so a handful is plenty. A policy of zero durations must not loop for ever.
const TIMERS_PER_STEP_LIMIT: usize = 16;

impl MachineStep<'_> {
    pub(crate) fn apply(&mut self, input: Input) {
        if let Some(generation) = self.stale_generation(&input) {
            return self.effects.push(Effect::CountStale(generation));
        }
        match (&mut self.machine.state, input) {
            (Disabled | Disabling, Input::Enable { dormant: true }) => {
                self.machine.failures = 0;
                self.enter(Disconnected(Idle), Cause::Enabled);
            }
            (Disabled | Disabling | PermanentlyFailed, Input::Enable { .. }) => {
                self.machine.failures = 0;
                self.enter(self.first_attempt(), Cause::Enabled);
            }
            (&mut Disconnected(Lost(at)), Input::Enable { dormant: false }) => {
                self.enter(self.next_attempt(at), Cause::Enabled);
            }
            (Connecting { .. } | Connected(_) | Disconnected(_), Input::Enable { .. }) => {}

            (Disabled | Disabling, Input::Disable | Input::Restart | Input::Replace { .. }) => {}
            (Connecting { .. } | Connected(_) | Disconnected(_) | PermanentlyFailed, Input::Disable) => {
                self.cut_drains();
                self.detach(CloseMode::Cut);
                self.enter(Disabling, Cause::Disabled);
                self.finish_disabling(Cause::Disabled);
            }
            (Connecting { .. } | Connected(_) | Disconnected(_) | PermanentlyFailed, Input::Restart) => {
                self.cut_drains();
                self.detach(CloseMode::Cut);
                self.redial(Cause::Restarted);
            }
            (Connected(_), Input::Replace { beside: true }) => {
                self.detach_beside_next();
                self.redial(Cause::Replaced);
            }
            (
                Connecting { .. } | Connected(_) | Disconnected(_) | PermanentlyFailed,
                Input::Replace { .. },
            ) => {
                self.detach(CloseMode::Drain);
                self.redial(Cause::Replaced);
            }
            (_, Input::Adjust(policy)) => self.adjust(*policy),

            (Disconnected(Idle), Input::Demand) => self.enter(self.first_attempt(), Cause::Demanded),
            (&mut Disconnected(Lost(at)), Input::Demand) => {
                self.enter(self.next_attempt(at), Cause::Demanded);
            }
            (Disconnected(AuthRequired | CredentialRefused(_) | BudgetSpent(..)), Input::Demand) => {}
            (Disabled | Disabling | Connecting { .. } | Connected(_) | PermanentlyFailed, Input::Demand) => {}

            (Disconnected(AuthRequired | CredentialRefused(_)), Input::Login) => {
                self.enter(self.first_attempt(), Cause::LoggedIn);
            }
            (
                Connecting {
                    attempt,
                    has_new_login,
                    ..
                },
                Input::Login,
            ) => {
                *has_new_login = match attempt {
                    // The next dial uses the new credential.
                    Pausing(..) => false,
                    Queued(..) | Opening(..) | Listing(_) => true,
                };
            }
            (Disconnected(Idle | Lost(_) | BudgetSpent(..)), Input::Login) => {}
            (Disabled | Disabling | Connected(_) | PermanentlyFailed, Input::Login) => {}

            (
                Connecting {
                    attempt: Queued(..), ..
                },
                Input::Begun(generation),
            ) => {
                let by = self.now + self.machine.policy.limits.open;
                self.set_attempt(Opening(generation, by));
            }
            (
                Connecting {
                    attempt: Queued(..) | Opening(..),
                    ..
                },
                Input::Opened(generation),
            ) => {
                self.opened(generation);
            }
            (
                Connecting {
                    attempt: Queued(..) | Opening(..),
                    ..
                },
                Input::OpenFailed(_, recovery),
            ) => {
                self.lose(Cause::OpenFailed, recovery);
            }
            // The connection is further on.
            (_, Input::Begun(_) | Input::Opened(_) | Input::OpenFailed(..)) => {}

            // Listings and probes are the same before and after the first listing.
            (_, Input::Listed(_, listing)) => self.listed(listing),
            (_, Input::ListFailed(_, recovery, vitals)) => self.list_failed(recovery, vitals),
            (_, Input::ListChanged(_)) => self.list_changed(),
            (_, Input::ProbeNow(_)) => self.probe_now(),
            (_, Input::ProbeAnswered(_)) => self.probe_answered(),

            (Connected(_), Input::CallAnswered(_)) => self.call_answered(),
            // A shortage on this machine says nothing about the connection.
            (Connected(_), Input::CallFailed(_, Recovery::RetryLack, _)) => {}
            (Connected(_), Input::CallFailed(generation, Recovery::RetryAfter(pause), _)) => {
                let until = self.now + self.granted(pause);
                self.effects.push(Effect::Hold(generation, until));
            }
            (Connected(_), Input::CallFailed(_, recovery, others)) => self.call_failed(recovery, others),
            // Only a connected server takes calls.
            (
                Disabled | Disabling | Connecting { .. } | Disconnected(_) | PermanentlyFailed,
                Input::CallAnswered(_) | Input::CallFailed(..),
            ) => {}

            (_, Input::Lost(_)) => self.lose(Cause::Lost, Recovery::Retry),
            (_, Input::Retired(_, recovery)) => self.retire(Cause::Lost, recovery),
            (_, Input::Closed(generation)) => self.closed(generation),
            // The budget stays as it is: the dial takes its token, and a failure counts.
            (_, Input::Reachable(_)) => self.enter(self.next_attempt(self.now), Cause::Reachable),
            (_, Input::Timer(vitals)) => self.expire_timers(vitals),
        }
    }

    /// The generation of a report that comes too late to count.
    fn stale_generation(&self, input: &Input) -> Option<Generation> {
        let machine = &self.machine;
        let (generation, counts) = match *input {
            Input::Enable { .. }
            | Input::Disable
            | Input::Restart
            | Input::Replace { .. }
            | Input::Adjust(_)
            | Input::Demand
            | Input::Login
            | Input::Timer(_) => return None,
            Input::Begun(generation)
            | Input::Opened(generation)
            | Input::OpenFailed(generation, _)
            | Input::Listed(generation, _)
            | Input::ListFailed(generation, ..)
            | Input::ListChanged(generation)
            | Input::Lost(generation)
            | Input::Retired(generation, _)
            | Input::CallAnswered(generation)
            | Input::CallFailed(generation, ..)
            | Input::ProbeNow(generation)
            | Input::ProbeAnswered(generation) => {
                (generation, machine.state.generation() == Some(generation))
            }
            Input::Closed(generation) => {
                let mut closes = machine.closing().into_iter().chain(machine.draining());
                (generation, closes.any(|closing| closing == generation))
            }
            Input::Reachable(generation) => (generation, machine.unreachable() == Some(generation)),
        };
        (!counts).then_some(generation)
    }

    fn expire_timers(&mut self, vitals: Vitals) {
        for _ in 0..TIMERS_PER_STEP_LIMIT {
            match self.machine.deadline() {
                Some(deadline) if deadline.at <= self.now => self.expire(deadline.timer, vitals),
                Some(_) | None => return,
            }
        }
    }

    /// What each timer does. A timer belongs to one state, in which alone it can expire.
    fn expire(&mut self, timer: Timer, vitals: Vitals) {
        match timer {
            Timer::Close => self.abandon_overdue(),
            Timer::Start => self.start_if_due(),
            // Other servers kept it from starting, so the attempt costs nothing.
            Timer::Turn => self.lose(Cause::OpenTimedOut, Recovery::RetryLack),
            Timer::Open => self.lose(Cause::OpenTimedOut, Recovery::Retry),
            Timer::List => self.list_failed(Recovery::Retry, vitals),
            Timer::Relist | Timer::Expiry => self.start_listing(),
            Timer::Proof => self.prove(),
            Timer::Silence => self.check_silence(vitals),
            Timer::Answer => self.probe_missed(vitals),
            Timer::Idle => self.stop_if_idle(vitals),
            Timer::SlowProbe => self.enter(self.next_attempt(self.now), Cause::SlowProbe),
        }
    }
}
