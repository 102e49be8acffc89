//! Several messages by one POST.

use std::sync::Arc;

use bytes::Bytes;
use hyper::{Response, StatusCode};
use mainstay::gateway::message::{self, Message, Params};

use super::answering::{Answer, Asker, Work, answer};
use super::body::Body;
use super::guard::Caller;
use super::post::{Asked, Posted};
use super::refusal::{Refusal, empty};
use super::service::HttpService;
use super::session::InUse;
use super::stream::Stream;
use crate::door::batch::{self, Answering};
use crate::scope::Scope;

impl HttpService {
    pub(super) async fn answer_batch(
        self: &Arc<Self>,
        scope: &Scope,
        caller: Caller,
        posted: Posted<'_>,
        messages: Vec<Bytes>,
    ) -> Result<Response<Body>, Refusal> {
        let session = self.session(scope, caller, posted.named, posted.headers)?;
        let stream = session.stream(posted.accepts);
        let Some(work) = self.take_batch(&session, &stream, messages).await? else {
            return Ok(empty(StatusCode::ACCEPTED));
        };
        let asker = Asker::Legacy {
            session,
            primes: false,
        };
        Ok(answer(work, stream, asker, posted.accepts, posted.head_timer).await)
    }

    /// Takes the messages of a batch in their order; the work of answering those that want an answer, if any do.
    pub(super) async fn take_batch(
        self: &Arc<Self>,
        session: &InUse,
        stream: &Arc<Stream>,
        messages: Vec<Bytes>,
    ) -> Result<Option<Work>, Refusal> {
        let refuse = |error| Refusal::with(StatusCode::BAD_REQUEST, error);
        batch::check(session.client.version(), messages.len()).map_err(refuse)?;
        self.check_open()?;
        let mut answering: Vec<Answering> = Vec::new();
        for message in &messages {
            match Message::read(message) {
                Message::Request { id, method, .. } if method == "initialize" => {
                    answering.push(batch::misplaced(&id, &method));
                }
                Message::Request { id, method, params } => {
                    let asked = Asked::new(id, method.into_owned(), Params::new(params));
                    answering.push(self.answering(session, stream, asked));
                }
                Message::Notification { method, params } => {
                    self.router.hear(&session.client, &method, params.as_ref()).await;
                }
                Message::Response { id, result } => {
                    session.client.answered(&id, result);
                }
                Message::Batch(_) | Message::Garbage(_) => answering.push(batch::no_message()),
            }
        }
        if answering.is_empty() {
            return Ok(None);
        }
        let account = session.account.clone();
        Ok(Some(Box::pin(async move {
            let answers = batch::answers(answering).await?;
            Some(Answer::of_batch(account.charge_in_any_case(answers)))
        })))
    }

    fn answering(self: &Arc<Self>, session: &InUse, stream: &Arc<Stream>, asked: Asked) -> Answering {
        if asked.meta.version.is_some() {
            // Requests of the modern era stand alone.
            return batch::misplaced(&asked.id, &asked.method);
        }
        match session.client.running.begin(asked.id.clone()) {
            Ok(run) => {
                let work = self.work(session.clone(), stream.clone(), run, asked);
                let account = session.account.clone();
                Box::pin(async move { Some(work.await?.line(&account)) })
            }
            Err(busy) => batch::refused(message::response(&asked.id, &Err(busy.into()))),
        }
    }
}
