//! A client of the gateway that a test writes for: lines in memory, read and written by hand.

use std::collections::VecDeque;
use std::time::Duration;

use mainstay_gateway::{Gateway, Scope};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

/// Longer than anything takes on a busy machine; reached only by a test that fails.
pub(crate) const LONG: Duration = Duration::from_secs(60);

const PIPE: usize = 256 * 1024;

pub(crate) struct Client {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: Option<WriteHalf<DuplexStream>>,
    served: JoinHandle<()>,
    last: u64,
    /// What came while something else was waited for.
    kept: VecDeque<String>,
}

impl Client {
    /// A client on the gateway's stdio door.
    pub(crate) fn connect(gateway: &Gateway, scope: Scope) -> Self {
        let (near, remote) = tokio::io::duplex(PIPE);
        let (reader, writer) = tokio::io::split(near);
        let gateway = gateway.clone();
        let served = tokio::spawn(async move {
            let (input, output) = tokio::io::split(remote);
            gateway.serve_stdio(scope, input, output).await;
        });
        Self {
            reader: BufReader::new(reader),
            writer: Some(writer),
            served,
            last: 0,
            kept: VecDeque::new(),
        }
    }

    /// A legacy client that has opened its session; with the answer to `initialize`.
    pub(crate) async fn initialized(gateway: &Gateway, scope: Scope, capabilities: Value) -> (Self, Value) {
        let mut client = Self::connect(gateway, scope);
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "clientInfo": { "name": "test", "version": "1" },
        });
        let answer = client.ask("initialize", params).await;
        client.notify("notifications/initialized", json!({})).await;
        (client, answer["result"].clone())
    }

    /// Sends a line as it is.
    pub(crate) async fn write(&mut self, line: &str) {
        self.write_bytes(format!("{line}\n").as_bytes()).await;
    }

    /// Sends what may be no text.
    pub(crate) async fn write_bytes(&mut self, bytes: &[u8]) {
        let writer = self.writer.as_mut().expect("open");
        writer.write_all(bytes).await.unwrap();
    }

    /// The next line, as it is.
    pub(crate) async fn line(&mut self) -> String {
        if let Some(kept) = self.kept.pop_front() {
            return kept;
        }
        self.fresh_line().await
    }

    async fn fresh_line(&mut self) -> String {
        let mut line = String::new();
        let read = tokio::time::timeout(LONG, self.reader.read_line(&mut line));
        assert!(
            read.await.expect("a line in time").unwrap() > 0,
            "the gateway closed its side"
        );
        line.trim_end().to_owned()
    }

    pub(crate) async fn message(&mut self) -> Value {
        serde_json::from_str(&self.line().await).expect("a message")
    }

    /// Sends a request, and returns its id.
    pub(crate) async fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let id = self.last;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.write(&request.to_string()).await;
        id
    }

    /// The answer to a request; what comes before it is kept.
    pub(crate) async fn answer(&mut self, id: u64) -> Value {
        let mut passed = VecDeque::new();
        loop {
            let line = self.line().await;
            let message: Value = serde_json::from_str(&line).expect("a message");
            if message["id"] == json!(id) && message.get("method").is_none() {
                passed.append(&mut self.kept);
                self.kept = passed;
                return message;
            }
            passed.push_back(line);
        }
    }

    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params).await;
        self.answer(id).await
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        let notification = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.write(&notification.to_string()).await;
    }

    /// The next notification or request of this method; what comes before it is kept.
    pub(crate) async fn received(&mut self, method: &str) -> Value {
        let mut passed = VecDeque::new();
        loop {
            let line = self.line().await;
            let message: Value = serde_json::from_str(&line).expect("a message");
            if message["method"] == json!(method) {
                passed.append(&mut self.kept);
                self.kept = passed;
                return message;
            }
            passed.push_back(line);
        }
    }

    /// Closes the input, and still reads.
    pub(crate) async fn close_input(&mut self) {
        if let Some(mut writer) = self.writer.take() {
            writer.shutdown().await.unwrap();
        }
    }

    /// Closes the input, and waits for the gateway to let go.
    pub(crate) async fn leave(mut self) {
        self.close_input().await;
        tokio::time::timeout(LONG, self.served)
            .await
            .expect("let go")
            .unwrap();
    }
}

/// The `_meta` of a modern request, of a client that can answer this.
pub(crate) fn modern(capabilities: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
    })
}
