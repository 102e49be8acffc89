//! What a stage is asked to do, one small thing at a time.
//!
//! The actions of one incoming message are performed in order. A stage performs them at once up to the first
//! [`Action::Wait`]; from there on they run beside the messages that follow, so a sleeping call blocks no other.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Incoming;

/// One thing for a stage to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Appends a line to the ledger.
    Note(String),
    /// Writes these bytes as they are; a message ends with its own newline.
    Write(Vec<u8>),
    /// Writes `head`, then `fill` bytes of `x`, then `tail`, without building the whole in memory.
    WriteFilled {
        /// What comes first.
        head: Vec<u8>,
        /// How many bytes of `x` follow.
        fill: usize,
        /// What comes last, the newline included.
        tail: Vec<u8>,
    },
    /// Writes the same line many times.
    Repeat {
        /// The line, its newline included.
        line: Vec<u8>,
        /// How often.
        count: u64,
    },
    /// Lets this long pass before the next action of the same message.
    Wait(Duration),
    /// Works for this long before the next action of the same message. In memory: waits.
    Work(Duration, Work),
    /// Lets this long pass before anything else is done or read, as a server of one thread does. Over HTTP: waits.
    Block(Duration),
    /// Drops the remaining actions when the request with this id (its JSON text) was cancelled.
    StopIfCancelled(String),
    /// Starts these actions beside the others.
    Aside(Vec<Action>),
    /// From here on nothing is written any more; reading and noting go on.
    Silence,
    /// Never reads again, and stays alive.
    Park,
    /// Ends the server with this code. In memory: cuts the connection.
    Exit(i32),
    /// The server signals itself. In memory: [`Signal::Stop`] silences and parks, any other cuts the connection.
    Signal(Signal),
    /// Closes the server's output, and stays alive.
    CloseStdout,
    /// Closes the server's input, and stays alive. In memory: parks.
    CloseStdin,
    /// Writes these bytes to stderr. In memory: nothing.
    Stderr(Vec<u8>),
    /// Starts a child that outlives its use. In memory: nothing.
    Spawn(Child),
}

impl Action {
    /// A successful answer to `request`.
    #[must_use]
    pub fn answer(request: &Incoming, result: &Value) -> Self {
        Self::message(&json!({ "jsonrpc": "2.0", "id": request.id(), "result": result }))
    }

    /// An error answer to `request`.
    #[must_use]
    pub fn error(request: &Incoming, code: i64, message: &str) -> Self {
        let error = json!({ "code": code, "message": message });
        Self::message(&json!({ "jsonrpc": "2.0", "id": request.id(), "error": error }))
    }

    /// Any JSON value as one line.
    #[must_use]
    pub fn message(message: &Value) -> Self {
        Self::line(&message.to_string())
    }

    /// Any text as one line.
    #[must_use]
    pub fn line(text: &str) -> Self {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(b'\n');
        Self::Write(bytes)
    }
}

/// A signal a server may send to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// SIGKILL.
    Kill,
    /// SIGTERM.
    Term,
    /// SIGABRT.
    Abrt,
    /// SIGSTOP: alive, and frozen until someone sends SIGCONT.
    Stop,
}

/// What there is to see of a server that works and says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// It uses processor time.
    Processor,
    /// It writes to a file.
    Disk,
    /// It starts short-lived children.
    Children,
}

/// A child process that sleeps for ten minutes, and says `child PID` in the ledger first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Child {
    /// It leaves the process group and the session of the server, and its parent is gone.
    pub daemon: bool,
    /// It keeps the server's stdin, stdout and stderr open.
    pub holds_pipes: bool,
    /// It ignores SIGTERM.
    pub ignores_term: bool,
}
