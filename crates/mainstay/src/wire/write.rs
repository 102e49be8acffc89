//! Builds the messages to send. Payloads are copied as they are, but for raw line breaks: between the tokens of valid
//! JSON they are white space, and a message must be one line.

use bytes::Bytes;

use super::object::Object;
use super::params::MetaEntries;
use super::raw::RawJson;
use super::rpc_error::RpcError;

/// The notification that cancels a request.
pub(super) const CANCELLED: &str = "notifications/cancelled";

/// What an envelope adds to method and payload, at most.
const ENVELOPE: usize = 80;

/// What a progress token of its own adds to the parameters, at most.
const TOKEN: usize = 60;

/// A request, as one line.
pub fn request(id: u64, method: &str, params: Option<&RawJson>) -> Bytes {
    let mut line = start(method.len() + params.map_or(0, length));
    put_number(&mut line, id);
    finish_call(line, method, params)
}

/// A request with these entries in its `_meta` and, if `token`, its number as progress token; at least one of the two. The
/// parameters must be an object without `_meta`.
pub(super) fn request_with_meta(
    id: u64,
    method: &str,
    params: &RawJson,
    meta: Option<&MetaEntries>,
    token: bool,
) -> Bytes {
    let entries = meta.map_or(&[][..], MetaEntries::text);
    let mut line = start(method.len() + length(params) + entries.len() + TOKEN);
    put_number(&mut line, id);
    put_method(&mut line, method);
    put(&mut line, "params", params);
    line.pop();
    let is_empty = params.as_bytes()[1..].trim_ascii_start() == b"}";
    line.extend_from_slice(if is_empty { b"" } else { b"," });
    line.extend_from_slice(b"\"_meta\":{");
    put_entries(&mut line, entries, token.then_some(id));
    line.extend_from_slice(b"}}");
    finish(line)
}

fn put_entries(line: &mut Vec<u8>, entries: &[u8], token: Option<u64>) {
    line.extend_from_slice(entries);
    if let Some(token) = token {
        line.extend_from_slice(if entries.is_empty() { b"" } else { b"," });
        line.extend_from_slice(b"\"progressToken\":");
        push_digits(line, token);
    }
}

/// A request whose parameters were read already, with this text inside the braces of its `_meta`, where that is all it has.
pub(super) fn request_in_parts(id: u64, method: &str, top: &Object, meta: &MetaText<'_>) -> Bytes {
    let mut line = start(method.len() + top.length() + meta.length() + TOKEN);
    put_number(&mut line, id);
    put_method(&mut line, method);
    put_key(&mut line, "params");
    let begins = line.len();
    top.write_with(&mut line, Some(("_meta", &|line| meta.write(line, id))));
    without_breaks(&mut line[begins..]);
    finish(line)
}

/// What stands in the `_meta` of a request.
pub(super) enum MetaText<'a> {
    /// These members.
    Members(Object),
    /// These entries and, if `token`, the number of the request as progress token.
    Entries { entries: &'a [u8], token: bool },
}

impl MetaText<'_> {
    fn length(&self) -> usize {
        match self {
            Self::Members(members) => members.length(),
            Self::Entries { entries, .. } => entries.len(),
        }
    }

    fn write(&self, line: &mut Vec<u8>, id: u64) {
        match self {
            Self::Members(members) => members.write(line),
            Self::Entries { entries, token } => {
                line.push(b'{');
                put_entries(line, entries, token.then_some(id));
                line.push(b'}');
            }
        }
    }
}

/// A notification, as one line.
pub fn notification(method: &str, params: Option<&RawJson>) -> Bytes {
    let line = start(method.len() + params.map_or(0, length));
    finish_call(line, method, params)
}

/// An answer, as one line.
pub fn response(id: &RawJson, result: &Result<RawJson, RpcError>) -> Bytes {
    let (key, value) = match result {
        Ok(result) => ("result", result),
        Err(error) => ("error", error.raw()),
    };
    let mut line = start(length(id) + length(value));
    put(&mut line, "id", id);
    put(&mut line, key, value);
    finish(line)
}

/// An error that answers no known request, as one line without an `id`.
pub fn refusal(error: &RpcError) -> Bytes {
    let mut line = start(length(error.raw()));
    put(&mut line, "error", error.raw());
    finish(line)
}

/// An answer in pieces, its payload as it is and without a copy: one line if the payload is.
pub fn response_in_pieces(id: &RawJson, result: &Result<RawJson, RpcError>) -> [Bytes; 3] {
    let (key, value) = match result {
        Ok(result) => ("result", result),
        Err(error) => ("error", error.raw()),
    };
    let mut head = start(length(id));
    put(&mut head, "id", id);
    put_key(&mut head, key);
    [
        head.into(),
        value.text().as_bytes().clone(),
        Bytes::from_static(b"}"),
    ]
}

pub(super) fn cancelled(request: u64, reason: &str) -> Bytes {
    let reason = RawJson::from_value(reason).expect("a string can be written");
    let params = RawJson::assembled(format!("{{\"requestId\":{request},\"reason\":{reason}}}").into());
    notification(CANCELLED, Some(&params))
}

