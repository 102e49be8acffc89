//! A client of HTTP+SSE: its one stream is its session.

use std::net::SocketAddr;

use mainstay_testkit::client::{Ask, Reply, initialize};
use serde_json::{Value, json};

use super::single_stream::{MessageStream, SingleStream};
use super::{ClientKind, ReceivedMessages};

pub(crate) struct Old(SingleStream<Sse>);

struct Sse {
    address: SocketAddr,
    endpoint: String,
    stream: Reply,
}

impl Old {
    pub(crate) async fn open(address: SocketAddr, path: &str, received: ReceivedMessages) -> Self {
        let mut stream = Ask::new("GET", path).send(address).await;
        let endpoint = stream.event().await.expect("where to send").data;
        let mut way = Sse {
            address,
            endpoint,
            stream,
        };
        way.send(&initialize(json!({ "elicitation": {} }))).await;
        assert!(way.next().await["result"].is_object());
        way.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
            .await;
        Self(SingleStream::new(way, received))
    }

    pub(super) fn received(&self) -> &ReceivedMessages {
        &self.0.received
    }

    pub(super) async fn ask(&mut self, method: &str, params: Value, kind: ClientKind) -> Option<Value> {
        self.0.ask(method, params, kind).await
    }
}

impl MessageStream for Sse {
    async fn send(&mut self, message: &Value) {
        let reply = Ask::post(&self.endpoint, message).send(self.address).await;
        assert_eq!(reply.status, 202, "{message}");
    }

    async fn next(&mut self) -> Value {
        self.stream.message().await
    }
}
