//! What the system knows of other processes, read from `/proc`.
//!
//! A full scan costs about 10 µs a process, so it is run off the runtime's threads, or where there is no runtime.
//! Where there is no `/proc`, every answer is "nothing", and the tree is the process group alone.

pub(super) use imp::{group, is_running, processes};

use memchr::memmem::Finder;
use rustix::process::Pid;

/// Looks for one environment entry in other processes, with one buffer for all of them.
pub(super) struct Search {
    entry: Finder<'static>,
    buffer: Box<[u8; WINDOW]>,
}

/// How much of an environment is held at a time; longer ones are read piece by piece.
const WINDOW: usize = 16 * 1024;

impl Search {
    pub(super) fn new(entry: &[u8]) -> Self {
        debug_assert!(!entry.is_empty() && entry.len() < WINDOW / 2);
        Self {
            entry: Finder::new(entry).into_owned(),
            buffer: Box::new([0; WINDOW]),
        }
    }

    /// Whether the process carries the entry. A zombie has no environment left, and an unreadable one (another
    /// person's process, one that hides itself) counts as not carrying it.
    pub(super) fn carries(&mut self, pid: Pid) -> bool {
        let Some(mut environ) = imp::environ(pid) else {
            return false;
        };
        self.found_in(&mut environ)
    }

    fn found_in(&mut self, environ: &mut impl std::io::Read) -> bool {
        let mut kept = 0;
        loop {
            let read = match environ.read(&mut self.buffer[kept..]) {
                Ok(0) | Err(_) => return false,
                Ok(read) => read,
            };
            let filled = kept + read;
            if self.entry.find(&self.buffer[..filled]).is_some() {
                return true;
            }
            // The entry may lie across two reads: keep as much as could be its beginning.
            kept = filled.min(self.entry.needle().len() - 1);
            self.buffer.copy_within(filled - kept..filled, 0);
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod imp {
    use std::fs::{self, File};

    use rustix::process::Pid;

    pub(in super::super) fn processes() -> impl Iterator<Item = Pid> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
    }

    /// Whether the process exists and is more than a zombie waiting for its parent.
    pub(in super::super) fn is_running(pid: Pid) -> bool {
        let Ok(stat) = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())) else {
            return false;
        };
        // "pid (name) state …": the name may hold anything, a closing bracket too, so search from the end.
        let state = memchr::memrchr(b')', &stat).and_then(|end| stat.get(end + 2));
        !matches!(state, None | Some(b'Z' | b'X' | b'x'))
    }

    /// The process group of a process. Read here, not asked of the kernel: its answer for a thread of its own is zero, which
    /// the binding takes for a mistake.
    pub(in super::super) fn group(pid: Pid) -> Option<Pid> {
        let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        let fields = stat.get(memchr::memrchr(b')', &stat)? + 2..)?;
        let group = fields.split(|byte| *byte == b' ').nth(2)?;
        Pid::from_raw(std::str::from_utf8(group).ok()?.parse().ok()?)
    }

    pub(super) fn environ(pid: Pid) -> Option<File> {
        File::open(format!("/proc/{}/environ", pid.as_raw_nonzero())).ok()
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod imp {
    use rustix::process::Pid;

    pub(in super::super) fn processes() -> impl Iterator<Item = Pid> {
        std::iter::empty()
    }

    pub(in super::super) fn is_running(_: Pid) -> bool {
        false
    }

    pub(in super::super) fn group(_: Pid) -> Option<Pid> {
        None
    }

    pub(super) fn environ(_: Pid) -> Option<std::io::Empty> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{Search, WINDOW};

    #[test]
    fn an_entry_is_found_wherever_a_read_cuts_it() {
        let entry = b"MAINSTAY_TREE=0123.4\0";
        for before in WINDOW - entry.len() - 1..=WINDOW + 1 {
            let mut environ = vec![b'x'; before];
            environ.extend_from_slice(entry);
            environ.extend_from_slice(b"HOME=/\0");
            assert!(
                Search::new(entry).found_in(&mut environ.as_slice()),
                "not found after {before} bytes"
            );
        }
    }

    #[test]
    fn an_entry_that_only_begins_alike_is_not_found() {
        let environ = b"A=b\0MAINSTAY_TREE=0123.45\0".repeat(2_000);
        assert!(!Search::new(b"MAINSTAY_TREE=0123.4\0").found_in(&mut environ.as_slice()));
    }
}
