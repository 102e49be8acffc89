//! The door of one client on a pair of byte streams: the standard input and output of the program.
//!
//! One message a line. A client may speak in either era, and in both: what names its version in `_meta` is modern, the
//! rest belongs to the one session. Everything goes out in order on one bounded queue; what belongs to no answer is
//! dropped when the client does not read.

mod arrival;
mod lines;
mod queue;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mainstay::Era;
use mainstay::gateway::message::{self, Message, Params, RawJson, RpcError};
use mainstay::transport::Limits;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc::{self, Permit};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::batch::{self, Answering};
use super::http::note_refused_line;
use super::outgoing::{Answered, Outgoing};
use crate::budget::{Account, Spent};
use crate::client::{Client, Outbox};
use crate::gateway::Gateway;
use crate::protocol::{NoId, RequestMeta};
use crate::router::{Request, Router, is_shared};
use crate::scope::Scope;
pub use arrival::Arrival;
use lines::{Lines, Read, write};
use queue::{Queue, Queued, queue};

/// How long answers may still be given when the client has closed its side: long enough for what is nearly done, and
/// shorter than hosts wait before they end the program.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

impl Gateway {
    /// Serves one client that writes to `input` and reads from `output`, until it closes its side.
    ///
    /// Cancel safety: dropping it cancels whatever runs for the client.
    pub async fn serve_stdio<R, W>(&self, scope: Scope, input: R, output: W)
    where
        R: AsyncRead + Send + Unpin,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (queue, queued) = queue();
        let mut writing = JoinSet::new();
        writing.spawn(write(output, queued));
        let session = self.0.welcome(scope, None);
        let account = self.0.budget.account(session.principal);
        let line: Arc<dyn Outbox> = Arc::new(Queue::new(queue.clone(), account.clone()));
        session.stand_by(Some(line.clone()));
        let visit = Visit {
            router: self.0.clone(),
            session,
            line,
            queue,
            account,
        };
        let mut answering = JoinSet::new();
        // Listens have no end of their own: they end with the visit.
        let mut listening = JoinSet::new();
        visit.take_all(input, &mut answering, &mut listening).await;
        listening.abort_all();
        let last = async { while answering.join_next().await.is_some() {} };
        let _ = timeout(LAST_ANSWERS, last).await;
        drop((answering, visit));
        // The queue is closed now, and the writer ends when it is empty.
        let _ = timeout(LAST_ANSWERS, writing.join_next()).await;
    }
}

/// One client's visit.
struct Visit {
    router: Arc<Router>,
    session: Arc<Client>,
    line: Arc<dyn Outbox>,
    queue: mpsc::Sender<Queued>,
    /// What is held for the client.
    account: Account,
}

impl Visit {
    async fn take_all(
        &self,
        input: impl AsyncRead + Unpin,
        answering: &mut JoinSet<()>,
        listening: &mut JoinSet<()>,
    ) {
        let mut lines = Lines::new(input, Limits::DEFAULT_MESSAGE);
        loop {
            tokio::select! {
                // What is done is forgotten first.
                biased;
                Some(_) = answering.join_next() => {}
                Some(_) = listening.join_next() => {}
                Some((place, read)) = self.read(&mut lines) => match read {
                    Read::Outbox(line) => self.take(place, &line, answering, listening).await,
                    Read::TooLong(length) => {
                        let what = format!("the message has {length} bytes, which is too long");
                        self.refuse(place, RpcError::new(RpcError::INVALID_REQUEST, what));
                    }
                    Read::End => return,
                },
                // Whoever closes the output will not read an answer either.
                () = self.queue.closed() => return,
            }
        }
    }

    /// The next line, and a place in the queue for what it may be refused with: a client that does not read is not read
    /// either, as places are given in turn, after all answers that wait for one. One that reads is always heard, however
    /// much runs for it: it may cancel, answer, or leave. What may run is bounded by the router.
    ///
    /// Cancel safety: dropping it loses nothing.
    async fn read(&self, lines: &mut Lines<impl AsyncRead + Unpin>) -> Option<(Permit<'_, Queued>, Read)> {
        let place = self.queue.reserve().await.ok()?;
        Some((place, lines.next().await))
    }

