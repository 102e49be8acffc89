//! Tells what a received message is, by its envelope alone.
//!
//! The payloads are slices of the message. The reading is lenient where servers are known to be sloppy (`"id": null` on
//! a notification, `"error": null` beside a result, a wrong `jsonrpc`), since a message that can be understood is worth
//! more than one that is well formed.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use bytestring::ByteString;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::failure::BadAnswer;
use super::raw::RawJson;
use super::rpc_error::RpcError;
use crate::large;

/// The most messages in one batch. Mainstay asks for no batches, so a longer one would only take memory. A fuzzer's
/// inputs are short, so it gets a limit that they can exceed.
const BATCH_LIMIT: usize = if cfg!(fuzzing) { 64 } else { 4096 };

/// What a message is. Its payloads share the memory of the message.
#[derive(Debug, PartialEq)]
pub enum Message<'a> {
    /// It wants an answer.
    Request {
        /// What the answer must name: a string or a number, as it came.
        id: RawJson,
        /// The method.
        method: Cow<'a, str>,
        /// With which parameters.
        params: Option<RawJson>,
    },
    /// It wants none.
    Notification {
        /// The method.
        method: Cow<'a, str>,
        /// With which parameters.
        params: Option<RawJson>,
    },
    /// It is an answer.
    Response {
        /// To which request.
        id: RawJson,
        /// The answer itself.
        result: Result<RawJson, RpcError>,
    },
    /// Several messages, to be read one by one; none of them is a batch, and some may be no messages.
    Batch(Vec<Bytes>),
    /// No message.
    Garbage(BadAnswer),
}

impl<'a> Message<'a> {
    /// Reads the envelope of a message.
    pub fn read(message: &'a Bytes) -> Self {
        let read = match message.trim_ascii_start().first() {
            Some(b'{') => Self::read_one(message),
            Some(b'[') => read_batch(message).map(Self::Batch),
            Some(_) | None => None,
        };
        read.unwrap_or_else(|| Self::Garbage(garbage(message)))
    }

    /// Reads the envelope of a message, on a thread that may block where it is large.
    ///
    /// Cancel safety: dropping it changes nothing.
    pub async fn read_any(message: &'a Bytes) -> Self {
        if message.len() <= large::INLINE_LIMIT {
            return Self::read(message);
        }
        let whole = message.clone();
        large::process(message.len(), move || Message::read(&whole).into_owned()).await
    }

    /// The same message, borrowing nothing.
    fn into_owned(self) -> Message<'static> {
        match self {
            Self::Request { id, method, params } => Message::Request {
                id,
                method: Cow::Owned(method.into_owned()),
                params,
            },
            Self::Notification { method, params } => Message::Notification {
                method: Cow::Owned(method.into_owned()),
                params,
            },
            Self::Response { id, result } => Message::Response { id, result },
            Self::Batch(messages) => Message::Batch(messages),
            Self::Garbage(what) => Message::Garbage(what),
        }
    }

    fn read_one(message: &'a Bytes) -> Option<Self> {
        // Seen to be UTF-8 as a whole, it need not be looked at again piece by piece.
        let whole = ByteString::try_from(message.clone()).ok()?;
        let fields: Fields<'_> = serde_json::from_str(&whole).ok()?;
        let part = |raw: &RawValue| RawJson::part_of(&whole, raw);
        let error = fields.error.filter(|raw| raw.get() != "null");
        let params = fields.params.filter(|raw| raw.get() != "null").map(part);
        let has_answer = error.is_some() || fields.result.is_some_and(|raw| raw.get() != "null");

        if let Some(method) = fields.method.filter(|raw| raw.get() != "null" && !has_answer) {
            let method = text(message, method)?;
            return match fields.id.filter(|raw| raw.get() != "null") {
                None => Some(Self::Notification { method, params }),
                Some(id) if is_id(id) => Some(Self::Request {
                    id: part(id),
                    method,
                    params,
                }),
                Some(_) => None,
            };
        }
        let result = match (error, fields.result) {
            (Some(error), _) => Err(RpcError::read(part(error))),
            (None, Some(result)) => Ok(part(result)),
            (None, None) => return None,
        };
        Some(Self::Response {
            id: fields.id.map_or(RawJson::NULL, part),
            result,
        })
    }
}

/// The number of a request of ours in an `id` or token. Some servers send it back as a string, or as `1.0`.
pub(crate) fn our_number(id: &RawJson) -> Option<u64> {
    let digits = id.as_bytes();
    let digits = digits
        .strip_prefix(b"\"")
        .and_then(|inner| inner.strip_suffix(b"\""))
        .unwrap_or(digits);
    let digits = match memchr::memchr(b'.', digits).map(|dot| (&digits[..dot], &digits[dot + 1..])) {
        Some((whole, fraction)) if !fraction.is_empty() && fraction.iter().all(|byte| *byte == b'0') => whole,
        Some(_) | None => digits,
    };
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// A field that is there, be it `null`: serde alone would not tell the two apart.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// A string inside a message.
fn text<'a>(message: &'a Bytes, raw: &RawValue) -> Option<Cow<'a, str>> {
    let quoted = raw.get();
    let inner = quoted.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str(quoted).ok().map(Cow::Owned);
    }
    let at = inner.as_ptr().addr() - message.as_ptr().addr();
    let borrowed = std::str::from_utf8(&message[at..at + inner.len()]);
    borrowed.ok().map(Cow::Borrowed)
}

fn is_id(raw: &RawValue) -> bool {
    raw.get()
        .starts_with(|first: char| matches!(first, '"' | '-' | '0'..='9'))
}

fn garbage(message: &[u8]) -> BadAnswer {
    match std::str::from_utf8(message) {
        Ok(_) => BadAnswer::Malformed,
        Err(_) => BadAnswer::InvalidUtf8,
    }
}

/// The messages of a batch, in their order; `None` for anything that is not a batch of messages.
pub(crate) fn messages_of_batch(message: &Bytes) -> Option<Vec<Bytes>> {
    if message.trim_ascii_start().first() != Some(&b'[') {
        return None;
    }
    read_batch(message).filter(|batch| holds_messages(batch))
}

/// Whether this is more than a list that a server prints.
pub(super) fn holds_messages(batch: &[Bytes]) -> bool {
    batch.iter().any(|message| message.starts_with(b"{"))
}

fn read_batch(message: &Bytes) -> Option<Vec<Bytes>> {
    let mut reader = serde_json::Deserializer::from_slice(message);
    let batch = reader.deserialize_seq(Elements(message)).ok()?;
    reader.end().ok()?;
    Some(batch)
}

struct Elements<'m>(&'m Bytes);

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = Vec<Bytes>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a batch of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut batch: A) -> Result<Vec<Bytes>, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = batch.next_element::<&RawValue>()? {
            if elements.len() == BATCH_LIMIT || element.get().starts_with('[') {
                return Err(A::Error::custom("no batch of messages"));
            }
            elements.push(self.0.slice_ref(element.get().as_bytes()));
        }
        Ok(elements)
    }
}

#[cfg(test)]
mod tests;
