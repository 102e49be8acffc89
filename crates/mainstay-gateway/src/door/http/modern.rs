//! Clients of the modern era: each request stands alone, and shows in its headers what it is.

use std::sync::Arc;

use hyper::{Response, StatusCode};
use mainstay::gateway::message::{RawJson, RpcError};

use super::answering::{Answer, Asker, Work, answer};
use super::body::Body;
use super::guard::Caller;
use super::headers::check;
use super::post::{Asked, Posted};
use super::refusal::Refusal;
use super::service::HttpService;
use super::stream::Stream;
use crate::client::{Client, Outbox, Run};
use crate::door::outgoing::Answered;
use crate::protocol::{HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION, unsupported_version};
use crate::router::{Request, ended, is_shared};
use crate::scope::Scope;

impl HttpService {
    pub(super) async fn answer_modern(
        self: &Arc<Self>,
        scope: Scope,
        caller: Caller,
        posted: Posted<'_>,
        asked: Asked,
    ) -> Result<Response<Body>, Refusal> {
        check(posted.headers, &asked, &scope, &self.router)?;
        let Posted {
            accepts, head_timer, ..
        } = posted;
        let stream = Stream::passing(self.router.budget.account(caller.into()));
        if !accepts.events {
            stream.close();
        }
        let stream = Arc::new(stream);
        let client = self.router.admit(caller.into(), scope, &asked.meta);
        let run = client.running.begin(asked.id.clone());
        let run = run.map_err(|busy| Refusal::with(StatusCode::BAD_REQUEST, busy.into()))?;
        let work = self.work_alone(client, stream.clone(), run, asked);
        Ok(answer(work, stream, Asker::Modern, accepts, head_timer).await)
    }

    /// The work of answering a request that stands alone.
    fn work_alone(
        self: &Arc<Self>,
        client: Arc<Client>,
        stream: Arc<Stream>,
        run: Run,
        asked: Asked,
    ) -> Work {
        let (service, job) = (self.clone(), self.busy.begin());
        Box::pin(async move {
            let line: Arc<dyn Outbox> = stream;
            let Asked {
                id,
                method,
                params,
                meta,
            } = asked;
            let listens = method == "subscriptions/listen";
            let request = Request {
                client: &client,
                line: &line,
                run: &run,
                method: &method,
                params,
                meta,
            };
            let result = tokio::select! {
                biased;
                result = service.router.answer(request) => result?,
                // It would never end by itself.
                () = service.draining(), if listens => Ok(ended(&id)),
            };
            drop(job);
            let status = status(&result);
            let answered = Answered {
                id,
                result,
                is_shared: is_shared(&method),
            };
            Some(Answer::new(status, answered))
        })
    }
}

/// The status that an answer goes out with, when nothing went before it.
fn status(result: &Result<RawJson, RpcError>) -> StatusCode {
    match result.as_ref().map_err(RpcError::code) {
        Err(RpcError::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Err(HEADER_MISMATCH | MISSING_CAPABILITY | UNSUPPORTED_VERSION) => StatusCode::BAD_REQUEST,
        Ok(_) | Err(_) => StatusCode::OK,
    }
}

/// A version that is not spoken here.
pub(super) fn unsupported(version: &str) -> Refusal {
    Refusal::with(StatusCode::BAD_REQUEST, unsupported_version(version))
}
