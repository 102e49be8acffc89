//! Answering a request: with one JSON body if nothing comes before the answer, else with a stream of events.
//!
//! The head of the response is held back until it is known which. Until then the task of the connection answers the request,
//! and no other task is started. A modern client cancels its request by leaving; a legacy one may reconnect for its answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use hyper::{Response, StatusCode};
use mainstay::Era;
use mainstay::gateway::message::{RawJson, RpcError};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::head::Accepts;
use super::response::{BodyContent, HttpRefusal, RefusalReason, ResponseBody, empty, events, json};
use super::service::HttpService;
use super::session::SessionUse;
use super::stream::{ClientStream, EventReader};
use super::timeouts::HeadTimer;
use crate::answer_kind::AnswerKind;
use crate::budget::Account;
use crate::client::{Client, Outbox, RunningRequest};
use crate::door::outgoing::{OutgoingMessage, RequestAnswer};
use crate::door::request::ClientRequest;
use crate::protocol::{NoId, is_client_error};
use crate::router::ended;

/// The first version whose clients know events without data, which say where to resume a stream.
const RESUME_POINTS_SINCE: &str = "2025-11-25";

/// The answer to a POST.
pub(super) enum HttpAnswer {
    One(RequestAnswer),
    /// The answers to a batch, as one line.
    Batch(Bytes),
}

impl HttpAnswer {
    /// The answer as an event of a stream.
    pub(super) fn write_event(&self, account: &Account) -> OutgoingMessage {
        match self {
            Self::One(answer) => answer.write_or_refuse(account),
            Self::Batch(answers) => answers.clone().into(),
        }
    }
}

/// The answer to one request as a response. A large one is charged to the client until the client has read it, and refused if it
/// does not fit. A small one is not charged: a connection has one at a time.
pub(super) fn one_body(
    answer: &RequestAnswer,
    status: StatusCode,
    account: &Account,
) -> Response<ResponseBody> {
    let RequestAnswer { id, result, kind, .. } = answer;
    let content = match answer.is_large() {
        true => match answer.write(account) {
            Ok(OutgoingMessage::Whole(line)) => BodyContent::Whole(line),
            Ok(OutgoingMessage::Pieces(pieces)) => BodyContent::Pieces(pieces.into_iter().rev().collect()),
            Err(spent) if *kind == AnswerKind::List => {
                let refusal = HttpRefusal::from(spent).of_request(id);
                // The id is known, so it does not matter how an unknown one is written.
                return refusal.response(NoId::Absent);
            }
            // Not a status that asks for another try: the request was carried out.
            Err(spent) => BodyContent::Whole(answer.instead(spent)),
        },
        false => BodyContent::Whole(answer.line()),
    };
    let mut response = json(status, content);
    if let (true, Err(error)) = (status.is_client_error(), result) {
        let reason = RefusalReason(error.message().to_owned());
        response.extensions_mut().insert(reason);
    }
    response
}

/// A POST that is being answered. `None` if the client has cancelled its request.
pub(super) type PendingAnswer = Pin<Box<dyn Future<Output = Option<HttpAnswer>> + Send>>;

impl HttpService {
    /// Answers a request of either era; `None` if the client has cancelled it. A request that still runs when connections end, or when
    /// the token of its client is removed, is cut, and answered so. What comes before the answer goes to `stream`. The session, if
    /// there is one, is in use until the answer is there.
    pub(super) fn answer(
        self: &Arc<Self>,
        client: Arc<Client>,
        session: Option<SessionUse>,
        stream: Arc<ClientStream>,
        run: RunningRequest,
        request: ClientRequest,
    ) -> impl Future<Output = Option<RequestAnswer>> + Send + use<> {
        let (service, counted) = (self.clone(), self.begin_request());
        async move {
            let outbox: Arc<dyn Outbox> = stream;
            let id = request.id.clone();
            let is_endless = client.era == Era::Modern && request.method == "subscriptions/listen";
            let answer = tokio::select! {
                biased;
                // Before it would be cut.
                () = service.endless_must_end(client.principal), if is_endless => Some(RequestAnswer {
                    result: Ok(ended(&id)),
                    id,
                    kind: AnswerKind::Other,
                    hint: None,
                }),
                answer = request.answer(
                    &service.router,
                    &client,
                    &outbox,
                    &run,
                    service.must_cut(client.principal),
                ) => answer,
            };
            drop((counted, session));
            answer
        }
    }
}

/// The answer to the one request of a POST.
pub(super) fn of_one(answer: impl Future<Output = Option<RequestAnswer>> + Send + 'static) -> PendingAnswer {
    Box::pin(async move { Some(HttpAnswer::One(answer.await?)) })
}

