//! What a person says of the HTTP door: who may come in, and how much of it.

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

/// How clients come in over HTTP.
///
/// By itself it lets clients of the same machine in. Anywhere else it takes a [token](Self::token).
#[derive(Clone)]
pub struct HttpDoor {
    pub(super) tokens: Vec<Secret>,
    pub(super) hosts: Vec<String>,
    pub(super) origins: Vec<String>,
    pub(super) tls: Option<Arc<ServerConfig>>,
    pub(super) bounds: Bounds,
    pub(super) access_log: bool,
}

/// How much of it.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    /// Bytes of a request.
    pub(super) body: usize,
    /// Connections at the same time.
    pub(super) connections: usize,
    pub(super) connections_of_peer: usize,
    pub(super) sessions: usize,
    pub(super) sessions_of_caller: usize,
    /// How long a session lives without a request and without an open stream.
    pub(super) session_idle: Duration,
    pub(super) rate: Option<Rate>,
    /// How long running requests may take when the door is closed.
    pub(super) drain: Duration,
}

/// Requests that one client may make: so many in a burst, and so many in a second on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate {
    pub(super) per_second: f64,
    pub(super) burst: f64,
}

/// Why the HTTP door cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DoorError {
    /// Anybody could come in.
    #[error("listening on {0}, which others can reach, needs a bearer token")]
    TokenRequired(SocketAddr),
    /// The certificate or its key cannot be used.
    #[error("cannot use the certificate: {0}")]
    Certificate(String),
    /// The listener does not say where it listens.
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
            tokens: Vec::new(),
            hosts: Vec::new(),
            origins: Vec::new(),
            tls: None,
            bounds: Bounds {
                body: 16 * 1024 * 1024,
                connections: 4096,
                connections_of_peer: 2048,
                sessions: 10_000,
                sessions_of_caller: 4_000,
                session_idle: Duration::from_secs(30 * 60),
                rate: None,
                drain: Duration::from_secs(30),
            },
            access_log: false,
        }
    }

    /// Lets in only who shows this bearer token, or another that was given. A session belongs to the token that opened it.
    #[must_use]
    pub fn token(mut self, token: impl Into<Secret>) -> Self {
        self.tokens.push(token.into());
        self
    }

    /// Answers under this name too. A loopback address is always answered under its own names, and any other under any
    /// address; other names could be another page's way to this machine (DNS rebinding).
    #[must_use]
    pub fn allowed_host(mut self, host: impl Into<String>) -> Self {
        self.hosts.push(host.into().to_ascii_lowercase());
        self
    }

    /// Answers pages of this origin, such as `https://inspector.example`. Pages of the same machine are always answered.
    #[must_use]
    pub fn allowed_origin(mut self, origin: impl Into<String>) -> Self {
        self.origins.push(origin.into().to_ascii_lowercase());
        self
    }

    /// Speaks TLS with this certificate (the chain, the own one first) and key, both PEM.
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
        self.bounds.body = bytes;
        self
    }

    /// Connections at the same time, of all clients and from one address; 4096 and 2048 by default. Each open stream is
    /// one.
    #[must_use]
    pub fn max_connections(mut self, of_all: usize, of_one: usize) -> Self {
        self.bounds.connections = of_all;
        self.bounds.connections_of_peer = of_one;
        self
    }

    /// Sessions at the same time, of all clients and of one; 10,000 and 4,000 by default. One client is who shows the
    /// same token, or comes from the same address where no token is asked for. With one more, the session that was idle for
    /// the longest time gives way, of all or of that client; one with a running request or an open stream never does.
    #[must_use]
    pub fn max_sessions(mut self, of_all: usize, of_one: usize) -> Self {
        self.bounds.sessions = of_all;
        self.bounds.sessions_of_caller = of_one;
        self
    }

    /// How long a session lives without a request and without an open stream; 30 minutes by default.
    #[must_use]
    pub fn session_idle(mut self, idle: Duration) -> Self {
        self.bounds.session_idle = idle;
        self
    }

    /// Requests that one client may make: so many in a second on average, and so many in a burst. No bound by default.
    #[must_use]
    pub fn rate(mut self, per_second: u32, burst: u32) -> Self {
        self.bounds.rate = Some(Rate {
            per_second: f64::from(per_second.max(1)),
            burst: f64::from(burst.max(1)),
        });
        self
    }

    /// How long running requests may take once the door is being closed; 30 seconds by default.
    #[must_use]
    pub fn drain_within(mut self, drain: Duration) -> Self {
        self.bounds.drain = drain;
        self
    }

    /// Logs a line for each request, under the target `mainstay_gateway::access`. Those that are refused are logged in any
    /// case, under `mainstay_gateway::refused`.
    #[must_use]
    pub fn access_log(mut self, wanted: bool) -> Self {
        self.access_log = wanted;
        self
    }

    /// Whether it may be opened at this address: one that others can reach needs a token.
    pub fn check(&self, address: SocketAddr) -> Result<(), DoorError> {
        if self.tokens.is_empty() && !address.ip().is_loopback() {
            return Err(DoorError::TokenRequired(address));
        }
        Ok(())
    }
}

impl fmt::Debug for HttpDoor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpDoor")
            .field("tokens", &self.tokens.len())
            .field("hosts", &self.hosts)
            .field("origins", &self.origins)
            .field("tls", &self.tls.is_some())
            .field("bounds", &self.bounds)
            .field("access_log", &self.access_log)
            .finish()
    }
}
