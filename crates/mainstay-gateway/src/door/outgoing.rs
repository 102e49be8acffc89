//! Messages to a client. A large payload is sent from where it lies: a list that several clients are sent is not copied.

use bytes::Bytes;
use mainstay::gateway::message::{self, RawJson, RpcError};

use crate::answer_kind::AnswerKind;
use crate::budget::{Account, Spent};
use crate::router::CacheHint;

/// Messages of up to this length are copied into one buffer; the payload of a longer one is sent from where it lies.
pub(super) const COPY_LIMIT: usize = 16 * 1024;

/// A message to a client, as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OutgoingMessage {
    Whole(Bytes),
    /// What comes before the payload of an answer, the payload, and what comes after it.
    Pieces([Bytes; 3]),
}

/// The answer to a request, before it is written.
pub(super) struct RequestAnswer {
    pub(super) id: RawJson,
    pub(super) result: Result<RawJson, RpcError>,
    pub(super) kind: AnswerKind,
    /// How the client may cache a list. Added as the list is sent, so that all clients share the list itself.
    pub(super) hint: Option<CacheHint>,
}

impl RequestAnswer {
    /// Writes the answer and charges it to its client, if it fits into the client's budget.
    pub(super) fn write(&self, account: &Account) -> Result<OutgoingMessage, Spent> {
        if !self.is_large() {
            return account.charge_message(self.line()).map(OutgoingMessage::Whole);
        }
        let [head, mut payload, mut tail] = message::response_in_pieces(&self.id, &self.result);
        if let Some(hint) = self.hint {
            payload.truncate(payload.len() - 1);
            tail = Bytes::from(hint.members() + "}}");
        }
        let payload = match self.kind {
            AnswerKind::List => account.charge_shared(payload)?,
            AnswerKind::ToolCall(_) | AnswerKind::Other => account.charge(payload)?,
        };
        Ok(OutgoingMessage::Pieces([head, payload, tail]))
    }

    /// What is answered instead, where the answer does not fit.
    pub(super) fn instead(&self, spent: Spent) -> Bytes {
        message::response(&self.id, &self.kind.dropped(spent))
    }

    /// Writes the answer, or one that says why it does not fit.
    pub(super) fn write_or_refuse(&self, account: &Account) -> OutgoingMessage {
        let written = self.write(account);
        written.unwrap_or_else(|spent| OutgoingMessage::Whole(self.refuse(spent, account)))
    }

    /// The same in one piece, as a part of a batch.
    pub(super) fn write_line(&self, account: &Account) -> Bytes {
        let line = account
            .hold(self.payload().as_bytes().len())
            .map(|held| held.attach(self.line()));
        line.unwrap_or_else(|spent| self.refuse(spent, account))
    }

    /// The answer as one line, copied.
    pub(super) fn line(&self) -> Bytes {
        let line = message::response(&self.id, &self.result);
        let Some(hint) = self.hint else { return line };
        let mut line = Vec::from(line);
        // The braces that close the list and the answer.
        line.truncate(line.len() - 2);
        line.extend_from_slice(hint.members().as_bytes());
        line.extend_from_slice(b"}}");
        line.into()
    }

    /// Whether the payload is sent from where it lies.
    pub(super) fn is_large(&self) -> bool {
        self.payload().as_bytes().len() >= COPY_LIMIT
    }

    fn refuse(&self, spent: Spent, account: &Account) -> Bytes {
        account.charge_in_any_case(self.instead(spent))
    }

    fn payload(&self) -> &RawJson {
        match &self.result {
            Ok(result) => result,
            Err(error) => error.raw(),
        }
    }
}

