//! One server, as configured.

use std::sync::Arc;
use std::time::Duration;

use mainstay_lifecycle::Policy;

use super::builder::ServerBuilder;
use super::identity::ServerIdentity;
use super::target::{
    ConfigText, CustomTarget, HttpTarget, Provider, StdioTarget, Target, UnusableTarget, is_package_runner,
};
use super::tool_view::ToolView;
use crate::protocol::Era;
use crate::transport::Connector;
use crate::transport::http::Credentials;

/// How long a server may be idle while it starts. What it writes to stderr, and the work of its processes, are signs of
/// life. Hosts give up after 60 s; they get the reason before.
const DEFAULT_STARTUP_TIMEOUT: Duration = Duration::from_secs(45);

/// How long a package runner may take to install and start a server, as long as it gives signs of life: enough for a
/// large package on a slow line.
pub(super) const PACKAGE_RUNNER_OPEN_LIMIT: Duration = Duration::from_secs(10 * 60);

/// How long a call may take in all. Longer than any tool a person waits for, shorter than a night.
const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// How long a call may take without progress. Many servers never report progress, so this is no short time.
pub(super) const DEFAULT_CALL_IDLE_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// How long a call waits for a connection. A person or a model that asks a server which is known to be down wants to know
/// that, not to wait a minute; and most servers start, or come back, in less.
const DEFAULT_WAIT_TIMEOUT: Duration = Duration::from_secs(15);

/// How many calls may wait for a server that is coming back; each holds its arguments in memory.
const DEFAULT_WAITERS: u32 = 256;

/// One server, as configured; valid by construction.
///
/// Read from a file by [`Configuration`](super::Configuration), or built:
///
/// ```
/// use mainstay::ServerConfig;
///
/// let server = ServerConfig::stdio("files", "npx").args(["-y", "files-server", "/srv"]).build()?;
/// # Ok::<(), mainstay::config::InvalidServer>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    pub(super) target: Target,
    pub(super) settings: CommonSettings,
    pub(super) expected_era: Option<Era>,
}

/// The settings that do not depend on how the server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommonSettings {
    pub(super) name: String,
    pub(super) era: Option<Era>,
    pub(super) enabled: bool,
    pub(super) required: bool,
    pub(super) lazy: bool,
    pub(super) isolation: Isolation,
    pub(super) startup_timeout: Duration,
    pub(super) call_timeout: Duration,
    pub(super) call_idle_timeout: Duration,
    pub(super) wait_timeout: Duration,
    pub(super) waiters: u32,
    pub(super) replay: Replay,
    pub(super) policy: Policy,
    pub(super) tools: ToolView,
}

impl CommonSettings {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            era: None,
            enabled: true,
            required: false,
            lazy: false,
            isolation: Isolation::default(),
            startup_timeout: DEFAULT_STARTUP_TIMEOUT,
            call_timeout: DEFAULT_CALL_TIMEOUT,
            call_idle_timeout: DEFAULT_CALL_IDLE_TIMEOUT,
            wait_timeout: DEFAULT_WAIT_TIMEOUT,
            waiters: DEFAULT_WAITERS,
            replay: Replay::default(),
            policy: Policy::default(),
            tools: ToolView::default(),
        }
    }
}

/// Whether a call that may have run is sent again, once, when its connection was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Replay {
    /// Only for tools that their server hints read-only or idempotent.
    #[default]
    Safe,
    /// For no tool.
    Never,
}

/// Who may share a server, where it is served to several clients. A fleet only carries it: the gateway acts on
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Isolation {
    /// All clients.
    #[default]
    Shared,
    /// No one: each client's session has a process or connection of its own.
    Session,
}

impl ServerConfig {
    /// Starts the configuration of a program that speaks MCP on its standard input and output.
    pub fn stdio(name: impl Into<String>, command: impl Into<ConfigText>) -> ServerBuilder<StdioTarget> {
        ServerBuilder::new(name.into(), StdioTarget::new(command.into()))
    }

    /// Starts the configuration of a server that is reached by an address. Its transport and era are detected.
    pub fn http(name: impl Into<String>, url: impl Into<ConfigText>) -> ServerBuilder<HttpTarget> {
        ServerBuilder::new(name.into(), HttpTarget::new(url.into()))
    }

    /// Starts the configuration of a server that the embedder's own transport reaches. `identity` says which server it is:
    /// while it stays the same, a changed configuration keeps the connection. A changed connector opens the next one.
    pub fn custom(
        name: impl Into<String>,
        identity: impl Into<String>,
        connector: Arc<dyn Connector>,
    ) -> ServerBuilder<CustomTarget> {
        let identity = identity.into();
        ServerBuilder::new(name.into(), CustomTarget { identity, connector })
    }

