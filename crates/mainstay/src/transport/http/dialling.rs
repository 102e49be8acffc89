//! The making of one connection: directly, through a unix-domain socket, or through a proxy; encrypted where the address
//! says so.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HOST, PROXY_AUTHORIZATION};
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio_rustls::TlsConnector;
use tower_service::Service;
use url::Url;

use super::client::is_loopback;
use super::door::not_to_itself;
use super::options::{HttpConfigError, HttpOptions};

/// Finds out, on a quiet connection, that the far side is gone.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);

/// What a connection is made of, whatever is below it.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

pub(super) type BoxError = Box<dyn Error + Send + Sync>;

/// How the connections to one server are made.
pub(super) struct Dialling {
    origin: Uri,
    route: Route,
}

/// What the first step of a connection leads to.
#[derive(Debug)]
enum Route {
    /// The server itself.
    Direct,
    /// A socket that stands in for it.
    Socket(PathBuf),
    /// A proxy, which is let in with this.
    Proxy {
        proxy: Uri,
        authorization: Option<HeaderValue>,
    },
}

impl Dialling {
    /// To this address, as the options and the environment say.
    pub(super) fn new(url: &Url, options: &HttpOptions) -> Result<Self, HttpConfigError> {
        Self::by(url, options, Matcher::from_env)
    }

    fn by(
        url: &Url,
        options: &HttpOptions,
        proxies: impl FnOnce() -> Matcher,
    ) -> Result<Self, HttpConfigError> {
        let origin: Uri = url
            .origin()
            .ascii_serialization()
            .parse()
            .map_err(|error: http::uri::InvalidUri| HttpConfigError::Client(error.to_string()))?;
        let route = if let Some(path) = &options.unix_socket {
            Route::Socket(path.clone())
        } else if !options.environment_proxies || is_loopback(url) {
            Route::Direct
        } else {
            match proxies().intercept(&origin) {
                None => Route::Direct,
                Some(proxy) => Route::Proxy {
                    proxy: proxy.uri().clone(),
                    authorization: proxy.basic_auth().cloned(),
                },
            }
        };
        Ok(Self { origin, route })
    }

    /// The header that a proxy wants to see on each request that it passes on itself.
    pub(super) fn of_proxy(&self) -> Option<&HeaderValue> {
        match &self.route {
            Route::Proxy { authorization, .. } if !is_encrypted(&self.origin) => authorization.as_ref(),
            Route::Proxy { .. } | Route::Direct | Route::Socket(_) => None,
        }
    }

    /// Whether requests must name the whole address: a proxy would not know where they go.
    pub(super) fn names_the_origin(&self) -> bool {
        matches!(self.route, Route::Proxy { .. }) && !is_encrypted(&self.origin)
    }

    /// Makes a connection.
    ///
    /// Cancel safety: dropping it ends the attempt.
    pub(super) async fn dial(&self, tls: &Arc<ClientConfig>) -> Result<Box<dyn Stream>, BoxError> {
        let stream: Box<dyn Stream> = match &self.route {
            Route::Direct => tcp(&self.origin).await?,
            Route::Socket(path) => Box::new(UnixStream::connect(path).await?),
            Route::Proxy { proxy, authorization } => {
                let stream = encrypted(tcp(proxy).await?, proxy, tls).await?;
                if is_encrypted(&self.origin) {
                    tunnel(stream, &self.origin, authorization.clone()).await?
                } else {
                    stream
                }
            }
        };
        encrypted(stream, &self.origin, tls).await
    }

    /// The socket that stands in for the server, or none where the server itself is dialled; `Err` where a proxy is.
    pub(super) fn socket(&self) -> Result<Option<PathBuf>, Proxied> {
        match &self.route {
            Route::Direct => Ok(None),
            Route::Socket(path) => Ok(Some(path.clone())),
            Route::Proxy { .. } => Err(Proxied),
        }
    }
}

/// A proxy stands before the server.
#[derive(Debug)]
pub(super) struct Proxied;

fn is_encrypted(origin: &Uri) -> bool {
    origin.scheme() == Some(&http::uri::Scheme::HTTPS)
}

async fn tcp(origin: &Uri) -> Result<Box<dyn Stream>, BoxError> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_keepalive(Some(TCP_KEEPALIVE));
    let stream = connector.call(origin.clone()).await?.into_inner();
    Ok(Box::new(not_to_itself(stream)?))
}

async fn encrypted(
    stream: Box<dyn Stream>,
    origin: &Uri,
    tls: &Arc<ClientConfig>,
) -> Result<Box<dyn Stream>, BoxError> {
    if !is_encrypted(origin) {
        return Ok(stream);
    }
    let host = origin.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(host)?;
    Ok(Box::new(
        TlsConnector::from(tls.clone()).connect(name, stream).await?,
    ))
}

/// Asks a proxy for a way to the server that it does not look into.
async fn tunnel(
    stream: Box<dyn Stream>,
    origin: &Uri,
    authorization: Option<HeaderValue>,
) -> Result<Box<dyn Stream>, BoxError> {
    let host = origin.host().unwrap_or_default();
    let authority = format!("{host}:{}", origin.port_u16().unwrap_or(443));
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.method_mut() = Method::CONNECT;
    request
        .headers_mut()
        .insert(HOST, HeaderValue::from_str(&authority)?);
    if let Some(authorization) = authorization {
        request.headers_mut().insert(PROXY_AUTHORIZATION, authorization);
    }
    *request.uri_mut() = authority.parse()?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends when the proxy has answered: with the stream, or with its failure, which the sender hears too.
    tokio::spawn(connection.with_upgrades());
    let answer = sender.send_request(request).await?;
    match answer.status() {
        StatusCode::OK => Ok(Box::new(TokioIo::new(hyper::upgrade::on(answer).await?))),
        refused => Err(format!("the proxy refused the way to the server (status {refused})").into()),
    }
}

#[cfg(test)]
mod tests;
