//! The opening of a connection: which era, and what the server says of itself.

use std::time::Duration;

use serde::Deserialize;
use tokio::time::{Instant, timeout};

use super::greeting::{Era, Greeting, Offers};
use super::introduction::Introduction;
use super::{LEGACY_VERSIONS, MODERN_VERSIONS};
use crate::handler::METHOD_NOT_FOUND;
use crate::transport::http::Step;
use crate::transport::{HttpFailure, SendFailure};
use crate::wire::{Peer, RawJson, RequestError, RequestOptions, RpcError};

/// How long a server may be silent on the modern question before it is spoken to in the old way as well. A server that
/// is still starting answers both; one that ignores unknown methods would never answer the first.
const PROBE_SILENCE: Duration = Duration::from_secs(2);

/// "Unsupported protocol version", with the supported ones in its data.
const UNSUPPORTED_VERSION: i64 = -32022;

/// "The headers do not match the body".
const HEADER_MISMATCH: i64 = -32020;

/// "The client lacks a capability that this needs".
const MISSING_CAPABILITY: i64 = -32021;

/// Why a handshake failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeError {
    /// Many servers exit when they are first asked in the modern way; they want to be started again and spoken to in the
    /// old way.
    #[error("the connection ended when the server was asked for its era")]
    LostWhenProbed,
    #[error(
        "the server speaks protocol version {offered}, and Mainstay speaks {}",
        known_versions()
    )]
    UnsupportedVersion { offered: String },
    #[error("the server does not speak the {0} era, which the configuration pins it to")]
    NotOfEra(Era),
    #[error("the server refused to open the conversation: {0}")]
    Refused(RpcError),
    #[error("the answer to {method} is not valid: {reason}")]
    BadAnswer { method: &'static str, reason: String },
    #[error("the handshake did not complete: {0}")]
    Failed(RequestError),
}

/// What is known of a server's era before the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Approach {
    /// Nothing, or what an earlier connection found out.
    FindOut(Option<Era>),
    /// A person said so, and no other will do.
    Pinned(Era),
}

/// Opens the conversation.
///
/// Cancel safety: dropping it leaves the peer with an answer that nobody wants; the connection must then be closed.
pub(crate) async fn greet(
    peer: &Peer,
    introduction: &Introduction,
    approach: Approach,
    deadline: Instant,
) -> Result<Greeting, HandshakeError> {
    match approach {
        Approach::FindOut(Some(Era::Legacy)) => {
            return initialize(peer, introduction, deadline).await;
        }
        Approach::Pinned(Era::Legacy) => {
            return match initialize(peer, introduction, deadline).await {
                Err(HandshakeError::Refused(error)) if is_of_modern(&error) => {
                    Err(HandshakeError::NotOfEra(Era::Legacy))
                }
                done => done,
            };
        }
        Approach::Pinned(Era::Modern) => {
            return match discover(peer, introduction, deadline).await? {
                Discovered::Modern(greeting) => Ok(greeting),
                Discovered::NotModern => Err(HandshakeError::NotOfEra(Era::Modern)),
                Discovered::Unclear(failure) => Err(HandshakeError::Failed(RequestError::Send(failure))),
                Discovered::Lost(error) => Err(HandshakeError::Failed(error)),
            };
        }
        Approach::FindOut(None | Some(Era::Modern)) => {}
    }
    let probe = discover(peer, introduction, deadline);
    tokio::pin!(probe);
    if let Ok(answer) = timeout(PROBE_SILENCE, probe.as_mut()).await {
        return match answer? {
            Discovered::Modern(greeting) => Ok(greeting),
            Discovered::NotModern | Discovered::Unclear(_) => initialize(peer, introduction, deadline).await,
            Discovered::Lost(error) => Err(match approach {
                // It has answered this before: there is nothing to learn from its end.
                Approach::FindOut(Some(_)) | Approach::Pinned(_) => HandshakeError::Failed(error),
                Approach::FindOut(None) => HandshakeError::LostWhenProbed,
            }),
        };
    }
    // Both questions stand now. The old one decides; if it is refused, a late modern answer still counts.
    match initialize(peer, introduction, deadline).await {
        Err(HandshakeError::Refused(error)) => match probe.await {
            Ok(Discovered::Modern(greeting)) => Ok(greeting),
            Ok(Discovered::NotModern | Discovered::Unclear(_) | Discovered::Lost(_)) | Err(_) => {
                Err(HandshakeError::Refused(error))
            }
        },
        done => done,
    }
}

