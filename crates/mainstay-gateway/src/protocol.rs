//! The parts of the protocol that the gateway acts on: versions, error codes, `_meta`.

use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderName};
use mainstay::gateway::Introduction;
use mainstay::gateway::message::{self, Object, Params, RawJson, RpcError};
use mainstay::{Era, Outcome, TraceContext};
use serde::Serialize;
use serde_json::json;

use crate::router::Level;

/// The versions that open with `initialize`, newest first. A client that asks for an unknown version gets the first.
pub(crate) const LEGACY_VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The stateless versions.
pub(crate) const MODERN_VERSIONS: [&str; 1] = ["2026-07-28"];

/// The first version in which an error need not name a request.
const ERRORS_WITHOUT_ID_SINCE: &str = "2025-11-25";

/// The error code of a missing resource in the legacy era.
pub(crate) const RESOURCE_NOT_FOUND: i64 = -32002;

/// The error code of a server's failure, from the range that JSON-RPC leaves to servers.
pub(crate) const SERVER_UNAVAILABLE: i64 = -32000;

/// The error code of a request whose headers do not match its body.
pub(crate) const HEADER_MISMATCH: i64 = -32020;

/// The error code of a request that needs a capability which the client does not declare.
pub(crate) const MISSING_CAPABILITY: i64 = -32021;

/// The error code of a request in an unsupported version.
pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;

pub(crate) const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
pub(crate) const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT_KEY: &str = "io.modelcontextprotocol/clientInfo";
const LOG_LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";
pub(crate) const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";

const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACE_STATE: HeaderName = HeaderName::from_static("tracestate");

/// The `id` of an error that answers no request whose id is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoId {
    /// It has no `id`: no version of the protocol allows `null`, and the newer ones allow this.
    Absent,
    /// Its `id` is `null`, as JSON-RPC has it: the older versions know no error without one.
    Null,
}

impl NoId {
    pub(crate) fn in_version(version: &str) -> Self {
        // Versions are dates, whose order is that of their text.
        if version < ERRORS_WITHOUT_ID_SINCE {
            Self::Null
        } else {
            Self::Absent
        }
    }

    /// An error as one line: the answer to the request of this id, if it is known.
    pub(crate) fn refusal(self, id: Option<&RawJson>, error: RpcError) -> Bytes {
        match (id, self) {
            (Some(id), _) => message::response(id, &Err(error)),
            (None, Self::Absent) => message::refusal(&error),
            (None, Self::Null) => message::response(&RawJson::NULL, &Err(error)),
        }
    }
}

/// What a request says of its client in `_meta`, read once.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientMeta {
    /// The version it is made in; only modern requests name one.
    pub(crate) version: Option<String>,
    /// What the client can answer.
    pub(crate) capabilities: Option<RawJson>,
    /// Who the client is.
    pub(crate) client_info: Option<RawJson>,
    /// The token that the client wants on progress notifications.
    pub(crate) progress_token: Option<RawJson>,
    /// The least severe log message that a modern client wants; without it, it wants none.
    pub(crate) log_level: Option<Level>,
    /// The span that the request belongs to.
    pub(crate) trace: Option<TraceContext>,
    /// Whether that came in a header, so that the server would not see it.
    pub(crate) is_trace_in_header: bool,
}

impl ClientMeta {
    pub(crate) fn read(params: &Params) -> Self {
        let Some(meta) = params.meta() else {
            return Self::default();
        };
        Self {
            version: meta.get(VERSION_KEY).and_then(|version| version.parse().ok()),
            capabilities: meta.get(CAPABILITIES_KEY).cloned(),
            client_info: meta.get(CLIENT_KEY).cloned(),
            progress_token: meta.get("progressToken").cloned(),
            log_level: meta
                .get(LOG_LEVEL_KEY)
                .and_then(|level| level.parse::<String>().ok())
                .and_then(|word| Level::from_word(&word)),
            trace: meta.get("traceparent").and_then(|parent| {
                let text = |value: &RawJson| value.parse::<String>().ok();
                let state = meta.get("tracestate").and_then(text);
                TraceContext::parse(&text(parent)?, state.as_deref())
            }),
            is_trace_in_header: false,
        }
    }

