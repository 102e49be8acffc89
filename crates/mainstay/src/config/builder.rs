//! Configures a server from Rust. The file reader uses these builders too, so both pass the same checks.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mainstay_lifecycle::{Policy, TimeLimits};

use super::problem::{Problem, ProblemText, SettingProblem, Severity, dotted};
use super::server::{CommonSettings, Isolation, PACKAGE_RUNNER_OPEN_LIMIT, Replay, ServerConfig};
use super::target::{
    ClientCertificate, ConfigText, HttpKind, HttpTarget, OAuthSetting, Provider, Secret, StdioTarget, Target,
};
use super::tool_view::ToolView;
use super::{check, plain_secret};
use crate::process::DescriptorLimit;
use crate::protocol::Era;
use crate::transport::http::Credentials;

/// A server being configured; `build` checks it. Values are used verbatim: only files expand variables.
///
/// What can be set depends on how the server is reached. A program has arguments and no headers, an address has
/// headers and no arguments; the settings that all servers have in common are on every builder.
///
/// ```
/// use mainstay::ServerConfig;
///
/// let files = ServerConfig::stdio("files", "npx").args(["-y", "files-server"]).required(true).build()?;
/// let search = ServerConfig::http("search", "https://search.example/mcp").bearer_token("secret").build()?;
/// # Ok::<(), mainstay::config::InvalidServer>(())
/// ```
///
/// A program has no headers, and an address no arguments:
///
/// ```compile_fail,E0599
/// # use mainstay::ServerConfig;
/// let files = ServerConfig::stdio("files", "npx").header("X-Key", "value");
/// ```
///
/// ```compile_fail,E0599
/// # use mainstay::ServerConfig;
/// let search = ServerConfig::http("search", "https://search.example/mcp").arg("--verbose");
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct ServerBuilder<T> {
    pub(super) target: T,
    pub(super) settings: CommonSettings,
}

/// A server that cannot be configured so, with everything that is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidServer {
    problems: Vec<Problem>,
}

/// The settings of a program that Mainstay starts.
impl ServerBuilder<StdioTarget> {
    /// Adds an argument.
    pub fn arg(mut self, arg: impl Into<ConfigText>) -> Self {
        self.target.args.push(arg.into());
        self
    }

    /// Adds an argument that no output shows.
    pub fn secret_arg(self, arg: impl Into<String>) -> Self {
        self.arg(ConfigText::hidden(arg, "***"))
    }

    /// Adds arguments.
    pub fn args<A: Into<ConfigText>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.target.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable. The last value of a name counts.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<Secret>) -> Self {
        self.target.env.insert(name.into(), value.into());
        self
    }

    /// Starts it with these variables in place of the environment of this process. What [`env`](Self::env) sets is added to them. The
    /// variables are no secrets and no part of the server's identity: they say where it runs, such as `HOME` and `PATH`.
    pub fn base_env<N: Into<String>, V: Into<String>>(
        mut self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let variables = variables.into_iter();
        self.target.base_env = Some(
            variables
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        );
        self
    }

    /// Sets how many descriptors it may open (default: as many as this process was started with). On Linux only, and never more than this
    /// process may open.
    pub fn descriptors(mut self, limit: DescriptorLimit) -> Self {
        self.target.descriptors = Some(limit);
        self
    }

    /// Sets the directory it runs in (default: the working directory of this process).
    pub fn cwd(mut self, cwd: impl Into<ConfigText>) -> Self {
        self.target.cwd = Some(cwd.into());
        self
    }
}

/// The settings of a server that is reached over HTTP.
impl ServerBuilder<HttpTarget> {
    /// Which HTTP transport the server speaks (default: detected).
    pub fn http_kind(mut self, kind: HttpKind) -> Self {
        self.target.kind = kind;
        self
    }

    /// Adds a header to every request.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Secret>) -> Self {
        self.target.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the bearer token of every request.
    pub fn bearer_token(mut self, token: impl Into<Secret>) -> Self {
        self.target.bearer_token = Some(token.into());
        self
    }

    /// Asks this provider for the credential of every request, in place of a fixed token. The provider is not part of the
    /// server's identity: a new one is used from the next connection on.
    pub fn credentials(mut self, credentials: Arc<dyn Credentials>) -> Self {
        self.target.credentials = Some(Provider(credentials));
        self
    }

    /// Whether its requests use an OAuth login, and how. This is a setting for the program that provides logins: the library
    /// alone does not log in.
    pub fn oauth(mut self, oauth: OAuthSetting) -> Self {
        self.target.oauth = oauth;
        self
    }

    /// Trusts the certificates of this PEM file, beside those of the system.
    pub fn root_certificates(mut self, path: impl Into<PathBuf>) -> Self {
        self.target.root_certificates = Some(path.into().into());
        self
    }

    /// Presents this certificate to the server. Certificate and key may be in one PEM file.
    pub fn client_certificate(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        let (certificate, key) = (certificate.into().into(), key.into().into());
        self.target.client_certificate = Some(Box::new(ClientCertificate { certificate, key }));
        self
    }

