//! The opening of one connection: start the process or reach the address, find out its dialect, shake hands.
//!
//! The client begins with `initialize`, then tries `server/discover` and, over HTTP, the stream of HTTP+SSE. If an earlier connection
//! found out the dialect, the client begins with that.

use std::sync::Arc;
use std::time::Duration;

use mainstay_lifecycle::Generation;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::Instrument;

use super::dialect::DialectHint;
use super::inbox::Report;
use super::process_tree::{ProcessTree, StartupActivity};
use super::recovery;
use super::start_queue::{self, QueuedStart, StartPermit};
use super::tasks::Panicked;
use crate::catalog::CallHeaders;
use crate::config::{HttpKind, HttpTarget, StdioTarget, Target};
use crate::connection::{Clock, Connection, InboundHandler};
use crate::process::{InputGauge, Ladder, Process, SpawnError, Spec};
use crate::protocol::{Approach, Dialect, Era, HandshakeError, greet};
use crate::recorder::ConnectionRecorder;
use crate::redaction::Redaction;
use crate::server::{Settings, Slot};
use crate::transport::http::{Challenge, HttpConfigError};
use crate::transport::{HttpFailure, Limits, Lines, Transport};
use crate::wire::{Peer, RequestError};

/// How long a new connection waits for its subscriptions and its log level before it counts as open. What takes longer is
/// restored while the connection is in use.
const RESTORE_GRACE: Duration = Duration::from_secs(2);

