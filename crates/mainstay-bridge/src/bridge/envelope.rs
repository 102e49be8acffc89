//! A message, read only as far as the bridge needs: its id, its method, and where its parts are.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// The envelope of one message. The parts are slices of its line.
#[derive(Deserialize)]
pub(super) struct MessageEnvelope<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// What a line is.
pub(super) enum LineKind<'a> {
    Request {
        id: &'a str,
        method: Cow<'a, str>,
        params: Option<&'a RawValue>,
    },
    Notification {
        method: Cow<'a, str>,
        params: Option<&'a RawValue>,
    },
    Response {
        id: &'a str,
        result: Option<&'a RawValue>,
        error: Option<&'a RawValue>,
    },
    /// Several messages in one line.
    Batch(Vec<&'a RawValue>),
    /// Not a message, or one without an id that needs one. The other side says what is wrong with it.
    Other,
}

impl<'a> LineKind<'a> {
    pub(super) fn of(line: &'a [u8]) -> Self {
        if line.trim_ascii_start().first() == Some(&b'[') {
            return serde_json::from_slice(line).map_or(Self::Other, Self::Batch);
        }
        let Ok(envelope) = serde_json::from_slice::<MessageEnvelope<'a>>(line) else {
            return Self::Other;
        };
        match (envelope.id.map(RawValue::get), envelope.method) {
            (Some(id), Some(method)) => Self::Request {
                id,
                method,
                params: envelope.params,
            },
            (None, Some(method)) => Self::Notification {
                method,
                params: envelope.params,
            },
            (Some(id), None) => Self::Response {
                id,
                result: envelope.result,
                error: envelope.error,
            },
            (None, None) => Self::Other,
        }
    }
}

/// A member of the parameters, as text.
pub(super) fn text_of(params: Option<&RawValue>, member: &str) -> Option<String> {
    let members: std::collections::HashMap<Cow<'_, str>, &RawValue> =
        serde_json::from_str(params?.get()).ok()?;
    serde_json::from_str(members.get(member)?.get()).ok()
}

/// A member of the parameters, as it is written.
pub(super) fn raw_of(params: Option<&RawValue>, member: &str) -> Option<String> {
    let members: std::collections::HashMap<Cow<'_, str>, &RawValue> =
        serde_json::from_str(params?.get()).ok()?;
    Some(members.get(member)?.get().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_far_as_its_envelope() {
        let line =
            br#" {"params":{"uri":"a\"b","n":[1]},"method":"resources\/read","jsonrpc":"2.0","id":"x"}"#;
        let LineKind::Request { id, method, params } = LineKind::of(line) else {
            panic!("a request");
        };
        assert_eq!((id, &*method), (r#""x""#, "resources/read"));
        assert_eq!(text_of(params, "uri").as_deref(), Some("a\"b"));
        assert_eq!(raw_of(params, "n").as_deref(), Some("[1]"));
    }

    #[test]
    fn what_is_no_message_is_left_to_the_other_side() {
        for line in [
            &b"garbage"[..],
            b"{\"id\":1,\"id\":2,\"method\":\"ping\"}",
            b"{}",
            b"\xff",
            b"[1,",
        ] {
            assert!(matches!(LineKind::of(line), LineKind::Other), "{line:?}");
        }
        assert!(matches!(LineKind::of(b"[]"), LineKind::Batch(batch) if batch.is_empty()));
    }
}
