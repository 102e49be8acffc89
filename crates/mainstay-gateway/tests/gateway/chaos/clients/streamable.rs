//! A client of Streamable HTTP in the legacy era: one session, a standing stream that it breaks and takes up again, and
//! requests whose streams it breaks too.

use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use mainstay_testkit::chaos::Dice;
use mainstay_testkit::client::{Reply, Session};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{ClientKind, ReceivedMessages, cancelled};

pub(crate) struct Streamable {
    session: Session,
    received: ReceivedMessages,
    last: u64,
    /// The task that holds the standing stream.
    standing: Option<JoinHandle<()>>,
}

impl Streamable {
    pub(crate) async fn open(
        address: SocketAddr,
        path: &'static str,
        received: ReceivedMessages,
        dice: Dice,
        over: watch::Receiver<bool>,
    ) -> Self {
        let session = Session::open(address, path).await;
        let first = session.listen(None).await;
        let standing = tokio::spawn(stand_by(session.clone(), first, received.clone(), dice, over));
        Self {
            session,
            received,
            last: 0,
            standing: Some(standing),
        }
    }

    /// Another hand of the same client: it has requests of its own in the same session.
    pub(crate) fn other_hand(&self) -> Self {
        Self {
            session: self.session.clone(),
            received: self.received.clone(),
            last: 1_000_000,
            standing: None,
        }
    }

    pub(super) fn received(&self) -> &ReceivedMessages {
        &self.received
    }

    pub(super) async fn ask(&mut self, method: &str, params: Value, kind: ClientKind) -> Option<Value> {
        self.last += 1;
        let id = self.last;
        match kind {
            ClientKind::Waits | ClientKind::Breaks | ClientKind::IsMute => {
                self.exchange(id, method, params, kind).await
            }
            ClientKind::Leaves(after) => timeout(after, self.exchange(id, method, params, kind))
                .await
                .ok()?,
            ClientKind::Cancels(after) => {
                let mut exchange = pin!(self.exchange(id, method, params, kind));
                if let Ok(answer) = timeout(after, exchange.as_mut()).await {
                    return answer;
                }
                assert_eq!(self.session.post(&cancelled(id)).await.status, 202);
                exchange.await
            }
        }
    }

    async fn exchange(&self, id: u64, method: &str, params: Value, kind: ClientKind) -> Option<Value> {
        let mut reply = self.session.ask(id, method, params).await;
        loop {
            match reply.status {
                200 => {}
                204 => return None,
                other => panic!("{}: {method} is refused with {other}", self.received.mark()),
            }
            if !reply.is_events() {
                return Some(reply.json().await);
            }
            let event = reply.event().await?;
            if !event.data.is_empty() {
                let message = event.json();
                if message.get("method").is_none() {
                    assert_eq!(message["id"], id, "the answer to another request");
                    return Some(message);
                }
                if kind != ClientKind::IsMute {
                    answer(&self.session, &self.received, &message).await;
                }
            }
            if let Some(last) = event.id.filter(|_| kind == ClientKind::Breaks) {
                drop(reply);
                reply = self.session.listen(Some(&last)).await;
            }
        }
    }

    pub(super) async fn leave(self) {
        if let Some(standing) = self.standing {
            standing.abort();
            let ended = standing.await;
            assert!(ended.is_err_and(|error| error.is_cancelled()));
            // Others close their connections and are never seen again.
            if self.last.is_multiple_of(2) {
                assert_eq!(self.session.end().await.status, 204);
                assert_eq!(self.session.ask(0, "ping", Value::Null).await.status, 404);
            }
        }
    }
}

/// Receives what belongs to no request, on a stream that breaks now and then until the chaos is over.
async fn stand_by(
    session: Session,
    mut stream: Reply,
    received: ReceivedMessages,
    mut dice: Dice,
    mut over: watch::Receiver<bool>,
) {
    let mut last = None;
    loop {
        assert_eq!(stream.status, 200, "{}: no standing stream", received.mark());
        let breaks = async {
            tokio::time::sleep(Duration::from_millis(50 + dice.below(2000))).await;
            // Not in the end, when everything is well.
            if *over.borrow_and_update() {
                std::future::pending::<()>().await;
            }
        };
        let mut breaks = pin!(breaks);
        loop {
            tokio::select! {
                event = stream.event() => {
                    let event = event.expect("a standing stream stays open");
                    last = event.id.clone().or(last);
                    if !event.data.is_empty() {
                        answer(&session, &received, &event.json()).await;
                    }
                }
                () = breaks.as_mut() => break,
            }
        }
        drop(stream);
        stream = session.listen(last.as_deref()).await;
    }
}

async fn answer(session: &Session, received: &ReceivedMessages, message: &Value) {
    if let Some(answer) = received.take(message) {
        assert_eq!(session.post(&answer).await.status, 202);
    }
}
