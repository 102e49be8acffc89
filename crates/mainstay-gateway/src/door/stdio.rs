//! The door for one client on a pair of byte streams: the standard input and output of the program.
//!
//! Each line is one message. The client may send requests of both eras: a request that names its version in `_meta` is
//! modern, every other one belongs to the one session. All messages to the client go through one bounded queue, in order.
//! Notifications that belong to no answer are dropped while the client does not read.

mod input;
mod output;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mainstay::Era;
use mainstay::gateway::message::{Message, RawJson, RpcError};
use mainstay::transport::Limits;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc::{self, Permit};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use super::batch::{self, PendingLine};
use super::http::log_refused_line;
use super::outgoing::{OutgoingMessage, RequestAnswer};
use super::request::ClientRequest;
use crate::answer_kind::AnswerKind;
use crate::budget::{Account, Spent};
use crate::client::{Client, Outbox};
use crate::failure::CutReason;
use crate::gateway::Gateway;
use crate::protocol::NoId;
use crate::router::{Router, ServerWait};
use crate::scope::Scope;
use crate::sessions::DoorKind;
pub use input::ClientInput;
use input::{LineReader, ReadLine, SkippedLine};
use output::{QueuedMessage, StdioOutbox, write_queued};

/// How long running requests may take to finish after the client has closed its side. It is shorter than hosts wait before
/// they kill the program.
const LAST_ANSWERS_GRACE: Duration = Duration::from_secs(1);

impl Gateway {
    /// Serves one client that writes to `input` and reads from `output`, until it closes its side.
    ///
    /// Cancel safety: dropping the future cancels all requests of the client.
    pub async fn serve_stdio<R, W>(&self, scope: Scope, input: R, output: W)
    where
        R: AsyncRead + Send + Unpin,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let grace = || LAST_ANSWERS_GRACE;
        let _ended = self
            .serve_client(
                scope,
                input,
                output,
                ServerWait::default(),
                grace,
                Unfinished::Cut,
            )
            .await;
    }

    /// Serves one client as [`serve_stdio`](Self::serve_stdio) does. When the input has ended, `grace` says how long running requests
    /// may take to finish. Those that take longer are dropped without an answer: the other end, which knows whether another gateway can
    /// take them over, answers its client. `wait` says how long the client's calls wait for a server.
    ///
    /// Cancel safety: dropping the future cancels all requests of the client.
    pub async fn serve_stream<R, W>(
        &self,
        scope: Scope,
        input: R,
        output: W,
        wait: ServerWait,
        grace: impl FnOnce() -> Duration,
    ) -> StreamEnd<W>
    where
        R: AsyncRead + Send + Unpin,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let dropped = Unfinished::Dropped;
        self.serve_client(scope, input, output, wait, grace, dropped)
            .await
    }

    async fn serve_client<R, W>(
        &self,
        scope: Scope,
        input: R,
        output: W,
        wait: ServerWait,
        grace: impl FnOnce() -> Duration,
        unfinished: Unfinished,
    ) -> StreamEnd<W>
    where
        R: AsyncRead + Send + Unpin,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (queue, queued) = output::queue();
        let mut writing = JoinSet::new();
        writing.spawn(write_queued(output, queued));
        let client = self.0.open_session(scope, None, DoorKind::Stdio);
        client.waits.note(wait);
        let account = self.0.budget.account(client.principal);
        let outbox: Arc<dyn Outbox> = Arc::new(StdioOutbox::new(queue.clone(), account.clone()));
        client.set_standing_outbox(Some(outbox.clone()));
        let session = StdioSession {
            router: self.0.clone(),
            client,
            outbox,
            queue,
            account,
            cut: watch::Sender::new(false),
        };
        let mut answering = JoinSet::new();
        // Requests for `subscriptions/listen` end with the session only.
        let mut listening = JoinSet::new();
        session.take_all(input, &mut answering, &mut listening).await;
        listening.abort_all();
        let is_answered = timeout(grace(), all_ended(&mut answering)).await.is_ok();
        let last_answers = Instant::now() + LAST_ANSWERS_GRACE;
        if !is_answered && unfinished == Unfinished::Cut {
            session.cut.send_replace(true);
            let _ = timeout_at(last_answers, all_ended(&mut answering)).await;
        }
        drop((answering, session));
        // That closed the queue, and the writer ends when the queue is empty.
        let written = timeout_at(last_answers, writing.join_next()).await;
        let output = written.ok().flatten().and_then(Result::ok).flatten();
        StreamEnd {
            is_all_answered: is_answered && output.is_some(),
            output,
        }
    }
}

