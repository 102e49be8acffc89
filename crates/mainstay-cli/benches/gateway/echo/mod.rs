//! The servers behind: this program, started again with the words that [`Echo::arguments`] gives.

mod bare;
mod rmcp;

use crate::Fallible;
use bare::AnswerStyle;
pub(crate) use bare::{Bare, id_in};

/// A server that answers each call of its tool `echo` with as much text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Echo {
    pub(crate) kind: EchoKind,
    pub(crate) way: EchoTransport,
    /// Bytes of text in a result.
    pub(crate) result: usize,
    /// How long it takes to start.
    pub(crate) after_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EchoKind {
    /// On rmcp, as its users build a server.
    Rmcp,
    /// The least there can be: it finds the id of a message, and parses nothing.
    Bare,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EchoTransport {
    Stdio,
    /// Its first line on standard output is its port. The server on rmcp answers with event streams, the bare one with JSON.
    Http,
    /// The same with event streams as answers, from the bare server too.
    HttpEvents,
}

const WORD: &str = "be-a-server";

impl Echo {
    /// A server that starts at once.
    pub(crate) fn new(kind: EchoKind, way: EchoTransport, result: usize) -> Self {
        Self {
            kind,
            way,
            result,
            after_ms: 0,
        }
    }

    pub(crate) fn starting_in(self, after_ms: u64) -> Self {
        Self { after_ms, ..self }
    }

    /// The arguments that make this program such a server.
    pub(crate) fn arguments(self) -> Vec<String> {
        let kind = match self.kind {
            EchoKind::Rmcp => "rmcp",
            EchoKind::Bare => "bare",
        };
        let way = match self.way {
            EchoTransport::Stdio => "stdio",
            EchoTransport::Http => "http",
            EchoTransport::HttpEvents => "http-events",
        };
        let numbers = [self.result.to_string(), self.after_ms.to_string()];
        [WORD, kind, way]
            .map(str::to_owned)
            .into_iter()
            .chain(numbers)
            .collect()
    }

    /// The server that these arguments ask for, if they do.
    pub(crate) fn from_arguments(words: &[&str]) -> Option<Fallible<Self>> {
        let [WORD, kind, way, result, after_ms] = words else {
            return None;
        };
        let read = || {
            Ok(Self {
                kind: match *kind {
                    "rmcp" => EchoKind::Rmcp,
                    "bare" => EchoKind::Bare,
                    unknown => return Err(format!("no kind of server is {unknown}").into()),
                },
                way: match *way {
                    "stdio" => EchoTransport::Stdio,
                    "http" => EchoTransport::Http,
                    "http-events" => EchoTransport::HttpEvents,
                    unknown => return Err(format!("no way to a server is {unknown}").into()),
                },
                result: result.parse()?,
                after_ms: after_ms.parse()?,
            })
        };
        Some(read())
    }

    /// Runs this server until its client disconnects or it is killed.
    pub(crate) fn run(self) -> Fallible {
        std::thread::sleep(std::time::Duration::from_millis(self.after_ms));
        match (self.kind, self.way) {
            (EchoKind::Bare, EchoTransport::Stdio) => bare::stdio(self.result),
            (EchoKind::Bare, EchoTransport::Http) => bare::http(self.result, AnswerStyle::Json),
            (EchoKind::Bare, EchoTransport::HttpEvents) => bare::http(self.result, AnswerStyle::Events),
            (EchoKind::Rmcp, EchoTransport::Stdio) => rmcp::stdio(self.result),
            (EchoKind::Rmcp, EchoTransport::Http | EchoTransport::HttpEvents) => rmcp::http(self.result),
        }
    }
}
