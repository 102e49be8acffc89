//! A client of Streamable HTTP in the modern era: it has no session, only a listen that it breaks and makes again.

use std::net::SocketAddr;
use std::time::Duration;

use mainstay_testkit::chaos::Dice;
use mainstay_testkit::client::{Reply, modern};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{ClientKind, ReceivedMessages, URI, retry};

pub(crate) struct Stateless {
    address: SocketAddr,
    path: &'static str,
    received: ReceivedMessages,
    last: u64,
    listening: JoinHandle<()>,
}

impl Stateless {
    pub(crate) fn new(
        address: SocketAddr,
        path: &'static str,
        received: ReceivedMessages,
        dice: Dice,
        over: watch::Receiver<bool>,
    ) -> Self {
        let listening = tokio::spawn(listen(address, path, received.clone(), dice, over));
        Self {
            address,
            path,
            received,
            last: 0,
            listening,
        }
    }

    pub(super) fn received(&self) -> &ReceivedMessages {
        &self.received
    }

    pub(super) async fn ask(&mut self, method: &str, params: Value, kind: ClientKind) -> Option<Value> {
        match kind {
            ClientKind::Waits | ClientKind::Breaks | ClientKind::IsMute => {
                self.in_rounds(method, params, kind).await
            }
            // It has no other way to cancel.
            ClientKind::Leaves(after) | ClientKind::Cancels(after) => {
                timeout(after, self.in_rounds(method, params, kind)).await.ok()?
            }
        }
    }

    async fn in_rounds(&mut self, method: &str, mut params: Value, kind: ClientKind) -> Option<Value> {
        loop {
            self.last += 1;
            let id = self.last;
            let reply = modern(self.path, id, method, params.clone())
                .send(self.address)
                .await;
            let response = self.response(reply).await?;
            assert_eq!(response["id"], id, "the answer to another request: {response}");
            match retry(&params, &response, &self.received) {
                Some(_) if kind == ClientKind::IsMute => return None,
                Some(retry) => params = retry,
                None => return Some(response),
            }
        }
    }

    async fn response(&self, mut reply: Reply) -> Option<Value> {
        if !reply.is_events() {
            return Some(reply.json().await);
        }
        loop {
            let message = reply.event().await?.json();
            if message.get("method").is_none() {
                return Some(message);
            }
            let question = self.received.take(&message);
            assert!(
                question.is_none(),
                "a modern client was sent a request: {message}"
            );
        }
    }

    pub(super) async fn leave(self) {
        self.listening.abort();
        let ended = self.listening.await;
        assert!(ended.is_err_and(|error| error.is_cancelled()));
    }
}

/// Listens, and breaks the listen now and then until the chaos is over.
async fn listen(
    address: SocketAddr,
    path: &'static str,
    received: ReceivedMessages,
    mut dice: Dice,
    over: watch::Receiver<bool>,
) {
    let wanted = json!({ "notifications": { "toolsListChanged": true, "resourceSubscriptions": [URI] } });
    for id in 1_000_000.. {
        let ask = modern(path, id, "subscriptions/listen", wanted.clone());
        let mut stream = ask.send(address).await;
        assert_eq!(stream.status, 200, "{}: no listen", received.mark());
        let receives = async {
            loop {
                let event = stream.event().await.expect("a listen stays open");
                assert!(received.take(&event.json()).is_none());
            }
        };
        let patience = Duration::from_millis(200 + dice.below(3000));
        if *over.borrow() {
            receives.await;
        } else {
            let _broken_now = timeout(patience, receives).await;
        }
    }
}
