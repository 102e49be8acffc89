//! What this machine may lack when it starts or reaches a server. Such a failure is not the server's.

use std::{fmt, io};

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// What this machine lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Lack {
    /// This process may open no more files, pipes and sockets.
    Descriptors,
    /// The whole system has no more of them.
    SystemDescriptors,
    /// No more processes or threads may be started.
    Processes,
    /// There is no more memory.
    Memory,
}

impl Lack {
    /// What is lacking where a file, pipe or socket could not be opened; `None` if it failed for another reason.
    pub(crate) fn of(error: &io::Error) -> Option<Self> {
        match Errno::from_io_error(error)? {
            Errno::MFILE => Some(Self::Descriptors),
            Errno::NFILE => Some(Self::SystemDescriptors),
            Errno::NOMEM | Errno::NOBUFS => Some(Self::Memory),
            _another => None,
        }
    }

    /// The same where a process could not be started.
    pub(crate) fn of_start(error: &io::Error) -> Option<Self> {
        match Errno::from_io_error(error) {
            Some(Errno::AGAIN) => Some(Self::Processes),
            Some(_) | None => Self::of(error),
        }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Descriptors => {
                f.write_str("this machine lets mainstay open no more files")?;
                match getrlimit(Resource::Nofile).current {
                    Some(limit) => write!(f, " than {limit}: raise the limit (`ulimit -n`)"),
                    None => Ok(()),
                }
            }
            Self::SystemDescriptors => f.write_str("this machine has too many open files"),
            Self::Processes => f.write_str(
                "this machine lets mainstay start no more processes: raise the limit (`ulimit -u`)",
            ),
            Self::Memory => f.write_str("this machine is out of memory"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use rustix::io::Errno;

    use super::Lack;

    #[test]
    fn a_lack_is_known_by_its_number_and_nothing_else_is_one() {
        for (errno, of_start, of) in [
            (Errno::MFILE, Some(Lack::Descriptors), Some(Lack::Descriptors)),
            (
                Errno::NFILE,
                Some(Lack::SystemDescriptors),
                Some(Lack::SystemDescriptors),
            ),
            (Errno::NOMEM, Some(Lack::Memory), Some(Lack::Memory)),
            (Errno::AGAIN, Some(Lack::Processes), None),
            (Errno::CONNREFUSED, None, None),
            (Errno::NOENT, None, None),
        ] {
            let error = io::Error::from(errno);
            assert_eq!(
                (Lack::of_start(&error), Lack::of(&error)),
                (of_start, of),
                "{errno:?}"
            );
        }
        assert_eq!(Lack::of(&io::Error::other("words")), None);
    }
}
