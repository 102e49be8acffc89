//! The opening of a connection: which era, and what the server says of itself.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, sleep_until, timeout};

use super::greeting::{Era, Greeting, Offers};
use super::introduction::Introduction;
use super::{LEGACY_VERSIONS, MODERN_VERSIONS};
use crate::handler::decline;
use crate::transport::http::HttpStage;
use crate::transport::{End, HttpFailure, SendFailure};
use crate::wire::{Peer, RawJson, RequestError, RequestOptions, RpcError};

/// How long a server may have the modern question without an answer before the client sends `initialize` as well. A
/// server that ignores unknown methods would never answer the first.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a server of unknown era may have `initialize` without an answer after it was probed. Some servers answer
/// nothing more once they have read a request that they do not know; only a new process helps them. A server that is
/// merely slow loses one start, once.
const PROBED_TIMEOUT: Duration = Duration::from_secs(8);

/// How often the client looks whether the server has read its input: short beside both timeouts.
const READ_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// "Unsupported protocol version", with the supported ones in its data.
const UNSUPPORTED_VERSION: i64 = -32022;

/// "The headers do not match the body".
const HEADER_MISMATCH: i64 = -32020;

/// "The client lacks a capability that this needs".
const MISSING_CAPABILITY: i64 = -32021;

/// What becomes of a server that did not survive the probe, and how a person can spare it the probe.
pub(crate) const INITIALIZE_NEXT: &str = "the next attempt begins with initialize (\"era\": \"legacy\" in the server's configuration skips server/discover)";

/// Why a handshake failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeError {
    /// Many servers exit at `server/discover`, or at the next message after it. They
    /// need a new start that begins with `initialize`.
    #[error("the connection ended after server/discover, the modern era's first request; {INITIALIZE_NEXT}")]
    LostWhenProbed,
    /// Some servers stop answering after `server/discover`.
    #[error("no answer to initialize within {0:?}, which followed server/discover; {INITIALIZE_NEXT}")]
    SilentWhenProbed(Duration),
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
    /// Whether the server answered as no server of the legacy era would.
    pub(crate) fn shows_modern(&self) -> bool {
        matches!(self, Self::Refused(error) if is_only_modern(error))
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

/// What can be observed of a server beside its messages.
#[derive(Clone, Copy)]
pub(crate) struct PipeView<'a> {
    /// Whether a part of what was written is still unread in the pipe: a server that is still starting reads nothing.
    /// `false` where that cannot be observed.
    pub(crate) has_unread: &'a (dyn Fn() -> bool + Sync),
    /// Whether the next connection starts a new process, which has not seen the requests of this one.
    pub(crate) starts_new_process: bool,
}

