//! What can go wrong.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::action::{Child, Signal, Work};

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
    StopReading,
    /// This one request is never answered.
    NoAnswer,
    /// The next message of any kind ends the process with this code, unanswered. This one takes its usual course. After
    /// [`Fault::NoAnswer`] it is a loop that died in a process that notices it only when it reads again.
    ExitAtNext(i32),
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
    /// Answers properly, this much later, and works in silence meanwhile, as an installer on a cold cache does.
    Work {
        /// Milliseconds.
        ms: u64,
        /// What there is to see of it.
        of: Work,
    },
    /// Answers properly, this much later, and neither reads nor answers anything else meanwhile: a server of one thread,
    /// whose tool sleeps.
    Block {
        /// Milliseconds.
        ms: u64,
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
    Answer(AnswerFault),
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
    /// Another fault, this much later. The event itself takes its usual course.
    Later {
        /// Milliseconds.
        ms: u64,
        /// What happens then. [`Fault::Hang`] serves here; [`Fault::StopReading`] does not, as only the reader can stop reading.
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
pub enum AnswerFault {
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
    /// An id that no request has.
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
    /// Plain text without a line break: what follows is on the same line.
    Unbroken(String),
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
    /// A request with an unknown method.
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
    /// `notifications/progress` for an unknown token.
    Progress,
    /// `notifications/resources/updated` for `mem://one`.
    Updated,
    /// An unknown method.
    Unknown,
    /// Text that is no message.
    Text,
}
