//! The headers in which a message repeats parts of its body: those that modern servers require, and its trace context.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use memchr::memmem;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::ParamHeaders;
use crate::protocol::MODERN_VERSIONS;
use crate::{TraceContext, large};

const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const PARAM: &str = "mcp-param-";
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACE_STATE: HeaderName = HeaderName::from_static("tracestate");

/// The longest value of a header. Longer ones are left out, since servers refuse long headers.
const VALUE_LIMIT: usize = 8 * 1024;

/// What marks a value as encoded.
const BASE64_MARK: &str = "=?base64?";

/// What the headers of one outgoing message need to know of its body.
#[derive(Debug, Default)]
pub(super) struct BodyHeaders {
    /// The method of a request or notification; empty for an answer.
    pub(super) method: String,
    /// The headers of a message that belongs to no session.
    pub(super) modern: Option<Vec<(HeaderName, HeaderValue)>>,
}

impl BodyHeaders {
    /// Reads a message; a large one on a thread that may block.
    ///
    /// Cancel safety: dropping it changes nothing.
    pub(super) async fn read(message: &Bytes, params: Option<&Arc<dyn ParamHeaders>>) -> Self {
        if message.len() <= large::INLINE_LIMIT {
            return Self::read_now(message, params.map(|params| &**params));
        }
        let (message, params) = (message.clone(), params.cloned());
        large::process(message.len(), move || Self::read_now(&message, params.as_deref())).await
    }

    fn read_now(message: &Bytes, mirror: Option<&dyn ParamHeaders>) -> Self {
        let text = std::str::from_utf8(message).unwrap_or_default();
        let Ok(OutgoingMethod { method, params }) =
            serde_json::from_str::<OutgoingMethod<'_, MirroredParams<'_>>>(text)
        else {
            return Self {
                method: method_of(text),
                modern: None,
            };
        };
        let params = params.unwrap_or_default();
        let Some(version) = params.meta.and_then(|meta| meta.version) else {
            return Self {
                method: method.into_owned(),
                modern: None,
            };
        };
        let mut headers = vec![
            (Some(PROTOCOL_VERSION), header_value(&version)),
            (Some(METHOD), header_value(&method)),
        ];
        let name = match method.as_ref() {
            "tools/call" | "prompts/get" => params.name,
            "resources/read" => params.uri,
            "tasks/get" | "tasks/update" | "tasks/cancel" => params.task_id,
            _other => None,
        };
        if let Some(name) = name {
            headers.push((Some(NAME), header_value(&name)));
            if let (Some(mirror), Some(arguments), "tools/call") = (mirror, params.arguments, method.as_ref())
            {
                let of_call = mirror.of_call(&name, arguments.get()).into_iter();
                let name = |name| HeaderName::try_from(format!("{PARAM}{name}")).ok();
                headers.extend(of_call.map(|(param, value)| (name(param), header_value(&value))));
            }
        }
        let headers = headers.into_iter();
        Self {
            method: method.into_owned(),
            modern: Some(
                headers
                    .filter_map(|(name, value)| Some((name?, value?)))
                    .collect(),
            ),
        }
    }

    /// The same of a notification. One that belongs to no session names no version in its body, but must in its headers.
    pub(super) fn of_notification(mut self) -> Self {
        if !self.method.is_empty() && self.modern.is_none() {
            let [version] = MODERN_VERSIONS;
            let headers = [
                (PROTOCOL_VERSION, header_value(version)),
                (METHOD, header_value(&self.method)),
            ];
            let headers = headers.into_iter();
            self.modern = Some(headers.filter_map(|(name, value)| Some((name, value?))).collect());
        }
        self
    }
}

/// Whether a message is this notification. It is short, so a long message is not.
pub(super) fn is_notification(message: &Bytes, method: &str) -> bool {
    message.len() <= large::INLINE_LIMIT
        && std::str::from_utf8(message).is_ok_and(|text| method_of(text) == method)
}

/// The method of a message, whatever its parameters are.
fn method_of(text: &str) -> String {
    let outgoing = serde_json::from_str::<OutgoingMethod<'_, IgnoredAny>>(text);
    outgoing.map_or_else(|_error| String::new(), |outgoing| outgoing.method.into_owned())
}

/// A text as the value of a header: as it is where a header can hold it, else encoded; `None` when it is too long.
fn header_value(text: &str) -> Option<HeaderValue> {
    let plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let padded = text.starts_with(' ') || text.ends_with(' ');
    let value = if plain && !padded && !text.starts_with(BASE64_MARK) {
        HeaderValue::from_str(text)
    } else {
        HeaderValue::from_str(&format!("{BASE64_MARK}{}?=", STANDARD.encode(text)))
    };
    value.ok().filter(|value| value.len() <= VALUE_LIMIT)
}