    async fn take(
        &self,
        place: Permit<'_, Queued>,
        line: &Bytes,
        answering: &mut JoinSet<()>,
        listening: &mut JoinSet<()>,
    ) {
        let line = match self.account.charge(line.clone()) {
            Ok(line) => line,
            Err(spent) => return self.refuse_spent(place, line, spent),
        };
        match Message::read_any(&line).await {
            Message::Request { id, method, params } => {
                let request = Owned::new(id, method.into_owned(), Params::read(params).await);
                let tasks = match request.method.as_str() {
                    "subscriptions/listen" => listening,
                    _other => answering,
                };
                // Noted before its task is started: what the client sends next may be its cancel.
                tasks.spawn(self.send(self.answer(request), Answered::outgoing));
            }
            Message::Notification { method, params } => {
                self.router.hear(&self.session, &method, params.as_ref()).await;
            }
            Message::Response { id, result } => {
                self.session.answered(&id, result);
            }
            Message::Batch(messages) => match batch::check(self.session.version(), messages.len()) {
                Ok(()) => {
                    if let Some(answers) = self.take_batch(&messages).await {
                        let whole = |answers: &Bytes, account: &Account| {
                            account.charge_in_any_case(answers.clone()).into()
                        };
                        answering.spawn(self.send(answers, whole));
                    }
                }
                Err(error) => self.refuse(place, error),
            },
            Message::Garbage(what) => {
                let what = format!("no message: {what}");
                self.refuse(place, RpcError::new(RpcError::PARSE_ERROR, what));
            }
        }
    }

    /// Says what is wrong with something that has no id to answer to.
    fn refuse(&self, place: Permit<'_, Queued>, error: RpcError) {
        note_refused_line(error.message());
        let no_id = self.session.version().map_or(NoId::Absent, NoId::in_version);
        place.send(Outgoing::from(no_id.refusal(error)).into());
    }

    /// Says that a message cannot be held.
    fn refuse_spent(&self, place: Permit<'_, Queued>, line: &Bytes, spent: Spent) {
        match Message::read(line) {
            Message::Request { id, .. } => {
                note_refused_line(&spent.to_string());
                let refused = message::response(&id, &Err(spent.into()));
                place.send(Outgoing::from(refused).into());
            }
            Message::Notification { .. }
            | Message::Response { .. }
            | Message::Batch(_)
            | Message::Garbage(_) => self.refuse(place, spent.into()),
        }
    }

    /// Takes the messages of a batch in their order; the answers to it, if any is wanted.
    async fn take_batch(&self, messages: &[Bytes]) -> Option<Answering> {
        let mut answering = Vec::new();
        for message in messages {
            match Message::read(message) {
                // What would never end would keep the others from being answered.
                Message::Request { id, method, .. }
                    if matches!(&*method, "initialize" | "subscriptions/listen") =>
                {
                    answering.push(batch::misplaced(&id, &method));
                }
                Message::Request { id, method, params } => {
                    let request = Owned::new(id, method.into_owned(), Params::read(params).await);
                    let (answered, account) = (self.answer(request), self.account.clone());
                    answering
                        .push(Box::pin(async move { Some(answered.await?.line(&account)) }) as Answering);
                }
                Message::Notification { method, params } => {
                    self.router.hear(&self.session, &method, params.as_ref()).await;
                }
                Message::Response { id, result } => {
                    self.session.answered(&id, result);
                }
                Message::Batch(_) | Message::Garbage(_) => answering.push(batch::no_message()),
            }
        }
        (!answering.is_empty()).then(|| Box::pin(batch::answers(answering)) as Answering)
    }

    /// Sends an answer when there is one, written so.
    fn send<A: Send>(
        &self,
        answer: impl Future<Output = Option<A>> + Send + 'static,
        write: impl FnOnce(&A, &Account) -> Outgoing + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let (queue, account) = (self.queue.clone(), self.account.clone());
        async move {
            if let Some(answer) = answer.await {
                let written = write(&answer, &account);
                drop(answer);
                // A client that does not read makes its own requests wait, and nobody else's.
                let _ = queue.send(written.into()).await;
            }
        }
    }

    /// The answer to a request; `None` when the client has cancelled it.
    fn answer(&self, request: Owned) -> impl Future<Output = Option<Answered>> + Send + 'static {
        let (router, line) = (self.router.clone(), self.line.clone());
        let client = match request.meta.era() {
            Era::Legacy => self.session.clone(),
            Era::Modern => self.session.with_request(&request.meta),
        };
        let run = client.running.begin(request.id.clone());
        async move {
            let Owned {
                id,
                method,
                params,
                meta,
            } = request;
            let checked = run
                .map_err(RpcError::from)
                .and_then(|run| meta.check().map(|()| run));
            let answer = match &checked {
                Ok(run) => {
                    let request = Request {
                        client: &client,
                        line: &line,
                        run,
                        method: &method,
                        params,
                        meta,
                    };
                    router.answer(request).await
                }
                Err(error) => Some(Err(error.clone())),
            };
            // A client that has its answer may use the id again.
            drop(checked);
            answer.map(|result| Answered {
                id,
                result,
                is_shared: is_shared(&method),
            })
        }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.router.part(&self.session);
    }
}

/// A request on its way to the task that answers it.
struct Owned {
    id: RawJson,
    method: String,
    params: Params,
    meta: RequestMeta,
}

impl Owned {
    fn new(id: RawJson, method: String, params: Params) -> Self {
        Self {
            meta: RequestMeta::read(&params),
            id,
            method,
            params,
        }
    }
}
