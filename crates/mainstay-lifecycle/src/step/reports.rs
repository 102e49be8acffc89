//! Reports of the current generation, and what its loss leads to.

use std::time::Duration;

use crate::effect::{Cause, CloseMode, Effect};
use crate::input::Recovery;
use crate::policy::{WhenLost, WhenSpent};
use crate::state::{Attempt, DisconnectReason, Opened, Pause, State};
use crate::step::Step;
use crate::time::{Generation, jittered};

impl Step<'_> {
    pub(super) fn if_current(&mut self, generation: Generation, then: impl FnOnce(&mut Self)) {
        if self.machine.state.generation() == Some(generation) {
            then(self);
        } else {
            self.effects.push(Effect::CountStale(generation));
        }
    }

    pub(super) fn opened(&mut self) {
        let Some(Attempt::Queued(generation, _) | Attempt::Opening(generation, _)) = self.attempt() else {
            return;
        };
        let generation = *generation;
        let opened = Opened {
            generation,
            refresh: self.list(generation, 0),
            watch: self.listening(),
        };
        self.set_attempt(Attempt::Listing(opened));
    }

    pub(super) fn open_failed(&mut self, cause: Cause, recovery: Recovery) {
        if matches!(self.attempt(), Some(Attempt::Queued(..) | Attempt::Opening(..))) {
            self.lose(cause, recovery);
        }
    }

    /// The current connection is of no more use. What comes next depends on whether it had proved itself, on what can
    /// mend the failure, and on the budget.
    pub(super) fn lose(&mut self, cause: Cause, recovery: Recovery) {
        let Some(generation) = self.machine.state.generation() else {
            return;
        };
        if recovery == Recovery::RetryLack {
            return self.lack(generation, cause);
        }
        let proven = matches!(&self.machine.state, State::Connected(live) if live.is_proven());
        let has_new_login = std::mem::take(&mut self.machine.has_new_login);
        self.detach(CloseMode::Cut);
        match recovery {
            Recovery::Retry
            | Recovery::RetryOtherEra
            | Recovery::RetryAfter(_)
            | Recovery::RetryWhenReachable
            | Recovery::RetryLack => {}
            // It was refused with a credential that is no longer the one.
            Recovery::Login if has_new_login => return self.set_attempt(self.start_now()),
            Recovery::Login => {
                return self.enter(
                    State::Disconnected(DisconnectReason::AuthRequired),
                    Cause::LoginRequired,
                );
            }
            Recovery::GiveUp => return self.enter(State::PermanentlyFailed, cause),
        }
        let wanted_pause = self.pause_of(recovery);
        if !proven {
            self.machine.failures = self.machine.failures.saturating_add(1);
        }
        let pausing = match recovery {
            Recovery::RetryWhenReachable => Pause::Unreachable(generation),
            Recovery::Retry
            | Recovery::RetryOtherEra
            | Recovery::RetryAfter(_)
            | Recovery::RetryLack
            | Recovery::Login
            | Recovery::GiveUp => Pause::Backoff,
        };
        let policy = &self.machine.policy;
        let spent = self.machine.failures >= policy.budget.get();
        // The other way belongs to the same start, which somebody asked for.
        let continues = recovery == Recovery::RetryOtherEra && !spent;
        if policy.when_lost == WhenLost::StayDisconnected && !continues {
            return self.enter(
                State::Disconnected(DisconnectReason::Lost(self.now + wanted_pause)),
                cause,
            );
        }
        if spent {
            return match policy.when_spent {
                WhenSpent::GiveUp => self.enter(State::PermanentlyFailed, cause),
                WhenSpent::ProbeEvery(period) => {
                    // Three quarters to five quarters of the period, so that a herd spreads.
                    let spread = jittered(period / 2, self.now, generation);
                    let pause = period.mul_f64(0.75).saturating_add(spread);
                    let at = self.now + pause.max(wanted_pause);
                    self.enter(
                        State::Disconnected(DisconnectReason::BudgetSpent(at, pausing)),
                        cause,
                    );
                }
            };
        }
        let pause = if recovery == Recovery::RetryOtherEra {
            wanted_pause
        } else {
            let longest = policy.backoff.longest_pause(self.machine.failures);
            jittered(longest, self.now, generation).max(wanted_pause)
        };
        let why = if pause.is_zero() { Pause::None } else { pausing };
        self.enter(
            State::Reconnecting(Attempt::Pausing(self.now + pause, why)),
            cause,
        );
    }

    /// The machine that all this runs on lacks something. The server did nothing wrong: its failures in a row stay as many as
    /// they were, and a start that no call was completed after gives its token back, or is still the first.
    fn lack(&mut self, generation: Generation, cause: Cause) {
        let policy = &self.machine.policy;
        if std::mem::take(&mut self.machine.owes_work) {
            self.machine.tokens.give_back(&policy.bucket, self.now);
        } else if self.attempt().is_some() {
            self.machine.started = false;
        }
        let half = self.machine.policy.lack_pause / 2;
        let pause = half.saturating_add(jittered(half, self.now, generation));
        self.detach(CloseMode::Cut);
        let attempt = Attempt::Pausing(self.now + pause, Pause::Lack);
        self.enter(State::Reconnecting(attempt), cause);
    }

    /// Whoever came back is dialled at once. Nothing is renewed: the dial takes its token, and a failure counts.
    pub(super) fn reachable(&mut self, generation: Generation) {
        if self.machine.unreachable() != Some(generation) {
            return self.effects.push(Effect::CountStale(generation));
        }
        self.enter(State::Reconnecting(self.start_now()), Cause::Reachable);
    }

    /// A completed call proves the connection, and makes its start free: the start led to work.
    pub(super) fn call_answered(&mut self) {
        if let State::Connected(live) = &mut self.machine.state {
            live.call_failures = 0;
            self.prove();
            if std::mem::take(&mut self.machine.owes_work) {
                self.machine
                    .tokens
                    .give_back(&self.machine.policy.bucket, self.now);
            }
        }
    }

    pub(super) fn call_failed(&mut self, recovery: Recovery) {
        match recovery {
            Recovery::RetryLack => return,
            Recovery::RetryAfter(_) => return self.hold(recovery),
            Recovery::Retry
            | Recovery::RetryOtherEra
            | Recovery::RetryWhenReachable
            | Recovery::Login
            | Recovery::GiveUp => {}
        }
        if let State::Connected(live) = &mut self.machine.state {
            live.call_failures = live.call_failures.saturating_add(1);
            if live.call_failures >= self.machine.policy.call_failures.get() || !recovery.comes_with_time() {
                self.lose(Cause::CallsFailed, recovery);
            }
        }
    }

    /// A server that asks to be left alone is there, and its connection is good: calls pause, and nothing else changes.
    fn hold(&mut self, recovery: Recovery) {
        if let State::Connected(live) = &self.machine.state {
            let until = self.now + self.pause_of(recovery);
            self.effects.push(Effect::Hold(live.generation, until));
        }
    }

    /// How long the server wants to be left alone, as far as that is granted.
    pub(super) fn pause_of(&self, recovery: Recovery) -> Duration {
        recovery.pause().min(self.machine.policy.limits.retry_after)
    }

    pub(super) fn prove(&mut self) {
        if let State::Connected(live) = &mut self.machine.state {
            live.proven_at = None;
            self.machine.failures = 0;
        }
    }
}
