//! The connection that was opened and not closed yet, as a watcher sees it.

use std::time::Duration;

use super::{End, Verdict};
use crate::explore::violation::Violation;
use crate::input::{Listing, Recovery, Vitals};
use crate::policy::Policy;
use crate::time::{Generation, Moment};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::explore) struct Current {
    pub(in crate::explore) generation: Generation,
    pub(in crate::explore) phase: Phase,
    /// Its start took a token, and it has completed no call since.
    pub(in crate::explore) costs_token: bool,
    /// A login took place since it was dialled.
    pub(in crate::explore) has_new_login: bool,
    /// A listing runs, until this moment.
    pub(in crate::explore) listing: Option<Moment>,
    /// Something is to be listed that no listing so far can have seen.
    pub(in crate::explore) owed: bool,
    /// No listing before this moment.
    pub(in crate::explore) list_from: Moment,
    /// What the server said of how long its list is current, and when the list expires, at the earliest and at the latest.
    pub(in crate::explore) ttl: Option<Duration>,
    pub(in crate::explore) expires: Option<(Moment, Moment)>,
    pub(in crate::explore) list_failures: u32,
    pub(in crate::explore) call_failures: u32,
    /// A probe is out: since when, and until when.
    pub(in crate::explore) asked: Option<(Moment, Moment)>,
    pub(in crate::explore) misses: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::explore) enum Phase {
    Queued { by: Moment },
    Dialling { by: Moment },
    Open,
    Listed { proof_at: Option<Moment> },
}

impl Current {
    pub(super) fn dialled(generation: Generation, now: Moment, policy: &Policy) -> Self {
        Self {
            generation,
            phase: Phase::Queued {
                by: now + policy.limits.turn,
            },
            costs_token: false,
            has_new_login: false,
            listing: None,
            owed: false,
            list_from: now,
            ttl: None,
            expires: None,
            list_failures: 0,
            call_failures: 0,
            asked: None,
            misses: 0,
        }
    }

    pub(super) fn is_listed(&self) -> bool {
        matches!(self.phase, Phase::Listed { .. })
    }

    pub(in crate::explore) fn is_proven(&self) -> bool {
        self.phase == Phase::Listed { proof_at: None }
    }

    fn is_dialling(&self) -> bool {
        matches!(self.phase, Phase::Queued { .. } | Phase::Dialling { .. })
    }

    /// The time of a start begins with its turn.
    pub(super) fn begun(&mut self, now: Moment, policy: &Policy) -> Verdict {
        if let Phase::Queued { .. } = self.phase {
            self.phase = Phase::Dialling {
                by: now + policy.limits.open,
            };
        }
        Verdict::default()
    }

    pub(super) fn opened(&mut self) -> Verdict {
        if self.is_dialling() {
            self.phase = Phase::Open;
        }
        Verdict::default()
    }

    pub(super) fn open_failed(&mut self, recovery: Recovery) -> Verdict {
        if self.is_dialling() {
            Verdict::ends(End::Loss(recovery))
        } else {
            Verdict::default()
        }
    }

    pub(super) fn listed(&mut self, listing: Listing, now: Moment, policy: &Policy) -> Verdict {
        if self.listing.take().is_some() {
            self.list_failures = 0;
            match listing {
                Listing::Good { ttl } => self.ttl = ttl,
                Listing::Unconfirmed => self.owed = true,
            }
            self.expire(now, policy);
            if self.phase == Phase::Open {
                let proof_at = Some(now + policy.stable_after);
                self.watched_anew();
                self.has_new_login = false;
                self.phase = Phase::Listed { proof_at };
            }
        }
        Verdict::default()
    }

    pub(super) fn list_failed(&mut self, recovery: Recovery, now: Moment, policy: &Policy) -> Verdict {
        if self.listing.take().is_none() {
            return Verdict::default();
        }
        let counts = match recovery {
            Recovery::RetryLack => false,
            Recovery::RetryAfter(_) => !self.is_listed(),
            Recovery::Retry
            | Recovery::RetryOtherEra
            | Recovery::RetryWhenReachable
            | Recovery::Login
            | Recovery::GiveUp => true,
        };
        self.list_failures += u32::from(counts);
        self.owed = true;
        match recovery {
            Recovery::RetryAfter(pause) => {
                self.list_from = self.list_from.max(now + pause.min(policy.limits.retry_after));
            }
            Recovery::RetryLack => self.list_from = self.list_from.max(now + policy.lack_pause),
            Recovery::Retry
            | Recovery::RetryOtherEra
            | Recovery::RetryWhenReachable
            | Recovery::Login
            | Recovery::GiveUp => {}
        }
        let condemned = self.list_failures >= policy.discovery_failures.get();
        Verdict::lost_until(condemned || is_hopeless(recovery), recovery)
    }

    pub(super) fn list_changed(&mut self) -> Verdict {
        // A change that comes before the first listing is seen by it.
        self.owed |= !self.is_dialling();
        if self.owed {
            self.expires = None;
        }
        Verdict::default()
    }

    pub(super) fn call_answered(&mut self) -> Verdict {
        if self.is_listed() {
            self.call_failures = 0;
            self.phase = Phase::Listed { proof_at: None };
        }
        Verdict::default()
    }

    /// An attempt that is under way was perhaps made without it.
    pub(super) fn logged_in(&mut self) -> Verdict {
        self.has_new_login = !self.is_listed();
        Verdict::default()
    }

