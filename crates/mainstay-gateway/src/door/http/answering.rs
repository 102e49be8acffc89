//! A request that is being answered: by one JSON body when nothing comes before the answer, else by a stream of events.
//!
//! The head of the response is held back until it is known which. Meanwhile nothing is spawned: the connection's own task
//! does the work. What becomes of it when the client goes away depends on the era: a modern client cancels by leaving,
//! a legacy one may come back for its answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use mainstay::gateway::message::{self, RpcError};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::access::Why;
use super::body::Body;
use super::head_timer::HeadTimer;
use super::reading::Reading;
use super::refusal::{Refusal, empty, json};
use super::session::{InUse, Session};
use super::stream::Stream;
use crate::budget::Account;
use crate::door::outgoing::{Answered, Outgoing};
use crate::protocol::NoId;

/// Tells proxies not to hold back events.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The answer to a request.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    said: Said,
}

/// What is answered.
enum Said {
    One(Answered),
    /// The answers to a batch, as one line.
    Batch(Bytes),
}

impl Answer {
    /// The answer to one request.
    pub(super) fn new(status: StatusCode, answered: Answered) -> Self {
        Self {
            status,
            said: Said::One(answered),
        }
    }

    /// The answers to a batch, as one line.
    pub(super) fn of_batch(answers: Bytes) -> Self {
        Self {
            status: StatusCode::OK,
            said: Said::Batch(answers),
        }
    }

    /// The error that it is, if it is one.
    pub(super) fn error(&self) -> Option<&RpcError> {
        match &self.said {
            Said::One(answered) => answered.result.as_ref().err(),
            Said::Batch(_) => None,
        }
    }

    /// As it goes out on a stream.
    pub(super) fn outgoing(&self, account: &Account) -> Outgoing {
        match &self.said {
            Said::One(answered) => answered.outgoing(account),
            Said::Batch(answers) => answers.clone().into(),
        }
    }

    /// As a part of the answers to a batch.
    pub(super) fn line(&self, account: &Account) -> Bytes {
        match &self.said {
            Said::One(answered) => answered.line(account),
            Said::Batch(answers) => answers.clone(),
        }
    }

    /// As a response of its own. A small one is the connection's own, and a large one is held for the client until it has read
    /// it; what cannot be held is refused.
    pub(super) fn response(&self, account: &Account) -> Response<Body> {
        let body = match &self.said {
            Said::One(answered) if answered.is_large() => match answered.write(account) {
                Ok(Outgoing::Whole(line)) => Body::Whole(line),
                Ok(Outgoing::Pieces(pieces)) => Body::in_pieces(pieces),
                Err(spent) => {
                    let refusal = Refusal::from(spent).of_request(&answered.id);
                    // The id is known, so that it does not matter how one is written that is not.
                    return refusal.response(NoId::Absent);
                }
            },
            Said::One(Answered { id, result, .. }) => Body::Whole(message::response(id, result)),
            Said::Batch(answers) => Body::Whole(answers.clone()),
        };
        let mut response = json(self.status, body);
        if let (true, Some(error)) = (self.status.is_client_error(), self.error()) {
            response.extensions_mut().insert(Why(error.message().to_owned()));
        }
        response
    }
}

/// The work of answering a request; `None` when the client has cancelled it.
pub(super) type Work = Pin<Box<dyn Future<Output = Option<Answer>> + Send>>;

/// What a client takes for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Accepts {
    pub(super) json: bool,
    pub(super) events: bool,
}

/// Whose request it is.
pub(super) enum Asker {
    /// Nobody but the one who waits: when the client goes away, the request is cancelled.
    Modern,
    /// A session: when the client goes away, the work goes on, and the answer waits. `primes` when the client knows
    /// events without data.
    Legacy { session: InUse, primes: bool },
}