impl OutgoingMessage {
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

impl From<Bytes> for OutgoingMessage {
    fn from(line: Bytes) -> Self {
        Self::Whole(line)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mainstay::Era;

    use super::*;
    use crate::budget::{Budget, BudgetLimits, MIB};
    use crate::principal::Principal;

    fn answered(bytes: usize, kind: AnswerKind) -> RequestAnswer {
        RequestAnswer {
            id: RawJson::from(7),
            result: Ok(RawJson::from_value(&"x".repeat(bytes)).unwrap()),
            kind,
            hint: None,
        }
    }

    #[test]
    fn a_cache_hint_is_added_to_a_list_of_any_length_which_is_still_shared() {
        let budget = Arc::new(Budget::default());
        let account = budget.account(Principal::session(1));
        for length in [1, COPY_LIMIT] {
            let page = format!(r#"{{"tools":["{}"]}}"#, "x".repeat(length));
            let page = RawJson::from_text(page).unwrap();
            let answer = |hint| RequestAnswer {
                id: RawJson::from(7),
                result: Ok(page.clone()),
                kind: AnswerKind::List,
                hint,
            };
            let hinted = answer(Some(CacheHint::NONE));
            let written = hinted.write(&account).unwrap();
            let line = written.pieces().concat();
            assert_eq!(hinted.line(), line);
            assert_eq!(hinted.write_line(&account), line);
            let line: serde_json::Value = serde_json::from_slice(&line).unwrap();
            assert_eq!(
                (&line["result"]["ttlMs"], &line["result"]["cacheScope"]),
                (&0.into(), &"private".into())
            );
            assert_eq!(line["result"]["tools"][0].as_str().unwrap().len(), length);
            if let OutgoingMessage::Pieces([_, payload, _]) = &written {
                assert_eq!(payload.as_ptr(), page.as_bytes().as_ptr());
                let held = budget.held();
                let again = answer(Some(CacheHint::NONE)).write(&account).unwrap();
                assert_eq!(budget.held(), held, "a list that is held already costs nothing");
                drop(again);
            }
        }
    }

    #[test]
    fn a_shared_payload_is_charged_once_and_copied_for_no_client() {
        let budget = Arc::new(Budget::new(BudgetLimits {
            all: 4 * MIB,
            share: None,
        }));
        let list = answered(3 * MIB, AnswerKind::List);
        let payload = list.payload().as_bytes().as_ptr();
        let unread: Vec<OutgoingMessage> = (0..100)
            .map(|session| list.write(&budget.account(Principal::session(session))).unwrap())
            .collect();
        for sent in &unread {
            let OutgoingMessage::Pieces([_, sent, _]) = sent else {
                panic!("in one piece");
            };
            assert_eq!(sent.as_ptr(), payload);
        }
        let charged = list.payload().as_bytes().len();
        assert_eq!(budget.held(), charged);
        let changed = answered(3 * MIB, AnswerKind::List);
        let account = budget.account(Principal::session(1));
        assert!(
            changed.write(&account).is_err(),
            "a second copy has to be charged too"
        );
        drop(unread);
        assert_eq!(budget.held(), 0);
        assert!(changed.write(&account).is_ok());
    }

    #[test]
    fn an_answer_that_does_not_fit_becomes_an_error_that_says_what_to_do() {
        let budget = Arc::new(Budget::new(BudgetLimits {
            all: 4 * MIB,
            share: Some(2 * MIB),
        }));
        let account = budget.account(Principal::session(1));
        let call = answered(3 * MIB / 2, AnswerKind::ToolCall(Era::Modern));
        let first = call.write_or_refuse(&account);
        assert_eq!(first.len(), message::response(&call.id, &call.result).len());
        let read = |refused: OutgoingMessage| -> serde_json::Value {
            let OutgoingMessage::Whole(line) = refused else {
                panic!("in pieces");
            };
            serde_json::from_slice(&line).unwrap()
        };
        let list = answered(3 * MIB / 2, AnswerKind::List);
        let other = answered(3 * MIB / 2, AnswerKind::Other);
        for written in [
            RequestAnswer::write_or_refuse,
            |answer: &RequestAnswer, account: &Account| answer.write_line(account).into(),
        ] {
            let refused = read(written(&list, &account));
            assert_eq!(
                (&refused["id"], &refused["error"]["code"]),
                (&7.into(), &(-32000).into())
            );
            let words = refused["error"]["message"].as_str().unwrap();
            assert!(words.contains("(2 MiB): read the answers that wait"), "{words}");
            // What has run must not be taken for refused.
            let refused = read(written(&other, &account));
            assert_eq!(
                refused["error"]["data"]["mainstay"]["outcome"], "answered",
                "{refused}"
            );
            let refused = &read(written(&call, &account))["result"];
            assert_eq!(refused["_meta"]["mainstay"]["outcome"], "answered", "{refused}");
            assert_eq!(
                (&refused["isError"], &refused["resultType"]),
                (&true.into(), &"complete".into())
            );
            let words = refused["content"][0]["text"].as_str().unwrap();
            assert!(
                words.contains("has run") && !words.contains("try again"),
                "{words}"
            );
        }
        drop(first);
        assert_eq!(budget.held(), 0);
        assert!(call.write(&account).is_ok());
    }
}