    pub(super) fn call_failed(&mut self, recovery: Recovery, now: Moment, policy: &Policy) -> Verdict {
        if recovery == Recovery::RetryLack {
            return Verdict::default();
        }
        if let Recovery::RetryAfter(pause) = recovery {
            let until = now + pause.min(policy.limits.retry_after);
            return Verdict {
                hold: self.is_listed().then_some(until),
                ..Verdict::default()
            };
        }
        self.call_failures += u32::from(self.is_listed());
        let condemned = self.call_failures >= policy.call_failures.get();
        let hopeless = self.is_listed() && is_hopeless(recovery);
        Verdict::lost_until(condemned || hopeless, recovery)
    }

    /// A doubt is answered by a probe at once, unless one is out.
    pub(super) fn probe_now(&mut self, policy: &Policy) -> Verdict {
        let examined = !self.is_dialling() && policy.probe.is_some() && self.asked.is_none();
        Verdict {
            may_probe: examined,
            must_probe: examined,
            ..Verdict::default()
        }
    }

    /// The rules changed.
    pub(super) fn adjusted(&mut self, now: Moment, policy: &Policy) -> Verdict {
        if self.is_listed() && self.listing.is_none() {
            self.expire(now, policy);
        }
        self.watched_anew()
    }

    /// When what was listed expires, unless it is to be listed again anyway.
    fn expire(&mut self, now: Moment, policy: &Policy) {
        let period = policy.expiry.period(self.ttl).filter(|_| !self.owed);
        self.expires = period.map(|period| {
            let latest = now + period + period / 10;
            ((now + period).max(self.list_from), latest.max(self.list_from))
        });
    }

    /// The examination begins anew: the server gave a sign of life, or the rules changed.
    pub(super) fn watched_anew(&mut self) -> Verdict {
        self.asked = None;
        self.misses = 0;
        Verdict::default()
    }

    pub(super) fn time(&mut self, vitals: Vitals, now: Moment, policy: &Policy) -> Verdict {
        match self.phase {
            Phase::Queued { by } => return Verdict::lost_until(by <= now, Recovery::RetryLack),
            Phase::Dialling { by } => return Verdict::lost(by <= now),
            Phase::Open | Phase::Listed { .. } => {}
        }
        let mut verdict = if self.listing.is_some_and(|by| by <= now) {
            self.list_failed(Recovery::Retry, now, policy)
        } else {
            Verdict::default()
        };
        self.silence(vitals, now, policy, &mut verdict);
        if !self.is_listed() {
            return verdict;
        }
        verdict.may_stop = policy
            .idle_stop
            .is_some_and(|idle| !vitals.busy && now.since(vitals.used) >= idle);
        if matches!(self.phase, Phase::Listed { proof_at: Some(at) } if at <= now) {
            verdict.proof_due = true;
            if verdict.end.is_none() {
                self.phase = Phase::Listed { proof_at: None };
            }
        }
        verdict
    }

    fn silence(&mut self, vitals: Vitals, now: Moment, policy: &Policy, verdict: &mut Verdict) {
        let Some(probe) = &policy.probe else { return };
        match self.asked {
            None => {
                let working = vitals.busy && !vitals.stopped;
                verdict.may_probe = !working && now.since(vitals.heard) >= probe.after_silence;
            }
            Some((_, by)) if now < by => {}
            Some((at, _)) => {
                let alive = (vitals.busy && !vitals.stopped) || vitals.heard > at;
                self.asked = None;
                self.misses = if alive { 0 } else { self.misses + 1 };
                verdict.may_probe = !alive;
                if self.misses >= probe.misses.get() {
                    verdict.end = Some(End::Loss(Recovery::Retry));
                }
            }
        }
    }

    pub(super) fn lists(&mut self, now: Moment, policy: &Policy) -> Result<(), Violation> {
        if self.is_dialling() || self.listing.is_some() || now < self.list_from {
            return Err(Violation::ListingUndue);
        }
        let expired = self.expires.take().is_some_and(|(earliest, _)| earliest <= now);
        if self.is_listed() && !self.owed && !expired {
            return Err(Violation::ListingUndue);
        }
        self.listing = Some(now + policy.limits.list);
        self.list_from = now + policy.relist_pause;
        self.owed = false;
        Ok(())
    }

    pub(super) fn probes(&mut self, verdict: Verdict, now: Moment, policy: &Policy) -> Result<(), Violation> {
        match &policy.probe {
            Some(probe) if verdict.may_probe && self.asked.is_none() => {
                self.asked = Some((now, now + probe.timeout));
                Ok(())
            }
            Some(_) | None => Err(Violation::ProbeUndue),
        }
    }

    pub(super) fn shift(&mut self, shift: &impl Fn(Moment) -> Moment, now: Moment) {
        self.phase = match self.phase {
            Phase::Queued { by } => Phase::Queued { by: shift(by) },
            Phase::Dialling { by } => Phase::Dialling { by: shift(by) },
            Phase::Open => Phase::Open,
            Phase::Listed { proof_at } => Phase::Listed {
                proof_at: proof_at.map(shift),
            },
        };
        self.listing = self.listing.map(shift);
        self.expires = self.expires.map(|(from, to)| (shift(from), shift(to)));
        self.list_from = shift(self.list_from).max(now);
        self.asked = self.asked.map(|(at, by)| (shift(at), shift(by)));
    }
}

/// Whether no passing of time mends it.
fn is_hopeless(recovery: Recovery) -> bool {
    matches!(recovery, Recovery::Login | Recovery::GiveUp)
}