/// Answers a request on this stream.
///
/// Cancel safety: when it is dropped, the work of a session goes on by itself; other work is dropped too.
pub(super) async fn answer(
    work: Work,
    stream: Arc<Stream>,
    asker: Asker,
    accepts: Accepts,
    head_timer: &HeadTimer,
) -> Response<Body> {
    let mut held = Held {
        work: Some(work),
        asker: Some(asker),
        stream: stream.clone(),
    };
    tokio::select! {
        biased;
        answer = held.done() => whole(answer, &stream, held, accepts),
        () = stream.has_something(), if accepts.events => held.into_events(stream, false),
        () = head_timer.over(), if accepts.events => held.into_events(stream, true),
    }
}

/// The answer is there before the head is sent.
fn whole(answer: Option<Answer>, stream: &Arc<Stream>, held: Held, accepts: Accepts) -> Response<Body> {
    match answer {
        Some(answer) if accepts.json && stream.is_empty() => answer.response(stream.account()),
        // Nobody wants the answer: there is nothing to say.
        None => empty(StatusCode::NO_CONTENT),
        Some(answer) => {
            let Some(asker) = held.disarmed() else {
                return empty(StatusCode::NO_CONTENT);
            };
            finish(stream, Some(answer));
            let while_read: Box<dyn Send> = match asker {
                Asker::Modern => Box::new(()),
                Asker::Legacy { session, .. } => {
                    session.keep(stream.clone());
                    Box::new(session)
                }
            };
            events(Reading::new(stream.clone(), stream.open(None), while_read))
        }
    }
}

/// A response of events.
pub(super) fn events(reading: Reading) -> Response<Body> {
    let mut response = Response::new(Body::Events(Box::new(reading)));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(BUFFERING, HeaderValue::from_static("no"));
    response
}

fn finish(stream: &Stream, answer: Option<Answer>) {
    if let Some(answer) = answer {
        stream.answer(answer.outgoing(stream.account()));
    }
    stream.close();
}

/// Work whose client waits for the head of the response.
struct Held {
    work: Option<Work>,
    asker: Option<Asker>,
    stream: Arc<Stream>,
}

impl Held {
    async fn done(&mut self) -> Option<Answer> {
        let work = self.work.as_mut()?;
        let answer = work.await;
        self.work = None;
        answer
    }

    fn disarmed(mut self) -> Option<Asker> {
        self.work = None;
        self.asker.take()
    }

    /// The client gets events from now on; a task of its own does the work, as the connection waits for the client.
    fn into_events(mut self, stream: Arc<Stream>, silent: bool) -> Response<Body> {
        let (Some(work), Some(asker)) = (self.work.take(), self.asker.take()) else {
            return empty(StatusCode::NO_CONTENT);
        };
        let place = stream.open(None);
        let writes = stream.clone();
        let finishing = async move { finish(&writes, work.await) };
        let reading = match asker {
            Asker::Modern => {
                let reading = Reading::new(stream, place, Box::new(Leash(tokio::spawn(finishing))));
                if silent { reading.opened() } else { reading }
            }
            Asker::Legacy { session, primes } => {
                tokio::spawn(finishing);
                session.keep(stream.clone());
                let reading = Reading::new(stream, place, Box::new(session));
                match (silent, primes) {
                    (false, _) => reading,
                    (true, true) => reading.primed(),
                    (true, false) => reading.opened(),
                }
            }
        };
        events(reading)
    }
}

impl Drop for Held {
    /// The client went away before it saw anything: the work of a session goes on, but nothing reaches the client this way.
    fn drop(&mut self) {
        let (Some(work), Some(Asker::Legacy { session, .. })) = (self.work.take(), self.asker.take()) else {
            return;
        };
        self.stream.abandon();
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                work.await;
                drop(session);
            });
        }
    }
}

/// A task that ends when this is dropped.
struct Leash(JoinHandle<()>);

impl Drop for Leash {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Session {
    /// The stream of a new request of this session, for a client that takes these answers.
    pub(super) fn stream(&self, accepts: Accepts) -> Arc<Stream> {
        let stream = Stream::kept(self.next_stream(), self.account.clone());
        if !accepts.events {
            stream.close();
        }
        Arc::new(stream)
    }
}

#[cfg(test)]
mod tests;
