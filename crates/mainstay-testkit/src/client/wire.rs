//! A small HTTP client that shows what is on the wire: one connection for each exchange, streams read event by event.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::time::timeout;

use super::peer::{Connection, Peer};
use crate::poll;

/// Longer than anything takes on a busy machine; reached only by a test that fails.
pub const LONG: Duration = poll::LIMIT;

/// A request, to be sent as it is.
pub struct Ask {
    method: &'static str,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
}

impl Ask {
    /// A request without a body and without headers.
    #[must_use]
    pub fn new(method: &'static str, path: &str) -> Self {
        Self {
            method,
            path: path.to_owned(),
            headers: Vec::new(),
            body: None,
        }
    }

    /// A message by POST, with the headers that every client sends.
    #[must_use]
    pub fn post(path: &str, message: &Value) -> Self {
        Self::post_text(path, &message.to_string())
    }

    /// A body by POST, which may be no message.
    #[must_use]
    pub fn post_text(path: &str, body: &str) -> Self {
        let mut ask = Self::new("POST", path)
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json");
        ask.body = Some(body.to_owned());
        ask
    }

    /// Sets a header, in the place of one of the same name.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Takes the headers of another request, in the place of its own.
    #[must_use]
    pub fn headers_of(mut self, other: Self) -> Self {
        self.headers = other.headers;
        self
    }

    /// Removes a header.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self
    }

    /// The request on the wire.
    #[must_use]
    pub fn text(&self, to: impl Into<Peer>) -> String {
        let to = to.into();
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        if !self.headers.iter().any(|(name, _)| name == "host") {
            text.push_str(&format!("host: {to}\r\n"));
        }
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(body) = &self.body {
            text.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
        } else {
            text.push_str("\r\n");
        }
        text
    }

    /// Sends it on a connection of its own, and reads the head of what comes back.
    pub async fn send(self, to: impl Into<Peer>) -> Reply {
        let to = to.into();
        let stream = to.connect().await.expect("a connection");
        self.send_on(BufReader::new(stream), to).await
    }

    /// Sends it on a connection that is open, and reads the head of what comes back.
    pub async fn send_on(self, mut stream: BufReader<Connection>, to: impl Into<Peer>) -> Reply {
        let text = self.text(to);
        stream.write_all(text.as_bytes()).await.expect("written");
        Reply::read(stream).await
    }
}

/// What came back.
pub struct Reply {
    stream: BufReader<Connection>,
    /// The status code.
    pub status: u16,
    headers: Vec<(String, String)>,
    /// What was read of a stream and is no whole event yet.
    rest: String,
}

/// One event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The id after which the stream can be resumed.
    pub id: Option<String>,
    /// The name of the event.
    pub name: Option<String>,
    /// Its data.
    pub data: String,
}

impl Event {
    /// The data as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.data).expect("JSON in an event")
    }
}

impl Reply {
    /// Reads the head of an answer.
    pub async fn read(mut stream: BufReader<Connection>) -> Self {
        let mut head = String::new();
        let reading = async {
            while !head.ends_with("\r\n\r\n") {
                assert_ne!(
                    stream.read_line(&mut head).await.expect("a head"),
                    0,
                    "no answer: {head:?}"
                );
            }
        };
        timeout(LONG, reading).await.expect("an answer in time");
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        Self {
            stream,
            status,
            headers,
            rest: String::new(),
        }
    }

    /// The value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Whether it is a stream of events.
    #[must_use]
    pub fn is_events(&self) -> bool {
        self.header("content-type") == Some("text/event-stream")
    }

    /// The whole body, and the connection for the next exchange.
    pub async fn body(mut self) -> (String, BufReader<Connection>) {
        let length = self
            .header("content-length")
            .map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        let read = timeout(LONG, self.stream.read_exact(&mut body)).await;
        read.expect("a body in time").expect("a body");
        (String::from_utf8(body).unwrap(), self.stream)
    }

    /// The body as JSON.
    pub async fn json(self) -> Value {
        assert_eq!(
            self.header("content-type"),
            Some("application/json"),
            "{}",
            self.status
        );
        let (body, _) = self.body().await;
        serde_json::from_str(&body).expect("a JSON body")
    }

    /// The status, and the code of the error in the body.
    pub async fn refusal(self) -> (u16, i64) {
        let status = self.status;
        let body = self.json().await;
        (status, body["error"]["code"].as_i64().expect("an error"))
    }

    /// The next event; `None` at the end of the stream, be it proper or not.
    pub async fn event(&mut self) -> Option<Event> {
        timeout(LONG, self.next_event()).await.expect("an event in time")
    }

    async fn next_event(&mut self) -> Option<Event> {
        loop {
            if let Some((event, rest)) = self.rest.split_once("\n\n") {
                let event = parse(event);
                self.rest = rest.to_owned();
                match event {
                    Some(event) => return Some(event),
                    None => continue,
                }
            }
            let chunk = self.chunk().await?;
            self.rest.push_str(&chunk);
        }
    }

    /// The message in the next event that has one.
    pub async fn message(&mut self) -> Value {
        loop {
            let event = self.event().await.expect("an event");
            if !event.data.is_empty() {
                return event.json();
            }
        }
    }

    async fn chunk(&mut self) -> Option<String> {
        let mut size = String::new();
        if self.stream.read_line(&mut size).await.unwrap_or(0) == 0 {
            return None;
        }
        let size = usize::from_str_radix(size.trim(), 16).expect("the size of a chunk");
        let mut chunk = vec![0; size + 2];
        self.stream.read_exact(&mut chunk).await.ok()?;
        chunk.truncate(size);
        (size > 0).then(|| String::from_utf8(chunk).unwrap())
    }
}

fn parse(text: &str) -> Option<Event> {
    let field = |name: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(name).map(|value| value.trim_start().to_owned()))
    };
    Some(Event {
        id: field("id:"),
        name: field("event:"),
        data: field("data:")?,
    })
}
