//! The least client there can be: one kept connection, one write, a read up to the announced length.

use std::io;

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Fallible;

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// A client with a session.
pub(crate) struct Client {
    stream: TcpStream,
    answer: Vec<u8>,
    path: String,
    session: String,
}

impl Client {
    pub(crate) async fn connect(port: u16, path: &str) -> Fallible<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        let mut client = Self {
            stream,
            answer: Vec::with_capacity(64 * 1024),
            path: path.to_owned(),
            session: String::new(),
        };
        let head = client.post(INITIALIZE).await?;
        let head = String::from_utf8_lossy(&client.answer[..head]).to_ascii_lowercase();
        let session = head
            .lines()
            .find_map(|line| line.strip_prefix("mcp-session-id: "));
        // As it came: the copy in small letters only finds it.
        let session = session.ok_or("a session")?;
        let at = head.find(session).ok_or("a session")?;
        client.session = String::from_utf8_lossy(&client.answer[at..at + session.len()]).into_owned();
        client.post(INITIALIZED).await?;
        Ok(client)
    }

    /// Calls the one tool of the server.
    pub(crate) async fn call(&mut self, tool: &str) -> Fallible {
        let message = format!(
            r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"{tool}","arguments":{{"message":"hello"}}}}}}"#
        );
        let head = self.post(&message).await?;
        if memmem::find(
            &self.answer[head..self.answer.len().min(head + 4096)],
            b"\"content\"",
        )
        .is_none()
        {
            return Err(String::from_utf8_lossy(&self.answer).into());
        }
        Ok(())
    }

    /// The tools, as text.
    pub(crate) async fn tools(&mut self) -> Fallible<String> {
        let head = self
            .post(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#)
            .await?;
        Ok(String::from_utf8_lossy(&self.answer[head..]).into_owned())
    }

    /// Posts a message; says where the body of its answer begins.
    async fn post(&mut self, message: &str) -> Fallible<usize> {
        let session = match self.session.as_str() {
            "" => String::new(),
            session => format!("mcp-session-id: {session}\r\nmcp-protocol-version: 2025-06-18\r\n"),
        };
        let request = format!(
            "POST {} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n{session}content-length: {}\r\n\r\n{message}",
            self.path,
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
            if message.len() >= head + content_length(&message[..head]) {
                return Ok(head);
            }
        }
        if stream.read_buf(message).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// The length of the body that a head announces. All who write here write the name in small letters.
fn content_length(head: &[u8]) -> usize {
    const NAME: &[u8] = b"content-length: ";
    let Some(at) = memmem::find(head, NAME) else {
        return 0;
    };
    let digits = head[at + NAME.len()..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'))
}
