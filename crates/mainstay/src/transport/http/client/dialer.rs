//! The making of one connection: directly, through a unix-domain socket, or through a proxy; encrypted where the address
//! says so.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{PROXY_AUTHORIZATION, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tower_service::Service;
use url::Url;

use super::HttpConfigError;
use super::endpoint::is_loopback;
use super::options::{AddressCheck, HttpOptions};
use super::port_probe::{PortProbe, refuse_self_connection};
use super::socket::{CountedSocket, SocketCounters};
use super::socks::Socks;
use super::tls::{self, TlsConfig};

/// Finds out, on a quiet connection, that the remote peer is gone.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);

/// The longest head of a proxy's answer.
const PROXY_HEAD_LIMIT: u64 = 64 * 1024;

/// What a connection is made of, whatever is below it.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// A connection that was made, and the counters of its socket where it has them.
pub(super) struct DialledStream {
    pub(super) stream: Box<dyn ByteStream>,
    pub(super) counters: Option<Arc<SocketCounters>>,
}

impl DialledStream {
    fn over(socket: impl AsyncRead + AsyncWrite + AsFd + Send + Unpin + 'static) -> Self {
        let (counted, counters) = CountedSocket::new(socket);
        Self {
            stream: Box::new(counted),
            counters: Some(counters),
        }
    }
}

pub(super) type BoxError = Box<dyn Error + Send + Sync>;

/// How the connections to one server are made.
pub(super) struct Dialer {
    origin: Uri,
    route: Route,
    /// The headers that identify this client to a proxy.
    user_agent: Option<HeaderValue>,
    address_check: Option<AddressCheck>,
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
    /// A SOCKS proxy.
    Socks(Socks),
}

impl Route {
    /// The way through a proxy that the environment names.
    fn through(proxy: &Intercept) -> Result<Self, HttpConfigError> {
        if let Some(socks) = Socks::of(proxy) {
            return Ok(Self::Socks(socks));
        }
        match proxy.uri().scheme_str() {
            Some("http" | "https") => Ok(Self::Proxy {
                proxy: proxy.uri().clone(),
                authorization: proxy.basic_auth().cloned(),
            }),
            other => Err(HttpConfigError::UnsupportedProxy {
                scheme: other.unwrap_or_default().to_owned(),
            }),
        }
    }
}

impl Dialer {
    /// To this address, as the options and the environment say.
    pub(super) fn new(
        url: &Url,
        options: &HttpOptions,
        headers: &HeaderMap,
    ) -> Result<Self, HttpConfigError> {
        Self::by(url, options, headers, Matcher::from_env)
    }

    fn by(
        url: &Url,
        options: &HttpOptions,
        headers: &HeaderMap,
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
                Some(proxy) => Route::through(&proxy)?,
            }
        };
        Ok(Self {
            origin,
            route,
            user_agent: headers.get(USER_AGENT).cloned(),
            address_check: options.address_check.clone(),
        })
    }

    /// The header that a proxy wants to see on each request that it passes on itself.
    pub(super) fn of_proxy(&self) -> Option<&HeaderValue> {
        match &self.route {
            Route::Proxy { authorization, .. } if !is_encrypted(&self.origin) => authorization.as_ref(),
            Route::Proxy { .. } | Route::Direct | Route::Socket(_) | Route::Socks(_) => None,
        }
    }

    /// Whether requests must name the whole address: a proxy would not know where they go.
    pub(super) fn names_the_origin(&self) -> bool {
        matches!(self.route, Route::Proxy { .. }) && !is_encrypted(&self.origin)
    }

    /// Whether any part of the way is encrypted by this side.
    pub(super) fn encrypts(&self) -> bool {
        let to_proxy = match &self.route {
            Route::Proxy { proxy, .. } => is_encrypted(proxy),
            Route::Direct | Route::Socket(_) | Route::Socks(_) => false,
        };
        to_proxy || is_encrypted(&self.origin)
    }

    /// Makes a connection.
    ///
    /// Cancel safety: dropping it ends the attempt.
    pub(super) async fn dial(&self, tls: &Arc<TlsConfig>) -> Result<DialledStream, BoxError> {
        let DialledStream { stream, counters } = match &self.route {
            Route::Direct => match &self.address_check {
                None => tcp(&self.origin).await?,
                Some(check) => checked_tcp(&self.origin, check, &system_lookup()).await?,
            },
            Route::Socket(path) => DialledStream::over(UnixStream::connect(path).await?),
            Route::Proxy { proxy, authorization } => {
                let DialledStream { stream, counters } = tcp(proxy).await?;
                let mut stream = encrypted(stream, proxy, tls).await?;
                if is_encrypted(&self.origin) {
                    let headers = [
                        (PROXY_AUTHORIZATION, authorization.clone()),
                        (USER_AGENT, self.user_agent.clone()),
                    ];
                    stream = tunnel(stream, &self.origin, headers).await?;
                }
                DialledStream { stream, counters }
            }
            Route::Socks(socks) => {
                let DialledStream { stream, counters } = tcp(&socks.proxy).await?;
                let stream = socks.connect(stream, &self.origin).await?;
                DialledStream { stream, counters }
            }
        };
        let stream = encrypted(stream, &self.origin, tls).await?;
        Ok(DialledStream { stream, counters })
    }

    /// What to probe; `None` behind a proxy, which accepts connections whether or not the server does.
    pub(super) fn port_probe(&self) -> Option<PortProbe> {
        match &self.route {
            Route::Direct => Some(PortProbe::Port {
                host: host(&self.origin).to_owned(),
                port: port(&self.origin),
            }),
            Route::Socket(path) => Some(PortProbe::Socket(path.clone())),
            Route::Proxy { .. } | Route::Socks(_) => None,
        }
    }
}

