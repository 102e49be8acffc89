//! The settings of the HTTP door: which clients it admits, and how much they may use.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mainstay::config::Secret;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::guard::{HttpGuard, host_in};
use super::mount::{HttpMount, Mounted};
use super::tokens::DoorTokens;
use crate::principal::TokenDigest;

/// How clients connect over HTTP.
///
/// The default admits clients of the same machine. To listen anywhere else it needs a [token](Self::token).
#[derive(Clone)]
pub struct HttpDoor {
    pub(super) guard: HttpGuard,
    pub(super) tls: Option<Arc<ServerConfig>>,
    pub(super) limits: HttpLimits,
    pub(super) access_log: bool,
    pub(super) mount: Option<Mounted>,
}

/// How much clients may use.
#[derive(Clone, Debug)]
pub(super) struct HttpLimits {
    /// Bytes of the body of a request.
    pub(super) body: usize,
    /// Connections at the same time.
    pub(super) connections: usize,
    pub(super) connections_per_peer: usize,
    pub(super) sessions: usize,
    pub(super) sessions_per_caller: usize,
    /// How long a session lives without a request and without an open stream.
    pub(super) session_idle: Duration,
    pub(super) rate: Option<RequestRate>,
    /// How long running requests may take when the door is being closed.
    pub(super) drain: Duration,
}

/// Requests that one client may make: so many in a burst, and so many in a second on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RequestRate {
    pub(super) per_second: f64,
    pub(super) burst: f64,
}

/// Why the HTTP door cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DoorError {
    /// Other machines could connect without a token.
    #[error("listening on {0}, which others can reach, needs a bearer token")]
    TokenRequired(SocketAddr),
    /// The new set of tokens is empty. The door would admit every client.
    #[error("the new set of bearer tokens is empty, which would admit every client: give one token at least")]
    NoTokens,
    /// The certificate or its key cannot be used.
    #[error("cannot use the certificate: {0}")]
    Certificate(String),
    /// The address of the listener is unknown.
    #[error("cannot listen: {0}")]
    Listener(#[from] io::Error),
}

impl Default for HttpDoor {
    fn default() -> Self {
        Self::new()
    }
}

impl HttpDoor {
    /// A door for clients of the same machine.
    pub fn new() -> Self {
        Self {
            guard: HttpGuard::default(),
            tls: None,
            limits: HttpLimits {
                body: 16 * 1024 * 1024,
                connections: 4096,
                connections_per_peer: 2048,
                sessions: 10_000,
                sessions_per_caller: 4_000,
                session_idle: Duration::from_secs(30 * 60),
                rate: None,
                drain: Duration::from_secs(30),
            },
            access_log: false,
            mount: None,
        }
    }

    /// Admits only clients that send this bearer token, or another one that was set. A session belongs to the token that
    /// opened it.
    #[must_use]
    pub fn token(self, token: impl Into<Secret>) -> Self {
        self.guard.tokens.add(&token.into());
        self
    }

    /// The tokens that were set, to be replaced while the door is open. Clones of this door share them.
    pub fn tokens(&self) -> DoorTokens {
        self.guard.tokens.clone()
    }

    /// Accepts this name in the `Host` header too. A door on a loopback address always accepts the names of this machine, any
    /// other door every IP address. The check protects against DNS rebinding.
    #[must_use]
    pub fn allowed_host(mut self, host: impl Into<String>) -> Self {
        let host = host.into();
        let name = host_in(&host).unwrap_or(&host);
        self.guard.hosts.push(name.to_owned());
        self
    }

    /// Accepts web pages of this origin, such as `https://inspector.example`. It always accepts those of the same machine.
    #[must_use]
    pub fn allowed_origin(mut self, origin: impl Into<String>) -> Self {
        self.guard.origins.push(origin.into().to_ascii_lowercase());
        self
    }

