//! Clients of the modern era: each request stands alone, and shows in its headers what it is.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::HeaderMap;
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use mainstay::message::{self, Object, RawJson, RpcError};
use serde_json::json;

use super::answering::{Accepts, Answer, Asker, Work, answer};
use super::body::Body;
use super::entrance::Entrance;
use super::post::{Asked, Named};
use super::refusal::Refusal;
use super::stream::Stream;
use crate::client::{Client, Line};
use crate::desk::{Request, ended};
use crate::protocol::{
    CAPABILITIES_KEY, HEADER_MISMATCH, LEGACY_VERSIONS, MISSING_CAPABILITY, MODERN_VERSIONS,
    UNSUPPORTED_VERSION, VERSION_KEY,
};
use crate::scope::Scope;

impl Entrance {
    pub(super) async fn answer_modern(
        self: &Arc<Self>,
        scope: Scope,
        head: &Parts,
        asked: Asked,
        accepts: Accepts,
    ) -> Result<Response<Body>, Refusal> {
        check(&head.headers, &asked)?;
        let stream = Stream::passing();
        if !accepts.events {
            stream.close();
        }
        let stream = Arc::new(stream);
        let work = self.work_alone(scope, stream.clone(), asked);
        Ok(answer(work, stream, Asker::Modern, accepts).await)
    }

    /// The work of answering a request that stands alone.
    fn work_alone(self: &Arc<Self>, scope: Scope, stream: Arc<Stream>, asked: Asked) -> Work {
        let (entrance, job) = (self.clone(), self.busy.begin());
        Box::pin(async move {
            let line: Arc<dyn Line> = stream;
            let client = Client::of_request(scope, &asked.meta);
            let Asked {
                id,
                method,
                params,
                meta,
            } = asked;
            let listens = method == "subscriptions/listen";
            let request = Request {
                client: &client,
                line: &line,
                id: id.clone(),
                method: &method,
                params,
                meta,
            };
            let result = tokio::select! {
                biased;
                result = entrance.desk.answer(request) => result?,
                // It would never end by itself.
                () = entrance.draining(), if listens => Ok(ended(&id)),
            };
            drop(job);
            Some(Answer {
                status: status(&result),
                is_error: result.is_err(),
                message: message::response(&id, &result),
            })
        })
    }
}

/// The status that an answer goes out with, when nothing went before it.
fn status(result: &Result<RawJson, RpcError>) -> StatusCode {
    match result.as_ref().map_err(RpcError::code) {
        Err(RpcError::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Err(HEADER_MISMATCH | MISSING_CAPABILITY | UNSUPPORTED_VERSION) => StatusCode::BAD_REQUEST,
        Ok(_) | Err(_) => StatusCode::OK,
    }
}

/// A version that is not spoken here, and those that are.
pub(super) fn unsupported(version: &str) -> Refusal {
    let supported: Vec<&str> = MODERN_VERSIONS.into_iter().chain(LEGACY_VERSIONS).collect();
    let data = json!({ "supported": supported, "requested": version });
    let error = RpcError::new(
        UNSUPPORTED_VERSION,
        format!("protocol version {version} is not supported"),
    );
    let error = match RawJson::from_value(&data) {
        Ok(data) => error.with_data(data),
        Err(_) => error,
    };
    Refusal::with(StatusCode::BAD_REQUEST, error)
}

/// Checks that a request says what it must, and the same in its headers and its body.
fn check(headers: &HeaderMap, asked: &Asked) -> Result<(), Refusal> {
    let missing = |key: &str| {
        let what = format!("`_meta` must hold {key}");
        Refusal::new(StatusCode::BAD_REQUEST, RpcError::INVALID_PARAMS, what)
    };
    let Some(version) = asked.meta.version.as_deref() else {
        return Err(missing(VERSION_KEY));
    };
    check_equal(
        "MCP-Protocol-Version",
        shown(headers, "mcp-protocol-version"),
        version,
    )?;
    match Named::of(headers) {
        Named::Modern(_) => {}
        // A version with sessions cannot be spoken without one.
        Named::Nothing | Named::Legacy(_) | Named::Unknown(_) => return Err(unsupported(version)),
    }
    if asked.meta.capabilities.is_none() {
        return Err(missing(CAPABILITIES_KEY));
    }
    check_equal("Mcp-Method", shown(headers, "mcp-method"), &asked.method)?;
    let field = match asked.method.as_str() {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        _other => return Ok(()),
    };
    let named: Option<String> = asked
        .params
        .as_ref()
        .and_then(Object::parse)
        .and_then(|params| params.get(field)?.parse().ok());
    match named {
        Some(named) => check_equal("Mcp-Name", decoded(headers, "mcp-name").as_deref(), &named),
        // The desk says what is missing.
        None => Ok(()),
    }
}

fn check_equal(header: &str, shown: Option<&str>, meant: &str) -> Result<(), Refusal> {
    let what = match shown {
        Some(shown) if shown == meant => return Ok(()),
        Some(shown) => format!("the {header} header says {shown:?}, the body {meant:?}"),
        None => format!("the {header} header is missing or unreadable: the body says {meant:?}"),
    };
    Err(Refusal::new(StatusCode::BAD_REQUEST, HEADER_MISMATCH, what))
}

fn shown<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// A header whose value is encoded where it does not fit into one as it is.
pub(super) fn decoded(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = shown(headers, name)?;
    let encoded = value
        .strip_prefix("=?base64?")
        .and_then(|rest| rest.strip_suffix("?="));
    match encoded {
        None => Some(value.to_owned()),
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
    }
}
