//! What is known of a server's dialect, and what the next connection begins with.
//!
//! A server that speaks both eras is spoken to in the era in which nothing is lost: that of the one client, where there is one, and otherwise
//! in a session, which has a channel back to the clients. Only a server that refuses `initialize` is known to be modern. One that answers
//! a guess may speak both, so what a guess finds holds for [`GUESS_INTERVAL`] and is not stored.

use std::time::Duration;

use tokio::time::Instant;

use super::session_losses::SessionLosses;
use crate::protocol::{Dialect, Era};

/// With this many attempts left, the keeper begins with the other era: before it gives a server up, it has tried both first.
/// Not earlier, since such attempts are wasted if the server is down for another reason.
const LAST_ATTEMPTS_LIMIT: u32 = 2;

/// How long connections begin without a session after a guess found the server to be modern. Replicas that do not share their sessions lose
/// three of them each time it is over; a server that lost them to restarts is modern no longer than this.
const GUESS_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// What a failed dial says about the server's dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DialectHint {
    /// Nothing: keep what is known.
    None,
    /// What was remembered may have caused it: find it out again.
    Forget,
    /// The server did not answer. If no connection has succeeded yet, the next one begins with the other era.
    Unanswered,
    /// A server that fails again and again may have changed; one that fails once has mostly just failed.
    Doubt,
}

/// What the connections of one server found out.
#[derive(Debug)]
pub(crate) struct KnownDialect {
    /// What a connection begins with if nothing is learnt.
    preferred: Era,
    /// What the last connection that succeeded speaks, if that was no guess.
    learnt: Option<Dialect>,
    /// Whether the next connection begins with the other era. One failure takes it back.
    guesses: bool,
    /// What the last connection began with.
    began: Option<Dialect>,
    /// Until when connections begin in the modern era, because a guess found it.
    modern_until: Option<Instant>,
    session_losses: SessionLosses,
}

impl KnownDialect {
    /// Of a server whose client prefers this era, and that is expected to speak this.
    pub(crate) fn new(preferred: Era, expected: Option<Dialect>) -> Self {
        Self {
            preferred,
            learnt: expected,
            guesses: false,
            began: None,
            modern_until: None,
            session_losses: SessionLosses::default(),
        }
    }

    pub(crate) fn learn(&mut self, dialect: Option<Dialect>) {
        self.learnt = dialect;
        self.guesses = false;
        self.modern_until = None;
    }

    pub(crate) fn learnt(&self) -> Option<Dialect> {
        self.learnt
    }

    /// Forgets what a guess found: the next connection begins with a session, if the server may have any.
    pub(crate) fn forget_guess(&mut self) {
        self.guesses = false;
        self.modern_until = None;
    }

    /// Whether the time is over for which a guess holds.
    pub(crate) fn is_guess_over(&self) -> bool {
        self.modern_until.is_some_and(|until| until <= Instant::now())
    }

    /// The dialect that the connection begins with which opens now.
    pub(crate) fn begin(&mut self) -> Option<Dialect> {
        self.began = self.first();
        self.began
    }

    fn first(&self) -> Option<Dialect> {
        match self.usual() {
            usual if !self.guesses => usual,
            None | Some(Dialect::Legacy) => Some(Dialect::Modern),
            Some(Dialect::Modern | Dialect::LegacySse) => None,
        }
    }

    fn usual(&self) -> Option<Dialect> {
        let preferred = match self.preferred {
            Era::Legacy => None,
            Era::Modern => Some(Dialect::Modern),
        };
        self.known().or(preferred)
    }

    fn known(&self) -> Option<Dialect> {
        if self.modern_until.is_some() && !self.is_guess_over() {
            return Some(Dialect::Modern);
        }
        self.learnt
    }

