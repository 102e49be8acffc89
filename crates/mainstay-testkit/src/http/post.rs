//! Messages that are sent: to Streamable HTTP in either era, and to HTTP+SSE.

use std::sync::Arc;

use tokio::task::AbortHandle;

use super::era;
use super::exchange::{Exchange, SESSION_ID};
use super::out::ConnectionEnd;
use super::perform;
use super::reply::EventStreamOptions;
use super::script::AnswerForm;
use super::server::HttpServerCore;
use super::session::{ScriptedSession, SessionKind};
use super::stream::AnswerStream;
use super::wire::{ReceivedRequest, ResponseHead};
use crate::action::Action;
use crate::responder::Incoming;

/// The session a POST to HTTP+SSE names.
pub(super) fn message_session(request: &ReceivedRequest) -> &str {
    let mut pairs = request.query.split('&');
    pairs
        .find_map(|pair| pair.strip_prefix("sessionId="))
        .unwrap_or_default()
}

impl Exchange<'_> {
    pub(super) async fn post(&mut self, message: Result<Incoming, Action>) -> Result<(), ConnectionEnd> {
        if let Some((status, reason)) = unacceptable(self.request) {
            return self.refuse(status, -32000, reason).await;
        }
        let message = match message {
            Ok(message) => message,
            Err(refusal) => return self.unreadable(refusal).await,
        };
        if era::is_modern(self.server.speaks(), self.request, &message) {
            return self.modern(&message).await;
        }
        self.legacy(&message).await
    }

    /// A message of HTTP+SSE: accepted here, answered on the session's stream.
    pub(super) async fn message(&mut self, message: Result<Incoming, Action>) -> Result<(), ConnectionEnd> {
        let session = self.server.session(message_session(self.request));
        let Some(session) = session.filter(|session| session.kind() == SessionKind::Sse) else {
            return self.replier.bare(ResponseHead::new(404)).await;
        };
        let message = match message {
            Ok(message) => message,
            Err(refusal) => return self.unreadable(refusal).await,
        };
        let actions = self.take(&session, &message);
        perform::spawn(self.server, &session, None, actions);
        self.accepted(&message).await
    }

    async fn modern(&mut self, message: &Incoming) -> Result<(), ConnectionEnd> {
        if let Some(refusal) = era::header_mismatch(self.request, message) {
            let body = refusal.to_string();
            return self.replier.json(ResponseHead::new(400), body.as_bytes()).await;
        }
        let session = self.server.stateless();
        let actions = self.take(&session, message);
        if !message.is_request() {
            perform::spawn(self.server, &session, None, actions);
            return self.accepted(message).await;
        }
        let status = era::modern_status(message, &actions);
        let usual = match message.method() {
            "subscriptions/listen" => AnswerForm::Stream,
            _ => self.http.reply,
        };
        let reply = if status == 200 {
            self.replier.plan.reply(usual)
        } else {
            AnswerForm::Json
        };
        let id = message.id().to_string();
        let stream = session.open(&id);
        let own = Some((stream.clone(), reply));
        let _hanging_up_cancels = HangUp {
            server: Arc::clone(self.server),
            run: self.server.run(),
            task: perform::spawn(self.server, &session, own, actions),
            session,
            stream: stream.clone(),
            id,
        };
        let options = EventStreamOptions::default();
        self.reply(message, stream, reply, status, &options).await
    }

    async fn legacy(&mut self, message: &Incoming) -> Result<(), ConnectionEnd> {
        let session = if message.method() == "initialize" && self.http.sessions {
            self.server.open_session(SessionKind::Streamable)
        } else {
            match self.session() {
                Ok(session) => session,
                Err((status, code, message)) => return self.refuse(status, code, &message).await,
            }
        };
        let actions = self.take(&session, message);
        if !message.is_request() {
            perform::spawn(self.server, &session, None, actions);
            return self.accepted(message).await;
        }
        let reply = self.replier.plan.reply(self.http.reply);
        let stream = session.open(&message.id().to_string());
        let own = Some((stream.clone(), reply));
        perform::spawn(self.server, &session, own, actions);
        let mut headers = Vec::new();
        if session.kind() == SessionKind::Streamable {
            headers.push((SESSION_ID.to_owned(), session.id().to_owned()));
        }
        let options = EventStreamOptions {
            headers,
            from: 0,
            ids: self.http.event_ids,
            opening: self.opening(&stream, 0),
        };
        self.reply(message, stream.clone(), reply, 200, &options).await?;
        if reply == AnswerForm::Json {
            session.retire(&stream);
        }
        Ok(())
    }

    async fn reply(
        &mut self,
        message: &Incoming,
        stream: AnswerStream,
        reply: AnswerForm,
        status: u16,
        options: &EventStreamOptions,
    ) -> Result<(), ConnectionEnd> {
        if let Some(instead) = self.instead() {
            let path = &self.request.path;
            return self.replier.instead(&instead, message.id(), path).await;
        }
        let stream = if self.replier.plan.swap {
            self.server.swap(stream).await
        } else {
            stream
        };
        match reply {
            AnswerForm::Json => {
                let head = ResponseHead::new(status).with_all(&options.headers);
                self.replier.answer(&stream, head).await
            }
            AnswerForm::Stream => self.replier.events(&stream, options).await,
        }
    }

    /// What a message leads to. It is recorded and counts as seen from here on, even if its answer fails.
    fn take(&self, session: &ScriptedSession, message: &Incoming) -> Vec<Action> {
        let mut actions = session.responder().message(message);
        while let Some(Action::Note(note)) = actions.first() {
            self.server.note(note.clone());
            actions.remove(0);
        }
        self.server.count(|traffic| traffic.seen.add(message.clone()));
        actions
    }

    async fn accepted(&mut self, message: &Incoming) -> Result<(), ConnectionEnd> {
        match self.instead() {
            Some(instead) => {
                let path = &self.request.path;
                self.replier.instead(&instead, message.id(), path).await
            }
            None => self.replier.bare(ResponseHead::new(202)).await,
        }
    }

    async fn unreadable(&mut self, refusal: Action) -> Result<(), ConnectionEnd> {
        let body = match refusal {
            Action::Write(line) => line,
            other => unreachable!("a refusal is one line, not {other:?}"),
        };
        self.replier
            .json(ResponseHead::new(400), body.trim_ascii_end())
            .await
    }
}

/// Why a POST is refused before it is read.
fn unacceptable(request: &ReceivedRequest) -> Option<(u16, &'static str)> {
    let has = |header: &str, value: &str| request.header(header).is_some_and(|sent| sent.contains(value));
    if !(has("accept", "application/json") && has("accept", "text/event-stream")) {
        return Some((
            406,
            "Not Acceptable: Client must accept both application/json and text/event-stream",
        ));
    }
    (!has("content-type", "application/json")).then_some((
        415,
        "Unsupported Media Type: Content-Type must be application/json",
    ))
}

/// Cancels a modern request when its connection is gone before it was answered.
struct HangUp {
    server: Arc<HttpServerCore>,
    run: u64,
    session: Arc<ScriptedSession>,
    stream: AnswerStream,
    id: String,
    task: AbortHandle,
}

impl Drop for HangUp {
    fn drop(&mut self) {
        self.session.responder().hang_up(&self.id);
        self.session.retire(&self.stream);
        if self.stream.is_answered() || self.server.run() != self.run {
            return;
        }
        self.task.abort();
        self.stream.close();
        self.server.note(format!("cancelled {}", self.id));
    }
}