    /// Takes the span from the headers of the request, unless the request itself names one.
    pub(crate) fn read_trace_headers(&mut self, headers: &HeaderMap) {
        let header = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        if self.trace.is_none()
            && let Some(parent) = header(TRACE_PARENT)
        {
            self.trace = TraceContext::parse(parent, header(TRACE_STATE));
            self.is_trace_in_header = self.trace.is_some();
        }
    }

    /// Whether the client says that it knows this extension.
    pub(crate) fn declares_extension(&self, extension: &str) -> bool {
        let declared = self.capabilities.as_ref().and_then(Object::parse);
        let extensions = declared.and_then(|declared| Object::parse(declared.get("extensions")?));
        extensions.is_some_and(|extensions| extensions.get(extension).is_some())
    }

    pub(crate) fn era(&self) -> Era {
        match self.version {
            Some(_) => Era::Modern,
            None => Era::Legacy,
        }
    }

    /// Checks that a modern request names a supported version, and declares capabilities.
    pub(crate) fn check(&self) -> Result<(), RpcError> {
        match (self.version.as_deref(), &self.capabilities) {
            (Some(version), _) if !MODERN_VERSIONS.contains(&version) => Err(unsupported_version(version)),
            (Some(_), None) => Err(missing_in_meta(CAPABILITIES_KEY)),
            (Some(_), Some(_)) | (None, _) => Ok(()),
        }
    }
}

/// Whether a modern client that gets an error of this code over HTTP gets a status for it, too.
pub(crate) fn is_client_error(code: i64) -> bool {
    matches!(
        code,
        RpcError::METHOD_NOT_FOUND | HEADER_MISMATCH | MISSING_CAPABILITY | UNSUPPORTED_VERSION
    )
}

/// The error for an unsupported version, with the supported ones.
pub(crate) fn unsupported_version(version: &str) -> RpcError {
    let supported: Vec<&str> = MODERN_VERSIONS.into_iter().chain(LEGACY_VERSIONS).collect();
    let data = json!({ "supported": supported, "requested": version });
    let what = format!("protocol version {version} is not supported");
    RpcError::new(UNSUPPORTED_VERSION, what).with_data(raw(&data))
}

/// The error for a modern request without this key.
pub(crate) fn missing_in_meta(key: &str) -> RpcError {
    invalid_params(format!("`_meta` must hold {key}"))
}

/// The parameters without what a modern request says of its client. The library introduces the client to the server.
pub(crate) fn without_client(mut params: Params) -> Params {
    params.remove_from_meta(&[VERSION_KEY, CAPABILITIES_KEY, CLIENT_KEY, LOG_LEVEL_KEY]);
    params
}

/// A result of this method as a client of this era needs it. A modern client must know that the result is complete, and how it may cache a
/// resource. A legacy server does not say, so the client must not cache it.
pub(crate) fn completed(result: RawJson, method: &str, era: Era) -> RawJson {
    if era == Era::Legacy {
        return result;
    }
    let added = [
        ("resultType", text("complete")),
        ("ttlMs", RawJson::from(0)),
        ("cacheScope", text("private")),
    ];
    let added = if method == "resources/read" {
        &added[..]
    } else {
        &added[..1]
    };
    // Nearly every result of a legacy server holds none of the words, and need not be parsed.
    if let Some(completed) = Object::extended(&result, added) {
        return completed;
    }
    let Some(mut object) = Object::parse(&result) else {
        return result;
    };
    if object.get("resultType").is_some() {
        return result;
    }
    for (name, value) in added {
        object.set(name, value.clone());
    }
    object.to_raw()
}

/// A text as JSON.
pub(crate) fn text(text: &str) -> RawJson {
    raw(text)
}

/// A value as JSON. It must be one that can be written, such as any [`serde_json::Value`].
pub(crate) fn raw<T: Serialize + ?Sized>(value: &T) -> RawJson {
    RawJson::from_value(value).unwrap_or(RawJson::NULL)
}

