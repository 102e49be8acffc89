//! Where a server is, and what is sent there.
//!
//! A redirect is followed only within the origin, so credentials never reach another one. The head of an answer is bounded: at most 100 headers in 400 KiB.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST, LOCATION, PROXY_AUTHORIZATION};
use http::{HeaderMap, HeaderValue, Method, Uri};
use tokio::sync::{Mutex, watch};
use tokio::time::timeout;
use url::{Position, Url};

use super::connection::{PoolRequest, Response};
use super::dialer::Dialer;
use super::options::HttpOptions;
use super::pool::Pool;
use super::port_probe::PortProbe;
use super::refusal::Refusal;
use super::{
    CredentialRefusal, Credentials, Http, HttpConfigError, HttpFailure, HttpStage, ParamHeaders, tls,
};
use crate::config::HttpTarget;
use crate::transport::{Sse, Transport};

/// Redirects in a row: a path that moved, and a slash that was forgotten.
const REDIRECTS: usize = 3;

/// How long a credential may take to be had: it may have to be renewed.
const CREDENTIAL_TIMEOUT: Duration = Duration::from_secs(30);

/// Where a server is, and how it is spoken to. Clones share the connections.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(in crate::transport) url: Url,
    pub(in crate::transport) options: HttpOptions,
    pool: Arc<Pool>,
    /// Its address, as a request names it.
    target: Uri,
    /// The headers of every request.
    headers: Arc<HeaderMap>,
    /// One request at a time looks for the credential: the others find what it found.
    looking: Arc<Mutex<()>>,
    /// Sessions that are being deleted.
    session_deletions: watch::Sender<usize>,
}

impl Endpoint {
    /// The endpoint of a configured server.
    pub(crate) fn of(target: &HttpTarget) -> Result<Self, HttpConfigError> {
        Self::new(target.url().value(), target.options())
    }

    pub(crate) fn new(url: &str, options: HttpOptions) -> Result<Self, HttpConfigError> {
        let url = address(url)?;
        let mut headers = options.header_map()?;
        let dialer = Dialer::new(&url, &options, &headers)?;
        headers.entry(HOST).or_insert(authority(&url)?);
        if let Some(authorization) = dialer.of_proxy() {
            headers.insert(PROXY_AUTHORIZATION, authorization.clone());
        }
        let target = target(&url, &dialer)?;
        let tls = tls::config(dialer.encrypts(), &options)?;
        let pool = Arc::new(Pool::new(dialer, tls, options.connect_timeout));
        let session_deletions = watch::Sender::new(0);
        Ok(Self {
            url,
            options,
            pool,
            target,
            headers: Arc::new(headers),
            looking: Arc::default(),
            session_deletions,
        })
    }

    /// The credentials of its requests.
    pub(crate) fn credentials(&self) -> Option<Arc<dyn Credentials>> {
        self.options.credentials.clone()
    }

    /// The host and the port of its address.
    pub(crate) fn address(&self) -> (&str, u16) {
        let port = self.url.port_or_known_default();
        (self.url.host_str().unwrap_or_default(), port.unwrap_or_default())
    }

    /// The same for calls that show these arguments in headers.
    pub(crate) fn showing(&self, params: Arc<dyn ParamHeaders>) -> Self {
        let options = self.options.clone().param_headers(params);
        Self {
            options,
            ..self.clone()
        }
    }

    /// Waits until no session is being deleted. Shutdown waits for it, or its last sessions would remain at their servers.
    pub(crate) async fn sessions_deleted(&self) {
        let _ = self
            .session_deletions
            .subscribe()
            .wait_for(|deletions| *deletions == 0)
            .await;
    }

    /// Counts a session as being deleted until the guard is dropped.
    pub(super) fn begin_session_deletion(&self) -> SessionDeletion {
        self.session_deletions.send_modify(|deletions| *deletions += 1);
        SessionDeletion(self.session_deletions.clone())
    }

    /// The room that is free for large answers, in MiB.
    #[cfg(test)]
    pub(super) fn free_receiving_room(&self) -> usize {
        self.pool.free_receiving_room()
    }

    /// What to probe while the server is unreachable, if there is anything.
    pub(crate) fn port_probe(&self) -> Option<PortProbe> {
        self.pool.dialer.port_probe()
    }

