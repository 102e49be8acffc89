//! A server that is reached by an address.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::{ConfigText, Secret};
use crate::config::target::OAuthSetting;
use crate::transport::http::Credentials;
#[cfg(feature = "http")]
use crate::transport::http::{BearerToken, HttpOptions};

/// Stands in for the secrets in an address.
const HIDDEN: &str = "***";

/// A server that is reached over HTTP: everything that makes it this server, and how patiently it is spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpTarget {
    pub(in crate::config) url: ConfigText,
    pub(in crate::config) kind: HttpKind,
    pub(in crate::config) headers: Vec<(String, Secret)>,
    pub(in crate::config) bearer_token: Option<Secret>,
    pub(in crate::config) credentials: Option<Provider>,
    pub(in crate::config) oauth: OAuthSetting,
    pub(in crate::config) root_certificates: Option<FilePath>,
    pub(in crate::config) client_certificate: Option<Box<ClientCertificate>>,
    pub(in crate::config) unix_socket: Option<FilePath>,
    pub(in crate::config) connect_timeout: Option<Duration>,
    pub(in crate::config) first_byte_timeout: Option<Duration>,
}

/// Which of the transports over HTTP a server speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HttpKind {
    /// Found out: Streamable HTTP in either era, then HTTP+SSE.
    #[default]
    Auto,
    /// Streamable HTTP.
    Streamable,
    /// HTTP+SSE, of 2024-11-05.
    Sse,
}

/// The files of the certificate that this client shows; they may be one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::config) struct ClientCertificate {
    pub(in crate::config) certificate: FilePath,
    pub(in crate::config) key: FilePath,
}

/// A path that may have come from a variable: used as its value, shown as it was written.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::config) struct FilePath {
    path: PathBuf,
    /// What to show instead of the path; `None` where the path itself was written.
    shown: Option<String>,
}

/// A provider of credentials. Two are the same if they are one and the same object.
#[derive(Clone)]
pub(in crate::config) struct Provider(pub(in crate::config) Arc<dyn Credentials>);

impl HttpTarget {
    pub(in crate::config) fn new(url: ConfigText) -> Self {
        Self {
            url: without_secrets(url),
            kind: HttpKind::default(),
            headers: Vec::new(),
            bearer_token: None,
            credentials: None,
            oauth: OAuthSetting::default(),
            root_certificates: None,
            client_certificate: None,
            unix_socket: None,
            connect_timeout: None,
            first_byte_timeout: None,
        }
    }

    /// Its address.
    pub fn url(&self) -> &ConfigText {
        &self.url
    }

    /// Whether the host of its address was written as it is, and not as a variable, which may hold a secret.
    pub(crate) fn shows_host(&self) -> bool {
        let shown = self.url.shown();
        let from_host = shown.split_once("://").map_or(shown, |(_, rest)| rest);
        let authority = from_host.split(['/', '?', '#']).next();
        authority.is_some_and(|authority| !authority.contains("${"))
    }

    /// Which transport it speaks.
    pub fn kind(&self) -> HttpKind {
        self.kind
    }

    /// The headers of every request.
    pub fn headers(&self) -> &[(String, Secret)] {
        &self.headers
    }

    /// The token that every request carries.
    pub(crate) fn bearer_token(&self) -> Option<&Secret> {
        self.bearer_token.as_ref()
    }

    /// The unix-domain socket that is connected to instead of the host of the address.
    pub fn unix_socket(&self) -> Option<&Path> {
        self.unix_socket.as_ref().map(FilePath::path)
    }

    /// Whether its requests use an OAuth login.
    pub fn oauth(&self) -> &OAuthSetting {
        &self.oauth
    }

    /// The PEM file of certificates to trust beside those of the system.
    pub fn root_certificates(&self) -> Option<&Path> {
        self.root_certificates.as_ref().map(FilePath::path)
    }

    /// Whether its requests carry something to be let in with: a token, or a header `Authorization`.
    pub fn has_credentials(&self) -> bool {
        let mut names = self.headers.iter().map(|(name, _)| name);
        self.credentials.is_some()
            || self.bearer_token.is_some()
            || names.any(|name| name.eq_ignore_ascii_case("authorization"))
    }

    /// Whether the configuration gives what no login replaces: a token, or headers. Many servers take a key in a header of their own, so each
    /// header may be one.
    pub(crate) fn has_fixed_credential(&self) -> bool {
        !self.headers.is_empty() || (self.credentials.is_none() && self.bearer_token.is_some())
    }

    /// The provider of the credentials of its requests.
    pub(crate) fn provider(&self) -> Option<&Arc<dyn Credentials>> {
        self.credentials.as_ref().map(|Provider(credentials)| credentials)
    }
}

#[cfg(feature = "http")]
impl HttpTarget {
    /// The credentials of its requests: the embedder's provider, or else the token.
    pub(crate) fn credentials(&self) -> Option<Arc<dyn Credentials>> {
        if let Some(Provider(credentials)) = &self.credentials {
            return Some(credentials.clone());
        }
        let token = self.bearer_token.as_ref()?;
        Some(Arc::new(BearerToken::new(token.expose())))
    }

