//! The HTTP client of a server: pooled, without surprises.
//!
//! Connections are kept alive and reused. A redirect is followed only within the origin and only when it keeps the
//! method and the body; credentials so never reach a stranger. The head of an answer is bounded by the client: at most
//! 100 headers in 400 KiB.

use std::ffi::OsString;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder, Url};
use tokio::sync::{Mutex, watch};
use tokio::time::timeout;

use super::Http;
use super::credentials::Credentials;
use super::door::Door;
use super::failure::{HttpFailure, Step};
use super::options::{HttpConfigError, HttpOptions};
use super::params::ParamHeaders;
use super::tls;
use crate::transport::{Sse, Transport};

/// Redirects in a row: a path that moved, and a slash that was forgotten.
const REDIRECTS: usize = 3;

/// How long an unused connection is kept. Shorter than servers and balancers commonly keep theirs, so that a request
/// seldom meets one that is just being closed.
const POOL_IDLE: Duration = Duration::from_secs(45);

/// Finds out, on a quiet connection, that the far side is gone.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);

/// How long a credential may take to be had: it may have to be renewed.
const CREDENTIAL_TIMEOUT: Duration = Duration::from_secs(30);

/// Where a server is, and how it is spoken to. Clones share the connections.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(in crate::transport) url: Url,
    pub(in crate::transport) options: HttpOptions,
    client: Client,
    /// One request at a time looks for the credential: the others find what it found. Here is what was given last.
    credential: Arc<Mutex<Option<HeaderValue>>>,
    /// How often the credential that is given has changed.
    renewals: Arc<AtomicU64>,
    /// Sessions that are being deleted.
    farewells: watch::Sender<usize>,
}

impl Endpoint {
    pub(crate) fn new(url: &str, options: HttpOptions) -> Result<Self, HttpConfigError> {
        let url = address(url)?;
        let client = client(&url, &options)?;
        let (credential, renewals) = Default::default();
        let farewells = watch::Sender::new(0);
        Ok(Self {
            url,
            options,
            client,
            credential,
            renewals,
            farewells,
        })
    }

    /// What its requests are allowed in with.
    pub(crate) fn credentials(&self) -> Option<Arc<dyn Credentials>> {
        self.options.credentials.clone()
    }

    /// How often the credential has changed: a request that was refused and saw another count showed an old one.
    pub(super) fn renewals(&self) -> u64 {
        self.renewals.load(Ordering::Relaxed)
    }

    /// The same for calls that show these arguments in headers.
    pub(crate) fn showing(&self, params: Arc<dyn ParamHeaders>) -> Self {
        let options = self.options.clone().param_headers(params);
        Self {
            options,
            ..self.clone()
        }
    }

    /// Comes back when no session is being deleted. Whoever ends the program waits for it, or its last sessions would stay
    /// behind at their servers.
    pub(crate) async fn all_farewells_said(&self) {
        let _ = self.farewells.subscribe().wait_for(|saying| *saying == 0).await;
    }

    /// Counts a session as being deleted until the guard is dropped.
    pub(super) fn saying_farewell(&self) -> Farewell {
        self.farewells.send_modify(|saying| *saying += 1);
        Farewell(self.farewells.clone())
    }

    /// Where to knock. With a proxy in between there is no knocking: it is always there, whoever is behind it.
    pub(crate) fn door(&self) -> Option<Door> {
        self.door_in(|name| std::env::var_os(name))
    }

    /// The door, in an environment with these variables.
    fn door_in(&self, variable: impl Fn(&str) -> Option<OsString>) -> Option<Door> {
        if let Some(path) = &self.options.unix_socket {
            return Some(Door::Socket(path.clone()));
        }
        if self.options.environment_proxies && !is_loopback(&self.url) && names_a_proxy(variable) {
            return None;
        }
        let host = self.url.host_str()?;
        Some(Door::Port {
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: self.url.port_or_known_default()?,
        })
    }

    /// A connection of Streamable HTTP.
    pub(crate) fn streamable(&self) -> Box<dyn Transport> {
        Box::new(Http::over(self.clone()))
    }

    /// A connection of HTTP+SSE.
    pub(crate) fn sse(&self) -> Box<dyn Transport> {
        Box::new(Sse::over(self.clone()))
    }