/// The status of a modern answer that is one body.
fn modern_status(result: &Result<RawJson, RpcError>) -> StatusCode {
    match result.as_ref().map_err(RpcError::code) {
        Err(RpcError::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Err(code) if is_client_error(code) => StatusCode::BAD_REQUEST,
        Ok(_) | Err(_) => StatusCode::OK,
    }
}

/// Responds to a POST once its answer or its first event is there, or the head of the response is held back no longer. The answer to
/// a request of a session is kept there for a client that leaves.
///
/// Cancel safety: if the future is dropped, the request of a session goes on in a task of its own, and a modern one is cancelled.
pub(super) async fn respond(
    pending: PendingAnswer,
    stream: Arc<ClientStream>,
    session: Option<SessionUse>,
    accepts: Accepts,
    head_timer: &HeadTimer,
) -> Response<ResponseBody> {
    let mut held_back = HeldBackResponse {
        pending: Some(pending),
        session,
        stream: stream.clone(),
    };
    tokio::select! {
        biased;
        answer = held_back.answer() => held_back.finish(answer, accepts),
        () = stream.has_event(), if accepts.events => held_back.into_stream(false),
        () = head_timer.wait(), if accepts.events => held_back.into_stream(true),
    }
}

/// A response whose head is held back.
struct HeldBackResponse {
    /// `None` once it is answered, or has moved to a task of its own.
    pending: Option<PendingAnswer>,
    /// The session of a legacy request.
    session: Option<SessionUse>,
    stream: Arc<ClientStream>,
}

impl HeldBackResponse {
    async fn answer(&mut self) -> Option<HttpAnswer> {
        let answer = self.pending.as_mut()?.await;
        self.pending = None;
        answer
    }

    /// The answer is there before the head is sent.
    fn finish(mut self, answer: Option<HttpAnswer>, accepts: Accepts) -> Response<ResponseBody> {
        let Some(answer) = answer else {
            // The client has cancelled the request.
            return empty(StatusCode::NO_CONTENT);
        };
        let stream = self.stream.clone();
        if accepts.json && stream.is_empty() {
            return match answer {
                HttpAnswer::One(answer) => {
                    let status = match &self.session {
                        Some(_) => StatusCode::OK,
                        None => modern_status(&answer.result),
                    };
                    one_body(&answer, status, stream.account())
                }
                HttpAnswer::Batch(answers) => json(StatusCode::OK, BodyContent::Whole(answers)),
            };
        }
        write_last(&stream, Some(answer));
        let session = self.session.take();
        if let Some(session) = &session {
            session.keep_stream(stream.clone());
        }
        events(EventReader::open(stream, None, Box::new(session)))
    }

    /// Sends events from now on. The connection's task waits for the client, so the request moves to a task of its own.
    fn into_stream(mut self, is_silent: bool) -> Response<ResponseBody> {
        let Some(pending) = self.pending.take() else {
            return empty(StatusCode::NO_CONTENT);
        };
        let (stream, session) = (self.stream.clone(), self.session.take());
        let writes = stream.clone();
        let mut task = JoinSet::new();
        task.spawn(async move { write_last(&writes, pending.await) });
        let knows_resume_points = session.as_ref().is_some_and(|session| {
            let version = session.client.version();
            version.is_some_and(|version| version >= RESUME_POINTS_SINCE)
        });
        let while_connected: Box<dyn Send> = match session {
            Some(session) => {
                task.detach_all();
                session.keep_stream(stream.clone());
                Box::new(session)
            }
            // Aborts the task when the client leaves.
            None => Box::new(task),
        };
        let reader = EventReader::open(stream, None, while_connected);
        events(match (is_silent, knows_resume_points) {
            (false, _) => reader,
            (true, true) => reader.with_resume_point(),
            (true, false) => reader.with_comment(),
        })
    }
}

impl Drop for HeldBackResponse {
    /// The client left before it saw anything. The request of a session goes on, but this stream reaches the client no more.
    fn drop(&mut self) {
        let (Some(pending), Some(session)) = (self.pending.take(), self.session.take()) else {
            return;
        };
        self.stream.abandon();
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                pending.await;
                drop(session);
            });
        }
    }
}

/// Writes the answer to a stream, and closes it.
fn write_last(stream: &ClientStream, answer: Option<HttpAnswer>) {
    if let Some(answer) = answer {
        stream.push_answer(answer.write_event(stream.account()));
    }
    stream.close();
}

#[cfg(test)]
mod tests;