    /// Connects to this unix-domain socket instead of the host in the address.
    pub fn unix_socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.target.unix_socket = Some(path.into().into());
        self
    }

    /// How long opening a connection to the address may take (default: 10 s).
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.target.connect_timeout = Some(timeout);
        self
    }

    /// How long the head of an HTTP response may take (default: as long as the call). Many servers send it only with the
    /// whole answer.
    pub fn first_byte_timeout(mut self, timeout: Duration) -> Self {
        self.target.first_byte_timeout = Some(timeout);
        self
    }
}

/// The settings of every server.
impl<T: Into<Target>> ServerBuilder<T> {
    pub(super) fn new(name: String, target: T) -> Self {
        Self {
            target,
            settings: CommonSettings::new(name),
        }
    }

    /// Pins the era that it is spoken to in (default: that is found out).
    pub fn era(mut self, era: Era) -> Self {
        self.settings.era = Some(era);
        self
    }

    /// Whether it should run (default: yes).
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.settings.enabled = enabled;
        self
    }

    /// Whether start-up fails when this server does (default: no).
    pub fn required(mut self, required: bool) -> Self {
        self.settings.required = required;
        self
    }

    /// Whether it starts only when it is first needed (default: no).
    pub fn lazy(mut self, lazy: bool) -> Self {
        self.settings.lazy = lazy;
        self
    }

    /// Who may share it, where it is served to several clients (default: all of them).
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.settings.isolation = isolation;
        self
    }

    /// How long it may be idle while it starts (default: 1 min). It is not idle while it writes to stderr, or while its processes
    /// work: processor time, bytes read or written, processes that come and go. The policy's `limits.open` bounds the whole start:
    /// 5 min by default, and 10 min where a package runner such as `npx` may have to install the server first.
    pub fn startup_timeout(mut self, timeout: Duration) -> Self {
        self.settings.startup_timeout = timeout;
        self
    }

    /// How long a call may take in all (default: 1 h).
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.settings.call_timeout = timeout;
        self
    }

    /// How long a call may take without progress (default: 5 min).
    pub fn call_idle_timeout(mut self, timeout: Duration) -> Self {
        self.settings.call_idle_timeout = timeout;
        self
    }

    /// How long a call waits for a connection, inside its own deadline (default: 15 s). Where the next attempt is known to
    /// come later than that, the call fails at once.
    pub fn wait_timeout(mut self, timeout: Duration) -> Self {
        self.settings.wait_timeout = timeout;
        self
    }

    /// How many calls may wait while it is not connected (default: 256); zero makes every call fail fast.
    pub fn waiters(mut self, waiters: u32) -> Self {
        self.settings.waiters = waiters;
        self
    }

    /// Whether a call that may have run is sent again (default: only where that is safe).
    pub fn replay(mut self, replay: Replay) -> Self {
        self.settings.replay = replay;
        self
    }

    /// How patiently it is kept connected.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.settings.policy = policy;
        self
    }

    /// How its tools are shown (default: all, as they are).
    pub fn tools(mut self, tools: ToolView) -> Self {
        self.settings.tools = tools;
        self
    }

    /// The finished server, or everything that is wrong with it.
    pub fn build(self) -> Result<ServerConfig, InvalidServer> {
        let (config, problems) = self.finish();
        let name = dotted("", config.name());
        let errors = problems
            .into_iter()
            .filter(|problem| problem.severity == Severity::Error);
        let problems: Vec<Problem> = errors
            .map(|problem| Problem {
                severity: problem.severity,
                server: Some(config.name().to_owned()),
                key: Some(match problem.key.as_str() {
                    "" => name.clone(),
                    key => format!("{name}.{key}"),
                }),
                position: None,
                file: None,
                message: problem.text.message,
                fix: problem.text.fix,
                unset_variable: problem.text.unset_variable,
            })
            .collect();
        if problems.is_empty() {
            Ok(config)
        } else {
            Err(InvalidServer { problems })
        }
    }

    /// The server, and everything that is wrong with it. It may be used only when none of them is an error.
    pub(super) fn finish(self) -> (ServerConfig, Vec<SettingProblem>) {
        let mut config = ServerConfig {
            target: self.target.into(),
            settings: self.settings,
            expected_era: None,
        };
        let mut problems = check::server(&config);
        if let Target::Stdio(program) = &mut config.target {
            problems.extend(
                plain_secret::hide_in_args(&mut program.args)
                    .into_iter()
                    .map(in_plain_text),
            );
        }
        let is_package_runner = config.is_package_runner();
        let settings = &mut config.settings;
        settings.call_idle_timeout = settings.call_idle_timeout.min(settings.call_timeout);
        let open_limit = &mut settings.policy.limits.open;
        // A policy without a limit of its own gives a package runner more time, since it may install the server first.
        if is_package_runner && *open_limit == TimeLimits::default().open {
            *open_limit = PACKAGE_RUNNER_OPEN_LIMIT;
        }
        // A server that may be silent for so long may also take so long to start.
        *open_limit = (*open_limit).max(settings.startup_timeout);
        (config, problems)
    }
}

/// The warning for an argument that holds a secret.
fn in_plain_text(index: usize) -> SettingProblem {
    let problem = ProblemText::new(
        "this argument holds a secret in plain text",
        "put the secret into a variable, and write ${NAME} in its place",
    );
    SettingProblem::warning(format!("args[{index}]"), problem)
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
