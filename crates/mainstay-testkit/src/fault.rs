//! What can go wrong, where, and when.
//!
//! A [`Rule`] joins a [`Step`] (where) with an [`Occurrence`] and conditions (when) and a [`Fault`] (what). All rules that
//! fire for one event are played in order, until one of them decides what becomes of the answer.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::action::{Child, Signal};

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

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Exits with this code, unanswered.
    Exit(i32),
    /// Signals itself. After [`Signal::Stop`] and a SIGCONT it goes on as if nothing had been.
    Signal(Signal),
    /// Alive and silent from here on. Input is still read, and its end still ends the process.
    Hang,
    /// Alive, silent, and no longer reading: the end of input is not noticed.
    Deaf,
    /// This one request is never answered.
    NoAnswer,
    /// Answers properly, this much later.
    Delay {
        /// Milliseconds.
        ms: u64,
    },
    /// Answers properly, this much later, and writes a line to stderr every so often meanwhile.
    Chatter {
        /// Milliseconds in all.
        ms: u64,
        /// Milliseconds between two lines.
        every_ms: u64,
    },
    /// Answers with this error.
    Error {
        /// The JSON-RPC error code.
        code: i64,
        /// Its message.
        message: String,
    },
    /// Answers with exactly this result.
    Result(Value),
    /// Answers badly.
    Answer(BadAnswer),
    /// Writes something that is no message, then answers properly.
    Garbage(Garbage),
    /// Writes many notifications, then answers properly.
    Flood {
        /// Which.
        of: Flood,
        /// How many.
        count: u64,
    },
    /// Writes one log notification of about this many bytes, then answers properly.
    HugeNotification(usize),
    /// Closes stdout, and lives on.
    CloseStdout,
    /// Closes stdin, and lives on. The request is still answered.
    CloseStdin,
    /// Writes this many bytes to stderr before it answers.
    FillStderr(usize),
    /// Starts a child, then answers properly.
    Spawn(Child),
    /// Another fault, this much later, beside whatever happens meanwhile. The event itself takes its usual course.
    Later {
        /// Milliseconds.
        ms: u64,
        /// What happens then. [`Fault::Hang`] serves here; [`Fault::Deaf`] does not, as only the reader can go deaf.
        then: Box<Fault>,
    },
}

impl Fault {
    /// The answer of a server that does not know the method.
    #[must_use]
    pub fn method_not_found() -> Self {
        Self::Error {
            code: -32601,
            message: "method not found".to_owned(),
        }
    }

    /// This fault, so many milliseconds later.
    #[must_use]
    pub fn after_ms(self, ms: u64) -> Self {
        Self::Later {
            ms,
            then: Box::new(self),
        }
    }
}

/// Ways to spoil an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BadAnswer {
    /// The right id, and a result with a string that is not UTF-8.
    InvalidUtf8,
    /// The first half of the answer, then a newline.
    HalfJson,
    /// The first half of the answer, and never a newline.
    Unfinished,
    /// The right id with neither result nor error.
    NoResult,
    /// The right id and a result that is a number.
    ResultIsNumber,
    /// An id nobody asked with.
    WrongId,
    /// An error with `id: null`.
    ErrorWithoutId,
    /// The proper answer inside a JSON array.
    InBatch,
    /// The proper answer, twice.
    Twice,
    /// A result of about this many bytes.
    Huge(usize),
}

/// Things on stdout that are no message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Garbage {
    /// A line of plain text, as a stray `print` leaves behind.
    Text(String),
    /// An object that is cut off.
    HalfJson,
    /// Bytes that are not UTF-8.
    InvalidUtf8,
    /// Valid JSON that is no JSON-RPC: a number, an array, an empty object.
    WrongShape,
    /// Blank lines.
    BlankLines,
    /// An answer to a request that was never made.
    AnswerToNothing,
    /// A request of a method nobody knows.
    UnknownRequest,
}

/// Kinds of notification to flood a client with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flood {
    /// `notifications/tools/list_changed`.
    ListChanged,
    /// `notifications/message`.
    Log,
    /// `notifications/progress` for a token nobody gave.
    Progress,
    /// A method nobody knows.
    Unknown,
}

/// Which of the events that match a rule it fires for, counted from 1 within one connection or process.
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
    pub(crate) fn includes(self, count: u64) -> bool {
        match self {
            Self::Always => true,
            Self::Nth(n) => count == n,
            Self::From(n) => count >= n,
            Self::Until(n) => count <= n,
        }
    }
}

/// A fault with its place and its conditions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    step: Step,
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
    fault: Fault,
}

impl Rule {
    /// `fault`, whenever `step` is reached.
    #[must_use]
    pub fn new(step: Step, fault: Fault) -> Self {
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

    /// Only for this method, where a step has several.
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

    pub(crate) fn fault(&self) -> &Fault {
        &self.fault
    }

    pub(crate) fn occurrences(&self) -> Occurrence {
        self.occurrence
    }

    /// Whether place and conditions are met, the occurrence aside.
    pub(crate) fn matches(&self, event: Event<'_>, start: u64) -> bool {
        self.step == event.step
            && self.method.as_deref().is_none_or(|method| method == event.method)
            && self.named.as_deref().is_none_or(|name| Some(name) == event.name)
            && self.first_starts.is_none_or(|starts| start <= starts)
            && self.when_file.as_ref().is_none_or(|path| path.exists())
    }
}

/// What rules are matched against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event<'a> {
    pub(crate) step: Step,
    pub(crate) method: &'a str,
    pub(crate) name: Option<&'a str>,
}
