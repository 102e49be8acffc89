//! Where and when something goes wrong over HTTP.
//!
//! A [`Rule`] as for messages, with the requests of HTTP as its steps.

use serde::{Deserialize, Serialize};

use super::fault::HttpFault;
use crate::rule::Rule;

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

/// A fault of HTTP with its place and its conditions.
pub type HttpRule = Rule<HttpStep, HttpFault>;

impl HttpRule {
    /// `fault`, whenever a message of this JSON-RPC method is sent.
    #[must_use]
    pub fn on(method: &str, fault: HttpFault) -> Self {
        Self::new(HttpStep::Post, fault).method(method)
    }
}
