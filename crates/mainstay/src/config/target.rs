//! What a server is reached by: a program, an address with its logins, or a connector.

mod http;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::process::DescriptorLimit;
use crate::transport::Connector;

#[cfg(any(feature = "config-file", feature = "http"))]
pub(super) use http::FilePath;
pub(super) use http::{ClientCertificate, Provider};
pub use http::{HttpKind, HttpTarget};

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// A program started by Mainstay that speaks on its standard input and output.
    Stdio(StdioTarget),
    /// An address, spoken to over HTTP.
    Http(HttpTarget),
    /// A transport that the embedder opens.
    Custom(CustomTarget),
    /// Nothing: its configuration has an error, and every start fails for it.
    Unusable(UnusableTarget),
}

/// What is wrong with the configuration of a server that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableTarget {
    pub(super) reason: String,
}

impl UnusableTarget {
    /// What is wrong, and what to do about it.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

/// A transport of the embedder's own.
#[derive(Clone)]
pub struct CustomTarget {
    pub(super) identity: String,
    pub(super) connector: Arc<dyn Connector>,
}

impl CustomTarget {
    /// What opens the transport, once for each connection.
    pub fn connector(&self) -> &Arc<dyn Connector> {
        &self.connector
    }
}

/// Targets with different connectors differ, whatever their identities: the new connector opens the next connection.
impl PartialEq for CustomTarget {
    fn eq(&self, other: &Self) -> bool {
        self.identity == other.identity && Arc::ptr_eq(&self.connector, &other.connector)
    }
}

impl Eq for CustomTarget {}

impl fmt::Debug for CustomTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CustomTarget").field(&self.identity).finish()
    }
}

/// The program behind a stdio server: everything that makes it this server and not another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StdioTarget {
    pub(super) command: ConfigText,
    pub(super) args: Vec<ConfigText>,
    pub(super) env: BTreeMap<String, Secret>,
    /// The variables in place of those of this process; `None` to inherit these.
    pub(super) base_env: Option<BTreeMap<String, String>>,
    pub(super) cwd: Option<ConfigText>,
    pub(super) descriptors: Option<DescriptorLimit>,
}

/// A text that may have come from a variable: used as its value, shown as it was written.
///
/// `"--token=${TOKEN}"` runs with the token, and is printed as `--token=${TOKEN}`.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigText {
    value: String,
    /// What to show instead of the value; `None` where the value itself was written.
    shown: Option<String>,
}

impl Target {
    /// The login that its requests belong to, if a provider knows it.
    pub(crate) fn credential_owner(&self) -> Option<String> {
        match self {
            Self::Http(target) => target.provider()?.owner(),
            Self::Stdio(_) | Self::Custom(_) | Self::Unusable(_) => None,
        }
    }
}

impl From<StdioTarget> for Target {
    fn from(target: StdioTarget) -> Self {
        Self::Stdio(target)
    }
}

impl From<HttpTarget> for Target {
    fn from(target: HttpTarget) -> Self {
        Self::Http(target)
    }
}

impl From<CustomTarget> for Target {
    fn from(target: CustomTarget) -> Self {
        Self::Custom(target)
    }
}

impl From<UnusableTarget> for Target {
    fn from(target: UnusableTarget) -> Self {
        Self::Unusable(target)
    }
}

impl StdioTarget {
    pub(super) fn new(command: ConfigText) -> Self {
        Self {
            command,
            args: Vec::new(),
            env: BTreeMap::new(),
            base_env: None,
            cwd: None,
            descriptors: None,
        }
    }

    /// The program to run: a name looked up in `PATH`, or a path.
    pub fn command(&self) -> &ConfigText {
        &self.command
    }

    /// Its arguments, in order.
    pub fn args(&self) -> &[ConfigText] {
        &self.args
    }

    /// The variables set for it, on top of the environment it inherits.
    pub fn env(&self) -> &BTreeMap<String, Secret> {
        &self.env
    }

