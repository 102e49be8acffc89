//! The smallest possible server: it finds the id of a message, and parses nothing.

use std::io::{BufRead, Write};
use std::ops::Range;

use memchr::memmem;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::{Fallible, runtime};

/// Runs the server on standard input and output.
pub(super) fn stdio(result: usize) -> Fallible {
    let echo = Bare::new(result);
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let (mut line, mut out) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        out.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if echo.answer(&line, &mut out) {
            out.push(b'\n');
            output.write_all(&out)?;
            output.flush()?;
        }
    }
}

/// How a server over HTTP answers a POST.
#[derive(Clone, Copy, Debug)]
pub(super) enum AnswerStyle {
    /// One JSON body.
    Json,
    /// A stream with one event, in one chunk, as most SDKs answer.
    Events,
}

/// Runs the server over HTTP until it is killed.
pub(super) fn http(result: usize, style: AnswerStyle) -> Fallible {
    runtime()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?.port());
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(converse(stream, result, style));
        }
    })
}

async fn converse(mut stream: TcpStream, result: usize, style: AnswerStyle) -> Option<()> {
    let echo = Bare::new(result);
    let (mut request, mut body, mut out) = (Vec::with_capacity(64 * 1024), Vec::new(), Vec::new());
    loop {
        let head = crate::client::read_message(&mut stream, &mut request)
            .await
            .ok()?;
        body.clear();
        out.clear();
        let answered = echo.answer(&request[head..], &mut body);
        let status = match (answered, request.first()) {
            (true, _) => "200 OK",
            (false, Some(b'P')) => "202 Accepted",
            (false, _) => "405 Method Not Allowed",
        };
        write!(out, "HTTP/1.1 {status}\r\nmcp-session-id: 0123456789abcdef\r\n").ok()?;
        match (style, answered) {
            (AnswerStyle::Events, true) => {
                let length = b"data: ".len() + body.len() + b"\n\n".len();
                let head = "content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
                write!(out, "{head}{length:x}\r\ndata: ").ok()?;
                out.extend_from_slice(&body);
                out.extend_from_slice(b"\n\n\r\n0\r\n\r\n");
            }
            (AnswerStyle::Json, _) | (AnswerStyle::Events, false) => {
                let head = "content-type: application/json\r\ncontent-length: ";
                write!(out, "{head}{}\r\n\r\n", body.len()).ok()?;
                out.extend_from_slice(&body);
            }
        }
        stream.write_all(&out).await.ok()?;
        request.clear();
    }
}

/// The answers of such a server.
pub(crate) struct Bare {
    result: String,
}

impl Bare {
    pub(crate) fn new(result: usize) -> Self {
        let text = "x".repeat(result);
        Self {
            result: json!({ "content": [{ "type": "text", "text": text }] }).to_string(),
        }
    }

    /// Answers a message, if it wants an answer.
    pub(crate) fn answer(&self, message: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(id) = id_in(message) else {
            return false;
        };
        let asks = |method: &[u8]| memmem::find(message, method).is_some();
        let (key, value) = if asks(b"\"tools/call\"") {
            ("result", self.result.clone())
        } else if asks(b"\"initialize\"") {
            let about = json!({
                "protocolVersion": "2025-06-18",
                "capabilities": { "tools": {}, "logging": {} },
                "serverInfo": { "name": "echo", "version": "1" },
            });
            ("result", about.to_string())
        } else if asks(b"\"tools/list\"") {
            let tools = json!({ "tools": [{ "name": "echo", "inputSchema": { "type": "object" }, "annotations": { "readOnlyHint": true } }] });
            ("result", tools.to_string())
        } else if asks(b"\"ping\"") {
            ("result", "{}".to_owned())
        } else {
            ("error", json!({ "code": -32601, "message": "no" }).to_string())
        };
        out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
        out.extend_from_slice(&message[id]);
        write!(out, ",\"{key}\":").expect("memory takes any text");
        out.extend_from_slice(value.as_bytes());
        out.push(b'}');
        true
    }
}

/// Where the id of a message is: behind its key, up to the next comma or brace.
pub(crate) fn id_in(message: &[u8]) -> Option<Range<usize>> {
    const KEY: &[u8] = b"\"id\":";
    let start = memmem::find(message, KEY)? + KEY.len();
    let length = message[start..]
        .iter()
        .position(|byte| matches!(byte, b',' | b'}'))?;
    Some(start..start + length)
}
