//! Where and when something goes wrong.
//!
//! A [`Rule`] joins a step (where) with an [`Occurrence`] and conditions (when) and a fault (what): a [`Step`] and a
//! [`Fault`] in the messages of a server, or a step and a fault of HTTP ([`crate::http::HttpRule`]). All rules that fire
//! for one event are played in order, until one of them decides what becomes of the answer.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::responder::Incoming;

/// A moment in a server's life at which a fault may strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// The process has started and has read nothing yet.
    Start,
    /// `server/discover`.
    Discover,
    /// `initialize`.
    Initialize,
    /// `notifications/initialized`.
    Initialized,
    /// `ping`.
    Ping,
    /// Any of the four `*/list` requests.
    List,
    /// `tools/call`.
    Call,
    /// Any other request.
    Other,
    /// The end of its input.
    Eof,
}

impl Step {
    /// The step that a request of this method is.
    #[must_use]
    pub fn of(method: &str) -> Self {
        match method {
            "server/discover" => Self::Discover,
            "initialize" => Self::Initialize,
            "notifications/initialized" => Self::Initialized,
            "ping" => Self::Ping,
            "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list" => Self::List,
            "tools/call" => Self::Call,
            _ => Self::Other,
        }
    }
}

/// Which of the events that match a rule it fires for, counted from 1: within one connection or process for a [`Fault`],
/// and over the whole life of a server, restarts included, for a fault of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Occurrence {
    /// Every one.
    #[default]
    Always,
    /// This one only.
    Nth(u64),
    /// This one and all later ones.
    From(u64),
    /// Those up to and including this one.
    Until(u64),
}

impl Occurrence {
    fn includes(self, count: u64) -> bool {
        match self {
            Self::Always => true,
            Self::Nth(n) => count == n,
            Self::From(n) => count >= n,
            Self::Until(n) => count <= n,
        }
    }
}

/// A fault with its place and its conditions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule<S = Step, F = Fault> {
    step: S,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    named: Option<String>,
    #[serde(default)]
    occurrence: Occurrence,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first_starts: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    when_file: Option<PathBuf>,
    fault: F,
}

impl<S: Copy + PartialEq, F: Clone> Rule<S, F> {
    /// `fault`, whenever `step` is reached.
    #[must_use]
    pub fn new(step: S, fault: F) -> Self {
        Self {
            step,
            fault,
            method: None,
            named: None,
            occurrence: Occurrence::Always,
            first_starts: None,
            when_file: None,
        }
    }

    /// Only for messages of this JSON-RPC method.
    #[must_use]
    pub fn method(mut self, method: &str) -> Self {
        self.method = Some(method.to_owned());
        self
    }

    /// Only for the tool or prompt of this name, or the resource with this URI.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.named = Some(name.to_owned());
        self
    }

    /// Only for some of the matching events.
    #[must_use]
    pub fn occurrence(mut self, occurrence: Occurrence) -> Self {
        self.occurrence = occurrence;
        self
    }

    /// Only in the first so many processes that share one ledger: a server that is well after some restarts.
    #[must_use]
    pub fn first_starts(mut self, starts: u64) -> Self {
        self.first_starts = Some(starts);
        self
    }

    /// Only while this file exists, so that a running test can switch the fault on and off.
    #[must_use]
    pub fn when_file(mut self, path: impl AsRef<Path>) -> Self {
        self.when_file = Some(path.as_ref().to_owned());
        self
    }

    /// Whether place and conditions are met, the occurrence aside.
    fn matches(&self, step: S, message: Option<&Incoming>, start: u64) -> bool {
        let method = message.map_or("", Incoming::method);
        let name = message.and_then(Incoming::name);
        self.step == step
            && self.method.as_deref().is_none_or(|wanted| wanted == method)
            && self.named.as_deref().is_none_or(|wanted| Some(wanted) == name)
            && self.first_starts.is_none_or(|starts| start <= starts)
            && self.when_file.as_ref().is_none_or(|path| path.exists())
    }
}

/// How often each rule has matched, in the order of the rules.
#[derive(Debug, Default)]
pub(crate) struct Matched(Vec<u64>);

impl Matched {
    /// The faults of the rules that fire at this step, for this message if there is one, in the `start`-th process.
    pub(crate) fn fired<S: Copy + PartialEq, F: Clone>(
        &mut self,
        rules: &[Rule<S, F>],
        step: S,
        message: Option<&Incoming>,
        start: u64,
    ) -> Vec<F> {
        self.0.resize(rules.len(), 0);
        let mut fired = Vec::new();
        for (rule, matched) in rules.iter().zip(&mut self.0) {
            if rule.matches(step, message, start) {
                *matched += 1;
                if rule.occurrence.includes(*matched) {
                    fired.push(rule.fault.clone());
                }
            }
        }
        fired
    }
}
