//! What the system knows of other processes, read from `/proc`.
//!
//! A look at a process costs 10 to 25 µs, so a scan is run off the runtime's threads, or where there is no runtime.
//! Where there is no `/proc`, every answer is "nothing", and the tree is the process group alone.

pub(super) use imp::{group_of, processes};

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

    /// Whether the process carries the entry; `None` if its environment may not be read, which is so for the processes
    /// of other users, and for the few that hide theirs. That of a zombie is empty.
    pub(super) fn carried_by(&mut self, pid: Pid) -> Option<bool> {
        let mut environ = imp::environ(pid)?;
        Some(self.found_in(&mut environ))
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
    use std::io::Read;

    use rustix::process::Pid;

    /// How much of what is said of a process is read: more than goes before its group, however long its name.
    const STAT: usize = 512;

    pub(in super::super) fn processes() -> impl Iterator<Item = Pid> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
    }

    /// The group of a process that runs; `None` if it is gone, or a zombie that waits for its parent.
    ///
    /// Not asked of `getpgid`, whose answer for a group outside this pid namespace (0) rustix takes for impossible.
    pub(in super::super) fn group_of(pid: Pid) -> Option<i32> {
        let mut stat = [0; STAT];
        let mut file = File::open(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        // One read: to read to the end takes half a dozen, and takes a third of the time of a scan.
        let read = file.read(&mut stat).ok()?;
        let stat = stat.get(..read)?;
        // "pid (name) state parent group …": the name may hold anything, a closing bracket too; after it come numbers.
        let name_end = memchr::memrchr(b')', stat)?;
        let mut fields = str::from_utf8(stat.get(name_end + 2..)?).ok()?.split(' ');
        match fields.next()? {
            "Z" | "X" | "x" => None,
            _running => fields.nth(1)?.parse().ok(),
        }
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

    pub(in super::super) fn group_of(_: Pid) -> Option<i32> {
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