fn is_encrypted(origin: &Uri) -> bool {
    origin.scheme() == Some(&http::uri::Scheme::HTTPS)
}

/// The host of an address, an IPv6 address without its brackets.
pub(super) fn host(origin: &Uri) -> &str {
    let host = origin.host().unwrap_or_default();
    host.trim_start_matches('[').trim_end_matches(']')
}

/// The port of an address, also where it names none.
pub(super) fn port(origin: &Uri) -> u16 {
    let default = if is_encrypted(origin) { 443 } else { 80 };
    origin.port_u16().unwrap_or(default)
}

async fn tcp(origin: &Uri) -> Result<DialledStream, BoxError> {
    let mut connector = configured(HttpConnector::new());
    connected(connector.call(origin.clone()).await?.into_inner())
}

/// Finds the addresses of a name.
type HostLookup = Arc<dyn Fn(Name) -> LookingUp + Send + Sync>;
type LookingUp = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// The lookup of the system.
fn system_lookup() -> HostLookup {
    Arc::new(|name| {
        Box::pin(async move {
            // The connector sets the port.
            let found = lookup_host((name.as_str(), 0)).await?;
            Ok(found.collect())
        })
    })
}

/// Connects only to addresses that pass the check. The name is looked up once, and the connection goes to one of the addresses that
/// were checked: a name that resolves to another address a moment later changes nothing.
async fn checked_tcp(
    origin: &Uri,
    check: &AddressCheck,
    lookup: &HostLookup,
) -> Result<DialledStream, BoxError> {
    // The connector resolves no host that is an address already.
    if let Ok(address) = host(origin).parse() {
        refuse_unless(check(address))?;
    }
    let mut connector = configured(HttpConnector::new_with_resolver(CheckedResolver {
        check: check.clone(),
        lookup: lookup.clone(),
    }));
    connected(connector.call(origin.clone()).await?.into_inner())
}

fn configured<R>(mut connector: HttpConnector<R>) -> HttpConnector<R> {
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_keepalive(Some(TCP_KEEPALIVE));
    connector
}

fn connected(stream: TcpStream) -> Result<DialledStream, BoxError> {
    Ok(DialledStream::over(refuse_self_connection(stream)?))
}

/// Resolves a name to those of its addresses that pass the check.
#[derive(Clone)]
struct CheckedResolver {
    check: AddressCheck,
    lookup: HostLookup,
}

impl Service<Name> for CheckedResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let check = self.check.clone();
        let resolving = (self.lookup)(name);
        Box::pin(async move {
            let mut permitted = resolving.await?;
            permitted.retain(|found| check(found.ip()));
            refuse_unless(!permitted.is_empty())?;
            Ok(permitted.into_iter())
        })
    }
}

fn refuse_unless(is_permitted: bool) -> io::Result<()> {
    if is_permitted {
        return Ok(());
    }
    let message = "the address is not a public one, and connecting to it is not permitted";
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}

async fn encrypted(
    stream: Box<dyn ByteStream>,
    origin: &Uri,
    config: &Arc<TlsConfig>,
) -> Result<Box<dyn ByteStream>, BoxError> {
    if !is_encrypted(origin) {
        return Ok(stream);
    }
    tls::connect(stream, host(origin).to_owned(), config).await
}

/// Asks a proxy with CONNECT for a tunnel to the server. Any status from 200 to 299 is a success;
/// hyper-util's `Tunnel` accepts 200 alone, so it is not used here.
async fn tunnel(
    stream: Box<dyn ByteStream>,
    origin: &Uri,
    headers: [(HeaderName, Option<HeaderValue>); 2],
) -> Result<Box<dyn ByteStream>, BoxError> {
    let host = origin.host().unwrap_or_default();
    let authority = format!("{host}:{}", port(origin));
    let mut request = format!("CONNECT {authority} HTTP/1.1\r\nhost: {authority}\r\n").into_bytes();
    for (name, value) in headers {
        if let Some(value) = value {
            request.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
    }
    request.extend(b"\r\n");
    let mut stream = BufReader::new(stream);
    stream.write_all(&request).await?;
    stream.flush().await?;
    match status(&mut stream).await? {
        200..=299 if stream.buffer().is_empty() => Ok(stream.into_inner()),
        200..=299 => Ok(Box::new(stream)),
        refused => Err(format!("the proxy refused the way to the server (status {refused})").into()),
    }
}

/// Reads the head of a proxy's answer; gives its status.
async fn status(stream: &mut BufReader<Box<dyn ByteStream>>) -> Result<u16, BoxError> {
    let mut head = stream.take(PROXY_HEAD_LIMIT);
    let mut status = None;
    let mut line = Vec::new();
    loop {
        line.clear();
        head.read_until(b'\n', &mut line).await?;
        match (line.trim_ascii_end(), status) {
            (_, _) if !line.ends_with(b"\n") => {
                return Err("the answer of the proxy cannot be read".into());
            }
            (b"", Some(status @ 200..)) => return Ok(status),
            // The head of the answer proper follows.
            (b"", Some(_interim)) => status = None,
            (first, None) => {
                let text = std::str::from_utf8(first)?;
                let code = text.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5));
                let code = code.and_then(|code| code.parse().ok());
                status = Some(code.ok_or("the proxy does not speak HTTP/1")?);
            }
            (_header, Some(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests;