/// Performs the handshake.
///
/// Cancel safety: dropping it leaves a request unanswered; the connection must then be closed.
pub(crate) async fn greet(
    peer: &Peer,
    introduction: &Introduction,
    approach: Approach,
    remote: PipeView<'_>,
    deadline: Instant,
) -> Result<Greeting, HandshakeError> {
    let handshake = Handshake {
        peer,
        introduction,
        remote,
        deadline,
    };
    match approach {
        Approach::FindOut(Some(Era::Legacy)) => handshake.resume_legacy().await,
        Approach::FindOut(known @ (None | Some(Era::Modern))) => handshake.find_out(known).await,
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

/// What every question of one handshake needs.
struct Handshake<'a> {
    peer: &'a Peer,
    introduction: &'a Introduction,
    remote: PipeView<'a>,
    deadline: Instant,
}

impl Handshake<'_> {
    /// Greets a server that is taken to be of the legacy era. One that has become modern refuses `initialize`, and is then
    /// asked in the modern way.
    async fn resume_legacy(&self) -> Result<Greeting, HandshakeError> {
        let refusal = match self.initialize().await {
            Err(HandshakeError::Refused(refusal)) => refusal,
            done => return done,
        };
        match timeout(PROBE_TIMEOUT, self.discover()).await {
            Ok(Ok(DiscoverOutcome::Modern(greeting))) => Ok(greeting),
            Ok(
                Ok(DiscoverOutcome::NotModern | DiscoverOutcome::Unclear(_) | DiscoverOutcome::Lost(_))
                | Err(_),
            )
            | Err(_) => Err(HandshakeError::Refused(refusal)),
        }
    }

    /// Asks in the modern way first, and in the old way where that has no modern answer.
    async fn find_out(&self, known: Option<Era>) -> Result<Greeting, HandshakeError> {
        let mut probe = std::pin::pin!(self.discover());
        tokio::select! {
            biased;
            answer = probe.as_mut() => return match answer? {
                DiscoverOutcome::Modern(greeting) => Ok(greeting),
                DiscoverOutcome::NotModern | DiscoverOutcome::Unclear(_) => {
                    self.initialize_probed(known, self.remote.starts_new_process).await
                }
                DiscoverOutcome::Lost(error) => Err(match known {
                    // It has answered this before: there is nothing to learn from its end.
                    Some(_) => HandshakeError::Failed(error),
                    None => HandshakeError::LostWhenProbed,
                }),
            },
            () = self.unanswered_for(PROBE_TIMEOUT) => {}
        }
        // Both questions stand now. The modern answer still counts if it comes first, or if the old question is refused.
        let mut late = std::pin::pin!(async {
            match probe.await {
                Ok(DiscoverOutcome::Modern(greeting)) => greeting,
                Ok(DiscoverOutcome::NotModern | DiscoverOutcome::Unclear(_) | DiscoverOutcome::Lost(_))
                | Err(_) => std::future::pending().await,
            }
        });
        tokio::select! {
            biased;
            greeting = late.as_mut() => Ok(greeting),
            done = self.initialize_probed(known, true) => match done {
                Err(HandshakeError::Refused(refusal)) => match timeout(PROBE_TIMEOUT, late).await {
                    Ok(greeting) => Ok(greeting),
                    Err(_) => Err(HandshakeError::Refused(refusal)),
                },
                done => done,
            },
        }
    }

    /// Sends `initialize` to a server that was probed and did not answer as a modern one. If its era is unknown and
    /// `initialize` fails, the failure is attributed to the probe.
    async fn initialize_probed(
        &self,
        known: Option<Era>,
        blames_probe: bool,
    ) -> Result<Greeting, HandshakeError> {
        if known.is_some() {
            return self.initialize().await;
        }
        let done = tokio::select! {
            biased;
            done = self.initialize() => done,
            () = self.unanswered_for(PROBED_TIMEOUT), if self.remote.starts_new_process => {
                return Err(HandshakeError::SilentWhenProbed(PROBED_TIMEOUT));
            }
        };
        match done {
            Err(HandshakeError::Failed(error)) if blames_probe && is_loss(&error) => {
                Err(HandshakeError::LostWhenProbed)
            }
            done => done,
        }
    }

    /// Completes when the server has left the last request unanswered for this long. The time in which the request lies unread does
    /// not count: the server is still starting.
    async fn unanswered_for(&self, limit: Duration) {
        let mut since = Instant::now();
        loop {
            let now = Instant::now();
            if (self.remote.has_unread)() {
                since = now;
            }
            let due = since + limit;
            if due <= now {
                return;
            }
            sleep_until(due.min(now + READ_CHECK_INTERVAL)).await;
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
            Err(RequestError::Send(failure)) => not_carried(failure),
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

/// What an HTTP failure of `server/discover` means. An error that is specific to this method means that the server is not modern; an
/// error that any request would get says nothing.
fn not_carried(failure: SendFailure) -> Result<DiscoverOutcome, HandshakeError> {
    let Some(http) = failure.error().downcast_ref() else {
        return Ok(DiscoverOutcome::NotModern);
    };
    match http {
        HttpFailure::Broken { .. } | HttpFailure::Malformed { .. } | HttpFailure::StreamEnded => {
            Ok(DiscoverOutcome::Lost(RequestError::Send(failure)))
        }
        HttpFailure::Status {
            status: 400..=499, ..
        } => Ok(DiscoverOutcome::NotModern),
        HttpFailure::Status { .. }
        | HttpFailure::WrongContentType { .. }
        | HttpFailure::BodyTooLarge { .. }
        | HttpFailure::TimedOut {
            step: HttpStage::FirstByte,
            ..
        } => Ok(DiscoverOutcome::Unclear(failure)),
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
        | HttpFailure::Aborted => Err(HandshakeError::Failed(RequestError::Send(failure))),
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

/// Whether the server, or its connection, ended before the answer.
fn is_loss(error: &RequestError) -> bool {
    match error {
        RequestError::Lost {
            end: End::NotOpened(_),
            ..
        } => false,
        RequestError::Lost { .. } => true,
        RequestError::Send(failure) => matches!(
            failure.error().downcast_ref(),
            Some(HttpFailure::Broken { .. } | HttpFailure::StreamEnded)
        ),
        RequestError::Rpc(_)
        | RequestError::BadAnswer(_)
        | RequestError::TimedOut { .. }
        | RequestError::Cancelled { .. } => false,
    }
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
