//! The opening of a connection: which era, and what the server says of itself.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::greeting::{Era, Greeting, Offers};
use super::introduction::Introduction;
use super::{LEGACY_VERSIONS, MODERN_VERSIONS};
use crate::handler::decline;
use crate::transport::http::HttpStage;
use crate::transport::{HttpFailure, SendFailure};
use crate::wire::{Peer, RawJson, RequestError, RequestOptions, RpcError};

/// How long a server that refused `initialize` may take to answer `server/discover`. A server that ignores unknown methods never
/// answers it.
const DISCOVER_TIMEOUT: Duration = Duration::from_secs(10);

/// "Unsupported protocol version", with the supported ones in its data.
const UNSUPPORTED_VERSION: i64 = -32022;

/// "The headers do not match the body".
const HEADER_MISMATCH: i64 = -32020;

/// "The client lacks a capability that this needs".
const MISSING_CAPABILITY: i64 = -32021;

/// Why a handshake failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeError {
    #[error(
        "the server speaks protocol version {offered}, and Mainstay speaks {}",
        known_versions()
    )]
    UnsupportedVersion { offered: String },
    #[error("the server does not speak the {0} era, which the configuration pins it to")]
    NotOfEra(Era),
    #[error("the server refused to open the conversation: {0}")]
    Refused(RpcError),
    /// The answer is this client's own refusal to answer `initialize`.
    #[error(
        "the program writes back what it reads: it is no MCP server, or a terminal between them echoes (as with `ssh -t`)"
    )]
    Echoed,
    #[error("the answer to {method} is not valid: {reason}")]
    BadAnswer {
        method: &'static str,
        reason: &'static str,
    },
    #[error("{}", incomplete(.0))]
    Failed(RequestError),
}

impl HandshakeError {
    /// Whether a server of the modern era may answer `initialize` so. No answer from the server itself shows nothing.
    fn may_be_of_modern(&self) -> bool {
        match self {
            Self::Refused(_) | Self::BadAnswer { .. } => true,
            Self::UnsupportedVersion { offered } => MODERN_VERSIONS.contains(&offered.as_str()),
            Self::Failed(RequestError::Send(failure)) => {
                matches!(not_carried(failure), Carried::NotModern | Carried::Unclear)
            }
            Self::Failed(_) | Self::NotOfEra(_) | Self::Echoed => false,
        }
    }
}

/// A handshake that could not even begin is not to blame for that.
fn incomplete(error: &RequestError) -> String {
    let failure = match error {
        RequestError::Send(failure) => failure.error().downcast_ref(),
        RequestError::Rpc(_)
        | RequestError::Lost { .. }
        | RequestError::TimedOut { .. }
        | RequestError::Cancelled { .. }
        | RequestError::BadAnswer(_) => None,
    };
    match failure {
        Some(failure @ HttpFailure::ConnectFailed { .. }) => failure.to_string(),
        Some(_) | None => format!("the handshake did not complete: {error}"),
    }
}

/// What is known of a server's era before the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Approach {
    /// Nothing, or what an earlier connection found out.
    FindOut(Option<Era>),
    /// A person said so, and no other will do.
    Pinned(Era),
}

/// Performs the handshake.
///
/// Cancel safety: dropping it leaves a request unanswered; the connection must then be closed.
pub(crate) async fn greet(
    peer: &Peer,
    introduction: &Introduction,
    approach: Approach,
    deadline: Instant,
) -> Result<Greeting, HandshakeError> {
    let handshake = Handshake {
        peer,
        introduction,
        deadline,
    };
    match approach {
        Approach::FindOut(None | Some(Era::Legacy)) => handshake.begin_legacy().await,
        Approach::FindOut(Some(Era::Modern)) => handshake.begin_modern().await,
        Approach::Pinned(Era::Legacy) => match handshake.initialize().await {
            Err(HandshakeError::Refused(error)) if is_of_modern(&error) => {
                Err(HandshakeError::NotOfEra(Era::Legacy))
            }
            done => done,
        },
        Approach::Pinned(Era::Modern) => match handshake.discover().await? {
            DiscoverOutcome::Modern(greeting) => Ok(greeting),
            DiscoverOutcome::NotModern => Err(HandshakeError::NotOfEra(Era::Modern)),
            DiscoverOutcome::Unclear(failure) => Err(HandshakeError::Failed(RequestError::Send(failure))),
            DiscoverOutcome::Lost(error) => Err(HandshakeError::Failed(error)),
        },
    }
}

