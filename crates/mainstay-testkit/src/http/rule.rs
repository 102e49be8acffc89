//! Where and when something goes wrong over HTTP.
//!
//! As [`crate::Rule`], for requests of HTTP: all rules that fire for one request are played in order, until one takes
//! the place of the answer. Occurrences are counted over the whole life of a server, restarts included.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::fault::HttpFault;
use crate::rule::Occurrence;

/// A kind of request at which a fault may strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HttpStep {
    /// A message that is sent: a POST, to any endpoint.
    Post,
    /// The standalone stream of a session: a GET of the Streamable HTTP endpoint without `Last-Event-ID`.
    Get,
    /// A stream that is resumed: a GET with `Last-Event-ID`.
    Resume,
    /// The end of a session: a DELETE.
    Delete,
    /// The stream of an HTTP+SSE session: a GET of `/sse`.
    Sse,
}

/// A fault with its place and its conditions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpRule {
    step: HttpStep,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    named: Option<String>,
    #[serde(default)]
    occurrence: Occurrence,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    when_file: Option<PathBuf>,
    fault: HttpFault,
}

impl HttpRule {
    /// `fault`, at every request of this kind.
    #[must_use]
    pub fn new(step: HttpStep, fault: HttpFault) -> Self {
        Self {
            step,
            fault,
            method: None,
            named: None,
            occurrence: Occurrence::Always,
            when_file: None,
        }
    }

    /// `fault`, whenever a message of this JSON-RPC method is sent.
    #[must_use]
    pub fn on(method: &str, fault: HttpFault) -> Self {
        Self::new(HttpStep::Post, fault).method(method)
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

    /// Only for some of the matching requests.
    #[must_use]
    pub fn occurrence(mut self, occurrence: Occurrence) -> Self {
        self.occurrence = occurrence;
        self
    }

    /// Only while this file exists, so that a running test can switch the fault on and off.
    #[must_use]
    pub fn when_file(mut self, path: impl AsRef<Path>) -> Self {
        self.when_file = Some(path.as_ref().to_owned());
        self
    }

    fn matches(&self, event: HttpEvent<'_>) -> bool {
        self.step == event.step
            && self.method.as_deref().is_none_or(|method| method == event.method)
            && self.named.as_deref().is_none_or(|name| Some(name) == event.name)
            && self.when_file.as_ref().is_none_or(|path| path.exists())
    }
}

/// What rules are matched against.
#[derive(Clone, Copy, Debug)]
pub(super) struct HttpEvent<'a> {
    pub(super) step: HttpStep,
    /// The JSON-RPC method, empty where there is no message.
    pub(super) method: &'a str,
    pub(super) name: Option<&'a str>,
}

/// How often each rule has matched, in the order of the rules.
#[derive(Debug, Default)]
pub(super) struct Matched(Vec<u64>);

impl Matched {
    /// The faults of the rules that fire for this event.
    pub(super) fn fired(&mut self, rules: &[HttpRule], event: HttpEvent<'_>) -> Vec<HttpFault> {
        self.0.resize(rules.len(), 0);
        let mut fired = Vec::new();
        for (rule, matched) in rules.iter().zip(&mut self.0) {
            if rule.matches(event) {
                *matched += 1;
                if rule.occurrence.includes(*matched) {
                    fired.push(rule.fault.clone());
                }
            }
        }
        fired
    }
}