/// What becomes of requests that have not finished in time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unfinished {
    /// Each is answered: it was cut, and may or may not have run.
    Cut,
    /// They get no answer.
    Dropped,
}

async fn all_ended(tasks: &mut JoinSet<()>) {
    while tasks.join_next().await.is_some() {}
}

/// How the service of a client on a stream ended.
#[derive(Debug)]
pub struct StreamEnd<W> {
    /// Whether every request that was read has been answered and written. Listens are not counted: they end without an answer.
    pub is_all_answered: bool,
    /// The output, unless the client is gone or does not read.
    pub output: Option<W>,
}

/// The session of the one client.
struct StdioSession {
    router: Arc<Router>,
    client: Arc<Client>,
    outbox: Arc<dyn Outbox>,
    queue: mpsc::Sender<QueuedMessage>,
    /// The client's budget of bytes.
    account: Account,
    /// Whether running requests are cut.
    cut: watch::Sender<bool>,
}

impl StdioSession {
    async fn take_all(
        &self,
        input: impl AsyncRead + Unpin,
        answering: &mut JoinSet<()>,
        listening: &mut JoinSet<()>,
    ) {
        let mut lines = LineReader::new(input, Limits::DEFAULT_MESSAGE, self.account.clone());
        loop {
            tokio::select! {
                // Finished tasks are removed first, so that the sets stay small.
                biased;
                Some(_) = answering.join_next() => {}
                Some(_) = listening.join_next() => {}
                Some((place, read)) = self.read(&mut lines) => match read {
                    ReadLine::Line(line) => self.take(place, &line, answering, listening).await,
                    ReadLine::TooLong(skipped) => self.refuse_long(place, &skipped),
                    ReadLine::End => return,
                },
                // A client that has closed its output reads no answer.
                () = self.queue.closed() => return,
            }
        }
    }

    /// The next line, and a place in the queue for the refusal that it may need. Places are given in turn, after all answers
    /// that wait for one: so the gateway stops reading from a client that does not read. It always reads from a client that
    /// does, however many requests run, so that the client can cancel, answer, or leave. The router bounds what may run.
    ///
    /// Cancel safety: dropping the future loses nothing.
    async fn read(
        &self,
        lines: &mut LineReader<impl AsyncRead + Unpin>,
    ) -> Option<(Permit<'_, QueuedMessage>, ReadLine)> {
        let place = self.queue.reserve().await.ok()?;
        Some((place, lines.next().await))
    }

    async fn take(
        &self,
        place: Permit<'_, QueuedMessage>,
        line: &Bytes,
        answering: &mut JoinSet<()>,
        listening: &mut JoinSet<()>,
    ) {
        let line = match self.account.charge(line.clone()) {
            Ok(line) => line,
            Err(spent) => return self.refuse_spent(place, line, spent).await,
        };
        match Message::read_any(&line).await {
            Message::Request { id, method, params } => {
                let request = ClientRequest::read(id, &method, params).await;
                let tasks = match request.method.as_str() {
                    "subscriptions/listen" => listening,
                    _other => answering,
                };
                // `answer` registers the request before its task starts: the client's next message may cancel it.
                tasks.spawn(self.send(self.answer(request), RequestAnswer::write_or_refuse));
            }
            Message::Notification { method, params } => {
                let params = params.as_ref();
                let handled = self.router.handle_notification(&self.client, &method, params);
                if let Err(error) = handled.await {
                    self.refuse(place, None, error);
                }
            }
            Message::Response { id, result } => {
                self.client.answered(&id, result);
            }
            Message::Batch(messages) => match batch::check(self.client.version(), messages.len()) {
                Ok(()) => {
                    let answer = |request| self.answer_in_batch(request);
                    if let Some(answers) = batch::take(&self.router, &self.client, &messages, answer).await {
                        let whole = |answers: &Bytes, account: &Account| {
                            account.charge_in_any_case(answers.clone()).into()
                        };
                        answering.spawn(self.send(answers, whole));
                    }
                }
                Err(error) => self.refuse(place, None, error),
            },
            Message::Garbage(what) => {
                let what = format!("not a message: {what}");
                self.refuse(place, None, RpcError::new(RpcError::PARSE_ERROR, what));
            }
        }
    }

