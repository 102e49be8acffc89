//! How a process ended.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::{Signal, WaitIdStatus};

/// How a server's process ended.
///
/// Reads as `exit status 1` or `killed by SIGKILL`. Both fields are `None` when the status was lost, which happens
/// only where the surrounding program reaps children that are not its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessExit {
    /// The exit status, if the process exited by itself.
    pub code: Option<i32>,
    /// The number of the signal that killed the process, if one did.
    pub signal: Option<i32>,
}

impl ProcessExit {
    pub(super) const UNKNOWN: Self = Self {
        code: None,
        signal: None,
    };
}

impl From<ExitStatus> for ProcessExit {
    fn from(status: ExitStatus) -> Self {
        Self {
            code: status.code(),
            signal: status.signal(),
        }
    }
}

impl From<WaitIdStatus> for ProcessExit {
    fn from(status: WaitIdStatus) -> Self {
        Self {
            code: status.exit_status(),
            signal: status.terminating_signal(),
        }
    }
}

impl fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exit status {code}"),
            (None, Some(signal)) => match signal_name(signal) {
                Some(name) => write!(f, "killed by {name}"),
                None => write!(f, "killed by signal {signal}"),
            },
            (None, None) => f.write_str("exit status unknown"),
        }
    }
}

/// Names for the signals that end processes in practice; the numbers differ between systems.
fn signal_name(number: i32) -> Option<&'static str> {
    const NAMES: [(Signal, &str); 16] = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ"),
        (Signal::SYS, "SIGSYS"),
    ];
    NAMES
        .iter()
        .find(|(signal, _)| signal.as_raw() == number)
        .map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::ProcessExit;

    #[test]
    fn an_exit_reads_as_a_person_would_say_it() {
        let exited = ProcessExit {
            code: Some(1),
            signal: None,
        };
        let killed = ProcessExit {
            code: None,
            signal: Some(9),
        };
        let odd = ProcessExit {
            code: None,
            signal: Some(99),
        };
        assert_eq!(exited.to_string(), "exit status 1");
        assert_eq!(killed.to_string(), "killed by SIGKILL");
        assert_eq!(odd.to_string(), "killed by signal 99");
        assert_eq!(ProcessExit::UNKNOWN.to_string(), "exit status unknown");
    }
}
