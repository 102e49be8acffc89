//! What a server has to say in one place: the answer to one request, or a session's standalone stream.
//!
//! A stream is a log of messages that outlives the connections that read it, which is what makes resuming one easy: a
//! reader is a position. The newest reader of a stream is its only one; an older one ends when it comes.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;

/// One log of messages. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct AnswerStream {
    /// Unique within its session.
    number: usize,
    /// The JSON text of the id of the request it answers; empty for a standalone stream.
    request: Arc<str>,
    log: Arc<watch::Sender<MessageLog>>,
}

#[derive(Debug, Default)]
struct MessageLog {
    messages: Vec<Arc<[u8]>>,
    answer: Option<usize>,
    /// All actions of the request were performed. They may go on beyond the answer.
    performed: bool,
    /// Nothing more will be said, answered or not.
    closed: bool,
    readers: usize,
}

impl MessageLog {
    fn finished(&self) -> bool {
        self.closed || (self.performed && self.answer.is_some())
    }
}

/// What a reader of the stream gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ServedItem {
    /// The message at the reader's position.
    Message(Arc<[u8]>),
    /// There is no more, or another reader took over.
    End,
}

impl AnswerStream {
    pub(super) fn standalone() -> Self {
        Self::new(0, "")
    }

    pub(super) fn of_request(number: usize, id: &str) -> Self {
        Self::new(number, id)
    }

    fn new(number: usize, request: &str) -> Self {
        Self {
            number,
            request: request.into(),
            log: Arc::new(watch::Sender::new(MessageLog::default())),
        }
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Whether it is for the request with this id (its JSON text), and still open.
    pub(super) fn awaits(&self, id: &str) -> bool {
        &*self.request == id && !self.log.borrow().finished()
    }

    pub(super) fn is_answered(&self) -> bool {
        self.log.borrow().answer.is_some()
    }

    pub(super) fn len(&self) -> usize {
        self.log.borrow().messages.len()
    }

    pub(super) fn say(&self, message: &[u8], is_answer: bool) {
        self.log.send_modify(|log| {
            if is_answer {
                log.answer.get_or_insert(log.messages.len());
            }
            log.messages.push(message.into());
        });
    }

    pub(super) fn set_performed(&self) {
        self.log.send_modify(|log| log.performed = true);
    }

    pub(super) fn close(&self) {
        self.log.send_modify(|log| log.closed = true);
    }

    /// Makes the caller the one reader from here on.
    pub(super) fn take_over(&self) -> StreamReader {
        let mut reader = 0;
        self.log.send_modify(|log| {
            log.readers += 1;
            reader = log.readers;
        });
        StreamReader {
            number: reader,
            log: self.log.subscribe(),
        }
    }
}

/// The one reader of a stream.
#[derive(Debug)]
pub(super) struct StreamReader {
    number: usize,
    log: watch::Receiver<MessageLog>,
}

impl StreamReader {
    /// The message at this position, as soon as there is one.
    pub(super) async fn next(&mut self, position: usize) -> ServedItem {
        let number = self.number;
        let log = self
            .log
            .wait_for(|log| log.messages.len() > position || log.finished() || log.readers != number)
            .await;
        match log {
            Ok(log) if log.readers == number => {
                log.messages.get(position).map_or(ServedItem::End, |message| {
                    ServedItem::Message(Arc::clone(message))
                })
            }
            Ok(_) | Err(_) => ServedItem::End,
        }
    }

    /// The answer alone; what was said before it is passed over.
    pub(super) async fn answer(&mut self) -> ServedItem {
        let log = self
            .log
            .wait_for(|log| log.answer.is_some() || log.finished())
            .await;
        match log {
            Ok(log) => log.answer.map_or(ServedItem::End, |at| {
                ServedItem::Message(Arc::clone(&log.messages[at]))
            }),
            Err(_) => ServedItem::End,
        }
    }
}

/// Where a message belongs, by its shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// An answer to the request with this id (its JSON text).
    Request(String),
    /// A notification of the subscription with this id (its JSON text).
    Subscription(String),
    /// A notification or request that belongs to what is going on: progress, a log line, a question.
    Related,
    /// A notification about the server as a whole.
    Unrelated,
    /// No message at all; it goes where an answer was due.
    Unreadable,
}

impl Address {
    pub(super) fn of(line: &[u8]) -> Self {
        let Ok(message) = serde_json::from_slice::<Value>(line) else {
            return Self::Unreadable;
        };
        let subscription = &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
        match message["method"].as_str() {
            None if message["id"].is_null() => Self::Unreadable,
            None => Self::Request(message["id"].to_string()),
            Some(_) if !subscription.is_null() => Self::Subscription(subscription.to_string()),
            Some(method) if method.ends_with("list_changed") || method.ends_with("resources/updated") => {
                Self::Unrelated
            }
            Some(_) => Self::Related,
        }
    }
}
