//! What is known of a server's dialect, and what the next connection begins with.
//!
//! A server that speaks both eras is spoken to in the era in which nothing is lost: that of the one client, where there is one, and otherwise
//! in a session, which has a channel back to the clients.

use super::session_losses::SessionLosses;
use crate::protocol::{Dialect, Era};

/// With this many attempts left, the keeper begins with the other era: before it gives a server up, it has tried both first.
/// Not earlier, since such attempts are wasted if the server is down for another reason.
const LAST_ATTEMPTS_LIMIT: u32 = 2;

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
    /// What the last connection that succeeded speaks.
    learnt: Option<Dialect>,
    /// Whether the next connection begins with the other era. A guess: one failure takes it back.
    guesses: bool,
    session_losses: SessionLosses,
}

impl KnownDialect {
    /// Of a server whose client prefers this era, and that is expected to speak this.
    pub(crate) fn new(preferred: Era, expected: Option<Dialect>) -> Self {
        Self {
            preferred,
            learnt: expected,
            guesses: false,
            session_losses: SessionLosses::default(),
        }
    }

    pub(crate) fn learn(&mut self, dialect: Option<Dialect>) {
        self.learnt = dialect;
        self.guesses = false;
    }

    pub(crate) fn learnt(&self) -> Option<Dialect> {
        self.learnt
    }

    /// The dialect that the next connection begins with.
    pub(crate) fn first(&self) -> Option<Dialect> {
        let preferred = match self.preferred {
            Era::Legacy => None,
            Era::Modern => Some(Dialect::Modern),
        };
        match self.learnt.or(preferred) {
            usual if !self.guesses => usual,
            None | Some(Dialect::Legacy) => Some(Dialect::Modern),
            Some(Dialect::Modern | Dialect::LegacySse) => None,
        }
    }

    /// Takes in that the server lost a session. If it loses too many, the next connection begins without one.
    pub(crate) fn session_lost(&mut self) {
        if self.session_losses.add() {
            self.learn(Some(Dialect::Modern));
        }
    }

    /// Takes in a dial that failed, with this many attempts left.
    pub(crate) fn dial_failed(&mut self, hint: DialectHint, attempts_left: u32) {
        let suggests_other = match hint {
            DialectHint::None => return,
            DialectHint::Forget => return self.learn(None),
            DialectHint::Unanswered => self.learnt.is_none() || attempts_left <= LAST_ATTEMPTS_LIMIT,
            // An old server may have died of the request that it does not know.
            DialectHint::Doubt if self.learnt.is_none() && self.preferred == Era::Modern => true,
            DialectHint::Doubt => attempts_left <= LAST_ATTEMPTS_LIMIT,
        };
        self.guesses = suggests_other && !self.guesses;
    }
}

#[cfg(test)]
mod tests {
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
}