/// The refusal of a request for which there is no room, or no more time. Programs find in its data whether the request may have run.
pub(crate) fn limit_error(outcome: Outcome, what: impl Into<String>) -> RpcError {
    let data = json!({ "mainstay": { "outcome": outcome.to_string() } });
    RpcError::new(SERVER_UNAVAILABLE, what).with_data(raw(&data))
}

pub(crate) fn method_not_found(method: &str) -> RpcError {
    RpcError::new(RpcError::METHOD_NOT_FOUND, format!("there is no method {method}"))
}

pub(crate) fn invalid_params(what: impl Into<String>) -> RpcError {
    RpcError::new(RpcError::INVALID_PARAMS, what)
}

/// The capability that a server's request of this method needs. An unknown method needs none.
pub(crate) fn capability_for(method: &str) -> Option<&'static str> {
    match method {
        "sampling/createMessage" => Some("sampling"),
        "elicitation/create" => Some("elicitation"),
        "roots/list" => Some("roots"),
        _other => None,
    }
}

/// The error for a server that asks for what the client did not declare.
pub(crate) fn declined(method: &str, capability: &str) -> RpcError {
    let what = format!("{method} declined: the client does not declare {capability}");
    RpcError::new(RpcError::METHOD_NOT_FOUND, what)
}

/// The error for a modern client whose request needs this capability.
pub(crate) fn missing_capability(capability: &str) -> RpcError {
    missing(capability, &json!({ capability: {} }))
}

/// The error for a modern client whose request needs this extension.
pub(crate) fn missing_extension(extension: &str) -> RpcError {
    missing(extension, &json!({ "extensions": { extension: {} } }))
}

fn missing(what: &str, required: &serde_json::Value) -> RpcError {
    let what = format!("the client must declare {what} for this");
    let data = json!({ "requiredCapabilities": required });
    RpcError::new(MISSING_CAPABILITY, what).with_data(raw(&data))
}

/// The longest introduction, in bytes: it is kept as long as its session. Clients send a few hundred; there is room for icons, too.
const INTRODUCTION_LIMIT: usize = 64 * 1024;

/// What a client says of itself.
#[derive(Clone, Debug)]
pub(crate) struct ClientIntroduction {
    /// What it can answer.
    pub(crate) capabilities: RawJson,
    /// Who it is, where it says so.
    info: Option<RawJson>,
    /// The legacy version that it is answered in.
    pub(crate) version: &'static str,
    era: Era,
}

impl ClientIntroduction {
    /// What the parameters of `initialize` say.
    pub(crate) fn of_initialize(params: &Params) -> Result<Self, RpcError> {
        if !params.is_object() {
            return Err(invalid_params("initialize needs parameters"));
        }
        let asked: Option<String> = params
            .get("protocolVersion")
            .and_then(|version| version.parse().ok());
        let asked = asked.ok_or_else(|| invalid_params("initialize needs a protocolVersion"))?;
        let known = LEGACY_VERSIONS.into_iter().find(|known| *known == asked);
        let introduction = Self {
            capabilities: params
                .get("capabilities")
                .cloned()
                .unwrap_or(RawJson::EMPTY_OBJECT),
            info: params.get("clientInfo").cloned(),
            version: known.unwrap_or(LEGACY_VERSIONS[0]),
            era: Era::Legacy,
        };
        let bytes = introduction.bytes();
        if bytes > INTRODUCTION_LIMIT {
            return Err(invalid_params(format!(
                "the capabilities and the clientInfo have {bytes} bytes, and {INTRODUCTION_LIMIT} are the most: leave out what \
                 servers do not need, such as pictures"
            )));
        }
        Ok(introduction)
    }

    /// How many bytes are kept of it.
    pub(crate) fn bytes(&self) -> usize {
        let info = self.info.as_ref().map_or(0, |info| info.as_bytes().len());
        self.capabilities.as_bytes().len() + info
    }

    /// Who the client says it is.
    pub(crate) fn info(&self) -> Option<RawJson> {
        self.info.clone()
    }