    /// Uses TLS with this certificate (the whole chain, the door's own certificate first) and key, both as PEM.
    pub fn tls(mut self, certificates: &[u8], key: &[u8]) -> Result<Self, DoorError> {
        let failed = |error: &dyn fmt::Display| DoorError::Certificate(error.to_string());
        let chain: Vec<_> = CertificateDer::pem_slice_iter(certificates)
            .collect::<Result<_, _>>()
            .map_err(|error| failed(&error))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| failed(&error))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(&error))?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|error| failed(&error))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        self.tls = Some(Arc::new(config));
        Ok(self)
    }

    /// The longest body of a request in bytes; 16 MiB by default.
    #[must_use]
    pub fn max_body(mut self, bytes: usize) -> Self {
        self.limits.body = bytes;
        self
    }

    /// Connections at the same time, of all clients and from one address; 4096 and 2048 by default. Each open stream is
    /// one.
    #[must_use]
    pub fn max_connections(mut self, of_all: usize, of_one: usize) -> Self {
        self.limits.connections = of_all;
        self.limits.connections_per_peer = of_one;
        self
    }

    /// Sessions at the same time, of all clients and of one; 10,000 and 4,000 by default. One client is all who send the same
    /// token, or all from one address if the door needs no token. One session more ends the session that has been idle for the
    /// longest time, of all or of that client. A session with a running request or an open stream never ends so.
    #[must_use]
    pub fn max_sessions(mut self, of_all: usize, of_one: usize) -> Self {
        self.limits.sessions = of_all;
        self.limits.sessions_per_caller = of_one;
        self
    }

    /// How long a session lives without a request and without an open stream; 30 minutes by default.
    #[must_use]
    pub fn session_idle(mut self, idle: Duration) -> Self {
        self.limits.session_idle = idle;
        self
    }

    /// Requests that one client may make: so many in a second on average, and so many in a burst. Unlimited by default.
    #[must_use]
    pub fn rate(mut self, per_second: u32, burst: u32) -> Self {
        self.limits.rate = Some(RequestRate {
            per_second: f64::from(per_second.max(1)),
            burst: f64::from(burst.max(1)),
        });
        self
    }

    /// How long running requests may take once the door is being closed; 30 seconds by default.
    #[must_use]
    pub fn drain_within(mut self, drain: Duration) -> Self {
        self.limits.drain = drain;
        self
    }

    /// Logs a line for each request, under the target `mainstay_gateway::access`. Refused requests are always logged, under
    /// `mainstay_gateway::refused`.
    #[must_use]
    pub fn access_log(mut self, wanted: bool) -> Self {
        self.access_log = wanted;
        self
    }

    /// Serves these paths, and what is below them, by another service, behind the same checks of `Host`. It has a token of its
    /// own, which admits to nothing else, as the tokens of this door do not admit to the service. Without one, the service itself
    /// says who may use it. Web pages may use it only if they come from this door itself, or from an
    /// [allowed origin](Self::allowed_origin).
    #[must_use]
    pub fn mount(
        mut self,
        paths: &'static [&'static str],
        token: Option<Secret>,
        service: Arc<dyn HttpMount>,
    ) -> Self {
        self.mount = Some(Mounted {
            paths,
            token: token.map(|token| TokenDigest::of(token.expose())),
            service,
        });
        self
    }

    /// Checks that it may listen at this address: one that other machines can reach needs a token.
    pub fn check(&self, address: SocketAddr) -> Result<(), DoorError> {
        if self.guard.tokens.is_empty() && !address.ip().is_loopback() {
            return Err(DoorError::TokenRequired(address));
        }
        Ok(())
    }
}

impl fmt::Debug for HttpDoor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpDoor")
            .field("tokens", &self.guard.tokens.len())
            .field("hosts", &self.guard.hosts)
            .field("origins", &self.guard.origins)
            .field("tls", &self.tls.is_some())
            .field("limits", &self.limits)
            .field("access_log", &self.access_log)
            .field("mount", &self.mount.as_ref().map(|mount| mount.paths))
            .finish()
    }
}