    /// Refuses a line, under the id of its request where that is known.
    fn refuse(&self, place: Permit<'_, QueuedMessage>, id: Option<&RawJson>, error: RpcError) {
        log_refused_line(error.message());
        let no_id = self.client.version().map_or(NoId::Absent, NoId::in_version);
        place.send(OutgoingMessage::from(no_id.refusal(id, error)).into());
    }

    fn refuse_long(&self, place: Permit<'_, QueuedMessage>, skipped: &SkippedLine) {
        let (length, limit) = (skipped.length, Limits::DEFAULT_MESSAGE);
        let too_long = || {
            let what = format!("the message has {length} bytes, which is too long: the limit is {limit}");
            RpcError::new(RpcError::INVALID_REQUEST, what)
        };
        let error = skipped.spent.map_or_else(too_long, RpcError::from);
        self.refuse(place, skipped.request_id().as_ref(), error);
    }

    /// Refuses a message that does not fit into the client's budget.
    async fn refuse_spent(&self, place: Permit<'_, QueuedMessage>, line: &Bytes, spent: Spent) {
        let id = match Message::read_any(line).await {
            Message::Request { id, .. } => Some(id),
            Message::Notification { .. }
            | Message::Response { .. }
            | Message::Batch(_)
            | Message::Garbage(_) => None,
        };
        self.refuse(place, id.as_ref(), spent.into());
    }

    /// The answer to a request of a batch.
    fn answer_in_batch(&self, request: ClientRequest) -> PendingLine {
        let (answer, account) = (self.answer(request), self.account.clone());
        Box::pin(async move { Some(answer.await?.write_line(&account)) })
    }

    /// Waits for an answer, writes it, and queues it for the client.
    fn send<A: Send>(
        &self,
        answer: impl Future<Output = Option<A>> + Send + 'static,
        write: impl FnOnce(&A, &Account) -> OutgoingMessage + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let (queue, account) = (self.queue.clone(), self.account.clone());
        async move {
            if let Some(answer) = answer.await {
                let written = write(&answer, &account);
                drop(answer);
                // A client that does not read delays its own requests only.
                let _ = queue.send(written.into()).await;
            }
        }
    }

    /// Registers a request as running, and answers it when the future is polled. `None` if the client has cancelled it.
    fn answer(&self, request: ClientRequest) -> impl Future<Output = Option<RequestAnswer>> + Send + 'static {
        let (router, outbox) = (self.router.clone(), self.outbox.clone());
        let client = match request.meta.era() {
            Era::Legacy => self.client.clone(),
            Era::Modern => self.client.with_request(&request.meta),
        };
        let run = client.running.begin(request.id.clone());
        let mut cut = self.cut.subscribe();
        let is_cut = async move {
            if cut.wait_for(|is_cut| *is_cut).await.is_err() {
                // The session has ended, and with it this request.
                std::future::pending::<()>().await;
            }
            CutReason::Shutdown
        };
        async move {
            let checked = run
                .map_err(RpcError::from)
                .and_then(|run| request.meta.check().map(|()| run));
            match checked {
                Ok(run) => request.answer(&router, &client, &outbox, &run, is_cut).await,
                Err(error) => Some(RequestAnswer {
                    id: request.id,
                    result: Err(error),
                    kind: AnswerKind::Other,
                    hint: None,
                }),
            }
        }
    }
}

impl Drop for StdioSession {
    fn drop(&mut self) {
        self.client.running.cancel_all();
        self.router.close_session(&self.client);
    }
}
