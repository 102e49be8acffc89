//! The part all stages share: from one line of input to the actions that answer it.
//!
//! A responder does no IO but the two a script asks for at each request: reading its tools file and looking
//! whether a switch file exists. It never waits and never fails; what it cannot read it answers with an error.

mod listing;
mod message;
mod misbehave;
mod requests;
mod tools;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::action::Action;
use crate::fault::Fault;
use crate::rule::{Matched, Step};
use crate::script::Script;

pub use message::Incoming;
use message::{MessageKind, ScriptedAnswer};
use misbehave::Course;

/// Plays one server's part for one connection.
#[derive(Debug)]
pub struct Responder {
    script: Script,
    /// Which process (or connection) of its ledger this is, from 1.
    start: u64,
    matched: Matched,
    /// How often each kind was listed from its first page.
    listings: BTreeMap<&'static str, u64>,
    cancelled: BTreeSet<String>,
    /// Our own open requests: their id, and the id of the call that waits for them.
    asked: BTreeMap<String, Incoming>,
    asks: u64,
    subscriptions: BTreeSet<String>,
    /// Open `subscriptions/listen` requests: the id's JSON text, and the filter.
    listens: BTreeMap<String, Value>,
    initialized: bool,
    /// The code that the next message ends the process with.
    doomed: Option<i32>,
}

impl Responder {
    /// A responder for the `start`-th connection (from 1) of this script.
    #[must_use]
    pub fn new(script: Script, start: u64) -> Self {
        Self {
            script,
            start,
            matched: Matched::default(),
            listings: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            asked: BTreeMap::new(),
            asks: 0,
            subscriptions: BTreeSet::new(),
            listens: BTreeMap::new(),
            initialized: false,
            doomed: None,
        }
    }

    /// The script, to be changed while it plays.
    pub fn script_mut(&mut self) -> &mut Script {
        &mut self.script
    }

    /// What happens before anything is read.
    pub fn start(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        self.play(Step::Start, None, &mut actions);
        actions
    }

    /// What one line (without its newline) leads to.
    pub fn line(&mut self, line: &[u8]) -> Vec<Action> {
        match Incoming::parse(line) {
            Ok(message) => self.message(&message),
            Err(error) => vec![Action::Note("unreadable".to_owned()), error],
        }
    }

    /// What a message leads to.
    pub fn message(&mut self, message: &Incoming) -> Vec<Action> {
        if let Some(code) = self.doomed {
            return vec![Action::Exit(code)];
        }
        match message.kind() {
            MessageKind::Request => self.request(message),
            MessageKind::Notification => self.notification(message),
            MessageKind::Response => self.response(message),
        }
    }

    /// What the end of input leads to.
    pub fn end_of_input(&mut self) -> Vec<Action> {
        let mut actions = vec![Action::Note("eof".to_owned())];
        match self.play(Step::Eof, None, &mut actions) {
            Course::Proceed | Course::Bent(_) => actions.push(Action::Exit(0)),
            Course::Over => actions.push(Action::Park),
        }
        actions
    }

    /// Whether the request with this id (its JSON text) was cancelled by the client.
    #[must_use]
    pub fn is_cancelled(&self, id: &str) -> bool {
        self.cancelled.contains(id)
    }

    /// Ends the `subscriptions/listen` request with this id (its JSON text), where hanging up is how it is cancelled.
    pub(crate) fn hang_up(&mut self, id: &str) {
        self.listens.remove(id);
    }

    fn request(&mut self, request: &Incoming) -> Vec<Action> {
        let mut actions = vec![Action::Note(requests::note(request))];
        if self.script.verbatim {
            let (method, params) = (request.method(), request.raw_params());
            actions.push(Action::Note(format!("params {method} {params}")));
        }
        let bad = match self.play(Step::of(request.method()), Some(request), &mut actions) {
            Course::Over => return actions,
            Course::Proceed => None,
            Course::Bent(bad) => Some(bad),
        };
        let handled = self.handle(request);
        actions.extend(handled.actions);
        if let Some(answer) = handled.answer {
            match bad {
                None => actions.push(answer.to_action(request)),
                Some(bad) => actions.extend(misbehave::spoil(&bad, request, &answer)),
            }
        }
        actions
    }

    fn notification(&mut self, notification: &Incoming) -> Vec<Action> {
        let params = notification.params();
        let mut actions = Vec::new();
        match notification.method() {
            "notifications/initialized" => actions.push(Action::Note("initialized".to_owned())),
            "notifications/cancelled" => {
                let id = params["requestId"].to_string();
                actions.push(Action::Note(format!("cancelled {id}")));
                self.listens.remove(&id);
                self.cancelled.insert(id);
            }
            other => actions.push(Action::Note(format!("notification {other}"))),
        }
        self.play(Step::of(notification.method()), Some(notification), &mut actions);
        actions
    }

    fn response(&mut self, response: &Incoming) -> Vec<Action> {
        let id = response.id().as_str().unwrap_or_default().to_owned();
        let mut actions = vec![Action::Note(format!("answered {id}"))];
        if let Some(call) = self.asked.remove(&id) {
            actions.push(self.after_asking(&call, response.outcome()).to_action(&call));
        }
        actions
    }

    /// Plays the rules of a step; only a request can be answered.
    fn play(&mut self, step: Step, message: Option<&Incoming>, actions: &mut Vec<Action>) -> Course {
        let request = message.filter(|message| message.is_request());
        let mut course = Course::Proceed;
        for fault in self.matched.fired(&self.script.rules, step, message, self.start) {
            if let Fault::ExitAtNext(code) = fault {
                self.doomed = Some(code);
            }
            match misbehave::commit(&fault, request, actions) {
                Course::Proceed => {}
                Course::Bent(bad) => course = Course::Bent(bad),
                Course::Over => return Course::Over,
            }
        }
        course
    }

    /// A notification to all subscribers: plain in the legacy era, tagged with its subscription in the modern one.
    pub(crate) fn notify(&self, method: &str, params: &Value) -> Vec<Action> {
        if self.listens.is_empty() {
            return vec![Action::message(
                &json!({ "jsonrpc": "2.0", "method": method, "params": params }),
            )];
        }
        let wanted = self
            .listens
            .iter()
            .filter(|(_, filter)| requests::filter_accepts(filter, method, params));
        wanted
            .map(|(id, _)| {
                let mut params = params.clone();
                let id: Value = serde_json::from_str(id).unwrap_or_default();
                params["_meta"] = json!({ "io.modelcontextprotocol/subscriptionId": id });
                Action::message(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
            })
            .collect()
    }
}

/// What a request leads to: things to do first, then the answer, if one is due already.
#[derive(Debug, Default)]
struct Handled {
    actions: Vec<Action>,
    answer: Option<ScriptedAnswer>,
}

impl From<ScriptedAnswer> for Handled {
    fn from(answer: ScriptedAnswer) -> Self {
        Self {
            actions: Vec::new(),
            answer: Some(answer),
        }
    }
}

#[cfg(test)]
mod tests;
