//! HTTP+SSE, for clients of 2024-11-05: one stream carries everything to the client, and is its session.

use std::sync::Arc;

use bytes::Bytes;
use hyper::Response;
use mainstay::gateway::message;

use super::answering::events;
use super::body::Body;
use super::guard::Caller;
use super::legacy::no_session;
use super::post::Asked;
use super::reading::Reading;
use super::refusal::Refusal;
use super::service::HttpService;
use super::session::{InUse, Way};
use crate::client::Outbox;
use crate::scope::Scope;

impl HttpService {
    /// Opens a session, and tells the client where to send its messages.
    pub(super) fn open_sse(
        self: &Arc<Self>,
        scope: Scope,
        caller: Caller,
    ) -> Result<Response<Body>, Refusal> {
        self.check_open()?;
        let session = self.sessions.open(scope, Way::Sse, caller)?;
        let stream = session.standing.clone();
        let address = format!("/messages?session={}", session.id);
        let place = stream.open(None);
        let connected = Connected {
            service: self.clone(),
            session,
        };
        let reading = Reading::new(stream, place, Box::new(connected));
        Ok(events(reading.introduced("endpoint", &address)))
    }

    pub(super) fn sse_session(&self, id: &str, caller: Caller) -> Result<InUse, Refusal> {
        let session = self.sessions.find_any(id, Way::Sse, caller);
        session.ok_or_else(no_session)
    }

    /// Answers a request on the stream of its session, however long that takes.
    pub(super) fn answer_sse(self: &Arc<Self>, session: InUse, asked: Asked) {
        let stream = session.standing.clone();
        let run = match session.client.running.begin(asked.id.clone()) {
            Ok(run) => run,
            Err(busy) => {
                stream.send(message::response(&asked.id, &Err(busy.into())));
                return;
            }
        };
        let work = self.work(session, stream.clone(), run, asked);
        tokio::spawn(async move {
            if let Some(answer) = work.await {
                stream.answer(answer.outgoing(stream.account()));
            }
        });
    }

    /// Takes a batch; what it is answered with goes to the stream of its session.
    pub(super) async fn answer_sse_batch(
        self: &Arc<Self>,
        session: InUse,
        messages: Vec<Bytes>,
    ) -> Result<(), Refusal> {
        let stream = session.standing.clone();
        if let Some(work) = self.take_batch(&session, &stream, messages).await? {
            tokio::spawn(async move {
                if let Some(answer) = work.await {
                    stream.answer(answer.outgoing(stream.account()));
                }
                drop(session);
            });
        }
        Ok(())
    }
}

/// A client that is connected; its session ends with the connection.
struct Connected {
    service: Arc<HttpService>,
    session: InUse,
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.service.sessions.end(&self.session.id);
    }
}