/// Why a connection could not be opened. `recovery` says what can resolve it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    #[error("the transport could not be opened: {0}")]
    Connect(#[from] std::io::Error),
    #[error(transparent)]
    Config(Arc<HttpConfigError>),
    #[error("its configuration cannot be used: {0}")]
    Unusable(String),
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    #[error(
        "no sign of life for {0:?} while starting: no answer, no output, no work; if it needs longer, raise its \
         `startup_timeout`"
    )]
    Silent(Duration),
    #[error(transparent)]
    TooSlow(#[from] TooSlow),
    /// The connector of an embedder panicked, or Mainstay itself did.
    #[error("the connection could not be opened: {0}")]
    Panicked(#[from] Panicked),
}

/// A start that took longer than it may in all.
#[derive(Debug, thiserror::Error)]
#[error("not ready {limit:?} after its start{}; if it needs longer, raise its `startup_timeout` above that", still_at_work(.program.as_deref()))]
pub(crate) struct TooSlow {
    limit: Duration,
    /// The program that was at work until the end.
    program: Option<String>,
}

impl TooSlow {
    pub(super) fn new(limit: Duration, program: Option<&str>) -> Self {
        Self {
            limit,
            program: program.map(str::to_owned),
        }
    }
}

fn still_at_work(program: Option<&str>) -> String {
    program.map_or_else(String::new, |program| format!(", and still at work ({program})"))
}

impl DialError {
    /// Whether the server ended the connection.
    pub(super) fn is_loss(&self) -> bool {
        matches!(
            self,
            Self::Handshake(HandshakeError::Failed(RequestError::Lost { .. }))
        )
    }

    pub(crate) fn dialect_hint(&self) -> DialectHint {
        match self {
            Self::Handshake(
                HandshakeError::UnsupportedVersion { .. }
                | HandshakeError::NotOfEra(_)
                | HandshakeError::Echoed,
            )
            | Self::Spawn(_)
            | Self::Connect(_)
            | Self::Config(_)
            | Self::Unusable(_)
            | Self::TooSlow(_)
            | Self::Panicked(_) => DialectHint::None,
            Self::Handshake(HandshakeError::Failed(error)) => match self.http() {
                Some(HttpFailure::Broken { .. } | HttpFailure::StreamEnded) => DialectHint::Doubt,
                Some(
                    HttpFailure::ConnectFailed { .. }
                    | HttpFailure::LocalLack { .. }
                    | HttpFailure::AuthRequired { .. }
                    | HttpFailure::Status { status: 403, .. }
                    | HttpFailure::Throttled { .. }
                    | HttpFailure::NoCredential { .. },
                ) => DialectHint::None,
                None if matches!(error, RequestError::Lost { .. }) => DialectHint::Doubt,
                Some(_) | None => DialectHint::Forget,
            },
            // Both eras were tried on this connection.
            Self::Handshake(HandshakeError::Refused(_) | HandshakeError::BadAnswer { .. }) => {
                DialectHint::Forget
            }
            Self::Silent(_) => DialectHint::Unanswered,
        }
    }

    /// Whether the server neither answered nor ended in its time.
    fn is_silence(&self) -> bool {
        matches!(self, Self::Silent(_) | Self::TooSlow(_))
    }

    /// Whether a server that answers so may speak HTTP+SSE instead. One that is pinned to the modern era never does: such an
    /// answer is [`HandshakeError::NotOfEra`] there.
    fn suggests_sse(&self) -> bool {
        matches!(
            self.http(),
            Some(HttpFailure::Status {
                status: 400 | 404 | 405,
                ..
            })
        )
    }

    /// Whether a server that answers so to a request for its stream has none.
    fn denies_sse(&self) -> bool {
        matches!(
            self.http(),
            Some(
                HttpFailure::Status {
                    status: 400..=499,
                    ..
                } | HttpFailure::Redirect { .. }
                    | HttpFailure::StreamEnded
            )
        )
    }

    /// The failure of the request over HTTP that the dial hung on.
    pub(super) fn http(&self) -> Option<&HttpFailure> {
        match self {
            Self::Handshake(HandshakeError::Failed(error)) => recovery::http(error),
            _other => None,
        }
    }

    /// The directories that a command was searched in that was not found.
    pub(super) fn searched(&self) -> Option<&str> {
        match self {
            Self::Spawn(SpawnError::NotFound { searched, .. }) => searched.as_deref(),
            _other => None,
        }
    }

    /// What a login needs, if the server requires one.
    pub(super) fn challenge(&self) -> Option<&Challenge> {
        match self.http()? {
            HttpFailure::AuthRequired { challenge, .. } => Some(challenge),
            _other => None,
        }
    }
}

/// What one dial needs to know.
pub(crate) struct Dial {
    pub(crate) slot: Arc<Slot>,
    pub(crate) generation: Generation,
    /// Its place in the start queue, where it starts a process.
    pub(crate) queued: Option<QueuedStart>,
    /// The permit for the server's only process tree.
    pub(crate) process_permit: Arc<Semaphore>,
    pub(crate) clock: Clock,
    /// What the connection begins with.
    pub(crate) dialect: Option<Dialect>,
    pub(crate) ladder: Ladder,
}

impl Dial {
    /// Opens the connection. The process belongs to `tree` from the moment its start begins, so that dropping this future
    /// loses no process.
    pub(crate) async fn open(&mut self, tree: &mut ProcessTree) -> Result<Connection, DialError> {
        let mut permit = match self.queued.take() {
            Some(queued) => queued.permit().await,
            None => None,
        };
        self.slot.inbox.report(Report::Begun(self.generation));
        let span = tracing::debug_span!("dial", server = %self.slot.name, generation = %self.generation);
        self.open_begun(tree, &mut permit).instrument(span).await
    }

    async fn open_begun(
        &mut self,
        tree: &mut ProcessTree,
        permit: &mut Option<StartPermit>,
    ) -> Result<Connection, DialError> {
        let settings = self.slot.settings.load_full();
        let plan = DialPlan {
            settings: &settings,
            approach: self.approach(&settings),
            sse: false,
        };
        match settings.target() {
            Target::Stdio(_) | Target::Custom(_) => self.greeted(&plan, tree, permit).await,
            Target::Unusable(unusable) => Err(DialError::Unusable(unusable.reason().to_owned())),
            Target::Http(http) => self.open_http(http, &plan, tree).await,
        }
    }

    /// The failure as a message: with what the server was asked and, where the era may be the cause, the setting for it.
    pub(super) fn explain(&self, error: &DialError) -> String {
        if !error.is_silence() {
            return error.to_string();
        }
        match self.approach(&self.slot.settings.load()) {
            Approach::FindOut(None | Some(Era::Legacy)) => format!(
                "{error}; it did not answer initialize (\"era\": \"modern\" in the server's configuration begins with \
                 server/discover)"
            ),
            Approach::FindOut(Some(Era::Modern)) => format!(
                "{error}; it did not answer server/discover (\"era\": \"legacy\" in the server's configuration begins \
                 with initialize)"
            ),
            Approach::Pinned(Era::Legacy) => {
                format!(
                    "{error}; it did not answer initialize, and \"era\": \"legacy\" rules out server/discover"
                )
            }
            Approach::Pinned(Era::Modern) => {
                format!(
                    "{error}; it did not answer server/discover, and \"era\": \"modern\" rules out initialize"
                )
            }
        }
    }

    fn approach(&self, settings: &Settings) -> Approach {
        let remembered = self.dialect.map(Dialect::era);
        settings
            .era()
            .map_or(Approach::FindOut(remembered), Approach::Pinned)
    }

    async fn open_http(
        &self,
        target: &HttpTarget,
        plan: &DialPlan<'_>,
        tree: &mut ProcessTree,
    ) -> Result<Connection, DialError> {
        // A certificate that was renewed is shown from the next connection on.
        let endpoint = plan.settings.endpoint(target).map_err(DialError::Config)?;
        let reread = endpoint.reread_certificates();
        reread.map_err(|error| DialError::Config(Arc::new(error)))?;
        let sse = DialPlan {
            sse: true,
            approach: Approach::Pinned(Era::Legacy),
            ..*plan
        };
        match (target.kind(), self.dialect) {
            (HttpKind::Sse, _) | (HttpKind::Auto, Some(Dialect::LegacySse)) => {
                self.greeted(&sse, tree, &mut None).await
            }
            (HttpKind::Streamable, _) => self.greeted(plan, tree, &mut None).await,
            (HttpKind::Auto, None | Some(Dialect::Legacy | Dialect::Modern)) => {
                let error = match self.greeted(plan, tree, &mut None).await {
                    Err(error) if error.suggests_sse() => error,
                    done => return done,
                };
                // Where there is no stream either, the answer of the newer transport says more.
                let answer = self.greeted(&sse, tree, &mut None).await;
                answer.map_err(|of_sse| if of_sse.denies_sse() { error } else { of_sse })
            }
        }
    }

    /// Opens one transport and shakes hands. The permit to start, where there is one, is given back when that is done, or
    /// sooner.
    async fn greeted(
        &self,
        plan: &DialPlan<'_>,
        tree: &mut ProcessTree,
        permit: &mut Option<StartPermit>,
    ) -> Result<Connection, DialError> {
        let settings = plan.settings;
        let hard_limit = settings.policy().limits.open;
        let started = Instant::now();
        let (transport, input) = start_queue::holding(permit, self.transport(plan, tree)).await?;
        let inbound = Arc::new(InboundHandler::new(self.slot.clone(), self.generation));
        let recorder = ConnectionRecorder::new(&self.slot.recorder, self.generation);
        let peer = Peer::start(transport, Arc::new(inbound.clone()), recorder);
        let unclaimed_peer = CloseOnDrop(Some(peer.clone()));
        let introduction = self.slot.introduction();
        // The requests of the handshake get a little longer than the whole, so that it is the whole that is too slow.
        let last = started + hard_limit;
        let input = input.map(Arc::new);
        let greeting = greet(&peer, &introduction, plan.approach, last + Duration::from_secs(1));
        let mut activity = StartupActivity::new(self, settings, tree.process(), input.clone(), permit.take());
        let greeting = tokio::select! {
            greeting = timeout_at(last, greeting) => Some(greeting),
            () = activity.ceases() => None,
        };
        let greeting = match greeting {
            Some(Ok(greeting)) => greeting?,
            Some(Err(_)) => return Err(TooSlow::new(hard_limit, activity.program()).into()),
            None => return Err(DialError::Silent(settings.startup_timeout())),
        };
        drop(activity);
        let pid = tree.process().map(Process::pid);
        let dialect = if plan.sse {
            Dialect::LegacySse
        } else {
            greeting.era.into()
        };
        let mut connection =
            Connection::new(unclaimed_peer.keep(), greeting, dialect, inbound, self.clock, pid);
        let in_order = match settings.target() {
            Target::Stdio(_) => true,
            Target::Http(_) | Target::Custom(_) | Target::Unusable(_) => false,
        };
        // The rest is restored while the connection is in use.
        let _ = timeout(RESTORE_GRACE, connection.restore(in_order)).await;
        Ok(connection)
    }

    /// The transport, and a look at the server's input where there is one to see.
    async fn transport(
        &self,
        plan: &DialPlan<'_>,
        tree: &mut ProcessTree,
    ) -> Result<(Box<dyn Transport>, Option<InputGauge>), DialError> {
        match plan.settings.target() {
            Target::Stdio(stdio) => {
                let (generation, ring) = (self.generation.0, self.slot.stderr.clone());
                let (stdin, stdout) = tree
                    .start(spec(stdio, plan.settings.redaction()), generation, ring)
                    .await?;
                let gauge = InputGauge::of(&stdin);
                Ok((
                    Box::new(Lines::new(stdout, stdin, Limits::default())),
                    Some(gauge),
                ))
            }
            Target::Http(target) => {
                let endpoint = plan.settings.endpoint(target).map_err(DialError::Config)?;
                let transport = if plan.sse {
                    endpoint.sse()
                } else {
                    let headers = CallHeaders::of(self.slot.catalog.clone());
                    endpoint.showing(Arc::new(headers)).streamable()
                };
                Ok((transport, None))
            }
            Target::Custom(custom) => Ok((custom.connector().connect().await?, None)),
            Target::Unusable(unusable) => Err(DialError::Unusable(unusable.reason().to_owned())),
        }
    }
}

fn spec(target: &StdioTarget, redaction: &Arc<Redaction>) -> Spec {
    let env = target
        .env()
        .iter()
        .map(|(name, value)| (name.into(), value.expose().into()));
    Spec {
        command: target.command().value().into(),
        args: target.args().iter().map(|arg| arg.value().into()).collect(),
        base_env: target.base_env().map(|base| {
            base.iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect()
        }),
        env: env.collect(),
        cwd: target.cwd().map(|cwd| cwd.value().into()),
        descriptors: target.descriptors(),
        redaction: redaction.clone(),
    }
}

/// One way to open a connection.
#[derive(Clone, Copy)]
struct DialPlan<'a> {
    settings: &'a Settings,
    approach: Approach,
    /// Over HTTP+SSE.
    sse: bool,
}

