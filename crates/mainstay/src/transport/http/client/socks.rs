//! A way to the server through a SOCKS proxy, which passes bytes on and looks into nothing.

use std::future::{Ready, ready};
use std::io;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::client::legacy::connect::proxy::SocksV5;
use hyper_util::client::proxy::matcher::Intercept;
use hyper_util::rt::TokioIo;
use tokio::net::lookup_host;
use tower_service::Service;

use super::dialer::{BoxError, ByteStream, host, port};

/// The port of a proxy whose address names none.
const PORT: u16 = 1080;

/// A SOCKS proxy of version 5.
pub(super) struct Socks {
    /// Where it is, with its port.
    pub(super) proxy: Uri,
    login: Option<(String, String)>,
    /// Whether the proxy looks up the names of servers (`socks5h`), or this machine does (`socks5`).
    pub(super) resolves: bool,
}

impl Socks {
    /// The proxy of this address; `None` when it is no SOCKS proxy of version 5.
    pub(super) fn of(proxy: &Intercept) -> Option<Self> {
        let resolves = match proxy.uri().scheme_str()? {
            "socks5" => false,
            "socks5h" => true,
            _other => return None,
        };
        let host = proxy.uri().host()?;
        let port = proxy.uri().port_u16().unwrap_or(PORT);
        let login = proxy.raw_auth();
        Some(Self {
            proxy: format!("socks5://{host}:{port}").parse().ok()?,
            login: login.map(|(user, password)| (user.to_owned(), password.to_owned())),
            resolves,
        })
    }

    /// Asks the proxy at the end of this stream for a way to the server.
    ///
    /// Cancel safety: dropping it ends the attempt.
    pub(super) async fn connect(
        &self,
        stream: Box<dyn ByteStream>,
        origin: &Uri,
    ) -> Result<Box<dyn ByteStream>, BoxError> {
        let server = self.server(origin).await?;
        let mut asking = SocksV5::new(self.proxy.clone(), SocksStream(Some(TokioIo::new(stream))));
        if let Some((user, password)) = &self.login {
            asking = asking.with_auth(user.clone(), password.clone());
        }
        match asking.call(server).await {
            Ok(stream) => Ok(stream.into_inner()),
            Err(error) => Err(format!("the SOCKS proxy could not connect to the server: {error}").into()),
        }
    }

    /// How the server is named to the proxy.
    async fn server(&self, origin: &Uri) -> Result<Uri, BoxError> {
        let port = port(origin);
        if self.resolves {
            let host = origin.host().unwrap_or_default();
            return Ok(format!("{host}:{port}").parse()?);
        }
        // Not left to the connector, which would block the thread for it.
        let mut found = lookup_host((host(origin), port)).await?;
        let address = found.next().ok_or(io::ErrorKind::NotFound);
        Ok(address.map_err(io::Error::from)?.to_string().parse()?)
    }
}

impl std::fmt::Debug for Socks {
    /// Its login is a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Socks")
            .field("proxy", &self.proxy)
            .finish_non_exhaustive()
    }
}

/// A connector to where a connection is already. It is made here, so that its failures keep their kind.
struct SocksStream(Option<TokioIo<Box<dyn ByteStream>>>);

impl Service<Uri> for SocksStream {
    type Response = TokioIo<Box<dyn ByteStream>>;
    type Error = io::Error;
    type Future = Ready<io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        ready(self.0.take().ok_or(io::ErrorKind::NotConnected.into()))
    }
}