    /// A request to the server, allowed in with the credential of the moment.
    pub(in crate::transport) async fn request(
        &self,
        method: Method,
        url: Url,
    ) -> Result<RequestBuilder, HttpFailure> {
        // Boxed, so that a request without a credential carries no room for looking one up.
        let value = match &self.options.credentials {
            Some(credentials) => Box::pin(self.authorization(&**credentials)).await?,
            None => None,
        };
        let request = self.client.request(method, url);
        Ok(match value {
            Some(value) => request.header(AUTHORIZATION, value),
            None => request,
        })
    }

    async fn authorization(&self, credentials: &dyn Credentials) -> Result<Option<HeaderValue>, HttpFailure> {
        let looking = async {
            let mut last = self.credential.lock().await;
            let value = credentials.authorization().await?;
            if *last != value {
                last.clone_from(&value);
                self.renewals.fetch_add(1, Ordering::Relaxed);
            }
            Ok(value)
        };
        timeout(CREDENTIAL_TIMEOUT, looking)
            .await
            .map_err(|_| HttpFailure::TimedOut {
                step: Step::Credential,
                limit: CREDENTIAL_TIMEOUT,
            })?
            .map_err(|error: io::Error| HttpFailure::NoCredential {
                message: error.to_string(),
            })
    }
}

/// A session that is being deleted.
pub(super) struct Farewell(watch::Sender<usize>);

impl Drop for Farewell {
    fn drop(&mut self) {
        self.0.send_modify(|saying| *saying -= 1);
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint")
            .field("host", &self.url.host_str())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// The address in this text, if it is one of HTTP.
pub(crate) fn address(text: &str) -> Result<Url, HttpConfigError> {
    let refused = |reason: String| HttpConfigError::NotAnAddress {
        url: text.to_owned(),
        reason,
    };
    let url = Url::parse(text).map_err(|error| refused(error.to_string()))?;
    match url.scheme() {
        "http" | "https" => {}
        other => {
            return Err(HttpConfigError::UnknownScheme {
                scheme: other.to_owned(),
            });
        }
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(refused("it names no host".to_owned()));
    }
    Ok(url)
}

fn client(url: &Url, options: &HttpOptions) -> Result<Client, HttpConfigError> {
    let headers: HeaderMap = options.header_map()?;
    let mut builder = Client::builder()
        .default_headers(headers)
        .redirect(within_the_origin())
        .referer(false)
        // Whether a request is made again is decided above, by what is known of it; and so no copy of it is kept.
        .retry(reqwest::retry::never().max_retries_per_request(0))
        .connect_timeout(options.connect_timeout)
        .pool_idle_timeout(POOL_IDLE)
        .tcp_nodelay(true)
        .tcp_keepalive(TCP_KEEPALIVE)
        .tls_backend_preconfigured(tls::config(url, options)?);
    if let Some(path) = &options.unix_socket {
        builder = builder.unix_socket(path.clone());
    }
    if !options.environment_proxies || options.unix_socket.is_some() || is_loopback(url) {
        builder = builder.no_proxy();
    }
    builder
        .build()
        .map_err(|error| HttpConfigError::Client(error.to_string()))
}

fn within_the_origin() -> Policy {
    Policy::custom(|attempt| {
        let keeps_the_body = matches!(attempt.status().as_u16(), 307 | 308);
        let same_origin = attempt
            .previous()
            .first()
            .is_some_and(|first| first.origin() == attempt.url().origin());
        if keeps_the_body && same_origin && attempt.previous().len() <= REDIRECTS {
            attempt.follow()
        } else {
            attempt.stop()
        }
    })
}

/// Whether the environment names any proxy. Whether it stands before a certain address is the client's to know.
fn names_a_proxy(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    const VARIABLES: [&str; 6] = [
        "HTTP_PROXY",
        "http_proxy",
        "HTTPS_PROXY",
        "https_proxy",
        "ALL_PROXY",
        "all_proxy",
    ];
    VARIABLES
        .into_iter()
        .any(|name| variable(name).is_some_and(|value| !value.is_empty()))
}

/// Whether an address never leaves this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests;
