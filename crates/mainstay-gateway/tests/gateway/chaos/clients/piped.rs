//! A client on a pair of pipes, which speaks as it likes: in one era now and in the other then.

use mainstay_gateway::{Gateway, Scope};
use serde_json::{Value, json};

use super::single_stream::{MessageStream, SingleStream};
use super::{ClientKind, ReceivedMessages};
use crate::router::client::{Client, modern};

pub(crate) struct Piped {
    stream: SingleStream<Client>,
    requests: usize,
}

impl Piped {
    pub(crate) async fn open(gateway: &Gateway, scope: Scope, received: ReceivedMessages) -> Self {
        let (client, _) = Client::initialized(gateway, scope, json!({ "elicitation": {} })).await;
        Self {
            stream: SingleStream::new(client, received),
            requests: 1,
        }
    }

    pub(super) fn received(&self) -> &ReceivedMessages {
        &self.stream.received
    }

    pub(super) async fn ask(&mut self, method: &str, mut params: Value, kind: ClientKind) -> Option<Value> {
        self.requests += 1;
        let of_both_eras = !matches!(
            method,
            "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe"
        );
        if of_both_eras && self.requests.is_multiple_of(2) {
            for (key, value) in modern(&json!({ "elicitation": {} }))
                .as_object()
                .expect("entries")
            {
                params["_meta"][key] = value.clone();
            }
        }
        self.stream.ask(method, params, kind).await
    }

    pub(super) async fn leave(self) {
        self.stream.way.leave().await;
    }
}

impl MessageStream for Client {
    async fn send(&mut self, message: &Value) {
        self.write(&message.to_string()).await;
    }

    async fn next(&mut self) -> Value {
        self.message().await
    }
}