enum Discovered {
    Modern(Greeting),
    NotModern,
    /// What answered may not have been the server: a gateway in its place, say. An old server is as likely as a modern one
    /// that is ill.
    Unclear(SendFailure),
    /// The connection ended before the answer.
    Lost(RequestError),
}

async fn discover(
    peer: &Peer,
    introduction: &Introduction,
    deadline: Instant,
) -> Result<Discovered, HandshakeError> {
    let [version] = MODERN_VERSIONS;
    let params = introduction.to_meta().stamp(None);
    let ask = || peer.request("server/discover", Some(params.clone()), opening(deadline));
    let mut answer = ask().await;
    // Of several servers behind one address some may not be upgraded yet: one that refuses a version and offers the same
    // is asked once more.
    if matches!(&answer, Err(RequestError::Rpc(error)) if offered(error).iter().any(|offered| offered == version))
    {
        answer = ask().await;
    }
    match answer {
        Ok(result) => discovered(&result),
        Err(RequestError::Rpc(error)) if error.code() == UNSUPPORTED_VERSION => none_of(&offered(&error)),
        // Only a modern server knows these. It would not know `initialize`, and what it has against this client is said.
        Err(RequestError::Rpc(error)) if [HEADER_MISMATCH, MISSING_CAPABILITY].contains(&error.code()) => {
            Err(HandshakeError::Refused(error))
        }
        Err(error @ RequestError::Lost { .. }) => Ok(Discovered::Lost(error)),
        Err(RequestError::Send(failure)) => not_carried(failure),
        Err(RequestError::Rpc(_) | RequestError::BadAnswer(_) | RequestError::TimedOut { .. }) => {
            Ok(Discovered::NotModern)
        }
    }
}

/// What became of a question that a transport over HTTP could not carry: whatever the server says to it, but for what
/// it would say to any, means that it is not modern.
fn not_carried(failure: SendFailure) -> Result<Discovered, HandshakeError> {
    let Some(http) = failure.error().downcast_ref() else {
        return Ok(Discovered::NotModern);
    };
    match http {
        HttpFailure::Broken { .. } | HttpFailure::Malformed { .. } | HttpFailure::StreamEnded => {
            Ok(Discovered::Lost(RequestError::Send(failure)))
        }
        HttpFailure::Status {
            status: 400..=499, ..
        } => Ok(Discovered::NotModern),
        HttpFailure::Status { .. }
        | HttpFailure::WrongContentType { .. }
        | HttpFailure::BodyTooLarge { .. }
        | HttpFailure::TimedOut {
            step: Step::FirstByte,
            ..
        } => Ok(Discovered::Unclear(failure)),
        HttpFailure::SessionLost { .. }
        | HttpFailure::AuthRequired { .. }
        | HttpFailure::Throttled { .. }
        | HttpFailure::Redirect { .. }
        | HttpFailure::ForeignAddress { .. }
        | HttpFailure::ConnectFailed { .. }
        | HttpFailure::LocalLack { .. }
        | HttpFailure::TimedOut { .. }
        | HttpFailure::NoCredential { .. }
        | HttpFailure::Aborted => Err(HandshakeError::Failed(RequestError::Send(failure))),
    }
}

