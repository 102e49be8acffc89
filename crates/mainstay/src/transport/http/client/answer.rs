//! Whether a received message answers a certain request, read no deeper than must be.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::wire::{RawJson, RpcError, our_number};

/// What a message is to the request on whose stream it came.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::transport) enum Relation {
    /// Its answer, or a batch, which may hold it.
    Answer,
    /// An error that says not whom it answers; here is the answer it stands for.
    Nameless(Bytes),
    /// Something else: a notification, a request, another's answer, garbage.
    Other,
}

impl Relation {
    pub(in crate::transport) fn of(message: &Bytes, id: u64) -> Self {
        let text = message.trim_ascii();
        if text.starts_with(b"[") || is_plainly_answer(text, id) {
            return Self::Answer;
        }
        let Ok(fields) = serde_json::from_slice::<Fields<'_>>(text) else {
            return Self::Other;
        };
        let error = fields.error.filter(|error| error.get() != "null");
        if fields.method.is_some() || (error.is_none() && fields.result.is_none()) {
            return Self::Other;
        }
        let own = fields
            .id
            .and_then(|own| our_number(&RawJson::from_text(own.get()).ok()?));
        match (fields.id.map(RawValue::get), error) {
            (Some("null") | None, Some(error)) => {
                let error = error.get();
                Self::Nameless(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#).into())
            }
            (Some(_), _) if own == Some(id) => Self::Answer,
            (Some(_) | None, _) => Self::Other,
        }
    }
}

/// The protocol version in the answer to `initialize`.
pub(super) fn negotiated(answer: &Bytes) -> Option<String> {
    let answer: Initialized<'_> = serde_json::from_slice(answer).ok()?;
    Some(answer.result?.version?.into_owned())
}

/// Whether an answer says that the server has no such method.
pub(super) fn lacks_method(answer: &Bytes) -> bool {
    let failed = serde_json::from_slice::<ErrorAnswer>(answer);
    failed.is_ok_and(|failed| failed.error.code == RpcError::METHOD_NOT_FOUND)
}

/// Recognizes the two forms in which nearly all servers write an answer without reading all of it.
fn is_plainly_answer(text: &[u8], id: u64) -> bool {
    let after_id = text
        .strip_prefix(format!(r#"{{"jsonrpc":"2.0","id":{id},"#).as_bytes())
        .is_some_and(|rest| rest.starts_with(br#""result":"#) || rest.starts_with(br#""error":"#));
    let before_id = (text.starts_with(br#"{"result":"#) || text.starts_with(br#"{"error":"#))
        && text.ends_with(format!(r#","id":{id}}}"#).as_bytes());
    after_id || before_id
}

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    method: Option<IgnoredAny>,
    result: Option<IgnoredAny>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ErrorAnswer {
    error: Code,
}

#[derive(Deserialize)]
struct Code {
    code: i64,
}

#[derive(Deserialize)]
struct Initialized<'a> {
    #[serde(borrow)]
    result: Option<InitializeResult<'a>>,
}

#[derive(Deserialize)]
struct InitializeResult<'a> {
    #[serde(borrow, rename = "protocolVersion")]
    version: Option<Cow<'a, str>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(message: &'static str) -> Relation {
        Relation::of(&Bytes::from_static(message.as_bytes()), 7)
    }

    #[test]
    fn an_answer_is_told_from_what_is_none() {
        for answer in [
            r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":""}}"#,
            "{\"result\":{\"a\":1},\"jsonrpc\":\"2.0\",\"id\":7}\n",
            r#"{ "id" : "7", "result": {} }"#,
            r#"{"jsonrpc":"2.0","id":7.0,"result":{}}"#,
            r#"[{"id":7,"result":{}}]"#,
        ] {
            assert_eq!(of(answer), Relation::Answer, "{answer}");
        }
        for other in [
            r#"{"jsonrpc":"2.0","id":70,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":7.5,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#,
            r#"{"method":"ping","jsonrpc":"2.0","id":7}"#,
            r#"{"result":{"x":{"id":7}},"jsonrpc":"2.0","id":8}"#,
            r#"{"method":"notifications/message"}"#,
            "<html>",
            "",
        ] {
            assert_eq!(of(other), Relation::Other, "{other}");
        }
    }

    #[test]
    fn an_error_without_an_id_is_given_one() {
        let expected = r#"{"jsonrpc":"2.0","id":7,"error":{"code": -32000,"x":1}}"#;
        for nameless in [
            r#"{"jsonrpc":"2.0","error":{"code": -32000,"x":1},"id":null}"#,
            r#"{"jsonrpc":"2.0","error":{"code": -32000,"x":1}}"#,
        ] {
            assert_eq!(
                of(nameless),
                Relation::Nameless(Bytes::from(expected)),
                "{nameless}"
            );
        }
    }

    #[test]
    fn the_version_is_read_from_the_answer_to_initialize() {
        let answer = Bytes::from(r#"{"id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{}}}"#);
        assert_eq!(negotiated(&answer).as_deref(), Some("2025-06-18"));
        assert_eq!(negotiated(&Bytes::from(r#"{"id":1,"error":{}}"#)), None);
    }
}
