//! Finds the id of a request that is too long to be read, in the first and last bytes of its line, so that its refusal reaches the
//! caller that waits for it.
//!
//! It must not guess: an error with the id of an answer would fail another request. So there must be a method, only members of the
//! top level count, and a line of several messages has no id.

use std::fmt;

use mainstay::gateway::message::RawJson;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// How many bytes of each end of a line are kept. Ids and methods are short; hosts write them before the parameters or behind them.
pub(super) const END_LENGTH: usize = 4 * 1024;

/// The id of the request with this start and end, if both say that it is one. The two may overlap.
pub(super) fn request_id(head: &[u8], tail: &[u8]) -> Option<RawJson> {
    if head.trim_ascii_start().first() != Some(&b'{') {
        return None;
    }
    let mut members = EnvelopeMembers::default();
    members.read(head);
    if members.id.is_none() || !members.has_method {
        members.add(&last_members(tail)?);
    }
    let id = members.id.filter(|id| id.is_string() || id.is_number())?;
    (members.has_method && !members.is_answer).then(|| RawJson::from_value(&id).ok())?
}

/// What the top level of a message shows, as far as it was read.
#[derive(Default)]
struct EnvelopeMembers {
    id: Option<Value>,
    has_method: bool,
    is_answer: bool,
}

impl EnvelopeMembers {
    /// Reads members until the bytes end.
    fn read(&mut self, bytes: &[u8]) {
        let mut reader = serde_json::Deserializer::from_slice(bytes);
        // The end of the bytes is an error, and what came before it counts.
        let _ = (&mut reader).deserialize_map(MembersVisitor(self));
    }

    fn add(&mut self, other: &Self) {
        self.id = self.id.take().or_else(|| other.id.clone());
        self.has_method |= other.has_method;
        self.is_answer |= other.is_answer;
    }
}

struct MembersVisitor<'a>(&'a mut EnvelopeMembers);

impl<'de> Visitor<'de> for MembersVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        // The bytes may end inside of a number, so an id counts only when more was read behind it.
        let mut id = None;
        while let Some(key) = map.next_key::<String>()? {
            self.0.id = self.0.id.take().or(id.take());
            match key.as_str() {
                "id" => id = Some(map.next_value()?),
                "method" => {
                    self.0.has_method = true;
                    map.next_value::<IgnoredAny>()?;
                }
                "result" | "error" => {
                    self.0.is_answer = true;
                    map.next_value::<IgnoredAny>()?;
                }
                _other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        self.0.id = self.0.id.take().or(id);
        Ok(())
    }
}

/// The last members of the object that ends with these bytes: those from `"id"` on.
fn last_members(tail: &[u8]) -> Option<EnvelopeMembers> {
    // The parts that follow a quoted `id` inside of a value do not end with the brace of the whole message.
    let starts = (0..tail.len())
        .rev()
        .filter(|&at| tail[at..].starts_with(b"\"id\""));
    let mut starts = starts.take(START_LIMIT);
    starts.find_map(|start| {
        let members = [&b"{"[..], &tail[start..]].concat();
        serde_json::from_slice::<WholeObject>(&members)
            .ok()
            .map(|whole| whole.0)
    })
}

/// At how many places the last members are looked for.
const START_LIMIT: usize = 16;

struct WholeObject(EnvelopeMembers);

impl<'de> Deserialize<'de> for WholeObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut members = EnvelopeMembers::default();
        deserializer.deserialize_map(MembersVisitor(&mut members))?;
        Ok(Self(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(head: &str, tail: &str, expected: Option<&str>) {
        let found = request_id(head.as_bytes(), tail.as_bytes());
        let found = found.as_ref().map(RawJson::as_str);
        assert_eq!(found, expected, "{head} … {tail}");
    }

    #[test]
    fn the_id_of_a_request_is_found_before_its_parameters_and_behind_them() {
        check(
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"x":"aa"#,
            "",
            Some("7"),
        );
        check(
            r#" { "id" : "a b" , "method":"m","params":{"id":8,"#,
            "",
            Some(r#""a b""#),
        );
        let head = r#"{"method":"tools/call","params":{"arguments":{"id":8,"x":"aaa"#;
        check(head, "aaa\"}},\"jsonrpc\":\"2.0\",\"id\":7}\n", Some("7"));
        check(
            head,
            r#"aaa"}}, "id": "seven", "jsonrpc": "2.0" }"#,
            Some(r#""seven""#),
        );
        check(
            r#"{"params":{"x":"aaa"#,
            r#"aaa"},"id":7,"method":"m"}"#,
            Some("7"),
        );
    }

    #[test]
    fn what_may_be_no_request_or_another_id_has_none() {
        let head = r#"{"method":"m","params":{"x":"aaa"#;
        for (head, tail) in [
            // An answer, a notification, a batch, and no message at all.
            (r#"{"jsonrpc":"2.0","id":7,"result":{"x":"#, ""),
            (r#"{"result":{"method":"m","x":"aaa"#, r#"aaa"},"id":7}"#),
            (r#"{"jsonrpc":"2.0","method":"m","params":{"x":"#, r#"aaa"}}"#),
            (
                r#"[{"jsonrpc":"2.0","id":7,"method":"m","params":{"#,
                r#"},"id":7}"#,
            ),
            ("garbage", r#","method":"m","id":7}"#),
            (r#"{"id":7,"x":"aaa"#, r#"aaa"}"#),
            (r#"{"x":"aaa"#, r#"aaa","id":7}"#),
            // Both a request and an answer.
            (r#"{"id":7,"method":"m","result":{"x":"aaa"#, r#"aaa"}}"#),
            // An id that is not of the top level, that is cut off, or that is no id.
            (head, r#"{"id":8}}"#),
            (head, r#"{"id":8}],"x":[{"id":8}]}"#),
            (head, r#"aaa \"id\":8}"#),
            (r#"{"method":"m","id":12"#, ""),
            (r#"{"method":"m","id":{"a":1},"params":"#, ""),
        ] {
            check(head, tail, None);
        }
    }
}