    /// Starts the configuration of a server that cannot be used, for this reason. It is part of the fleet, so that requests to it
    /// return the reason: each start fails, and none is tried again before a restart or a change of its configuration.
    pub fn unusable(name: impl Into<String>, reason: impl Into<String>) -> ServerBuilder<UnusableTarget> {
        let reason = reason.into();
        ServerBuilder::new(name.into(), UnusableTarget { reason })
    }

    /// The name, unique in its fleet.
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// How the server is reached.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The era that the server is pinned to; without one it is found out.
    pub fn era(&self) -> Option<Era> {
        self.settings.era
    }

    /// Whether a package runner such as `npx` or `docker run` starts it, which may have to install it first.
    pub fn is_package_runner(&self) -> bool {
        match &self.target {
            Target::Stdio(program) => is_package_runner(program),
            Target::Http(_) | Target::Custom(_) | Target::Unusable(_) => false,
        }
    }

    /// Whether the server should run.
    pub fn enabled(&self) -> bool {
        self.settings.enabled
    }

    /// Whether start-up fails when this server does.
    pub fn required(&self) -> bool {
        self.settings.required
    }

    /// Whether the server starts only when it is first needed.
    pub fn lazy(&self) -> bool {
        self.settings.lazy
    }

    /// Who may share the server, where it is served to several clients.
    pub fn isolation(&self) -> Isolation {
        self.settings.isolation
    }

    /// The era that the server is expected to speak.
    pub(crate) fn expected_era(&self) -> Option<Era> {
        self.expected_era
    }

    /// The same server, expected to speak this era: it is tried first, as if an earlier connection had found it out. Unlike a
    /// [pinned](ServerBuilder::era) one it is forgotten when it turns out to be wrong.
    #[must_use]
    pub fn expecting(mut self, era: Era) -> Self {
        self.expected_era = Some(era);
        self
    }

    /// The same server with a provider of credentials. It stays as it is if it is not reached over HTTP, or has a
    /// credential of its own: a token, a header `Authorization`, or another provider.
    #[must_use]
    pub fn with_credentials(mut self, credentials: Arc<dyn Credentials>) -> Self {
        if let Target::Http(target) = &mut self.target
            && !target.has_credentials()
        {
            target.credentials = Some(Provider(credentials));
        }
        self
    }

    /// The same server, enabled or disabled: for what a person chose at run time, which counts more than the file.
    #[must_use]
    pub fn switched(mut self, enabled: bool) -> Self {
        self.settings.enabled = enabled;
        self
    }

    /// The same server, stopped when no call has used it for this long.
    #[must_use]
    pub fn stopped_when_idle(mut self, idle: Duration) -> Self {
        self.settings.policy.idle_stop = Some(idle);
        self
    }

    /// How long the server may be idle while it starts; the policy's `limits.open` bounds the whole.
    pub fn startup_timeout(&self) -> Duration {
        self.settings.startup_timeout
    }

    /// How long a call may take in all.
    pub fn call_timeout(&self) -> Duration {
        self.settings.call_timeout
    }

    /// How long a call may take without progress; never above the whole.
    pub fn call_idle_timeout(&self) -> Duration {
        self.settings.call_idle_timeout
    }

    /// How long a call waits for a connection, inside its own deadline.
    pub fn wait_timeout(&self) -> Duration {
        self.settings.wait_timeout
    }

    /// How many calls may wait while the server is not connected; zero makes every call fail fast.
    pub fn waiters(&self) -> u32 {
        self.settings.waiters
    }

    /// Whether a call that may have run is sent again.
    pub fn replay(&self) -> Replay {
        self.settings.replay
    }

    /// How patiently the server is kept connected.
    pub fn policy(&self) -> &Policy {
        &self.settings.policy
    }

    /// How its tools are shown.
    pub fn tools(&self) -> &ToolView {
        &self.settings.tools
    }

    /// Whether the two differ in `enabled` and in nothing else.
    pub(crate) fn differs_only_in_enabled(&self, other: &Self) -> bool {
        let mut switched = self.clone();
        switched.settings.enabled = other.enabled();
        self.enabled() != other.enabled() && switched == *other
    }

    /// Which server this is: changes exactly when a running connection would no longer be the right one.
    pub fn identity(&self) -> ServerIdentity {
        ServerIdentity::of(&self.target)
    }
}