#[derive(Deserialize)]
struct OutgoingMethod<'a, P> {
    #[serde(borrow)]
    method: Cow<'a, str>,
    params: Option<P>,
}

#[derive(Default, Deserialize)]
struct MirroredParams<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    uri: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "taskId")]
    task_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<Meta<'a>>,
}

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<Cow<'a, str>>,
}

/// The headers for the trace context in a message; none if it has none, or an invalid one. An MCP server finds the context in
/// `_meta`. A proxy, a load balancer or the HTTP framework of the server reads headers only (W3C Trace Context).
///
/// Cancel safety: dropping it changes nothing.
pub(in crate::transport) async fn trace_headers(message: &Bytes) -> Vec<(HeaderName, HeaderValue)> {
    if message.len() <= large::INLINE_LIMIT {
        return read_trace(message);
    }
    let message = message.clone();
    // Boxed: this way is rare, and every request would carry its room.
    Box::pin(large::process(message.len(), move || read_trace(&message))).await
}

fn read_trace(message: &[u8]) -> Vec<(HeaderName, HeaderValue)> {
    // Most messages have no context, and are searched without being parsed.
    if memmem::find(message, b"\"traceparent\"").is_none() {
        return Vec::new();
    }
    let Some(context) = trace_context(message) else {
        return Vec::new();
    };
    let value = |text: &str| HeaderValue::from_str(text).ok();
    let mut headers = Vec::with_capacity(2);
    headers.extend(value(&context.to_string()).map(|parent| (TRACE_PARENT, parent)));
    headers.extend(context.state().and_then(value).map(|state| (TRACE_STATE, state)));
    headers
}

fn trace_context(message: &[u8]) -> Option<TraceContext> {
    let meta = serde_json::from_slice::<TracedMessage<'_>>(message)
        .ok()?
        .params?
        .meta?;
    // A `tracestate` that is no text does not invalidate the `traceparent`.
    let state = meta.state.as_ref().and_then(serde_json::Value::as_str);
    TraceContext::parse(&meta.parent, state)
}

#[derive(Deserialize)]
struct TracedMessage<'a> {
    #[serde(borrow)]
    params: Option<TracedParams<'a>>,
}

#[derive(Deserialize)]
struct TracedParams<'a> {
    #[serde(borrow, rename = "_meta")]
    meta: Option<TracedMeta<'a>>,
}

