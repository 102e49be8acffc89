//! HTTP/1.1 by hand, so that every byte of an answer can be wrong.
//!
//! Requests are read strictly: what is no HTTP/1.1 closes its connection. Answers are what the script says.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::tcp::OwnedReadHalf;

/// More than any client of a test sends in front of its body.
const HEAD_LIMIT: u64 = 256 * 1024;

/// More than any message of a test.
const BODY_LIMIT: u64 = 64 * 1024 * 1024;

/// One request, read to its end.
#[derive(Clone, Debug, Default)]
pub(super) struct ReceivedRequest {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: String,
    /// In the order and with the names they were sent.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl ReceivedRequest {
    /// The next request of a connection; `None` at its end.
    pub(super) async fn read(reader: &mut BufReader<OwnedReadHalf>) -> io::Result<Option<Self>> {
        let mut head = reader.take(HEAD_LIMIT);
        let first = read_line(&mut head).await?;
        if first.is_empty() {
            return Ok(None);
        }
        let mut words = first.split(' ');
        let (Some(method), Some(target), Some("HTTP/1.1"), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(io::Error::other("no request line of HTTP/1.1"));
        };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut request = Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            ..Self::default()
        };
        loop {
            let line = read_line(&mut head).await?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line
                .split_once(':')
                .ok_or_else(|| io::Error::other("a header without a colon"))?;
            request.headers.push((name.to_owned(), value.trim().to_owned()));
        }
        request.body = request.read_body(reader).await?;
        Ok(Some(request))
    }

    /// The first header of this name, in any case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// Whether the connection may carry another request.
    pub(super) fn keeps_alive(&self) -> bool {
        !self
            .header("connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    async fn read_body(&self, reader: &mut BufReader<OwnedReadHalf>) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        if self.header("transfer-encoding").is_some() {
            loop {
                let size = read_line(&mut reader.take(HEAD_LIMIT)).await?;
                let size = u64::from_str_radix(&size, 16).map_err(io::Error::other)?;
                if size + body.len() as u64 > BODY_LIMIT {
                    return Err(io::Error::other("a body beyond its limit"));
                }
                reader.take(size).read_to_end(&mut body).await?;
                read_line(&mut reader.take(HEAD_LIMIT)).await?;
                if size == 0 {
                    return Ok(body);
                }
            }
        }
        let length: u64 = match self.header("content-length") {
            None => 0,
            Some(length) => length.parse().map_err(io::Error::other)?,
        };
        if length > BODY_LIMIT {
            return Err(io::Error::other("a body beyond its limit"));
        }
        reader.take(length).read_to_end(&mut body).await?;
        if body.len() as u64 != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(body)
    }
}

/// The status line and the headers of an answer.
#[derive(Clone, Debug)]
pub(super) struct ResponseHead {
    status: u16,
    headers: Vec<(String, String)>,
}

impl ResponseHead {
    pub(super) fn new(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
        }
    }

    pub(super) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub(super) fn with_all(mut self, headers: &[(String, String)]) -> Self {
        self.headers.extend_from_slice(headers);
        self
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut text = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        text.into_bytes()
    }
}

/// One chunk; an empty one ends the body.
pub(super) fn chunk(payload: &[u8]) -> Vec<u8> {
    let size = format!("{:x}\r\n", payload.len());
    [size.as_bytes(), payload, b"\r\n"].concat()
}

pub(super) fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, value)| &value[..])
}

/// Without its line end; empty at the end of the stream too.
async fn read_line(reader: &mut (impl AsyncBufReadExt + Unpin)) -> io::Result<String> {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line).await?;
    let line = line.strip_suffix(b"\n").unwrap_or(&line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    String::from_utf8(line.to_vec()).map_err(io::Error::other)
}

/// Clients ignore the words; people who read a capture do not.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        202 => "Accepted",
        204 => "No Content",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        415 => "Unsupported Media Type",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "As Scripted",
    }
}
