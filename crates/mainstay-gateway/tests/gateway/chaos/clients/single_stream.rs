//! What clients have in common to whom everything comes on one way: answers, questions and the rest, one after the other.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{ClientKind, ReceivedMessages, cancelled, retry};

/// The one way to and from a client.
pub(super) trait MessageStream {
    async fn send(&mut self, message: &Value);
    async fn next(&mut self) -> Value;
}

/// A conversation on such a way.
pub(super) struct SingleStream<W> {
    pub(super) way: W,
    pub(super) received: ReceivedMessages,
    last: u64,
    /// Requests whose answer may have been on its way already when it was not wanted any more.
    given_up: BTreeSet<u64>,
}

impl<W: MessageStream> SingleStream<W> {
    pub(super) fn new(way: W, received: ReceivedMessages) -> Self {
        Self {
            way,
            received,
            last: 0,
            given_up: BTreeSet::new(),
        }
    }

    /// Makes a request, again and again while it wants input.
    pub(super) async fn ask(&mut self, method: &str, mut params: Value, kind: ClientKind) -> Option<Value> {
        loop {
            let id = self.begin(method, &params).await;
            let response = match kind {
                ClientKind::Waits | ClientKind::Breaks | ClientKind::IsMute => self.answer(id, kind).await,
                // A client that closes this stream for good ends the session with it.
                ClientKind::Cancels(after) | ClientKind::Leaves(after) => {
                    tokio::time::sleep(after).await;
                    self.way.send(&cancelled(id)).await;
                    self.given_up.insert(id);
                    // Something else is answered all the same.
                    let next = self.begin("tools/list", &only_meta(&params)).await;
                    self.answer(next, kind).await;
                    return None;
                }
            };
            match retry(&params, &response, &self.received) {
                Some(_) if kind == ClientKind::IsMute => return None,
                Some(retry) => params = retry,
                None => return Some(response),
            }
        }
    }

    async fn begin(&mut self, method: &str, params: &Value) -> u64 {
        self.last += 1;
        let mut request = json!({ "jsonrpc": "2.0", "id": self.last, "method": method });
        request["params"] = params.clone();
        self.way.send(&request).await;
        self.last
    }

    /// The answer to the latest request.
    async fn answer(&mut self, id: u64, kind: ClientKind) -> Value {
        loop {
            let (of, response) = self.response(kind).await;
            if of == id {
                return response;
            }
            let late = self.given_up.remove(&of);
            assert!(late, "an answer that no request waits for: {response}");
        }
    }

    /// The next answer; what is asked meanwhile is answered, unless the client is mute.
    async fn response(&mut self, kind: ClientKind) -> (u64, Value) {
        loop {
            let message = self.way.next().await;
            if message.get("method").is_none() {
                let id = message["id"].as_u64();
                return (id.unwrap_or_else(|| panic!("{message}")), message);
            }
            let answer = self.received.take(&message);
            if let Some(answer) = answer.filter(|_| kind != ClientKind::IsMute) {
                self.way.send(&answer).await;
            }
        }
    }
}

/// The parameters of a request of the same era.
fn only_meta(params: &Value) -> Value {
    match params.get("_meta") {
        Some(meta) => json!({ "_meta": meta }),
        None => json!({}),
    }
}