#[derive(Deserialize)]
struct TracedMeta<'a> {
    #[serde(borrow, rename = "traceparent")]
    parent: Cow<'a, str>,
    #[serde(rename = "tracestate")]
    state: Option<serde_json::Value>,
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::thread::{self, ThreadId};

    use super::*;

    fn headers(message: &str, params: Option<&dyn ParamHeaders>) -> Vec<(String, String)> {
        let message = Bytes::copy_from_slice(message.as_bytes());
        let headers = BodyHeaders::read_now(&message, params).modern.unwrap_or_default();
        let text = |value: HeaderValue| value.to_str().unwrap().to_owned();
        headers
            .into_iter()
            .map(|(name, value)| (name.to_string(), text(value)))
            .collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
            .collect()
    }

    const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;

    #[test]
    fn a_modern_request_shows_its_version_method_and_name() {
        let call = format!(
            r#"{{"id":1,"method":"tools/call","params":{{"name":"r\u00e9","arguments":{{}},{META}}}}}"#
        );
        let expected = [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "=?base64?csOp?="),
        ];
        assert_eq!(headers(&call, None), pairs(&expected));
        let list = format!(r#"{{"id":1,"method":"tools/list","params":{{"name":"x",{META}}}}}"#);
        assert_eq!(
            headers(&list, None),
            pairs(&[expected[0], ("mcp-method", "tools/list")])
        );
        let read = format!(r#"{{"id":1,"method":"resources/read","params":{{"uri":"a://b",{META}}}}}"#);
        assert!(headers(&read, None).contains(&("mcp-name".to_owned(), "a://b".to_owned())));
        let get = format!(r#"{{"id":1,"method":"tasks/get","params":{{"taskId":"t-1",{META}}}}}"#);
        assert!(headers(&get, None).contains(&("mcp-name".to_owned(), "t-1".to_owned())));
    }

    #[test]
    fn a_legacy_message_and_an_answer_show_nothing() {
        for message in [
            r#"{"id":1,"method":"tools/call","params":{"name":"a"}}"#,
            r#"{"method":"notifications/initialized"}"#,
            r#"{"id":1,"result":{}}"#,
            r#"{"id":1,"method":"m","params":[1]}"#,
        ] {
            assert_eq!(headers(message, None), [], "{message}");
        }
    }

    #[test]
    fn arguments_that_a_tool_wants_in_headers_are_repeated_there() {
        struct Region;
        impl ParamHeaders for Region {
            fn of_call(&self, tool: &str, arguments: &str) -> Vec<(String, String)> {
                assert_eq!((tool, arguments), ("t", r#"{"r": 1}"#));
                vec![("Region".to_owned(), "é".to_owned())]
            }
        }
        let call = format!(
            r#"{{"id":1,"method":"tools/call","params":{{"name":"t","arguments":{{"r": 1}},{META}}}}}"#
        );
        assert!(
            headers(&call, Some(&Region))
                .contains(&("mcp-param-region".to_owned(), "=?base64?w6k=?=".to_owned()))
        );
    }
    #[tokio::test]
    async fn a_large_message_is_read_on_another_thread() {
        struct Thread(Mutex<Option<ThreadId>>);
        impl ParamHeaders for Thread {
            fn of_call(&self, _tool: &str, _arguments: &str) -> Vec<(String, String)> {
                *self.0.lock().unwrap() = Some(thread::current().id());
                Vec::new()
            }
        }
        let seen = Arc::new(Thread(Mutex::default()));
        let params: Arc<dyn ParamHeaders> = seen.clone();
        for (length, is_here) in [(8, true), (large::INLINE_LIMIT, false)] {
            let arguments = format!(r#"{{"a":"{}"}}"#, "x".repeat(length));
            let call = format!(
                r#"{{"id":1,"method":"tools/call","params":{{"name":"t","arguments":{arguments},{META}}}}}"#
            );
            BodyHeaders::read(&Bytes::from(call), Some(&params)).await;
            let at = seen.0.lock().unwrap().take().expect("it was read");
            assert_eq!(at == thread::current().id(), is_here, "{length}");
        }
    }

    #[test]
    fn what_a_header_cannot_hold_is_encoded() {
        let cases = [
            ("read_file", "read_file"),
            ("two words", "two words"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="),
        ];
        for (text, expected) in cases {
            assert_eq!(header_value(text).unwrap(), expected);
        }
        assert_eq!(header_value(&"x".repeat(VALUE_LIMIT + 1)), None);
    }
}

#[cfg(test)]
mod trace_tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    async fn headers(params: &str) -> Vec<(String, String)> {
        let message = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        let headers = trace_headers(&Bytes::from(message)).await.into_iter();
        let pair = |(name, value): (HeaderName, HeaderValue)| {
            (name.to_string(), value.to_str().expect("printable").to_owned())
        };
        headers.map(pair).collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        let expected = expected.iter();
        expected
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[tokio::test]
    async fn the_context_in_meta_is_repeated_in_headers() {
        let meta = format!(r#"{{"_meta":{{"traceparent":"{PARENT}","tracestate":"vendor=1"}}}}"#);
        let both = pairs(&[("traceparent", PARENT), ("tracestate", "vendor=1")]);
        assert_eq!(headers(&meta).await, both);
        let alone = format!(r#"{{"_meta":{{"traceparent":"{PARENT}"}}}}"#);
        assert_eq!(headers(&alone).await, pairs(&[("traceparent", PARENT)]));
        let large = "x".repeat(large::INLINE_LIMIT);
        let large = format!(r#"{{"arguments":"{large}","_meta":{{"traceparent":"{PARENT}"}}}}"#);
        assert_eq!(headers(&large).await, pairs(&[("traceparent", PARENT)]));
    }

    #[tokio::test]
    async fn an_invalid_context_and_one_elsewhere_in_the_message_become_no_header() {
        for params in [
            "{}".to_owned(),
            "null".to_owned(),
            format!(r#"{{"traceparent":"{PARENT}"}}"#),
            format!(r#"{{"arguments":{{"_meta":{{"traceparent":"{PARENT}"}}}}}}"#),
            r#"{"_meta":{"traceparent":7}}"#.to_owned(),
            r#"{"_meta":{"traceparent":"00-1"}}"#.to_owned(),
            r#"{"_meta":{"traceparent":"a\r\nx-evil: 1"}}"#.to_owned(),
            r#"{"_meta":{"tracestate":"vendor=1"}}"#.to_owned(),
        ] {
            assert_eq!(headers(&params).await, [], "{params}");
        }
        for state in [r#""a\r\nx-evil: 1""#, "7", "null", r#""""#] {
            let meta = format!(r#"{{"_meta":{{"traceparent":"{PARENT}","tracestate":{state}}}}}"#);
            assert_eq!(headers(&meta).await, pairs(&[("traceparent", PARENT)]), "{state}");
        }
    }
}