    /// How its transports are made.
    pub(crate) fn options(&self) -> HttpOptions {
        let mut options = HttpOptions::new();
        for (name, value) in &self.headers {
            options = options.header(name, value.expose());
        }
        if let Some(credentials) = self.credentials() {
            options = options.credentials(credentials);
        }
        if let Some(path) = &self.root_certificates {
            options = options.root_certificates(path.path());
        }
        if let Some(files) = &self.client_certificate {
            options = options.client_certificate(files.certificate.path(), files.key.path());
        }
        if let Some(path) = &self.unix_socket {
            options = options.unix_socket(path.path());
        }
        if let Some(timeout) = self.connect_timeout {
            options = options.connect_timeout(timeout);
        }
        if let Some(timeout) = self.first_byte_timeout {
            options = options.first_byte_timeout(timeout);
        }
        options
    }
}

impl FilePath {
    pub(in crate::config) fn path(&self) -> &Path {
        &self.path
    }
}

impl From<PathBuf> for FilePath {
    fn from(path: PathBuf) -> Self {
        Self { path, shown: None }
    }
}

impl From<ConfigText> for FilePath {
    fn from(text: ConfigText) -> Self {
        let ConfigText { value, shown } = text;
        Self {
            path: PathBuf::from(value),
            shown,
        }
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.shown {
            Some(shown) => f.write_str(shown),
            None => self.path.display().fmt(f),
        }
    }
}

impl fmt::Debug for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_string(), f)
    }
}

impl HttpKind {
    /// The kind as one word, as configuration files have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Streamable => "http",
            Self::Sse => "sse",
        }
    }
}

impl PartialEq for Provider {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Provider {}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Provider")
    }
}

/// The same address, shown without its secrets.
///
/// People write passwords and keys into addresses. A variable is shown as it was written; the login before the host and
/// the values of the query are masked.
fn without_secrets(url: ConfigText) -> ConfigText {
    // Only a file has variables: what was built in Rust holds `${` by chance, if at all.
    let has_variables = url.shown.is_some();
    let is_variable = |part: &str| has_variables && part.contains("${");
    let shown = masked(url.shown(), is_variable);
    if shown == url.value {
        return ConfigText::from(shown);
    }
    ConfigText::hidden(url.value, shown)
}

fn masked(url: &str, is_variable: impl Fn(&str) -> bool) -> String {
    let (before_fragment, fragment) = match url.split_once('#') {
        Some((before, _)) => (before, "#…"),
        None => (url, ""),
    };
    let (path, query) = match before_fragment.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (before_fragment, None),
    };
    let authority = path.find("://").map_or(0, |scheme| scheme + "://".len());
    let end = path[authority..]
        .find(['/', '\\'])
        .map_or(path.len(), |end| authority + end);
    let mut shown = match path[authority..end].rsplit_once('@') {
        Some((login, host)) if !is_variable(login) => {
            format!("{}{HIDDEN}@{host}{}", &path[..authority], &path[end..])
        }
        Some(_) | None => path.to_owned(),
    };
    if let Some(query) = query {
        let pairs = query.split('&').map(|pair| match pair.split_once('=') {
            Some((name, value)) if !value.is_empty() && !is_variable(value) => format!("{name}={HIDDEN}"),
            Some(_) => pair.to_owned(),
            None if pair.is_empty() || is_variable(pair) => pair.to_owned(),
            None => HIDDEN.to_owned(),
        });
        shown.push('?');
        shown.push_str(&pairs.collect::<Vec<_>>().join("&"));
    }
    shown + fragment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_or_a_key_in_an_address_is_not_shown() {
        for (written, shown) in [
            ("https://mcp.example/mcp", "https://mcp.example/mcp"),
            ("https://ann:hush@mcp.example/a@b", "https://***@mcp.example/a@b"),
            ("https://ann:hu@sh@mcp.example", "https://***@mcp.example"),
            (
                "https://mcp.example/?key=hush&x=&hush",
                "https://mcp.example/?key=***&x=&***",
            ),
            ("https://mcp.example/mcp#hush", "https://mcp.example/mcp#…"),
            ("ann:hush@mcp.example", "***@mcp.example"),
            ("not an address", "not an address"),
        ] {
            assert_eq!(without_secrets(ConfigText::from(written)).shown(), shown);
            assert_eq!(without_secrets(ConfigText::from(written)).value(), written);
        }
    }

    #[test]
    fn a_host_that_a_variable_gave_is_not_shown() {
        for (written, shows) in [
            ("https://mcp.example/${PATH}?key=${KEY}", true),
            ("https://${HOST}/mcp", false),
            ("https://${HOST}", false),
            ("${URL}", false),
        ] {
            let url = ConfigText::hidden("https://hush.example/mcp", written);
            assert_eq!(HttpTarget::new(url).shows_host(), shows, "{written}");
        }
    }

    #[test]
    fn a_variable_stays_as_it_was_written_and_what_stands_beside_it_is_hidden() {
        let written = "https://${LOGIN}@mcp.example/${PATH}?key=${KEY}&other=hush";
        let url = ConfigText::hidden("https://ann:hush@mcp.example/hush?key=hush&other=hush", written);
        let shown = "https://${LOGIN}@mcp.example/${PATH}?key=${KEY}&other=***";
        assert_eq!(without_secrets(url).shown(), shown);
    }
}
