//! The opening of one connection: start the process, find out its era, shake hands.

use std::sync::Arc;
use std::time::Duration;

use mainstay_lifecycle::{Generation, Recovery};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::config::{StdioTarget, Target};
use crate::connection::{Clock, Connection, FrontDesk, Reception};
use crate::process::{self, Ladder, Process, SpawnError, Spec};
use crate::protocol::{Era, HandshakeError, greet};
use crate::server::Slot;
use crate::transport::{Limits, Lines, Transport};
use crate::wire::{Peer, RequestError};

/// How long the restoration of all subscriptions and of the log level may take.
const RESTORE_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a connection could not be opened. This is the one place that decides what can mend it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    #[error("the transport could not be opened: {0}")]
    Connect(#[from] std::io::Error),
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    #[error("no sign of life for {0:?} while starting")]
    Silent(Duration),
    #[error("not ready {0:?} after its start")]
    TooSlow(Duration),
}

impl DialError {
    pub(crate) fn recovery(&self) -> Recovery {
        match self {
            Self::Spawn(error) if error.is_permanent() => Recovery::GiveUp,
            Self::Handshake(HandshakeError::UnsupportedVersion { .. }) => Recovery::GiveUp,
            Self::Spawn(_) | Self::Connect(_) | Self::Handshake(_) | Self::Silent(_) | Self::TooSlow(_) => {
                Recovery::Retry
            }
        }
    }

    /// Whether the connection ended by itself, before anybody here gave up on it.
    pub(super) fn is_loss(&self) -> bool {
        match self {
            Self::Handshake(
                HandshakeError::LostWhenProbed | HandshakeError::Failed(RequestError::Lost { .. }),
            ) => true,
            Self::Handshake(_) | Self::Spawn(_) | Self::Connect(_) | Self::Silent(_) | Self::TooSlow(_) => {
                false
            }
        }
    }

    /// Whether what was remembered of the server's era may have caused it.
    pub(crate) fn questions_era(&self) -> bool {
        match self {
            Self::Handshake(HandshakeError::UnsupportedVersion { .. })
            | Self::Spawn(_)
            | Self::Connect(_)
            | Self::TooSlow(_) => false,
            Self::Handshake(_) | Self::Silent(_) => true,
        }
    }
}

/// What one dial needs to know.
pub(crate) struct Dial {
    pub(crate) slot: Arc<Slot>,
    pub(crate) generation: Generation,
    pub(crate) clock: Clock,
    pub(crate) era: Option<Era>,
    pub(crate) ladder: Ladder,
}

impl Dial {
    /// Opens the connection. The process is put into `tree` as soon as it runs, so that whoever drops this future still
    /// owns what it started.
    pub(crate) async fn open(&self, tree: &mut Option<Process>) -> Result<Connection, DialError> {
        match self.open_as(self.era, tree).await {
            // Asked in the modern way it died: start it again and speak the old way. One connection, two processes.
            Err(DialError::Handshake(HandshakeError::LostWhenProbed)) => {
                if let Some(process) = tree.take() {
                    let _ = process.stop(&self.ladder).await;
                }
                self.open_as(Some(Era::Legacy), tree).await
            }
            done => done,
        }
    }

    async fn open_as(&self, era: Option<Era>, tree: &mut Option<Process>) -> Result<Connection, DialError> {
        let settings = self.slot.settings.load_full();
        let hard_limit = settings.policy().limits.open;
        let started = Instant::now();
        let transport = self.transport(settings.target(), tree).await?;
        let reception = Arc::new(Reception::new(self.slot.clone(), self.generation));
        let peer = Peer::start(transport, Arc::new(FrontDesk(reception.clone())));
        let hanging_up = HangUp(Some(peer.clone()));
        let introduction = &self.slot.shared.introduction;
        // The requests of the handshake get a little longer than the whole, so that it is the whole that is too slow.
        let last = started + hard_limit;
        let greeting = greet(&peer, introduction, era, last + Duration::from_secs(1));
        let greeting = tokio::select! {
            greeting = timeout_at(last, greeting) => greeting.map_err(|_| DialError::TooSlow(hard_limit))??,
            () = self.silence(started, settings.startup_timeout()) => {
                return Err(DialError::Silent(settings.startup_timeout()));
            }
        };
        let pid = tree.as_ref().map(Process::pid);
        let mut connection = Connection::new(hanging_up.keep(), greeting, reception, self.clock, pid);
        // A server that cannot restore a wish is still worth more than none.
        if timeout(RESTORE_TIMEOUT, connection.restore(self.slot.interests()))
            .await
            .is_err()
        {
            tracing::warn!(server = %self.slot.name, "subscriptions and log level were not restored in time");
        }
        Ok(connection)
    }

    async fn transport(
        &self,
        target: &Target,
        tree: &mut Option<Process>,
    ) -> Result<Box<dyn Transport>, DialError> {
        match target {
            Target::Stdio(stdio) => {
                let spawned = process::spawn(&spec(stdio), self.generation.0, &self.slot.stderr)?;
                *tree = Some(spawned.process);
                Ok(Box::new(Lines::new(
                    spawned.stdout,
                    spawned.stdin,
                    Limits::default(),
                )))
            }
            Target::Custom(custom) => Ok(custom.connector().connect().await?),
        }
    }

    /// Comes back when the starting server has given no sign of life for `limit`. What it writes to stderr is one: a
    /// package manager on a cold cache says a lot before the server runs.
    async fn silence(&self, started: Instant, limit: Duration) {
        loop {
            let heard = self
                .slot
                .stderr
                .last_activity()
                .map_or(started, |heard| heard.max(started));
            let due = heard + limit;
            if due <= Instant::now() {
                return;
            }
            sleep_until(due).await;
        }
    }
}

fn spec(target: &StdioTarget) -> Spec {
    let env = target
        .env()
        .iter()
        .map(|(name, value)| (name.into(), value.expose().into()));
    Spec {
        command: target.command().value().into(),
        args: target.args().iter().map(|arg| arg.value().into()).collect(),
        env: env.collect(),
        cwd: target.cwd().map(Into::into),
    }
}

/// A peer that is closed unless it is kept: a handshake that fails or is dropped leaves no reader behind.
struct HangUp(Option<Peer>);

impl HangUp {
    fn keep(mut self) -> Peer {
        self.0.take().expect("kept once")
    }
}

impl Drop for HangUp {
    fn drop(&mut self) {
        if let Some(peer) = self.0.take() {
            peer.close();
        }
    }
}