    /// The environment that it gets in place of the one of this process; `None` if it inherits that.
    pub fn base_env(&self) -> Option<&BTreeMap<String, String>> {
        self.base_env.as_ref()
    }

    /// How many descriptors it may open; `None` for as many as this process was started with.
    pub fn descriptors(&self) -> Option<DescriptorLimit> {
        self.descriptors
    }

    /// The directory it runs in; `None` for the working directory of this process.
    pub fn cwd(&self) -> Option<&ConfigText> {
        self.cwd.as_ref()
    }
}

impl ConfigText {
    /// A text that is shown as `shown` and used as `value`.
    pub(crate) fn hidden(value: impl Into<String>, shown: impl Into<String>) -> Self {
        Self {
            value: value.into(),
            shown: Some(shown.into()),
        }
    }

    /// The value, variables expanded. It may hold a secret: use it, do not print it.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// What may be printed: the text as written, variables unexpanded.
    pub fn shown(&self) -> &str {
        self.shown.as_deref().unwrap_or(&self.value)
    }

    /// The same text with another value; what was written stays what is shown, if it hid the value.
    #[cfg(feature = "config-file")]
    pub(super) fn with_value(self, value: String) -> Self {
        Self { value, ..self }
    }
}

impl From<&str> for ConfigText {
    fn from(value: &str) -> Self {
        Self::from(value.to_owned())
    }
}

impl From<String> for ConfigText {
    fn from(value: String) -> Self {
        Self { value, shown: None }
    }
}

impl fmt::Debug for ConfigText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.shown(), f)
    }
}

impl fmt::Display for ConfigText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.shown())
    }
}

/// A value that must not be seen: `Debug` prints `***`, and there is no `Display` and no serialisation.
///
/// It guards against showing a value by accident; it does not wipe memory.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret(String);

impl Secret {
    /// Takes a value out of sight.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl From<String> for Secret {
    fn from(value: String) -> Self {
        Self(value)
    }
}

impl From<&str> for Secret {
    fn from(value: &str) -> Self {
        Self(value.to_owned())
    }
}

/// Whether a server's requests use an OAuth login.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OAuthSetting {
    /// If the server asks for one, with the defaults.
    #[default]
    Automatic,
    /// Never.
    Off,
    /// If the server asks for one, with these settings.
    Configured(Box<OAuthConfig>),
}

/// The settings of a server's logins. All are optional.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OAuthConfig {
    /// The client that a person registered at the authorization server.
    pub client_id: Option<String>,
    /// Its secret.
    pub client_secret: Option<Secret>,
    /// The address of a client ID metadata document.
    pub client_metadata_url: Option<String>,
    /// The scopes to ask for, in place of those that the server names.
    pub scopes: Option<Vec<String>>,
    /// What is sent as `resource`.
    pub resource: OAuthResource,
    /// The issuer that is accepted, and no other.
    pub issuer: Option<String>,
    /// The port of the redirect URI.
    pub redirect_port: Option<u16>,
    /// How the token is obtained.
    pub grant: OAuthGrant,
    /// The PEM file of the key for `private_key_jwt`.
    pub private_key: Option<PathBuf>,
    /// The file with the JWT of a workload.
    pub assertion_file: Option<PathBuf>,
    /// Whether the authorization server may be on a private address and without TLS.
    pub allow_private: bool,
    /// The user, if several people log in to the same server on this machine.
    pub user: Option<String>,
}

/// What is sent as `resource`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OAuthResource {
    /// What the server publishes.
    #[default]
    Published,
    /// This text.
    Text(String),
    /// Nothing.
    Omitted,
}

/// How a token is obtained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OAuthGrant {
    /// A person logs in.
    #[default]
    Person,
    /// The client logs in for itself.
    ClientCredentials,
    /// The workload presents the JWT in `assertion_file`.
    JwtBearer,
}

