//! Two clients that only post: the bytes of one call, taken down once, again and again.
//!
//! [`Posts`] is what a program without Mainstay would use: reqwest, set up as Mainstay sets it up, so with the same pool of
//! kept connections. [`Socket`] is the least there can be: one connection, one write, a read up to the announced length.

use std::sync::Arc;

use bytes::Bytes;
use memchr::memmem;
use reqwest::header::{CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::server::{HttpBenchServer, content_length};
use crate::Fallible;

/// One call as a server got it.
pub(crate) struct Recorded(Vec<u8>);

impl Recorded {
    pub(crate) async fn last_of(remote: &HttpBenchServer) -> Fallible<Self> {
        let mut socket = Socket::connect(remote).await?;
        let recorded = socket.exchange(b"GET /last HTTP/1.1\r\n\r\n").await?;
        Ok(Self(recorded.to_vec()))
    }

    fn body(&self) -> &[u8] {
        let head = memmem::find(&self.0, b"\r\n\r\n").expect("it was a request");
        &self.0[head + 4..]
    }

    /// Its headers, but for those that every client writes itself.
    fn headers(&self) -> Fallible<HeaderMap> {
        let head = std::str::from_utf8(&self.0[..self.0.len() - self.body().len()])?;
        let mut headers = HeaderMap::new();
        for line in head.lines().skip(1).take_while(|line| !line.is_empty()) {
            let (name, value) = line.split_once(": ").ok_or("a header has a name")?;
            headers.insert(HeaderName::try_from(name)?, HeaderValue::try_from(value)?);
        }
        headers.remove(HOST);
        headers.remove(CONTENT_LENGTH);
        Ok(headers)
    }
}

/// reqwest, and the call that it posts.
pub(crate) struct Posts {
    client: Client,
    url: Url,
    headers: HeaderMap,
    body: Bytes,
}

impl Posts {
    pub(crate) fn new(remote: &HttpBenchServer, call: &Recorded) -> Fallible<Self> {
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        Ok(Self {
            client: Client::builder()
                .tcp_nodelay(true)
                .no_proxy()
                .tls_backend_preconfigured(tls)
                .build()?,
            url: remote.url().parse()?,
            headers: call.headers()?,
            body: Bytes::copy_from_slice(call.body()),
        })
    }

    /// The same call with another word in it.
    pub(crate) fn instead_of(self, word: &str, other: &str) -> Self {
        let body = String::from_utf8_lossy(&self.body).replace(word, other);
        let body = Bytes::from(body);
        Self { body, ..self }
    }

    pub(crate) async fn post(&self) -> Result<Bytes, reqwest::Error> {
        let request = self.client.post(self.url.clone()).headers(self.headers.clone());
        let answer = request.body(self.body.clone()).send().await?;
        answer.error_for_status()?.bytes().await
    }
}

/// One connection, and nothing between the caller and its bytes.
pub(crate) struct Socket {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Socket {
    pub(crate) async fn connect(remote: &HttpBenchServer) -> Fallible<Self> {
        let stream = TcpStream::connect(("127.0.0.1", remote.port)).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            answer: Vec::with_capacity(16 * 1024),
        })
    }

    pub(crate) async fn post(&mut self, call: &Recorded) -> Fallible {
        self.exchange(&call.0).await?;
        Ok(())
    }

    /// Sends a request; gives the body of its answer.
    async fn exchange(&mut self, request: &[u8]) -> Fallible<&[u8]> {
        self.stream.write_all(request).await?;
        self.answer.clear();
        loop {
            if self.stream.read_buf(&mut self.answer).await? == 0 {
                return Err("the connection ended".into());
            }
            let Some(end) = memmem::find(&self.answer, b"\r\n\r\n") else {
                continue;
            };
            let head = end + 4;
            if self.answer.len() >= head + content_length(&self.answer[..head]) {
                return Ok(&self.answer[head..]);
            }
        }
    }
}