    /// What to probe when the server closes an idle connection. Not if connections are encrypted: a server may log each one that
    /// ends before its handshake, and an encrypted port often belongs to a balancer, which outlives the server.
    pub(super) fn watched_port(&self) -> Option<PortProbe> {
        self.port_probe().filter(|_| !self.pool.dialer.encrypts())
    }

    /// Changes whenever the server closes a connection that waited for its next request.
    pub(super) fn closes(&self) -> watch::Receiver<()> {
        self.pool.closes()
    }

    /// A connection of Streamable HTTP.
    pub(crate) fn streamable(&self) -> Box<dyn Transport> {
        Box::new(Http::over(self.clone()))
    }

    /// A connection of HTTP+SSE.
    pub(crate) fn sse(&self) -> Box<dyn Transport> {
        Box::new(Sse::over(self.clone()))
    }

    /// A request to the server, with the present credential.
    pub(in crate::transport) async fn request(&self, method: Method) -> Result<Outgoing, HttpFailure> {
        let mut outgoing = Outgoing {
            method,
            target: self.target.clone(),
            shared: self.headers.clone(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
        };
        self.authorize(&mut outgoing).await?;
        Ok(outgoing)
    }

    /// Gives a request the credential of the moment, in place of the one before.
    async fn authorize(&self, outgoing: &mut Outgoing) -> Result<(), HttpFailure> {
        // Boxed, so that a request without a credential carries no room for looking one up.
        let value = match &self.options.credentials {
            Some(credentials) => Box::pin(self.authorization(&**credentials)).await?,
            None => None,
        };
        match value {
            Some(value) => outgoing.headers.insert(AUTHORIZATION, value),
            None => outgoing.headers.remove(AUTHORIZATION),
        };
        Ok(())
    }

    /// Gives a request whose credential was refused the one of the moment; `true` if that is another one, with which it is sent
    /// again: a server that refuses a credential has done nothing of what it was asked. The provider learns of the refusal
    /// first, and may renew the credential. A provider that cannot renew it for now is the reason of the failure: no login
    /// is needed.
    pub(in crate::transport) async fn renew(
        &self,
        request: &mut Outgoing,
        refusal: &CredentialRefusal,
    ) -> Result<bool, Refusal> {
        self.report_refusal(refusal).await;
        self.authorize(request).await.map_err(Refusal::no_credential)?;
        Ok(request.credential() != refusal.authorization.as_ref())
    }

    /// The headers of every request, with these in place of others of their names.
    pub(super) fn headers_with(&self, own: HeaderMap) -> HeaderMap {
        let mut headers = HeaderMap::clone(&self.headers);
        headers.extend(own);
        headers
    }

    /// How a request names this address of the server's own.
    pub(in crate::transport) fn target_of(&self, url: &Url) -> Option<Uri> {
        target(url, &self.pool.dialer).ok()
    }

    /// Sends a request and waits for the head of its answer, for so long at most. A redirect is followed if it keeps the
    /// method and the body.
    ///
    /// Cancel safety: dropping it closes the connection that the request went out on.
    pub(in crate::transport) async fn send(
        &self,
        outgoing: &Outgoing,
        limit: Option<Duration>,
    ) -> Result<Response, Refusal> {
        let keeps_all = |status: u16| matches!(status, 307 | 308);
        let sending = self.send_following(outgoing, keeps_all);
        match limit {
            None => sending.await,
            Some(limit) => timeout(limit, sending).await.unwrap_or_else(|_| {
                Err(Refusal::unknown(HttpFailure::TimedOut {
                    step: HttpStage::FirstByte,
                    limit,
                }))
            }),
        }
    }

    /// Sends a request and follows redirects of these statuses, within the origin.
    ///
    /// Cancel safety: dropping it closes the connection that the request went out on.
    pub(super) async fn send_following(
        &self,
        outgoing: &Outgoing,
        is_followed: impl Fn(u16) -> bool,
    ) -> Result<Response, Refusal> {
        let mut target = outgoing.target.clone();
        let mut response = self.pool.send(outgoing.to_request(&target)).await?;
        for _ in 0..REDIRECTS {
            if !is_followed(response.status().as_u16()) {
                break;
            }
            let Some(next) = self.moved(&response, &target) else {
                break;
            };
            response.discard();
            target = next;
            response = Box::pin(self.pool.send(outgoing.to_request(&target))).await?;
        }
        response.had_credential = outgoing.credential().is_some();
        Ok(response)
    }

    /// Where a redirect sends the request, if it may go there.
    fn moved(&self, response: &Response, from: &Uri) -> Option<Uri> {
        let location = response.headers().get(LOCATION)?.to_str().ok()?;
        let from = self.url.join(from.path_and_query()?.as_str()).ok()?;
        let to = from.join(location).ok()?;
        (to.origin() == self.url.origin()).then(|| self.target_of(&to))?
    }

    /// Reads the files of certificates again: they may have been renewed. What is idle is closed; what is under way goes on.
    pub(crate) fn reread_certificates(&self) -> Result<(), HttpConfigError> {
        if self.options.roots.is_some() || self.options.identity.is_some() {
            let encrypts = self.pool.dialer.encrypts();
            self.pool.encrypt_with(tls::config(encrypts, &self.options)?);
        }
        Ok(())
    }

    /// Tells the provider of a refused credential, and waits until it has handled that.
    async fn report_refusal(&self, refusal: &CredentialRefusal) {
        if let Some(credentials) = &self.options.credentials {
            let handled = timeout(CREDENTIAL_TIMEOUT, credentials.refused(refusal)).await;
            if handled.is_err() {
                tracing::debug!("the provider did not handle a refused credential in time");
            }
        }
    }

    async fn authorization(&self, credentials: &dyn Credentials) -> Result<Option<HeaderValue>, HttpFailure> {
        let looking = async {
            let _turn = self.looking.lock().await;
            credentials.authorization().await
        };
        timeout(CREDENTIAL_TIMEOUT, looking)
            .await
            .map_err(|_| HttpFailure::TimedOut {
                step: HttpStage::Credential,
                limit: CREDENTIAL_TIMEOUT,
            })?
            .map_err(|error: io::Error| HttpFailure::NoCredential {
                message: error.to_string(),
            })
    }
}

/// A session that is being deleted.
pub(super) struct SessionDeletion(watch::Sender<usize>);

impl Drop for SessionDeletion {
    fn drop(&mut self) {
        self.0.send_modify(|deletions| *deletions -= 1);
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
        url: without_credential(text),
        reason,
    };
    let url = Url::parse(text).map_err(|error| refused(error.to_string()))?;
    match url.scheme() {
        "http" => {}
        "https" => tls::require()?,
        other => {
            return Err(HttpConfigError::UnknownScheme {
                scheme: other.to_owned(),
            });
        }
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(refused("it names no host".to_owned()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(HttpConfigError::CredentialInAddress);
    }
    Ok(url)
}

/// What was meant to be an address, without what may be a secret in front of its host.
fn without_credential(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((_credential, rest)) => format!("***@{rest}"),
        None => text.to_owned(),
    }
}

/// The authority of an address, as the header `Host` names it.
fn authority(url: &Url) -> Result<HeaderValue, HttpConfigError> {
    let authority = &url[Position::BeforeHost..Position::AfterPort];
    HeaderValue::from_str(authority).map_err(|error| HttpConfigError::Client(error.to_string()))
}

/// How a request names an address: its path, or the whole of it where a proxy passes it on.
fn target(url: &Url, dialer: &Dialer) -> Result<Uri, HttpConfigError> {
    let path = &url[Position::BeforePath..Position::AfterQuery];
    let target = if dialer.names_the_origin() {
        format!("{}{path}", url.origin().ascii_serialization())
    } else {
        path.to_owned()
    };
    target
        .parse()
        .map_err(|error: http::uri::InvalidUri| HttpConfigError::Client(error.to_string()))
}

/// A request on its way out.
pub(in crate::transport) struct Outgoing {
    method: Method,
    pub(in crate::transport) target: Uri,
    /// Headers that it has in common with others.
    pub(super) shared: Arc<HeaderMap>,
    /// Its own, which take the place of shared ones of their names.
    pub(in crate::transport) headers: HeaderMap,
    pub(in crate::transport) body: Bytes,
}

impl Outgoing {
    /// The credential that it shows.
    pub(in crate::transport) fn credential(&self) -> Option<&HeaderValue> {
        let own = self.headers.get(AUTHORIZATION);
        own.or_else(|| self.shared.get(AUTHORIZATION))
    }

    /// The request as it is written to this target.
    fn to_request(&self, target: &Uri) -> PoolRequest {
        let mut headers = HeaderMap::clone(&self.shared);
        if !self.headers.is_empty() {
            headers.extend(self.headers.clone());
        }
        let mut request = PoolRequest::new(self.body.clone().into());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = target.clone();
        *request.headers_mut() = headers;
        request
    }
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
