//! The smallest possible client: one kept connection, one write, a read up to the end of the answer.

use std::io;

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::Fallible;

pub(crate) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// How much of an answer is searched for its content.
const LOOKED_AT: usize = 4096;

/// A client with a session.
pub(crate) struct BenchClient {
    stream: TcpStream,
    answer: Vec<u8>,
    host: String,
    path: String,
    session: String,
}

impl BenchClient {
    pub(crate) async fn connect(port: u16, path: &str) -> Fallible<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        let mut client = Self {
            stream,
            answer: Vec::with_capacity(64 * 1024),
            host: format!("127.0.0.1:{port}"),
            path: path.to_owned(),
            session: String::new(),
        };
        let head = client.post(INITIALIZE).await?;
        let session = header(&client.answer[..head], "mcp-session-id: ").ok_or("a session")?;
        client.session = session.to_owned();
        client.post(INITIALIZED).await?;
        Ok(client)
    }

    /// Calls a tool that answers with content.
    pub(crate) async fn call(&mut self, tool: &str) -> Fallible {
        let message = format!(
            r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"{tool}","arguments":{{"message":"hello"}}}}}}"#
        );
        let head = self.post(&message).await?;
        let start = &self.answer[head..self.answer.len().min(head + LOOKED_AT)];
        if memmem::find(start, b"\"content\"").is_none() {
            return Err(String::from_utf8_lossy(start).into());
        }
        Ok(())
    }

    /// Calls a tool that answers with a number, and does not say that it failed.
    pub(crate) async fn number(&mut self, tool: &str) -> Fallible<u32> {
        self.call(tool).await?;
        let text = String::from_utf8_lossy(&self.answer);
        let number = text.split(r#""text":""#).nth(1).ok_or("a text")?;
        Ok(number.split('"').next().ok_or("the end of a text")?.parse()?)
    }

    /// The tools, as text.
    pub(crate) async fn tools(&mut self) -> Fallible<String> {
        let head = self
            .post(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#)
            .await?;
        Ok(String::from_utf8_lossy(&self.answer[head..]).into_owned())
    }

    /// Opens the stream of the session, of which nothing is ever read. Little fits into the connection.
    pub(crate) async fn open_unread_stream(&self, port: u16) -> Fallible<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(4096)?;
        let mut stream = socket.connect(([127, 0, 0, 1], port).into()).await?;
        let Self {
            path, host, session, ..
        } = self;
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {host}\r\naccept: text/event-stream\r\nmcp-session-id: {session}\r\nmcp-protocol-version: 2025-06-18\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        Ok(stream)
    }

    /// Posts a message; says where the body of its answer begins.
    async fn post(&mut self, message: &str) -> Fallible<usize> {
        let session = match self.session.as_str() {
            "" => String::new(),
            session => format!("mcp-session-id: {session}\r\nmcp-protocol-version: 2025-06-18\r\n"),
        };
        let request = format!(
            "POST {} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n{session}content-length: {}\r\n\r\n{message}",
            self.path,
            self.host,
            message.len()
        );
        self.stream.write_all(request.as_bytes()).await?;
        self.answer.clear();
        Ok(read_message(&mut self.stream, &mut self.answer).await?)
    }
}

/// Reads one message of HTTP; says where its body begins.
pub(crate) async fn read_message(stream: &mut TcpStream, message: &mut Vec<u8>) -> io::Result<usize> {
    loop {
        if let Some(end) = memmem::find(message, b"\r\n\r\n") {
            let head = end + 4;
            if is_whole(&message[..head], &message[head..]) {
                return Ok(head);
            }
        }
        if stream.read_buf(message).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Whether all of the body has come: as much as is announced, or up to the end of a stream of events.
fn is_whole(head: &[u8], body: &[u8]) -> bool {
    if header(head, "transfer-encoding: ").is_some() {
        return body == b"0\r\n\r\n" || body.ends_with(b"\r\n0\r\n\r\n");
    }
    let length = header(head, "content-length: ").and_then(|length| length.parse().ok());
    body.len() >= length.unwrap_or(0)
}

/// The value of a header. All who write here write names in small letters.
fn header<'a>(head: &'a [u8], name: &str) -> Option<&'a str> {
    let value = &head[memmem::find(head, name.as_bytes())? + name.len()..];
    let end = value.iter().position(|byte| *byte == b'\r')?;
    std::str::from_utf8(&value[..end]).ok()
}
