//! A client that writes its requests by hand and believes nothing.

use std::net::Ipv4Addr;
use std::pin::pin;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::clock;
use crate::http::wire;
use crate::script::MODERN_VERSION;

pub(super) const LIMIT: Duration = crate::poll::LIMIT;

/// One connection.
pub(super) struct Client {
    stream: BufReader<TcpStream>,
    chunked: bool,
    /// What was read of a chunked body and not taken yet.
    body: Vec<u8>,
}

/// The head of an answer, and its body where it has a length.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> &str {
        wire::header(&self.headers, name).unwrap_or_default()
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }

    pub(super) fn session(&self) -> String {
        self.header("mcp-session-id").to_owned()
    }
}

impl Client {
    pub(super) async fn connect(port: u16) -> Self {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        Self {
            stream: BufReader::new(stream),
            chunked: false,
            body: Vec::new(),
        }
    }

    pub(super) async fn send(&mut self, line: &str, headers: &[(&str, &str)], body: &str) {
        let mut text = format!("{line} HTTP/1.1\r\nHost: 127.0.0.1\r\n");
        if headers.iter().all(|(name, _)| *name != "Accept") {
            text.push_str("Accept: application/json, text/event-stream\r\n");
        }
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            text.push_str("Content-Type: application/json\r\n");
        }
        text.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        self.stream.get_mut().write_all(text.as_bytes()).await.unwrap();
    }

    pub(super) async fn ask(&mut self, line: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.send(line, headers, body).await;
        self.answer().await.expect("an answer")
    }

    /// A legacy request within a session.
    pub(super) async fn post(&mut self, session: &str, body: &Value) -> Answer {
        let headers = [("Mcp-Session-Id", session)];
        self.ask("POST /mcp", &headers, &body.to_string()).await
    }

    /// A modern request with the headers it needs.
    pub(super) async fn post_modern(&mut self, body: &Value) -> Answer {
        self.send_modern(body).await;
        self.answer().await.expect("an answer")
    }

    pub(super) async fn send_modern(&mut self, body: &Value) {
        let mut headers = vec![
            ("MCP-Protocol-Version", MODERN_VERSION),
            ("Mcp-Method", body["method"].as_str().unwrap()),
        ];
        headers.extend(body["params"]["name"].as_str().map(|name| ("Mcp-Name", name)));
        self.send("POST /mcp", &headers, &body.to_string()).await;
    }

    pub(super) async fn initialize(&mut self) -> Answer {
        let params =
            json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t" } });
        let body = request(0, "initialize", &params).to_string();
        self.ask("POST /mcp", &[], &body).await
    }

    /// The head of the next answer, and its body where it has a length. `None`: the connection ended before.
    pub(super) async fn answer(&mut self) -> Option<Answer> {
        timeout(LIMIT, self.read_answer())
            .await
            .expect("an answer in time")
    }

    async fn read_answer(&mut self) -> Option<Answer> {
        let status = self.line().await?;
        let status = status.split(' ').nth(1)?.parse().ok()?;
        let mut headers = Vec::new();
        loop {
            let line = self.line().await?;
            let Some((name, value)) = line.split_once(": ") else {
                break;
            };
            headers.push((name.to_owned(), value.to_owned()));
        }
        self.chunked = wire::header(&headers, "transfer-encoding").is_some();
        let length: usize = wire::header(&headers, "content-length").map_or(0, |text| text.parse().unwrap());
        let mut body = vec![0; length];
        if self.stream.read_exact(&mut body).await.is_err() {
            body.clear();
        }
        Some(Answer {
            status,
            headers,
            body,
        })
    }

    /// The next event of a stream as it was written; `None` at the end, proper or not.
    pub(super) async fn event(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.body.windows(2).position(|pair| pair == b"\n\n") {
                let event: Vec<u8> = self.body.drain(..end + 2).collect();
                return Some(String::from_utf8_lossy(&event).into_owned());
            }
            let chunk = timeout(LIMIT, self.chunk()).await.expect("a chunk in time")?;
            self.body.extend(chunk);
        }
    }

    /// The data of the next event, as JSON.
    pub(super) async fn event_json(&mut self) -> Value {
        let event = self.event().await.expect("an event");
        let data = event.lines().find_map(|line| line.strip_prefix("data: "));
        serde_json::from_str(data.expect("data")).expect("a message")
    }

    /// A whole chunked body, and whether it ended properly.
    pub(super) async fn rest(&mut self) -> (Vec<u8>, bool) {
        let read = async {
            loop {
                match self.read_chunk().await {
                    Some(chunk) if chunk.is_empty() => return (std::mem::take(&mut self.body), true),
                    Some(chunk) => self.body.extend(chunk),
                    None => return (std::mem::take(&mut self.body), false),
                }
            }
        };
        timeout(LIMIT, read).await.expect("an end in time")
    }

    /// Whether the server closes the connection, reading what is left of it.
    pub(super) async fn ends(&mut self) -> std::io::Result<usize> {
        let mut rest = Vec::new();
        let read = self.stream.read_to_end(&mut rest);
        timeout(LIMIT, read).await.expect("an end in time")
    }

    /// Whether nothing comes, however often the server gets its turn.
    pub(super) async fn is_silent(&mut self) -> bool {
        clock::keeps_waiting(&mut pin!(self.stream.fill_buf())).await
    }

    async fn chunk(&mut self) -> Option<Vec<u8>> {
        self.read_chunk().await.filter(|chunk| !chunk.is_empty())
    }

    async fn read_chunk(&mut self) -> Option<Vec<u8>> {
        assert!(self.chunked, "no chunked body");
        let size = usize::from_str_radix(&self.line().await?, 16).ok()?;
        let mut chunk = vec![0; size + 2];
        self.stream.read_exact(&mut chunk).await.ok()?;
        chunk.truncate(size);
        Some(chunk)
    }

    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line).await.ok()?;
        (read > 0).then(|| line.trim_end().to_owned())
    }
}

pub(super) fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

pub(super) fn call(id: u64, tool: &str, arguments: &Value) -> Value {
    request(id, "tools/call", &json!({ "name": tool, "arguments": arguments }))
}

/// A request with the metadata of the modern era.
pub(super) fn modern(id: u64, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN_VERSION,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    request(id, method, &params)
}
