//! The trace context of a message, in the headers of its request.
//!
//! A message has its trace context in `_meta`, where an MCP server finds it. A proxy, a load balancer or the HTTP framework of the
//! server reads headers only, so that the context is repeated there (W3C Trace Context). The headers always say what `_meta` says.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use memchr::memmem;
use serde::Deserialize;

use crate::{TraceContext, large};

const PARENT: HeaderName = HeaderName::from_static("traceparent");
const STATE: HeaderName = HeaderName::from_static("tracestate");

/// The headers for the trace context in a message; none if it has none, or an invalid one.
///
/// Cancel safety: dropping it changes nothing.
pub(in crate::transport) async fn trace_headers(message: &Bytes) -> Vec<(HeaderName, HeaderValue)> {
    if message.len() <= large::INLINE_LIMIT {
        return read(message);
    }
    let message = message.clone();
    // Boxed: this way is rare, and every request would carry its room.
    Box::pin(large::process(message.len(), move || read(&message))).await
}

fn read(message: &[u8]) -> Vec<(HeaderName, HeaderValue)> {
    // Most messages have no context, and are searched without being parsed.
    if memmem::find(message, b"\"traceparent\"").is_none() {
        return Vec::new();
    }
    let Some(context) = context(message) else {
        return Vec::new();
    };
    let value = |text: &str| HeaderValue::from_str(text).ok();
    let mut headers = Vec::with_capacity(2);
    headers.extend(value(&context.to_string()).map(|parent| (PARENT, parent)));
    headers.extend(context.state().and_then(value).map(|state| (STATE, state)));
    headers
}

fn context(message: &[u8]) -> Option<TraceContext> {
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
