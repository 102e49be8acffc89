//! What a message on its way out says of itself, read no deeper than the headers need.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::params::{ParamHeaders, header_value};
use crate::protocol::MODERN_VERSIONS;

const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const PARAM: &str = "mcp-param-";

/// The method of a message, and what a modern one carries besides.
#[derive(Debug, Default)]
pub(super) struct Headline<'a> {
    pub(super) method: Cow<'a, str>,
    modern: Option<Modern<'a>>,
}

/// What a modern server wants to see in headers.
#[derive(Debug)]
struct Modern<'a> {
    version: Cow<'a, str>,
    /// The name of a tool or prompt, the address of a resource, or the id of a task.
    name: Option<Cow<'a, str>>,
    arguments: Option<&'a RawValue>,
}

impl<'a> Headline<'a> {
    /// Reads a message; an answer, or what cannot be read, has no headline.
    pub(super) fn read(message: &'a Bytes) -> Self {
        let text = std::str::from_utf8(message).unwrap_or_default();
        let Ok(outgoing) = serde_json::from_str::<Outgoing<'a, Params<'a>>>(text) else {
            // Its parameters may be what no request of the protocol has; then they show nothing.
            let method = serde_json::from_str::<Outgoing<'a, IgnoredAny>>(text);
            return Self {
                method: method.map(|outgoing| outgoing.method).unwrap_or_default(),
                modern: None,
            };
        };
        let params = outgoing.params.unwrap_or_default();
        let name = match outgoing.method.as_ref() {
            "tools/call" | "prompts/get" => params.name,
            "resources/read" => params.uri,
            "tasks/get" | "tasks/update" | "tasks/cancel" => params.task_id,
            _other => None,
        };
        let version = params.meta.and_then(|meta| meta.version);
        Self {
            method: outgoing.method,
            modern: version.map(|version| Modern {
                version,
                name,
                arguments: params.arguments,
            }),
        }
    }

    /// The same of a notification: one that belongs to no session names no version in its body, and shows it all the same.
    pub(super) fn of_notification(mut self) -> Self {
        if !self.method.is_empty() {
            let [version] = MODERN_VERSIONS;
            self.modern.get_or_insert(Modern {
                version: version.into(),
                name: None,
                arguments: None,
            });
        }
        self
    }

    /// Whether it belongs to no session.
    pub(super) fn is_modern(&self) -> bool {
        self.modern.is_some()
    }

    /// The headers that repeat what is in the body.
    pub(super) fn headers(&self, params: Option<&dyn ParamHeaders>) -> Vec<(HeaderName, HeaderValue)> {
        let Some(modern) = &self.modern else {
            return Vec::new();
        };
        let mut headers = vec![
            (Some(PROTOCOL_VERSION), header_value(&modern.version)),
            (Some(METHOD), header_value(&self.method)),
        ];
        if let Some(name) = &modern.name {
            headers.push((Some(NAME), header_value(name)));
            if let (Some(params), Some(arguments), "tools/call") =
                (params, modern.arguments, self.method.as_ref())
            {
                let of_call = params.of_call(name, arguments.get()).into_iter();
                let name = |name| HeaderName::try_from(format!("{PARAM}{name}")).ok();
                headers.extend(of_call.map(|(param, value)| (name(param), header_value(&value))));
            }
        }
        headers
            .into_iter()
            .filter_map(|(name, value)| Some((name?, value?)))
            .collect()
    }
}

#[derive(Deserialize)]
struct Outgoing<'a, P> {
    #[serde(borrow)]
    method: Cow<'a, str>,
    params: Option<P>,
}

#[derive(Default, Deserialize)]
struct Params<'a> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(message: &str, params: Option<&dyn ParamHeaders>) -> Vec<(String, String)> {
        let message = Bytes::copy_from_slice(message.as_bytes());
        let headers = Headline::read(&message).headers(params);
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
}
