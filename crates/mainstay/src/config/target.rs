//! What a server is reached by.

mod http;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

pub(super) use http::{ClientCertificate, FilePath, Provider};
pub use http::{HttpKind, HttpTarget};

use crate::transport::Connector;

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

    /// The directory it runs in; `None` for the working directory of this process.
    pub fn cwd(&self) -> Option<&Path> {
        self.cwd.as_ref().map(|cwd| Path::new(cwd.value()))
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
