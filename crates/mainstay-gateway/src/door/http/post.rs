//! Messages by POST: reading the body, finding the era, and answering requests, notifications, responses and batches.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::HeaderValue;
use hyper::{Response, StatusCode};
use mainstay::gateway::message::{self, Message, RpcError, TooManyMembers};
use mainstay::server::BadAnswer;
use serde::de::IgnoredAny;

use super::answer::{HttpAnswer, PendingAnswer, of_one, one_body, respond};
use super::body::RequestBody;
use super::guard::HttpCaller;
use super::head::{Accepts, NamedVersion, SESSION, check_content_type, check_modern};
use super::response::{HttpRefusal, ResponseBody, empty};
use super::service::{AdmittedRequest, HttpService};
use super::session::SessionUse;
use super::stream::ClientStream;
use super::timeouts::HOLD_BACK_TIMEOUT;
use crate::budget::Account;
use crate::client::{BeginError, Client, Outbox, RunningRequest};
use crate::door::batch::{self, PendingLine};
use crate::door::request::ClientRequest;
use crate::protocol::SERVER_UNAVAILABLE;
use crate::scope::Scope;
use crate::sessions::DoorKind;

/// How long a client may take to send a body, and how many turns of the connection's timer that is.
const BODY_TIMEOUT: Duration = HOLD_BACK_TIMEOUT.saturating_mul(BODY_TIMER_TURNS);
const BODY_TIMER_TURNS: u32 = 6;

impl HttpService {
    /// Takes a message over Streamable HTTP, in either era.
    pub(super) async fn post(
        self: &Arc<Self>,
        scope: Scope,
        post: &AdmittedRequest<'_>,
        body: &mut RequestBody,
    ) -> Result<Response<ResponseBody>, HttpRefusal> {
        check_content_type(post.headers)?;
        let accepts = Accepts::of(post.headers)?;
        let body = self.read_body(post, body, &self.account(post)).await?;
        let is_modern = post.version() == NamedVersion::Modern;
        let mut request = match Message::read_any(&body).await {
            Message::Request { id, method, params } => ClientRequest::read(id, &method, params).await,
            Message::Notification { method, params } if is_modern => {
                let (principal, params) = (post.principal(), params.as_ref());
                let handled = self
                    .router
                    .handle_sessionless_notification(principal, &scope, &method, params);
                handled.await.map_err(bad_request)?;
                return Ok(empty(StatusCode::ACCEPTED));
            }
            Message::Notification { method, params } => {
                let session = self.session(&scope, post)?;
                let params = params.as_ref();
                let handled = self.router.handle_notification(&session.client, &method, params);
                handled.await.map_err(bad_request)?;
                return Ok(empty(StatusCode::ACCEPTED));
            }
            Message::Response { .. } if is_modern => {
                let what = "there is nothing to answer: input goes with the request that needs it";
                return Err(HttpRefusal::invalid(StatusCode::BAD_REQUEST, what));
            }
            Message::Response { id, result } => {
                let session = self.session(&scope, post)?;
                session.client.answered(&id, result);
                return Ok(empty(StatusCode::ACCEPTED));
            }
            Message::Batch(_) if is_modern => {
                let what =
                    "only sessions of version 2025-03-26 may send batches: send one message by each POST";
                return Err(HttpRefusal::invalid(StatusCode::BAD_REQUEST, what));
            }
            Message::Batch(messages) => {
                let session = self.session(&scope, post)?;
                let stream = session.new_stream().for_client(accepts);
                let Some(pending) = self.answer_batch(&session, &stream, &messages).await? else {
                    return Ok(empty(StatusCode::ACCEPTED));
                };
                return Ok(respond(pending, stream, Some(session), accepts, post.head_timer).await);
            }
            Message::Garbage(what) => return Err(refuse_garbage(what, body.clone()).await),
        };
        request.meta.read_trace_headers(post.headers);
        // The request keeps of the body what it needs, for as long as it needs it.
        drop(body);
        let id = request.id.clone();
        let response = self.respond_to(scope, post, accepts, request);
        response.await.map_err(|refusal| refusal.of_request(&id))
    }

