//! The passing of time: what each deadline of the table leads to.

use crate::deadline::Timer;
use crate::effect::{Cause, CloseMode, Effect};
use crate::input::{Recovery, Vitals};
use crate::state::{Attempt, DisconnectReason, State, Watch};
use crate::step::Step;
use crate::time::{Generation, Moment};

/// Each expired timer moves a deadline on, so a handful is plenty; a policy of zero durations must not spin for ever.
const TIMERS_A_STEP: usize = 16;

impl Step<'_> {
    pub(super) fn timers(&mut self, vitals: Vitals) {
        for _ in 0..TIMERS_A_STEP {
            match self.machine.deadline() {
                Some(deadline) if deadline.at <= self.now => self.expire(deadline.timer, vitals),
                Some(_) | None => return,
            }
        }
    }

    fn expire(&mut self, timer: Timer, vitals: Vitals) {
        match timer {
            Timer::Close => self.abandon_overdue(),
            Timer::Start => self.start_if_due(),
            // It is the others here that keep it from starting, not the server.
            Timer::Turn => self.open_failed(Cause::OpenTimedOut, Recovery::RetryLack),
            Timer::Open => self.open_failed(Cause::OpenTimedOut, Recovery::Retry),
            Timer::List => self.list_failed(Recovery::Retry),
            Timer::Relist | Timer::Expiry => self.relist(),
            Timer::Proof => self.prove(),
            Timer::Silence => self.look(vitals),
            Timer::Answer => self.unanswered(vitals),
            Timer::Idle => self.stop_if_idle(vitals),
            Timer::SlowProbe => self.enter(State::Reconnecting(self.start_now()), Cause::SlowProbe),
        }
    }

    /// The connection that is open, and what is known of its silence.
    pub(super) fn watched(&mut self) -> Option<(Generation, &mut Watch)> {
        match &mut self.machine.state {
            State::Connected(live) => Some((live.generation, &mut live.watch)),
            State::Connecting(Attempt::Listing(opened)) | State::Reconnecting(Attempt::Listing(opened)) => {
                Some((opened.generation, &mut opened.watch))
            }
            State::Connecting(_)
            | State::Reconnecting(_)
            | State::Disabled
            | State::Disabling
            | State::Disconnected(_)
            | State::PermanentlyFailed => None,
        }
    }

    /// Probes a server that has been silent with nothing to do. One that works on a call is left to that call's own
    /// deadline: a server that does one thing at a time cannot answer a probe meanwhile. One that is stopped does not work.
    fn look(&mut self, vitals: Vitals) {
        let Some(probe) = &self.machine.policy.probe else {
            return;
        };
        let (now, silence) = (self.now, probe.after_silence);
        let Some((_, watch)) = self.watched() else { return };
        if vitals.is_working() {
            *watch = Watch::Listening(now + silence);
        } else if now.since(vitals.heard) < silence {
            *watch = Watch::Listening(vitals.heard + silence);
        } else {
            self.ask(0);
        }
    }

    /// Probes without waiting for a silence: a call's connection broke, and the server may have gone with it.
    pub(super) fn probe_now(&mut self) {
        if let Some((_, Watch::Listening(_))) = self.watched() {
            self.ask(0);
        }
    }

    /// Asks for a sign of life, after so many that did not come.
    fn ask(&mut self, misses: u32) {
        let Some(probe) = &self.machine.policy.probe else {
            return;
        };
        let (asked, by) = (self.now, self.now + probe.timeout);
        let Some((generation, watch)) = self.watched() else {
            return;
        };
        *watch = Watch::Asked { asked, by, misses };
        self.effects.push(Effect::Probe(generation));
    }

    fn unanswered(&mut self, vitals: Vitals) {
        let Some(probe) = &self.machine.policy.probe else {
            return;
        };
        let limit = probe.misses.get();
        let listening = self.listening();
        let Some((_, watch)) = self.watched() else { return };
        let Watch::Asked { asked, misses, .. } = *watch else {
            return;
        };
        let misses = misses.saturating_add(1);
        if vitals.is_working() || vitals.heard > asked {
            *watch = listening;
        } else if misses < limit {
            self.ask(misses);
        } else {
            self.lose(Cause::ProbesMissed, Recovery::Retry);
        }
    }

    pub(super) fn probe_answered(&mut self) {
        let listening = self.listening();
        if let Some((_, watch)) = self.watched() {
            *watch = listening;
        }
    }

    fn stop_if_idle(&mut self, vitals: Vitals) {
        let Some(idle) = self.machine.policy.idle_stop else {
            return;
        };
        let now = self.now;
        let State::Connected(live) = &mut self.machine.state else {
            return;
        };
        if vitals.busy {
            live.idle_at = Some(now + idle);
        } else if now.since(vitals.used) < idle {
            live.idle_at = Some(vitals.used + idle);
        } else {
            // A call may have come between the look and this: it is finished, and the next one starts the server again.
            self.detach(CloseMode::Drain);
            self.enter(State::Disconnected(DisconnectReason::Idle), Cause::WentIdle);
        }
    }

    pub(super) fn listening(&self) -> Watch {
        match &self.machine.policy.probe {
            Some(probe) => Watch::Listening(self.now + probe.after_silence),
            None => Watch::Off,
        }
    }

    pub(super) fn idle_at(&self) -> Option<Moment> {
        self.machine.policy.idle_stop.map(|idle| self.now + idle)
    }
}