fn discovered(result: &RawJson) -> Result<Discovered, HandshakeError> {
    // A legacy server that answers anything it is asked is no modern server.
    let Ok(answer) = result.parse::<DiscoverResult>() else {
        return Ok(Discovered::NotModern);
    };
    let version = MODERN_VERSIONS
        .into_iter()
        .find(|known| answer.supported_versions.iter().any(|v| v == known));
    let Some(version) = version else {
        return none_of(&answer.supported_versions);
    };
    Ok(Discovered::Modern(Greeting {
        era: Era::Modern,
        version: version.to_owned(),
        offers: Offers::of(&answer.capabilities),
        capabilities: answer.capabilities,
        server_info: answer.meta.and_then(|meta| meta.server_info),
        instructions: answer.instructions,
    }))
}

/// What a server offers instead of the version it refuses.
fn offered(error: &RpcError) -> Vec<String> {
    let data = error.data().filter(|_| error.code() == UNSUPPORTED_VERSION);
    let answer = data.and_then(|data| data.parse::<UnsupportedVersion>().ok());
    answer.map(|answer| answer.supported).unwrap_or_default()
}

/// The server is not of the modern version that Mainstay speaks: an older one may do, otherwise it is refused.
fn none_of(supported: &[String]) -> Result<Discovered, HandshakeError> {
    let legacy = LEGACY_VERSIONS
        .into_iter()
        .any(|known| supported.iter().any(|version| version == known));
    if legacy || supported.is_empty() {
        return Ok(Discovered::NotModern);
    }
    Err(HandshakeError::UnsupportedVersion {
        offered: supported.join(", "),
    })
}

async fn initialize(
    peer: &Peer,
    introduction: &Introduction,
    deadline: Instant,
) -> Result<Greeting, HandshakeError> {
    let params = Some(introduction.to_params());
    let result = match peer.request("initialize", params, opening(deadline)).await {
        Ok(result) => result,
        Err(RequestError::Rpc(error)) => return Err(HandshakeError::Refused(error)),
        Err(error) => return Err(HandshakeError::Failed(error)),
    };
    let answer: InitializeResult = result.parse().map_err(|error| HandshakeError::BadAnswer {
        method: "initialize",
        reason: error.to_string(),
    })?;
    if !LEGACY_VERSIONS.contains(&answer.protocol_version.as_str()) {
        return Err(HandshakeError::UnsupportedVersion {
            offered: answer.protocol_version,
        });
    }
    peer.notify("notifications/initialized", None, deadline)
        .await
        .map_err(HandshakeError::Failed)?;
    Ok(Greeting {
        era: Era::Legacy,
        version: answer.protocol_version,
        offers: Offers::of(&answer.capabilities),
        capabilities: answer.capabilities,
        server_info: answer.server_info,
        instructions: answer.instructions,
    })
}

/// Whether this is how a server of the modern era refuses `initialize`.
fn is_of_modern(refusal: &RpcError) -> bool {
    matches!(refusal.code(), UNSUPPORTED_VERSION | METHOD_NOT_FOUND)
}

/// The protocol forbids to cancel `initialize`, and nobody waits for an abandoned probe.
fn opening(deadline: Instant) -> RequestOptions {
    RequestOptions::until(deadline).not_cancellable()
}

fn known_versions() -> String {
    MODERN_VERSIONS
        .into_iter()
        .chain(LEGACY_VERSIONS)
        .collect::<Vec<_>>()
        .join(", ")
}

/// The capabilities of a server that does not name any.
fn nothing() -> RawJson {
    RawJson::EMPTY_OBJECT
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DiscoverResult {
    supported_versions: Vec<String>,
    #[serde(default = "nothing")]
    capabilities: RawJson,
    instructions: Option<String>,
    #[serde(rename = "_meta")]
    meta: Option<ResultMeta>,
}

#[derive(Deserialize)]
struct ResultMeta {
    #[serde(rename = "io.modelcontextprotocol/serverInfo")]
    server_info: Option<RawJson>,
}

#[derive(Deserialize)]
struct UnsupportedVersion {
    supported: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitializeResult {
    protocol_version: String,
    #[serde(default = "nothing")]
    capabilities: RawJson,
    server_info: Option<RawJson>,
    instructions: Option<String>,
}