/// Asks a server that has a session whether it speaks the modern era too.
///
/// Cancel safety: dropping it leaves a request unanswered, which the server may go on with.
pub(crate) async fn discover_beside(
    peer: &Peer,
    introduction: &Introduction,
    deadline: Instant,
) -> Option<Greeting> {
    let params = introduction.to_meta().stamp(None);
    let options = RequestOptions::until(deadline).sessionless();
    let answer = peer.request("server/discover", Some(params), options).await;
    match discovered(&answer.ok()?) {
        Ok(DiscoverOutcome::Modern(greeting)) => Some(greeting),
        Ok(DiscoverOutcome::NotModern | DiscoverOutcome::Unclear(_) | DiscoverOutcome::Lost(_)) | Err(_) => {
            None
        }
    }
}

/// What every question of one handshake needs.
struct Handshake<'a> {
    peer: &'a Peer,
    introduction: &'a Introduction,
    deadline: Instant,
}

impl Handshake<'_> {
    /// Sends `initialize`, and `server/discover` if the server does not know it. A server that speaks both eras gets a session: it has
    /// a channel back to the client, which the modern era lacks.
    async fn begin_legacy(&self) -> Result<Greeting, HandshakeError> {
        let refusal = match self.initialize().await {
            Err(error) if error.may_be_of_modern() => error,
            done => return done,
        };
        match timeout(DISCOVER_TIMEOUT, self.discover()).await {
            Ok(Ok(DiscoverOutcome::Modern(greeting))) => Ok(greeting),
            // A legacy server has no such objections, and a failure of any request says more than the refusal.
            Ok(Err(error)) => Err(error),
            Ok(Ok(DiscoverOutcome::NotModern | DiscoverOutcome::Unclear(_) | DiscoverOutcome::Lost(_)))
            | Err(_) => Err(refusal),
        }
    }

    /// Sends `server/discover` to a server that is taken to be modern, and `initialize` if it is not.
    async fn begin_modern(&self) -> Result<Greeting, HandshakeError> {
        match self.discover().await? {
            DiscoverOutcome::Modern(greeting) => Ok(greeting),
            DiscoverOutcome::NotModern | DiscoverOutcome::Unclear(_) => self.initialize().await,
            DiscoverOutcome::Lost(error) => Err(HandshakeError::Failed(error)),
        }
    }

    async fn discover(&self) -> Result<DiscoverOutcome, HandshakeError> {
        let [version] = MODERN_VERSIONS;
        let params = self.introduction.to_meta().stamp(None);
        let ask = || {
            self.peer
                .request("server/discover", Some(params.clone()), opening(self.deadline))
        };
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
            // It would not know `initialize`, and what it has against this client is said.
            Err(RequestError::Rpc(error)) if is_only_modern(&error) => Err(HandshakeError::Refused(error)),
            Err(error @ RequestError::Lost { .. }) => Ok(DiscoverOutcome::Lost(error)),
            Err(RequestError::Send(failure)) => match not_carried(&failure) {
                Carried::NotModern => Ok(DiscoverOutcome::NotModern),
                Carried::Unclear => Ok(DiscoverOutcome::Unclear(failure)),
                Carried::Lost => Ok(DiscoverOutcome::Lost(RequestError::Send(failure))),
                Carried::AnyRequest => Err(HandshakeError::Failed(RequestError::Send(failure))),
            },
            Err(
                RequestError::Rpc(_)
                | RequestError::BadAnswer(_)
                | RequestError::TimedOut { .. }
                | RequestError::Cancelled { .. },
            ) => Ok(DiscoverOutcome::NotModern),
        }
    }

    async fn initialize(&self) -> Result<Greeting, HandshakeError> {
        let params = Some(self.introduction.to_params());
        let result = match self
            .peer
            .request("initialize", params, opening(self.deadline))
            .await
        {
            Ok(result) => result,
            Err(RequestError::Rpc(error)) if is_own_refusal(&error) => return Err(HandshakeError::Echoed),
            Err(RequestError::Rpc(error)) => return Err(HandshakeError::Refused(error)),
            Err(error) => return Err(HandshakeError::Failed(error)),
        };
        let Ok(answer) = result.parse::<InitializeResult>() else {
            return Err(HandshakeError::BadAnswer {
                method: "initialize",
                reason: fault_of(&result),
            });
        };
        if !LEGACY_VERSIONS.contains(&answer.protocol_version.as_str()) {
            return Err(HandshakeError::UnsupportedVersion {
                offered: answer.protocol_version,
            });
        }
        self.peer
            .notify("notifications/initialized", None, self.deadline)
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
}

