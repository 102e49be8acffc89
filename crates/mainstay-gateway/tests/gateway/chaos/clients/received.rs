//! What a client receives that is no answer: all of it must be meant for this very client.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

/// What one session receives, on any stream.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedMessages {
    /// What all keys of this session begin with.
    mark: String,
    questions: Arc<AtomicUsize>,
    updates: Arc<AtomicUsize>,
    changes: Arc<AtomicUsize>,
}

impl ReceivedMessages {
    pub(crate) fn new(mark: String) -> Self {
        Self {
            mark,
            questions: Arc::default(),
            updates: Arc::default(),
            changes: Arc::default(),
        }
    }

    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }

    /// Questions that were asked.
    pub(crate) fn questions(&self) -> usize {
        self.questions.load(Ordering::Relaxed)
    }

    /// Updates of the resource that were received.
    pub(crate) fn updates(&self) -> usize {
        self.updates.load(Ordering::Relaxed)
    }

    /// Changes of lists that were received.
    pub(crate) fn changes(&self) -> usize {
        self.changes.load(Ordering::Relaxed)
    }

    /// Takes a message that is no answer. Returns what is sent back, if it was a question.
    pub(super) fn take(&self, message: &Value) -> Option<Value> {
        let params = &message["params"];
        match message["method"].as_str().expect("no answer, so it has a method") {
            "elicitation/create" => {
                let answer = self.answer(message);
                return Some(json!({ "jsonrpc": "2.0", "id": message["id"], "result": answer }));
            }
            "notifications/progress" => {
                let token = params["progressToken"].as_str().expect("a token");
                assert!(token.starts_with(&self.mark), "{}: {message}", self.mark);
            }
            "notifications/resources/updated" => {
                self.updates.fetch_add(1, Ordering::Relaxed);
            }
            "notifications/tools/list_changed"
            | "notifications/prompts/list_changed"
            | "notifications/resources/list_changed" => {
                self.changes.fetch_add(1, Ordering::Relaxed);
            }
            // A question that is not wanted any more, a log line, the beginning of a listen.
            "notifications/cancelled"
            | "notifications/message"
            | "notifications/subscriptions/acknowledged" => {}
            other => panic!("{}: received {other}", self.mark),
        }
        None
    }

    /// Answers a question, which must be this client's own.
    pub(super) fn answer(&self, question: &Value) -> Value {
        let text = question["params"]["message"].as_str().expect("a question");
        let key = text
            .strip_prefix("Your name for ")
            .and_then(|rest| rest.strip_suffix('?'));
        let key = key.unwrap_or_else(|| panic!("{question}"));
        assert!(
            key.starts_with(&self.mark),
            "{} was asked what is for another: {question}",
            self.mark
        );
        self.questions.fetch_add(1, Ordering::Relaxed);
        json!({ "action": "accept", "content": { "name": key } })
    }
}