    /// Answers a request: a modern one by itself, a legacy one in its session.
    async fn respond_to(
        self: &Arc<Self>,
        scope: Scope,
        post: &AdmittedRequest<'_>,
        accepts: Accepts,
        request: ClientRequest,
    ) -> Result<Response<ResponseBody>, HttpRefusal> {
        self.check_open()?;
        let unreadable = |error: TooManyMembers| bad_request(error.into());
        request.params.check_members().map_err(unreadable)?;
        let version = post.version();
        let (client, stream, session) = if version == NamedVersion::Modern || request.meta.version.is_some() {
            check_modern(post.headers, &request, &scope, &self.router)?;
            let principal = post.principal();
            let stream = ClientStream::once(self.router.budget.account(principal));
            let client = self.router.client_of_request(principal, scope, &request.meta);
            (client, stream, None)
        } else if request.method == "initialize" && !post.headers.contains_key(SESSION) {
            version.check_known()?;
            return self.initialize(scope, post.caller, request).await;
        } else {
            let session = self.session(&scope, post)?;
            (session.client.clone(), session.new_stream(), Some(session))
        };
        let run = begin(&client, &request)?;
        let stream = stream.for_client(accepts);
        let pending = of_one(self.answer(client, session.clone(), stream.clone(), run, request));
        Ok(respond(pending, stream, session, accepts, post.head_timer).await)
    }

    /// Opens a session, unless the router refuses its client.
    async fn initialize(
        self: &Arc<Self>,
        scope: Scope,
        caller: HttpCaller,
        request: ClientRequest,
    ) -> Result<Response<ResponseBody>, HttpRefusal> {
        let opened = self.open_session(scope, DoorKind::Http, caller)?;
        let session = opened.session.clone();
        let run = begin(&session.client, &request)?;
        let (client, account) = (session.client.clone(), &session.account);
        let stream = Arc::new(ClientStream::once(account.clone()));
        let answer = self.answer(client, Some(session.clone()), stream, run, request);
        let Some(answer) = answer.await else {
            return Ok(empty(StatusCode::NO_CONTENT));
        };
        let status = match &answer.result {
            // Clients show the message of a proper answer, and only the status of an error.
            Err(error) if error.code() != SERVER_UNAVAILABLE => StatusCode::BAD_REQUEST,
            Ok(_) | Err(_) => StatusCode::OK,
        };
        let mut response = one_body(&answer, status, account);
        if answer.result.is_ok() {
            opened.keep();
            if let Ok(id) = HeaderValue::from_str(&session.id) {
                response.headers_mut().insert(SESSION, id);
            }
        }
        Ok(response)
    }

    /// Takes a message of a client over HTTP+SSE. Answers go to the client's one stream.
    pub(super) async fn post_sse(
        self: &Arc<Self>,
        session: &str,
        post: &AdmittedRequest<'_>,
        body: &mut RequestBody,
    ) -> Result<Response<ResponseBody>, HttpRefusal> {
        check_content_type(post.headers)?;
        let session = self.sse_session(session, post.caller)?;
        let body = self.read_body(post, body, &session.account).await?;
        let stream = session.standing.clone();
        let pending = match Message::read_any(&body).await {
            Message::Request { id, method, params } => {
                self.check_open().map_err(|refusal| refusal.of_request(&id))?;
                let request = ClientRequest::read(id, &method, params).await;
                match session.client.running.begin(request.id.clone()) {
                    Ok(run) => {
                        let client = session.client.clone();
                        let answer = self.answer(client, Some(session), stream.clone(), run, request);
                        Some(of_one(answer))
                    }
                    Err(busy) => {
                        stream.send(message::response(&request.id, &Err(busy.into())));
                        None
                    }
                }
            }
            Message::Notification { method, params } => {
                let params = params.as_ref();
                let handled = self.router.handle_notification(&session.client, &method, params);
                handled.await.map_err(bad_request)?;
                None
            }
            Message::Response { id, result } => {
                session.client.answered(&id, result);
                None
            }
            Message::Batch(messages) => self.answer_batch(&session, &stream, &messages).await?,
            Message::Garbage(what) => return Err(refuse_garbage(what, body.clone()).await),
        };
        if let Some(pending) = pending {
            // Counted until the answer is on the stream, which ends with the session.
            let (counted, expected) = (self.begin_request(), stream.expect_answer());
            tokio::spawn(async move {
                if let Some(answer) = pending.await {
                    stream.push_answer(answer.write_event(stream.account()));
                }
                drop((counted, expected));
            });
        }
        Ok(empty(StatusCode::ACCEPTED))
    }

