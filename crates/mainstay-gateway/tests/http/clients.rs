//! Clients of both eras, over the wire.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::wire::{Ask, Reply};

/// A legacy client.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) path: &'static str,
    pub(crate) id: String,
    address: SocketAddr,
}

impl Session {
    /// Opens a session at this path, as a client that can be asked everything.
    pub(crate) async fn open(address: SocketAddr, path: &'static str) -> Self {
        let capabilities = json!({ "elicitation": {}, "sampling": {}, "roots": {} });
        Self::open_as(address, path, capabilities).await
    }

    /// Opens a session at this path, as a client with these capabilities.
    pub(crate) async fn open_as(address: SocketAddr, path: &'static str, capabilities: Value) -> Self {
        let reply = Ask::post(path, &initialize(capabilities)).send(address).await;
        assert_eq!(reply.status, 200);
        let id = reply.header("mcp-session-id").expect("a session").to_owned();
        let session = Self { path, id, address };
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(session.post(&initialized).await.status, 202);
        session
    }

    /// A request as this client makes it.
    pub(crate) fn sign(&self, ask: Ask) -> Ask {
        ask.header("mcp-session-id", &self.id)
            .header("mcp-protocol-version", "2025-11-25")
    }

    pub(crate) async fn post(&self, message: &Value) -> Reply {
        self.sign(Ask::post(self.path, message)).send(self.address).await
    }

    /// Asks, and waits for the head of the answer.
    pub(crate) async fn ask(&self, id: u64, method: &str, params: Value) -> Reply {
        self.post(&request(id, method, params)).await
    }

    pub(crate) async fn call(&self, id: u64, tool: &str, arguments: Value) -> Reply {
        self.ask(id, "tools/call", json!({ "name": tool, "arguments": arguments }))
            .await
    }

    /// A call that reports its progress.
    pub(crate) async fn call_with_progress(&self, id: u64, tool: &str, arguments: Value) -> Reply {
        let params = json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": "p" } });
        self.ask(id, "tools/call", params).await
    }

    /// Opens a stream: the standing one, or the one that broke after this event.
    pub(crate) async fn listen(&self, last: Option<&str>) -> Reply {
        let ask = self.sign(Ask::new("GET", self.path).header("accept", "text/event-stream"));
        let ask = match last {
            Some(last) => ask.header("last-event-id", last),
            None => ask,
        };
        ask.send(self.address).await
    }

    pub(crate) async fn end(&self) -> Reply {
        self.sign(Ask::new("DELETE", self.path)).send(self.address).await
    }
}

/// A request of a modern client, with the headers that it must have.
pub(crate) fn modern(path: &str, id: u64, method: &str, mut params: Value) -> Ask {
    let name = ["name", "uri"]
        .iter()
        .find_map(|field| params[*field].as_str().map(str::to_owned));
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({ "elicitation": {} });
    let ask = Ask::post(path, &request(id, method, params))
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", method);
    match name {
        Some(name) => ask.header("mcp-name", &name),
        None => ask,
    }
}

pub(crate) fn request(id: u64, method: &str, params: Value) -> Value {
    let mut request = json!({ "jsonrpc": "2.0", "id": id, "method": method });
    request["params"] = params;
    request
}

pub(crate) fn initialize(capabilities: Value) -> Value {
    let client = json!({ "name": "test", "version": "1" });
    let mut params = json!({ "protocolVersion": "2025-11-25", "clientInfo": client });
    params["capabilities"] = capabilities;
    request(0, "initialize", params)
}

/// The text of a tool's answer.
pub(crate) fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().expect("a text")
}