    /// Takes in what the connection speaks that has opened. Returns whether a guess found that from now on: a server that has not refused
    /// `initialize` may speak both eras.
    pub(crate) fn opened(&mut self, dialect: Dialect) -> bool {
        let is_guess = dialect == Dialect::Modern
            && self.began == Some(Dialect::Modern)
            && self.learnt != Some(Dialect::Modern)
            && self.preferred != Era::Modern;
        if !is_guess {
            self.learn(Some(dialect));
            return false;
        }
        self.guesses = false;
        let is_new = self.modern_until.is_none() || self.is_guess_over();
        if is_new {
            self.modern_until = Some(Instant::now() + GUESS_INTERVAL);
        }
        is_new
    }

    /// Takes in that the server lost a session. If it loses too many, the next connection begins without one.
    pub(crate) fn session_lost(&mut self) {
        if self.session_losses.add() {
            self.guesses = true;
        }
    }

    /// Takes in that the server was down, which explains the session that it lost before or loses next.
    pub(crate) fn was_down(&mut self) {
        self.session_losses.forget();
    }

    /// Takes in a dial that failed, with this many attempts left.
    pub(crate) fn dial_failed(&mut self, hint: DialectHint, attempts_left: u32) {
        let known = self.known();
        let suggests_other = match hint {
            DialectHint::None => return,
            DialectHint::Forget => return self.learn(None),
            // The server that a guess found did not take a session now either.
            DialectHint::Unanswered | DialectHint::Doubt if self.is_guess_over() => true,
            DialectHint::Unanswered => known.is_none() || attempts_left <= LAST_ATTEMPTS_LIMIT,
            // An old server may have died of the request that it does not know.
            DialectHint::Doubt if known.is_none() && self.preferred == Era::Modern => true,
            DialectHint::Doubt => attempts_left <= LAST_ATTEMPTS_LIMIT,
        };
        self.guesses = suggests_other && !self.guesses;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const MANY: u32 = LAST_ATTEMPTS_LIMIT + 1;
    const FEW: u32 = LAST_ATTEMPTS_LIMIT;

    fn after(learnt: Option<Dialect>, failures: &[(DialectHint, u32)]) -> Option<Dialect> {
        let mut known = KnownDialect::new(Era::Legacy, learnt);
        for &(hint, attempts_left) in failures {
            known.dial_failed(hint, attempts_left);
        }
        known.first()
    }

    #[test]
    fn the_other_era_is_tried_after_a_silence_and_before_a_server_is_given_up() {
        use DialectHint::{Doubt, Forget, None as Nothing, Unanswered};
        let (legacy, modern) = (Some(Dialect::Legacy), Some(Dialect::Modern));
        for (learnt, hint, attempts_left, first) in [
            (legacy, Nothing, FEW, legacy),
            (modern, Forget, MANY, None),
            (None, Unanswered, MANY, modern),
            (legacy, Unanswered, MANY, legacy),
            (modern, Unanswered, MANY, modern),
            (modern, Unanswered, FEW, None),
            (None, Doubt, MANY, None),
            (None, Doubt, FEW, modern),
            (legacy, Doubt, FEW, modern),
            (Some(Dialect::LegacySse), Doubt, FEW, None),
        ] {
            let failed = after(learnt, &[(hint, attempts_left)]);
            assert_eq!(failed, first, "{learnt:?} {hint:?} {attempts_left}");
        }
    }

    #[test]
    fn a_server_of_a_modern_client_is_asked_in_its_way_first_and_in_the_old_one_if_it_dies() {
        let mut known = KnownDialect::new(Era::Modern, None);
        assert_eq!(known.first(), Some(Dialect::Modern));
        known.dial_failed(DialectHint::Doubt, MANY);
        assert_eq!(known.first(), None);
        known.learn(Some(Dialect::Legacy));
        known.dial_failed(DialectHint::Doubt, MANY);
        assert_eq!(known.first(), Some(Dialect::Legacy));
    }

    #[test]
    fn a_guess_that_fails_is_taken_back() {
        for failure in [DialectHint::Doubt, DialectHint::Unanswered] {
            let failures = [(DialectHint::Unanswered, MANY), (failure, MANY)];
            assert_eq!(after(None, &failures), None, "{failure:?}");
        }
        let legacy = Some(Dialect::Legacy);
        let failures = [(DialectHint::Doubt, 2), (DialectHint::Doubt, 1)];
        assert_eq!(after(legacy, &failures), legacy);
    }

    fn of_legacy() -> KnownDialect {
        let mut known = KnownDialect::new(Era::Legacy, None);
        known.begin();
        assert!(!known.opened(Dialect::Legacy));
        known
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_guess_finds_holds_for_an_hour_and_is_not_learnt() {
        let lost_sessions = |known: &mut KnownDialect| (0..3).for_each(|_loss| known.session_lost());
        let unanswered = |known: &mut KnownDialect| known.dial_failed(DialectHint::Unanswered, FEW);
        let guesses: [&dyn Fn(&mut KnownDialect); 2] = [&lost_sessions, &unanswered];
        for guess in guesses {
            let mut known = of_legacy();
            guess(&mut known);
            assert_eq!(known.begin(), Some(Dialect::Modern));
            assert!(known.opened(Dialect::Modern), "a person is told");
            assert_eq!(known.learnt(), Some(Dialect::Legacy));
            advance(GUESS_INTERVAL - Duration::from_secs(1)).await;
            assert_eq!(
                (known.begin(), known.is_guess_over()),
                (Some(Dialect::Modern), false)
            );
            assert!(!known.opened(Dialect::Modern), "and told once");
            advance(Duration::from_secs(1)).await;
            assert_eq!(
                (known.begin(), known.is_guess_over()),
                (Some(Dialect::Legacy), true)
            );
            assert!(!known.opened(Dialect::Legacy));
            assert!(!known.is_guess_over(), "it is forgotten");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_takes_no_session_after_an_hour_either_costs_one_attempt() {
        let mut known = KnownDialect::new(Era::Legacy, None);
        known.dial_failed(DialectHint::Unanswered, MANY);
        known.begin();
        assert!(known.opened(Dialect::Modern));
        for hint in [DialectHint::Unanswered, DialectHint::Doubt] {
            advance(GUESS_INTERVAL).await;
            assert_eq!(known.begin(), None);
            known.dial_failed(hint, MANY);
            assert_eq!(known.begin(), Some(Dialect::Modern));
            assert!(known.opened(Dialect::Modern));
        }
    }

    #[test]
    fn a_server_that_lost_sessions_and_knows_no_other_way_gets_the_next_one_at_once() {
        let mut known = of_legacy();
        (0..3).for_each(|_loss| known.session_lost());
        assert_eq!(known.begin(), Some(Dialect::Modern));
        known.dial_failed(DialectHint::Doubt, MANY);
        assert_eq!(
            known.begin(),
            Some(Dialect::Legacy),
            "the question may have ended it"
        );
    }

    #[test]
    fn a_server_that_loses_its_sessions_because_it_restarts_keeps_getting_them() {
        let mut known = of_legacy();
        for _restart in 0..4 {
            known.was_down();
            known.session_lost();
            assert_eq!(known.begin(), Some(Dialect::Legacy));
        }
        (0..2).for_each(|_loss| known.session_lost());
        assert_eq!(known.begin(), Some(Dialect::Modern), "it was up meanwhile");
    }

    #[test]
    fn a_server_that_refuses_initialize_is_learnt_to_be_modern() {
        let mut known = KnownDialect::new(Era::Legacy, None);
        assert_eq!(known.begin(), None);
        assert!(!known.opened(Dialect::Modern));
        assert_eq!(known.learnt(), Some(Dialect::Modern));
        known.begin();
        assert!(!known.opened(Dialect::Modern));
        assert_eq!(known.learnt(), Some(Dialect::Modern));
    }
}
