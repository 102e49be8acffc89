//! Clients of both eras, over the wire.

use serde_json::{Value, json};

use super::peer::Peer;
use super::wire::{Ask, Reply};

/// A legacy client.
#[derive(Clone)]
pub struct Session {
    /// Where it sends its messages.
    pub path: &'static str,
    /// The id that the gateway gave it.
    pub id: String,
    peer: Peer,
}

impl Session {
    /// Opens a session at this path, as a client that can be asked everything.
    pub async fn open(peer: impl Into<Peer>, path: &'static str) -> Self {
        let capabilities = json!({ "elicitation": {}, "sampling": {}, "roots": {} });
        Self::open_as(peer, path, capabilities).await
    }

    /// Opens a session at this path, as a client with these capabilities.
    pub async fn open_as(peer: impl Into<Peer>, path: &'static str, capabilities: Value) -> Self {
        let peer = peer.into();
        let reply = Ask::post(path, &initialize(capabilities)).send(&peer).await;
        assert_eq!(reply.status, 200);
        let id = reply.header("mcp-session-id").expect("a session").to_owned();
        let session = Self { path, id, peer };
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(session.post(&initialized).await.status, 202);
        session
    }

    /// A request as this client makes it.
    #[must_use]
    pub fn sign(&self, ask: Ask) -> Ask {
        ask.header("mcp-session-id", &self.id)
            .header("mcp-protocol-version", "2025-11-25")
    }

    /// Sends a message, and waits for the head of the answer.
    pub async fn post(&self, message: &Value) -> Reply {
        self.sign(Ask::post(self.path, message)).send(&self.peer).await
    }

    /// Sends a request, and waits for the head of the answer.
    pub async fn ask(&self, id: u64, method: &str, params: Value) -> Reply {
        self.post(&request(id, method, params)).await
    }

    /// Calls a tool, and waits for the head of the answer.
    pub async fn call(&self, id: u64, tool: &str, arguments: Value) -> Reply {
        self.ask(id, "tools/call", json!({ "name": tool, "arguments": arguments }))
            .await
    }

    /// A call that reports its progress.
    pub async fn call_with_progress(&self, id: u64, tool: &str, arguments: Value) -> Reply {
        let params = json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": "p" } });
        self.ask(id, "tools/call", params).await
    }

    /// Opens a stream: the standing one, or the one that broke after this event.
    pub async fn listen(&self, last: Option<&str>) -> Reply {
        let ask = self.sign(Ask::new("GET", self.path).header("accept", "text/event-stream"));
        let ask = match last {
            Some(last) => ask.header("last-event-id", last),
            None => ask,
        };
        ask.send(&self.peer).await
    }

    /// Ends the session.
    pub async fn end(&self) -> Reply {
        self.sign(Ask::new("DELETE", self.path)).send(&self.peer).await
    }
}

/// A request of a modern client, with the headers that it must have.
#[must_use]
pub fn modern(path: &str, id: u64, method: &str, mut params: Value) -> Ask {
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

/// A request.
#[must_use]
pub fn request(id: u64, method: &str, params: Value) -> Value {
    let mut request = json!({ "jsonrpc": "2.0", "id": id, "method": method });
    request["params"] = params;
    request
}

/// The first request of a legacy client that can do this.
#[must_use]
pub fn initialize(capabilities: Value) -> Value {
    let client = json!({ "name": "test", "version": "1" });
    let mut params = json!({ "protocolVersion": "2025-11-25", "clientInfo": client });
    params["capabilities"] = capabilities;
    request(0, "initialize", params)
}

/// The text of a tool's answer.
#[must_use]
pub fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().expect("a text")
}