fn length(raw: &RawJson) -> usize {
    raw.as_bytes().len()
}

fn start(payload: usize) -> Vec<u8> {
    let mut line = Vec::with_capacity(ENVELOPE + payload);
    line.extend_from_slice(b"{\"jsonrpc\":\"2.0\"");
    line
}

fn put_number(line: &mut Vec<u8>, id: u64) {
    line.extend_from_slice(b",\"id\":");
    push_digits(line, id);
}

fn push_digits(line: &mut Vec<u8>, number: u64) {
    serde_json::to_writer(line, &number).expect("a number can be written to memory");
}

fn put_method(line: &mut Vec<u8>, method: &str) {
    line.extend_from_slice(b",\"method\":");
    serde_json::to_writer(line, method).expect("a string can be written to memory");
}

fn finish_call(mut line: Vec<u8>, method: &str, params: Option<&RawJson>) -> Bytes {
    put_method(&mut line, method);
    if let Some(params) = params {
        put(&mut line, "params", params);
    }
    finish(line)
}

fn put(line: &mut Vec<u8>, key: &str, value: &RawJson) {
    put_key(line, key);
    let start = line.len();
    line.extend_from_slice(value.as_bytes());
    without_breaks(&mut line[start..]);
}

fn without_breaks(mut rest: &mut [u8]) {
    while let Some(at) = memchr::memchr2(b'\n', b'\r', rest) {
        rest[at] = b' ';
        rest = &mut rest[at + 1..];
    }
}

fn put_key(line: &mut Vec<u8>, key: &str) {
    line.extend_from_slice(b",\"");
    line.extend_from_slice(key.as_bytes());
    line.extend_from_slice(b"\":");
}

fn finish(mut line: Vec<u8>) -> Bytes {
    line.push(b'}');
    line.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> RawJson {
        RawJson::from_text(text).unwrap()
    }

    #[test]
    fn each_kind_of_message_is_written() {
        let params = raw(r#"{"a": 1.0}"#);
        assert_eq!(
            request(7, "tools/call", Some(&params)),
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"a": 1.0}}"#
        );
        assert_eq!(
            request(7, "a\"b", None),
            r#"{"jsonrpc":"2.0","id":7,"method":"a\"b"}"#
        );
        assert_eq!(
            notification("n", Some(&params)),
            r#"{"jsonrpc":"2.0","method":"n","params":{"a": 1.0}}"#
        );
        assert_eq!(
            response(&raw("\"x\""), &Ok(params)),
            r#"{"jsonrpc":"2.0","id":"x","result":{"a": 1.0}}"#
        );
        assert_eq!(
            refusal(&RpcError::new(-1, "no")),
            r#"{"jsonrpc":"2.0","error":{"code":-1,"message":"no"}}"#
        );
        assert_eq!(
            response(&raw("1"), &Err(RpcError::new(-1, "no"))),
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#
        );
        assert_eq!(
            cancelled(7, "timed out"),
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"timed out"}}"#
        );
    }

    #[test]
    fn an_answer_in_pieces_reads_as_the_whole_does_and_shares_its_payload() {
        let payload = raw(r#"{"a": 1.0}"#);
        for result in [Ok(payload.clone()), Err(RpcError::new(-1, "no"))] {
            let pieces = response_in_pieces(&raw("\"x\""), &result);
            assert_eq!(pieces.concat(), response(&raw("\"x\""), &result));
        }
        let [_, middle, _] = response_in_pieces(&raw("1"), &Ok(payload.clone()));
        assert_eq!(middle.as_ptr(), payload.as_bytes().as_ptr());
    }

    #[test]
    fn a_progress_token_joins_the_parameters() {
        let token = r#""_meta":{"progressToken":7}}}"#;
        for (params, expected) in [("{}", "{"), ("{ }", "{ "), (r#"{"a": 1.0 }"#, r#"{"a": 1.0 ,"#)] {
            let line = request_with_meta(7, "m", &raw(params), None, true);
            let start = r#"{"jsonrpc":"2.0","id":7,"method":"m","params":"#;
            assert_eq!(line, format!("{start}{expected}{token}"));
            assert!(serde_json::from_slice::<serde::de::IgnoredAny>(&line).is_ok());
        }
    }

    #[test]
    fn entries_of_a_meta_join_the_parameters_on_one_line() {
        let meta = MetaEntries::new(vec![("a/b", raw("{\"x\":\n1}")), ("c", raw("2"))]);
        let start = r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"_meta":{"a/b":{"x": 1},"c":2"#;
        let with = |token| request_with_meta(7, "m", &raw("{}"), Some(&meta), token);
        assert_eq!(with(true), format!(r#"{start},"progressToken":7}}}}}}"#));
        assert_eq!(with(false), format!("{start}}}}}}}"));
    }

    #[test]
    fn a_payload_with_raw_line_breaks_is_still_one_line() {
        let params = raw("{\r\n  \"a\":\n\"x\\ny\"\r}");
        let line = request(1, "m", Some(&params));
        assert_eq!(
            line,
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{    \"a\": \"x\\ny\" }}"
        );
    }
}
