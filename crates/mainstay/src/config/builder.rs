//! Configures a server from Rust. The reader of files uses it too, so both are held to the same.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mainstay_lifecycle::{Limits, Policy};

use super::check::{self, Flaw};
use super::plain_secret;
use super::problem::{Problem, Severity, dotted};
use super::report::Fault;
use super::secret::Secret;
use super::server::{
    DEFAULT_CALL_IDLE_TIMEOUT, DEFAULT_CALL_TIMEOUT, DEFAULT_STARTUP_TIMEOUT, DEFAULT_WAIT_TIMEOUT,
    DEFAULT_WAITERS, Isolation, PACKAGE_RUNNER_LIMIT, Replay, ServerConfig,
};
use super::target::{
    ClientCertificate, CustomTarget, FilePath, HttpKind, HttpTarget, Provider, StdioTarget, Target, Text,
};
use super::view::ToolView;
use crate::protocol::Era;
use crate::transport::Connector;
use crate::transport::http::Credentials;

/// A server being configured. Values are taken as they are: variables are expanded in files only.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct ServerBuilder {
    name: String,
    target: Target,
    era: Option<Era>,
    enabled: bool,
    required: bool,
    lazy: bool,
    isolation: Isolation,
    startup_timeout: Duration,
    call_timeout: Duration,
    call_idle_timeout: Duration,
    wait_timeout: Duration,
    waiters: u32,
    replay: Replay,
    policy: Policy,
    tools: ToolView,
}

/// A server that cannot be configured so, with everything that is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidServer {
    problems: Vec<Problem>,
}

impl ServerBuilder {
    pub(super) fn stdio(name: String, command: Text) -> Self {
        let (args, env, cwd) = (Vec::new(), BTreeMap::new(), None);
        Self::new(
            name,
            Target::Stdio(StdioTarget {
                command,
                args,
                env,
                cwd,
            }),
        )
    }

    pub(super) fn http(name: String, url: Text) -> Self {
        Self::new(name, Target::Http(HttpTarget::new(url)))
    }

    pub(super) fn custom(name: String, identity: String, connector: Arc<dyn Connector>) -> Self {
        Self::new(name, Target::Custom(CustomTarget { identity, connector }))
    }

    fn new(name: String, target: Target) -> Self {
        Self {
            name,
            target,
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

    /// Changes the program to start; nothing else has one.
    fn program(mut self, change: impl FnOnce(&mut StdioTarget)) -> Self {
        match &mut self.target {
            Target::Stdio(program) => change(program),
            Target::Http(_) | Target::Custom(_) => {}
        }
        self
    }

    /// Changes how an address is spoken to; nothing else has one.
    fn address(mut self, change: impl FnOnce(&mut HttpTarget)) -> Self {
        match &mut self.target {
            Target::Http(address) => change(address),
            Target::Stdio(_) | Target::Custom(_) => {}
        }
        self
    }

    /// Adds an argument.
    pub fn arg(self, arg: impl Into<Text>) -> Self {
        self.program(|program| program.args.push(arg.into()))
    }

    /// Adds an argument that is shown nowhere.
    pub fn secret_arg(self, arg: impl Into<String>) -> Self {
        self.arg(Text::hidden(arg, "***"))
    }

    /// Adds arguments.
    pub fn args<T: Into<Text>>(self, args: impl IntoIterator<Item = T>) -> Self {
        self.program(|program| program.args.extend(args.into_iter().map(Into::into)))
    }

    /// Sets a variable of its environment; the last value of a name counts.
    pub fn env(self, name: impl Into<String>, value: impl Into<Secret>) -> Self {
        self.program(|program| {
            program.env.insert(name.into(), value.into());
        })
    }

    /// Sets the directory it runs in. Without it, the working directory of this process.
    pub fn cwd(self, cwd: impl Into<Text>) -> Self {
        self.program(|program| program.cwd = Some(cwd.into()))
    }

    /// Which transport over HTTP it speaks (default: that is found out).
    pub fn http_kind(self, kind: HttpKind) -> Self {
        self.address(|address| address.kind = kind)
    }

    /// Adds a header to every request over HTTP.
    pub fn header(self, name: impl Into<String>, value: impl Into<Secret>) -> Self {
        self.address(|address| address.headers.push((name.into(), value.into())))
    }

    /// Sets the bearer token of every request over HTTP.
    pub fn bearer_token(self, token: impl Into<Secret>) -> Self {
        self.address(|address| address.bearer_token = Some(token.into()))
    }

    /// Asks this provider what every request over HTTP is allowed in with, in place of a fixed token. It is no part of the
    /// server's identity: another provider is used from the next connection on.
    pub fn credentials(self, credentials: Arc<dyn Credentials>) -> Self {
        self.address(|address| address.credentials = Some(Provider(credentials)))
    }

    /// Trusts the certificates of this PEM file too, beside those of the system.
    pub fn root_certificates(self, path: impl Into<PathBuf>) -> Self {
        self.roots(path.into().into())
    }

    pub(super) fn roots(self, path: FilePath) -> Self {
        self.address(|address| address.root_certificates = Some(path))
    }

    /// Shows this certificate to the server; the PEM files of certificate and key may be one.
    pub fn client_certificate(self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.shows(certificate.into().into(), key.into().into())
    }

    pub(super) fn shows(self, certificate: FilePath, key: FilePath) -> Self {
        let files = ClientCertificate { certificate, key };
        self.address(|address| address.client_certificate = Some(files))
    }

    /// Connects to this unix-domain socket instead of the host in the address.
    pub fn unix_socket(self, path: impl Into<PathBuf>) -> Self {
        self.socket(path.into().into())
    }

    pub(super) fn socket(self, path: FilePath) -> Self {
        self.address(|address| address.unix_socket = Some(path))
    }

    /// How long making a connection to an address may take (default: 10 s).
    pub fn connect_timeout(self, timeout: Duration) -> Self {
        self.address(|address| address.connect_timeout = Some(timeout))
    }

    /// How long the head of an answer over HTTP may take (default: as long as the call). Many servers send it only with
    /// the whole answer.
    pub fn first_byte_timeout(self, timeout: Duration) -> Self {
        self.address(|address| address.first_byte_timeout = Some(timeout))
    }

    /// Pins the era that it is spoken to in (default: that is found out).
    pub fn era(mut self, era: Era) -> Self {
        self.era = Some(era);
        self
    }

    /// Whether it should run (default: yes).
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.enabled = enabled;
        self
    }

    /// Whether start-up fails when this server does (default: no).
    pub fn required(mut self, required: bool) -> Self {
        self.required = required;
        self
    }

    /// Whether it starts only when it is first needed (default: no).
    pub fn lazy(mut self, lazy: bool) -> Self {
        self.lazy = lazy;
        self
    }

    /// Who may share it, where it is served to several clients (default: all of them).
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// How long it may be idle while it starts (default: 1 min). What it writes to stderr, and the work of its processes
    /// (processor time, bytes read or written, processes that come and go), count as signs of life; the policy's
    /// `limits.open` bounds the whole, at 5 min by default and at 10 min where a package runner such as `npx` may have to
    /// install the server first.
    pub fn startup_timeout(mut self, timeout: Duration) -> Self {
        self.startup_timeout = timeout;
        self
    }

    /// How long a call may take in all (default: 1 h).
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.call_timeout = timeout;
        self
    }

