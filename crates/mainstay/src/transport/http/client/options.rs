//! How a server is reached over HTTP, beyond its address.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::{Credentials, HttpConfigError, ParamHeaders};
use crate::transport::Limits;

/// What every request says of its sender, unless the configuration says something else. Gateways and firewalls refuse
/// requests that say nothing.
const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("mainstay/", env!("CARGO_PKG_VERSION")));

/// Messages are read as they come; to compress them would cost time on both sides, and hold back events of a stream.
const UNCOMPRESSED: HeaderValue = HeaderValue::from_static("identity");

/// How long making a connection may take: a few lost packets, no more.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Says whether an IP address may be connected to.
pub type AddressCheck = Arc<dyn Fn(IpAddr) -> bool + Send + Sync>;

/// How a server is reached over HTTP. The defaults suit most.
#[derive(Clone)]
#[must_use = "options do nothing until a transport is made with them"]
pub struct HttpOptions {
    pub(super) headers: Vec<(String, String)>,
    pub(super) credentials: Option<Arc<dyn Credentials>>,
    pub(super) params: Option<Arc<dyn ParamHeaders>>,
    pub(super) connect_timeout: Duration,
    pub(super) first_byte_timeout: Option<Duration>,
    pub(in crate::transport) limits: Limits,
    pub(super) roots: Option<PathBuf>,
    pub(super) identity: Option<Identity>,
    pub(super) unix_socket: Option<PathBuf>,
    pub(super) environment_proxies: bool,
    pub(super) address_check: Option<AddressCheck>,
}

/// The files of a client certificate.
#[derive(Clone)]
pub(super) struct Identity {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

impl HttpOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self {
            headers: Vec::new(),
            credentials: None,
            params: None,
            connect_timeout: CONNECT_TIMEOUT,
            first_byte_timeout: None,
            limits: Limits::default(),
            roots: None,
            identity: None,
            unix_socket: None,
            environment_proxies: true,
            address_check: None,
        }
    }

    /// Adds a header to every request. Names and values are checked when the transport is made.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The credentials of every request (default: none).
    pub fn credentials(mut self, credentials: Arc<dyn Credentials>) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// Which arguments of a call are repeated in headers (default: none).
    pub fn param_headers(mut self, params: Arc<dyn ParamHeaders>) -> Self {
        self.params = Some(params);
        self
    }

    /// How long making a connection may take, TLS included (default: 10 s).
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long the head of an answer may take (default: as long as the call itself). Many servers send the head only
    /// with the whole answer, so this bounds their calls.
    pub fn first_byte_timeout(mut self, timeout: Duration) -> Self {
        self.first_byte_timeout = Some(timeout);
        self
    }

    /// The longest answer, and the longest event of a stream.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// A PEM file of certificates to trust beside those of the system.
    pub fn root_certificates(mut self, path: impl AsRef<Path>) -> Self {
        self.roots = Some(path.as_ref().to_owned());
        self
    }

    /// The PEM files of the certificate that this client shows, and of its key. They may be one file.
    pub fn client_certificate(mut self, certificate: impl AsRef<Path>, key: impl AsRef<Path>) -> Self {
        self.identity = Some(Identity {
            certificate: certificate.as_ref().to_owned(),
            key: key.as_ref().to_owned(),
        });
        self
    }

    /// Connects to this unix-domain socket instead of the host in the address.
    pub fn unix_socket(mut self, path: impl AsRef<Path>) -> Self {
        self.unix_socket = Some(path.as_ref().to_owned());
        self
    }

    /// Whether the proxies named in the environment are used (default: yes). One never stands between this machine and
    /// itself.
    pub fn environment_proxies(mut self, used: bool) -> Self {
        self.environment_proxies = used;
        self
    }

    /// Connects only to IP addresses that pass this check (default: to any). The check sees what a name resolves to.
    /// Behind a proxy, which resolves names itself, it sees none.
    pub fn address_check(mut self, check: AddressCheck) -> Self {
        self.address_check = Some(check);
        self
    }

    /// The headers of every request.
    pub(super) fn header_map(&self) -> Result<HeaderMap, HttpConfigError> {
        let mut map = HeaderMap::new();
        for (name, value) in &self.headers {
            let (name, value) = header(name, value)?;
            map.append(name, value);
        }
        map.entry(header::USER_AGENT).or_insert(USER_AGENT);
        map.entry(header::ACCEPT_ENCODING).or_insert(UNCOMPRESSED);
        Ok(map)
    }
}

/// A header that can be sent. Its value is taken for a secret. Of what is not ASCII, no two servers read the same.
pub(crate) fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), HttpConfigError> {
    let bad = |part| HttpConfigError::BadHeader {
        name: name.to_owned(),
        part,
    };
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad("name"))?;
    let value = HeaderValue::from_str(value).ok().filter(|_| value.is_ascii());
    let mut value = value.ok_or_else(|| bad("value"))?;
    value.set_sensitive(true);
    Ok((name, value))
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for HttpOptions {
    /// Header values may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("HttpOptions")
            .field("headers", &names)
            .field("unix_socket", &self.unix_socket)
            .finish_non_exhaustive()
    }
}