    /// Takes the messages of a batch; the answers to its requests, if it has any.
    async fn answer_batch(
        self: &Arc<Self>,
        session: &SessionUse,
        stream: &Arc<ClientStream>,
        messages: &[Bytes],
    ) -> Result<Option<PendingAnswer>, HttpRefusal> {
        batch::check(session.client.version(), messages.len()).map_err(bad_request)?;
        self.check_open()?;
        let answer = |request| self.answer_in_batch(session, stream, request);
        let answers = batch::take(&self.router, &session.client, messages, answer).await;
        let account = session.account.clone();
        Ok(answers.map(|answers| -> PendingAnswer {
            Box::pin(async move {
                let answers = answers.await?;
                Some(HttpAnswer::Batch(account.charge_in_any_case(answers)))
            })
        }))
    }

    fn answer_in_batch(
        self: &Arc<Self>,
        session: &SessionUse,
        stream: &Arc<ClientStream>,
        request: ClientRequest,
    ) -> PendingLine {
        match session.client.running.begin(request.id.clone()) {
            Ok(run) => {
                let (client, account) = (session.client.clone(), session.account.clone());
                let answer = self.answer(client, Some(session.clone()), stream.clone(), run, request);
                Box::pin(async move { Some(answer.await?.write_line(&account)) })
            }
            Err(busy) => batch::ready(message::response(&request.id, &Err(busy.into()))),
        }
    }

    /// Takes the body of a request, if it is not above the limit, arrives in time, and fits into the client's budget. It is charged
    /// to the client as long as any part of it is kept.
    async fn read_body(
        &self,
        post: &AdmittedRequest<'_>,
        body: &mut RequestBody,
        account: &Account,
    ) -> Result<Bytes, HttpRefusal> {
        {
            let mut collecting = pin!(body.collect(self.limits.body, account));
            // In turns of the timer that the connection has anyway: a timer for each body costs more than the body.
            for _ in 0..BODY_TIMER_TURNS {
                tokio::select! {
                    biased;
                    body = &mut collecting => return body,
                    () = post.head_timer.wait() => {}
                }
            }
        }
        body.give_up();
        let what = format!("the body did not arrive within {} s", BODY_TIMEOUT.as_secs());
        Err(HttpRefusal::invalid(StatusCode::REQUEST_TIMEOUT, what))
    }
}

fn bad_request(error: RpcError) -> HttpRefusal {
    HttpRefusal::with(StatusCode::BAD_REQUEST, error)
}

/// Registers a request as running. Its id must not be in use, and the client must not run too many.
fn begin(client: &Client, request: &ClientRequest) -> Result<RunningRequest, HttpRefusal> {
    client.running.begin(request.id.clone()).map_err(|busy| {
        let status = match busy {
            BeginError::IdInUse => StatusCode::BAD_REQUEST,
            BeginError::TooMany => StatusCode::TOO_MANY_REQUESTS,
        };
        HttpRefusal::with(status, busy.into())
    })
}

async fn refuse_garbage(what: BadAnswer, body: Bytes) -> HttpRefusal {
    let length = body.len();
    let is_json = move || serde_json::from_slice::<IgnoredAny>(&body).is_ok();
    if message::process_payload(length, is_json).await {
        return HttpRefusal::invalid(StatusCode::BAD_REQUEST, "the body is not a JSON-RPC message");
    }
    let what = format!("the body cannot be read: {what}");
    HttpRefusal::new(StatusCode::BAD_REQUEST, RpcError::PARSE_ERROR, what)
}