    /// How long a call may take without progress (default: 5 min).
    pub fn call_idle_timeout(mut self, timeout: Duration) -> Self {
        self.call_idle_timeout = timeout;
        self
    }

    /// How long a call waits for a connection, inside its own deadline (default: 15 s). Where the next attempt is known to
    /// come later than that, the call fails at once.
    pub fn wait_timeout(mut self, timeout: Duration) -> Self {
        self.wait_timeout = timeout;
        self
    }

    /// How many calls may wait while it is not connected (default: 256); zero makes every call fail fast.
    pub fn waiters(mut self, waiters: u32) -> Self {
        self.waiters = waiters;
        self
    }

    /// Whether a call that may have run is sent again (default: only where that is safe).
    pub fn replay(mut self, replay: Replay) -> Self {
        self.replay = replay;
        self
    }

    /// How patiently it is kept connected.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// How its tools are shown (default: all, as they are).
    pub fn tools(mut self, tools: ToolView) -> Self {
        self.tools = tools;
        self
    }

    /// The finished server, or everything that is wrong with it.
    pub fn build(self) -> Result<ServerConfig, InvalidServer> {
        let (config, flaws) = self.finish();
        let name = dotted("", &config.name);
        let problem = |flaw: Flaw| Problem {
            severity: flaw.severity,
            server: Some(config.name.clone()),
            key: Some(match flaw.key.as_str() {
                "" => name.clone(),
                key => format!("{name}.{key}"),
            }),
            place: None,
            file: None,
            message: flaw.fault.message,
            mend: flaw.fault.mend,
        };
        let errors = flaws.into_iter().filter(|flaw| flaw.severity == Severity::Error);
        let problems: Vec<Problem> = errors.map(problem).collect();
        if problems.is_empty() {
            Ok(config)
        } else {
            Err(InvalidServer { problems })
        }
    }

    /// The server with all its flaws. It may be used only when none of them is an error.
    pub(super) fn finish(self) -> (ServerConfig, Vec<Flaw>) {
        let mut config = ServerConfig {
            name: self.name,
            target: self.target,
            era: self.era,
            enabled: self.enabled,
            required: self.required,
            lazy: self.lazy,
            isolation: self.isolation,
            expected_era: None,
            startup_timeout: self.startup_timeout,
            call_timeout: self.call_timeout,
            call_idle_timeout: self.call_idle_timeout,
            wait_timeout: self.wait_timeout,
            waiters: self.waiters,
            replay: self.replay,
            policy: self.policy,
            tools: self.tools,
        };
        let mut flaws = check::server(&config);
        if let Target::Stdio(program) = &mut config.target {
            flaws.extend(
                plain_secret::hide_in_args(&mut program.args)
                    .into_iter()
                    .map(in_plain_text),
            );
        }
        config.call_idle_timeout = config.call_idle_timeout.min(config.call_timeout);
        // Where the policy sets no bound of its own, one that installs first has longer.
        if config.is_package_runner() && config.policy.limits.open == Limits::default().open {
            config.policy.limits.open = PACKAGE_RUNNER_LIMIT;
        }
        // Whoever grants a long silence grants a long start.
        config.policy.limits.open = config.policy.limits.open.max(config.startup_timeout);
        (config, flaws)
    }
}

/// The flaw of an argument that holds a secret.
fn in_plain_text(place: usize) -> Flaw {
    let fault = Fault::new(
        "this argument holds a secret in plain text",
        "put the secret into a variable, and write ${NAME} in its place",
    );
    Flaw::warning(format!("args[{place}]"), fault)
}

impl InvalidServer {
    /// Everything that is wrong; never empty, errors only.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl fmt::Display for InvalidServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, problem) in self.problems.iter().enumerate() {
            let separator = if n == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for InvalidServer {}