    /// What a modern request says.
    pub(crate) fn of_request(meta: &ClientMeta) -> Self {
        Self {
            capabilities: meta.capabilities.clone().unwrap_or(RawJson::EMPTY_OBJECT),
            info: meta.client_info.clone(),
            version: LEGACY_VERSIONS[0],
            era: Era::Modern,
        }
    }

    /// A copy, so that the message is not kept for as long as a session or a server lives.
    pub(crate) fn copied(&self) -> Self {
        Self {
            capabilities: copy(&self.capabilities),
            info: self.info.as_ref().map(copy),
            version: self.version,
            era: self.era,
        }
    }

    /// How the gateway introduces this client to a server.
    pub(crate) fn to_server(&self) -> Introduction {
        let Self {
            capabilities,
            info,
            version,
            era,
        } = self.copied();
        let [modern] = MODERN_VERSIONS;
        let spoken = match era {
            Era::Legacy => version,
            Era::Modern => modern,
        };
        let introduction = Introduction::new(capabilities).protocol_version(spoken);
        match info {
            Some(info) => introduction.client_info(info),
            None => introduction,
        }
    }
}

fn copy(raw: &RawJson) -> RawJson {
    RawJson::from_text(raw.as_str()).unwrap_or(RawJson::EMPTY_OBJECT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_meta_of_a_client_is_read_and_removed_and_nothing_else() {
        let params = RawJson::from_text(
            r#"{"name":"a", "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","traceparent":"00-1" ,"progressToken":7}}"#,
        )
        .unwrap();
        let params = Params::new(Some(params));
        let meta = ClientMeta::read(&params);
        assert_eq!(meta.era(), Era::Modern);
        assert_eq!(meta.progress_token, Some(RawJson::from(7)));
        assert_eq!(
            without_client(params).to_raw().unwrap().as_str(),
            r#"{"name":"a", "_meta":{"traceparent":"00-1" ,"progressToken":7}}"#
        );
        assert_eq!(ClientMeta::read(&Params::default()).era(), Era::Legacy);
    }

    #[test]
    fn a_result_for_a_modern_client_is_complete_unless_it_says_otherwise() {
        let result = |text: &str| RawJson::from_text(text).unwrap();
        let completed_text = |text: &str, era| completed(result(text), "tools/call", era).to_string();
        assert_eq!(
            completed_text(r#"{"a":1}"#, Era::Modern),
            r#"{"a":1,"resultType":"complete"}"#
        );
        assert_eq!(
            completed_text(r#"{"resultType":"input_required"}"#, Era::Modern),
            r#"{"resultType":"input_required"}"#
        );
        assert_eq!(completed_text(r#"{"a":1}"#, Era::Legacy), r#"{"a":1}"#);
        for (result, expected) in [
            ("{ }", r#"{"resultType":"complete"}"#),
            (r#"{"a":1 }"#, r#"{"a":1 ,"resultType":"complete"}"#),
            (
                r#"{"a":"resultType"}"#,
                r#"{"a":"resultType","resultType":"complete"}"#,
            ),
            (r#"{"result\u0054ype":"x"}"#, r#"{"result\u0054ype":"x"}"#),
            ("[1]", "[1]"),
        ] {
            assert_eq!(completed_text(result, Era::Modern), expected);
        }
    }

    #[test]
    fn an_introduction_that_is_too_long_is_refused() {
        let params = |icon: usize, capability: usize| {
            let (icon, capability) = ("x".repeat(icon), "y".repeat(capability));
            let params = format!(
                r#"{{"protocolVersion":"2025-11-25","clientInfo":{{"name":"{icon}"}},"capabilities":{{"{capability}":{{}}}}}}"#
            );
            Params::new(Some(RawJson::from_text(params).unwrap()))
        };
        let half = INTRODUCTION_LIMIT / 2;
        let said = ClientIntroduction::of_initialize(&params(half, half - 100)).unwrap();
        assert!(said.bytes() > INTRODUCTION_LIMIT - 100, "{}", said.bytes());
        let error = ClientIntroduction::of_initialize(&params(half, half + 1)).unwrap_err();
        assert_eq!(error.code(), RpcError::INVALID_PARAMS);
        assert!(error.message().contains("65536 are the most"), "{error:?}");
    }
}