impl OAuthGrant {
    /// The names in configuration files.
    pub const NAMES: [&'static str; 3] = ["authorization_code", "client_credentials", "jwt_bearer"];

    /// The grant of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        match name {
            "authorization_code" => Some(Self::Person),
            "client_credentials" => Some(Self::ClientCredentials),
            "jwt_bearer" => Some(Self::JwtBearer),
            _other => None,
        }
    }
}

impl OAuthConfig {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }
}

/// Whatever their arguments, these install a package and then run it.
const RUNNERS: [&str; 7] = ["npx", "bunx", "pnpx", "uvx", "uv", "pipx", "deno"];

/// These do with one of these commands.
const RUNNERS_BY_COMMAND: [(&str, &[&str]); 6] = [
    ("npm", &["exec", "x"]),
    ("pnpm", &["dlx", "exec"]),
    ("yarn", &["dlx"]),
    ("bun", &["x"]),
    ("docker", &["run"]),
    ("podman", &["run"]),
];

/// Shells, whose scripts may begin one.
const SHELLS: [&str; 4] = ["sh", "bash", "zsh", "dash"];

/// Whether the program may have to install the server before it runs.
pub(super) fn is_package_runner(program: &StdioTarget) -> bool {
    let args: Vec<&str> = program.args().iter().map(ConfigText::value).collect();
    let command = program_name(program.command().value());
    if SHELLS.contains(&command) {
        return args.iter().any(|arg| {
            let words: Vec<&str> = arg.split_whitespace().collect();
            (0..words.len()).any(|at| runs_packages(program_name(words[at]), &words[at + 1..]))
        });
    }
    runs_packages(command, &args)
}

fn runs_packages(command: &str, args: &[&str]) -> bool {
    let first = args.iter().find(|arg| !arg.starts_with('-'));
    RUNNERS.contains(&command)
        || RUNNERS_BY_COMMAND.iter().any(|(runner, commands)| {
            *runner == command && first.is_some_and(|first| commands.contains(first))
        })
}

fn program_name(command: &str) -> &str {
    Path::new(command)
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or(command)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::config::ServerConfig;

    fn limit(command: &[&str]) -> u64 {
        let server = ServerConfig::stdio("s", command[0]).args(command[1..].iter().copied());
        server.build().expect("valid").policy().limits.open.as_secs()
    }

    #[test]
    fn a_package_runner_has_ten_minutes_and_any_other_program_five() {
        for runner in [
            &["npx", "-y", "server"][..],
            &["/usr/local/bin/npx", "server"],
            &["npm", "exec", "server"],
            &["pnpm", "dlx", "server"],
            &["yarn", "dlx", "server"],
            &["uvx", "server"],
            &["uv", "run", "server.py"],
            &["pipx", "run", "server"],
            &["docker", "run", "-i", "--rm", "image"],
            &["podman", "--log-level=warn", "run", "image"],
            &["bash", "-lc", "cd /srv && npx -y server"],
        ] {
            assert_eq!(limit(runner), 600, "{runner:?}");
        }
        for other in [
            &["node", "server.js"][..],
            &["npm", "start"],
            &["docker", "exec", "-i", "box", "server"],
            &["bash", "-c", "python server.py"],
            &["./run"],
        ] {
            assert_eq!(limit(other), 300, "{other:?}");
        }
    }

    #[test]
    fn a_longer_startup_timeout_and_a_bound_of_the_policy_count_more() {
        let server = ServerConfig::stdio("s", "npx").startup_timeout(Duration::from_secs(900));
        let config = server.clone().build().expect("valid");
        assert_eq!(config.policy().limits.open, Duration::from_secs(900));
        let mut policy = config.policy().clone();
        policy.limits.open = Duration::from_secs(20);
        let config = server.startup_timeout(Duration::from_secs(5)).policy(policy);
        let config = config.build().expect("valid");
        assert_eq!(config.policy().limits.open, Duration::from_secs(20));
    }
}
