//! How the program ends.

use std::process::ExitCode;

use mainstay::{CallError, CallErrorKind};

/// What a command comes to.
pub(crate) type Done = Result<Exit, CommandFailure>;

/// The exit codes. They are part of the interface: scripts depend on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All is well.
    Success,
    /// Something failed: a server that counts is down, or the server answered a call with an error.
    Failed,
    /// The arguments or the configuration are wrong.
    Usage,
    /// The call failed and did not run.
    DidNotRun,
    /// The call failed and may have run.
    MayHaveRun,
    /// SIGINT.
    Interrupted,
    /// SIGTERM.
    Terminated,
}

/// An end before there was a result: what to say, and how to exit.
#[derive(Debug)]
pub(crate) struct CommandFailure {
    pub(crate) exit: Exit,
    pub(crate) error: anyhow::Error,
}

impl Exit {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::DidNotRun => 3,
            Self::MayHaveRun => 4,
            // 128 plus the number of the signal, as shells have it.
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }

    /// How a call that failed ends the program.
    pub(crate) fn of_call(error: &CallError) -> Self {
        match error.kind() {
            // The server says itself what became of it.
            CallErrorKind::Rpc(_) => Self::Failed,
            _other if error.may_have_run() => Self::MayHaveRun,
            _ => Self::DidNotRun,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

impl CommandFailure {
    pub(crate) fn usage(error: impl Into<anyhow::Error>) -> Self {
        let (exit, error) = (Exit::Usage, error.into());
        Self { exit, error }
    }

    pub(crate) fn failed(error: impl Into<anyhow::Error>) -> Self {
        let (exit, error) = (Exit::Failed, error.into());
        Self { exit, error }
    }
}