/// What is wrong with an answer to `initialize`, in the words of the protocol.
fn fault_of(result: &RawJson) -> &'static str {
    let Ok(answer) = result.parse::<Value>() else {
        return "it is no JSON";
    };
    match (answer.as_object(), answer.get("protocolVersion")) {
        (None, _) => "it is not an object",
        (Some(_), None) => "it has no `protocolVersion`",
        (Some(_), Some(version)) if !version.is_string() => "its `protocolVersion` is not a string",
        (Some(_), Some(_)) => "its `instructions` are not a string",
    }
}

enum DiscoverOutcome {
    Modern(Greeting),
    NotModern,
    /// What answered may not have been the server: a gateway in its place, say. An old server is as likely as a modern one
    /// that is ill.
    Unclear(SendFailure),
    /// The connection ended before the answer.
    Lost(RequestError),
}

/// What an HTTP failure of a handshake's request says about the era.
enum Carried {
    /// The server does not know the request.
    NotModern,
    /// Something else may have answered in the server's place.
    Unclear,
    /// The connection ended before the answer.
    Lost,
    /// Any other request would fail in the same way.
    AnyRequest,
}

fn not_carried(failure: &SendFailure) -> Carried {
    let Some(http) = failure.error().downcast_ref() else {
        return Carried::NotModern;
    };
    match http {
        HttpFailure::Broken { .. } | HttpFailure::Malformed { .. } | HttpFailure::StreamEnded => {
            Carried::Lost
        }
        HttpFailure::Status {
            status: 400..=499, ..
        } => Carried::NotModern,
        HttpFailure::Status { .. }
        | HttpFailure::WrongContentType { .. }
        | HttpFailure::BodyTooLarge { .. }
        | HttpFailure::TimedOut {
            step: HttpStage::FirstByte,
            ..
        } => Carried::Unclear,
        HttpFailure::SessionLost { .. }
        | HttpFailure::AuthRequired { .. }
        | HttpFailure::Throttled { .. }
        | HttpFailure::Redirect { .. }
        | HttpFailure::ForeignAddress { .. }
        | HttpFailure::Compressed { .. }
        | HttpFailure::ConnectFailed { .. }
        | HttpFailure::LocalLack { .. }
        | HttpFailure::TimedOut { .. }
        | HttpFailure::NoCredential { .. }
        | HttpFailure::Aborted => Carried::AnyRequest,
    }
}

fn discovered(result: &RawJson) -> Result<DiscoverOutcome, HandshakeError> {
    // A legacy server that answers anything it is asked is no modern server.
    let Ok(answer) = result.parse::<DiscoverResult>() else {
        return Ok(DiscoverOutcome::NotModern);
    };
    let version = MODERN_VERSIONS
        .into_iter()
        .find(|known| answer.supported_versions.iter().any(|v| v == known));
    let Some(version) = version else {
        return none_of(&answer.supported_versions);
    };
    Ok(DiscoverOutcome::Modern(Greeting {
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
fn none_of(supported: &[String]) -> Result<DiscoverOutcome, HandshakeError> {
    let legacy = LEGACY_VERSIONS
        .into_iter()
        .any(|known| supported.iter().any(|version| version == known));
    if legacy || supported.is_empty() {
        return Ok(DiscoverOutcome::NotModern);
    }
    Err(HandshakeError::UnsupportedVersion {
        offered: supported.join(", "),
    })
}

/// Whether only a server of the modern era answers so.
fn is_only_modern(error: &RpcError) -> bool {
    matches!(error.code(), HEADER_MISMATCH | MISSING_CAPABILITY)
}

/// Whether this is how a server of the modern era refuses `initialize`.
fn is_of_modern(refusal: &RpcError) -> bool {
    matches!(refusal.code(), UNSUPPORTED_VERSION | RpcError::METHOD_NOT_FOUND)
}

/// Whether this is how this client answers a server that sends `initialize`.
fn is_own_refusal(error: &RpcError) -> bool {
    let own = decline("initialize");
    error.code() == own.code() && error.message() == own.message()
}

/// The protocol forbids to cancel `initialize`, and the answer to an abandoned probe is dropped.
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
