//! A message on its way to a client. A large payload stays where it lies: what several clients are answered with, such as a
//! list, is not copied for each of them.

use bytes::Bytes;
use mainstay::gateway::message::{self, RawJson, RpcError};

use crate::budget::{Account, Spent};

/// A payload of this length or more is sent from where it lies.
pub(super) const LARGE: usize = 16 * 1024;

/// A message on its way to a client: one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outgoing {
    Whole(Bytes),
    /// What comes before the payload of an answer, the payload, and what comes after it.
    Pieces([Bytes; 3]),
}

/// What a request is answered with, before it is written.
pub(super) struct Answered {
    pub(super) id: RawJson,
    pub(super) result: Result<RawJson, RpcError>,
    /// The payload is the catalog's: it is not held for this client.
    pub(super) is_shared: bool,
}

impl Answered {
    /// The answer as it goes to its client, if it can be held for it.
    pub(super) fn write(&self, account: &Account) -> Result<Outgoing, Spent> {
        let Self {
            id,
            result,
            is_shared,
        } = self;
        if !self.is_large() {
            return account.charge(message::response(id, result)).map(Outgoing::Whole);
        }
        let [head, payload, tail] = message::response_in_pieces(id, result);
        let payload = if *is_shared {
            payload
        } else {
            account.charge(payload)?
        };
        Ok(Outgoing::Pieces([head, payload, tail]))
    }

    /// The same; an answer that cannot be held becomes an error that says so.
    pub(super) fn outgoing(&self, account: &Account) -> Outgoing {
        let written = self.write(account);
        written.unwrap_or_else(|spent| Outgoing::Whole(self.refused(spent, account)))
    }

    /// The same in one piece, as a part of a batch.
    pub(super) fn line(&self, account: &Account) -> Bytes {
        let line = account
            .hold(self.payload().as_bytes().len())
            .map(|held| held.attach(message::response(&self.id, &self.result)));
        line.unwrap_or_else(|spent| self.refused(spent, account))
    }

    /// Whether the payload is sent from where it lies.
    pub(super) fn is_large(&self) -> bool {
        self.payload().as_bytes().len() >= LARGE
    }

    fn refused(&self, spent: Spent, account: &Account) -> Bytes {
        account.charge_in_any_case(message::response(&self.id, &Err(spent.into())))
    }

    fn payload(&self) -> &RawJson {
        match &self.result {
            Ok(result) => result,
            Err(error) => error.raw(),
        }
    }
}

impl Outgoing {
    pub(super) fn len(&self) -> usize {
        self.pieces().iter().map(Bytes::len).sum()
    }

    pub(super) fn pieces(&self) -> &[Bytes] {
        match self {
            Self::Whole(line) => std::slice::from_ref(line),
            Self::Pieces(pieces) => pieces,
        }
    }
}

impl From<Bytes> for Outgoing {
    fn from(line: Bytes) -> Self {
        Self::Whole(line)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::budget::{Budget, Limits, MIB};
    use crate::principal::Principal;

    fn answered(bytes: usize, is_shared: bool) -> Answered {
        Answered {
            id: RawJson::from(7),
            result: Ok(RawJson::from_value(&"x".repeat(bytes)).unwrap()),
            is_shared,
        }
    }

    #[test]
    fn a_shared_payload_is_held_for_nobody_and_copied_for_nobody() {
        let budget = Arc::new(Budget::new(Limits {
            all: 4 * MIB,
            share: None,
        }));
        let answered = answered(3 * MIB, true);
        let payload = answered.payload().as_bytes().as_ptr();
        for session in 0..100 {
            let account = budget.account(Principal::Session(session));
            let Outgoing::Pieces([_, sent, _]) = answered.write(&account).unwrap() else {
                panic!("in one piece");
            };
            assert_eq!(sent.as_ptr(), payload);
        }
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn an_answer_that_does_not_fit_becomes_an_error_that_says_how_to_mend_it() {
        let budget = Arc::new(Budget::new(Limits {
            all: 4 * MIB,
            share: Some(2 * MIB),
        }));
        let account = budget.account(Principal::Session(1));
        let answered = answered(3 * MIB / 2, false);
        let first = answered.outgoing(&account);
        assert_eq!(
            first.len(),
            message::response(&answered.id, &answered.result).len()
        );
        for refused in [answered.outgoing(&account), answered.line(&account).into()] {
            let Outgoing::Whole(line) = refused else {
                panic!("in pieces");
            };
            let refused: serde_json::Value = serde_json::from_slice(&line).unwrap();
            assert_eq!(
                (&refused["id"], &refused["error"]["code"]),
                (&7.into(), &(-32000).into())
            );
            let words = refused["error"]["message"].as_str().unwrap();
            assert!(words.contains("(2 MiB): read the answers that wait"), "{words}");
        }
        drop(first);
        assert_eq!(budget.held(), 0);
        assert!(answered.write(&account).is_ok());
    }
}
