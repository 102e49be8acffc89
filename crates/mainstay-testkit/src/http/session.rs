//! The state of one client's session: its responder, and the streams that carry its messages.
//!
//! All clients of the modern era share one session, as its servers know none.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::script::AnswerForm;
use super::stream::{Address, AnswerStream};
use crate::responder::Responder;

/// What a session was opened by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionKind {
    /// `initialize` over Streamable HTTP.
    Streamable,
    /// A GET of `/sse`: its one stream carries everything.
    Sse,
    /// Nothing: there are no sessions.
    Stateless,
}

#[derive(Debug)]
pub(super) struct ScriptedSession {
    id: String,
    kind: SessionKind,
    responder: Mutex<Responder>,
    standalone: AnswerStream,
    requests: Mutex<Requests>,
}

/// The streams of its requests that are open or can be resumed. A test is over before the latter are many.
#[derive(Debug, Default)]
struct Requests {
    opened: usize,
    streams: BTreeMap<usize, AnswerStream>,
}

impl ScriptedSession {
    pub(super) fn new(id: String, kind: SessionKind, responder: Responder) -> Self {
        Self {
            id,
            kind,
            responder: Mutex::new(responder),
            standalone: AnswerStream::standalone(),
            requests: Mutex::default(),
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn kind(&self) -> SessionKind {
        self.kind
    }

    pub(super) fn responder(&self) -> MutexGuard<'_, Responder> {
        self.responder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn standalone(&self) -> &AnswerStream {
        &self.standalone
    }

    /// A new stream for the answer to the request with this id (its JSON text).
    pub(super) fn open(&self, id: &str) -> AnswerStream {
        let mut requests = self.requests();
        requests.opened += 1;
        let number = requests.opened;
        let stream = AnswerStream::of_request(number, id);
        requests.streams.insert(number, stream.clone());
        stream
    }

    /// Forgets the stream of a request that cannot be resumed.
    pub(super) fn retire(&self, stream: &AnswerStream) {
        self.requests().streams.remove(&stream.number());
    }

    /// The stream of this number; 0 is the standalone one.
    pub(super) fn stream(&self, number: usize) -> Option<AnswerStream> {
        match number {
            0 => Some(self.standalone.clone()),
            number => self.requests().streams.get(&number).cloned(),
        }
    }

    /// Ends all streams.
    pub(super) fn close(&self) {
        self.standalone.close();
        self.requests().streams.values().for_each(AnswerStream::close);
    }

    /// Says each line of `bytes` where it belongs; `own` is the stream of the request they come from.
    pub(super) fn say(&self, bytes: &[u8], own: Option<&(AnswerStream, AnswerForm)>) {
        let lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        for line in lines.filter(|line| !line.is_empty()) {
            self.say_line(line, own);
        }
    }

    fn say_line(&self, line: &[u8], own: Option<&(AnswerStream, AnswerForm)>) {
        if self.kind == SessionKind::Sse {
            return self.standalone.say(line, false);
        }
        let own_stream = own.map(|(stream, _)| stream);
        match Address::of(line) {
            Address::Request(id) => {
                let due = own_stream.filter(|stream| stream.awaits(&id)).cloned();
                // An answer without a waiting request goes to the stream of the message that caused it.
                let stream = due.or_else(|| self.awaiting(&id)).or_else(|| own_stream.cloned());
                stream.unwrap_or_else(|| self.standalone.clone()).say(line, true);
            }
            Address::Subscription(id) => self.requests().streams.values().for_each(|stream| {
                if stream.awaits(&id) {
                    stream.say(line, false);
                }
            }),
            Address::Related => match own {
                Some((stream, AnswerForm::Stream)) => stream.say(line, false),
                Some((_, AnswerForm::Json)) | None => self.standalone.say(line, false),
            },
            Address::Unrelated => self.standalone.say(line, false),
            Address::Unreadable => own_stream.unwrap_or(&self.standalone).say(line, true),
        }
    }

    fn awaiting(&self, id: &str) -> Option<AnswerStream> {
        self.requests()
            .streams
            .values()
            .rev()
            .find(|stream| stream.awaits(id))
            .cloned()
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