/// Closes a peer unless it is kept: a handshake that fails or is dropped leaves no reader behind.
struct CloseOnDrop(Option<Peer>);

impl CloseOnDrop {
    fn keep(mut self) -> Peer {
        self.0.take().expect("kept once")
    }
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        if let Some(peer) = self.0.take() {
            peer.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::{End, SendFailure};
    use crate::wire::{BadAnswer, Outcome, RpcError};

    #[test]
    fn how_a_handshake_failed_tells_in_which_era_to_try_next() {
        let hint = |error| DialError::Handshake(error).dialect_hint();
        let lost = RequestError::Lost {
            outcome: Outcome::Unknown,
            end: End::Closed,
        };
        let bad = RequestError::BadAnswer(BadAnswer::Malformed);
        let refusal = RpcError::new(RpcError::INTERNAL_ERROR, "not now");
        assert_eq!(hint(HandshakeError::Failed(lost)), DialectHint::Doubt);
        assert_eq!(hint(HandshakeError::Failed(bad)), DialectHint::Forget);
        assert_eq!(hint(HandshakeError::Refused(refusal)), DialectHint::Forget);
        assert_eq!(
            DialError::Silent(Duration::ZERO).dialect_hint(),
            DialectHint::Unanswered
        );
    }

    #[test]
    fn a_stream_is_denied_by_an_answer_that_refuses_it_and_not_by_a_failure_to_answer() {
        let denies = |failure: HttpFailure| {
            let error = RequestError::Send(SendFailure::new(Outcome::Unknown, failure));
            DialError::Handshake(HandshakeError::Failed(error)).denies_sse()
        };
        let status = |status| HttpFailure::Status {
            status,
            body: String::new(),
        };
        for status in [400, 404, 405, 499].map(status) {
            assert!(denies(status.clone()), "{status:?}");
        }
        assert!(denies(HttpFailure::StreamEnded));
        for failure in [status(500), status(399), HttpFailure::Aborted] {
            assert!(!denies(failure.clone()), "{failure:?}");
        }
        assert!(!DialError::Silent(Duration::ZERO).denies_sse());
    }
}
