//! What the system knows of other processes, read from `/proc`.
//!
//! A look at a process costs 10 to 25 µs, so a scan is run off the runtime's threads, or where there is no runtime.
//! Where there is no `/proc`, every answer is "nothing", and the tree is the process group alone.

pub(super) use imp::{arguments, bytes_moved, children, processes, stat};

use std::io;

use memchr::memmem::Finder;
use rustix::process::Pid;

/// What the system says of one process that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProcStat {
    /// The first 15 bytes of its name, as the process may have set it.
    pub(super) name: String,
    /// The one letter for what it does.
    pub(super) state: u8,
    pub(super) parent: i32,
    pub(super) group: i32,
    /// The processor time that it and the children it waited for have used, in ticks of 10 ms on nearly every system.
    pub(super) ticks: u64,
    /// When it started, in ticks since boot: distinguishes two processes with the same pid.
    pub(super) started: u64,
    /// The pages of memory that it occupies.
    pub(super) resident_pages: u64,
}

impl ProcStat {
    /// Reads "pid (name) state parent group …"; `None` for a process that is gone, or a zombie that waits for its parent.
    fn parse(stat: &[u8]) -> Option<Self> {
        let name_start = memchr::memchr(b'(', stat)?;
        // The name may hold anything, a closing bracket too; after it come numbers.
        let name_end = memchr::memrchr(b')', stat)?;
        let name = String::from_utf8_lossy(stat.get(name_start + 1..name_end)?).into_owned();
        let mut fields = str::from_utf8(stat.get(name_end + 2..)?).ok()?.split(' ');
        let state = match fields.next()?.as_bytes() {
            b"Z" | b"X" | b"x" => return None,
            state => *state.first()?,
        };
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        // Eight fields further on: the ticks of the process in its own code and in the kernel, then those of its children.
        let mut fields = fields.skip(8);
        let mut ticks = 0;
        for _ in 0..4 {
            ticks += fields.next()?.parse::<u64>().ok()?;
        }
        let started = fields.nth(4)?.parse().ok()?;
        // After the size of its address space.
        let resident_pages = fields.nth(1)?.trim_end().parse().ok()?;
        Some(Self {
            name,
            state,
            parent,
            group,
            ticks,
            started,
            resident_pages,
        })
    }
}

/// The group of a process that runs; `None` if it is gone, or a zombie that waits for its parent.
///
/// Read from `/proc`: `getpgid` returns 0 for a group outside this pid namespace, which rustix takes for impossible.
pub(super) fn group_of(pid: Pid) -> Option<i32> {
    stat(pid).map(|stat| stat.group)
}

/// Reads the markers of other processes, with one buffer for all of them.
pub(super) struct EnvironSearch {
    prefix: Finder<'static>,
    buffer: Box<[u8; WINDOW_BYTES]>,
}

/// How much of an environment is held at a time; longer ones are read piece by piece.
const WINDOW_BYTES: usize = 16 * 1024;

impl EnvironSearch {
    /// For entries that begin with `prefix`; what follows up to the end of the entry is short.
    pub(super) fn new(prefix: &[u8]) -> Self {
        debug_assert!(!prefix.is_empty() && prefix.len() < WINDOW_BYTES / 4);
        Self {
            prefix: Finder::new(prefix).into_owned(),
            buffer: Box::new([0; WINDOW_BYTES]),
        }
    }

    /// What follows the prefix in the environment of the process, if it has such an entry. Fails if its environment may not be
    /// read, which is so for the processes of other users, and for the few that hide theirs. That of a zombie is empty.
    pub(super) fn value_of(&mut self, pid: Pid) -> io::Result<Option<String>> {
        let mut environ = imp::environ(pid)?;
        Ok(self.value_in(&mut environ))
    }

    fn value_in(&mut self, environ: &mut impl io::Read) -> Option<String> {
        let mut kept = 0;
        loop {
            let read = match environ.read(&mut self.buffer[kept..]) {
                Ok(0) | Err(_) => return None,
                Ok(read) => read,
            };
            let filled = kept + read;
            let length = self.prefix.needle().len();
            let keep_from = match self.prefix.find(&self.buffer[..filled]) {
                Some(at) => {
                    let rest = &self.buffer[at + length..filled];
                    if let Some(end) = memchr::memchr(0, rest) {
                        return Some(String::from_utf8_lossy(&rest[..end]).into_owned());
                    }
                    if rest.len() > WINDOW_BYTES / 4 {
                        return None;
                    }
                    at
                }
                // The prefix may lie across two reads: keep as much as could be its beginning.
                None => filled - filled.min(length - 1),
            };
            self.buffer.copy_within(keep_from..filled, 0);
            kept = filled - keep_from;
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod imp {
    use std::fs::{self, File};
    use std::io::{self, Read};

    use rustix::process::Pid;

    use super::ProcStat;

    /// How many bytes of `stat` are read: enough to reach the resident pages, however long the name.
    const STAT_BYTES: usize = 768;

    /// How much of the arguments of a process is read: several times the script of the guardian.
    const ARGUMENT_BYTES: u64 = 16 * 1024;

    pub(in super::super) fn processes() -> io::Result<impl Iterator<Item = Pid>> {
        let entries = fs::read_dir("/proc")?.flatten();
        Ok(entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)))
    }

    pub(in super::super) fn stat(pid: Pid) -> Option<ProcStat> {
        let mut stat = [0; STAT_BYTES];
        let mut file = File::open(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        // One read: to read to the end takes half a dozen, and takes a third of the time of a scan.
        let read = file.read(&mut stat).ok()?;
        ProcStat::parse(stat.get(..read)?)
    }

    /// How many bytes the process has read and written, on disk, in pipes and on the network; zero where the system does
    /// not say.
    pub(in super::super) fn bytes_moved(pid: Pid) -> u64 {
        let io = fs::read_to_string(format!("/proc/{}/io", pid.as_raw_nonzero())).unwrap_or_default();
        io.lines()
            .filter_map(|line| {
                line.strip_prefix("rchar: ")
                    .or_else(|| line.strip_prefix("wchar: "))
            })
            .filter_map(|bytes| bytes.parse::<u64>().ok())
            .sum()
    }

    /// The processes that this one started, by any of its threads. None where the system does not report them.
    pub(in super::super) fn children(pid: Pid) -> Vec<Pid> {
        let threads = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()));
        let lists = threads
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
        let parse = |list: String| -> Vec<Pid> {
            let numbers = list.split_whitespace().filter_map(|pid| pid.parse().ok());
            numbers.filter_map(Pid::from_raw).collect()
        };
        lists.flat_map(parse).collect()
    }

    /// The arguments of a process, each with a zero behind it, as far as they fit into [`ARGUMENT_BYTES`].
    pub(in super::super) fn arguments(pid: Pid) -> Option<Vec<u8>> {
        let file = File::open(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).ok()?;
        let mut arguments = Vec::new();
        file.take(ARGUMENT_BYTES).read_to_end(&mut arguments).ok()?;
        Some(arguments)
    }

    pub(super) fn environ(pid: Pid) -> io::Result<File> {
        File::open(format!("/proc/{}/environ", pid.as_raw_nonzero()))
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod imp {
    use std::io;

    use rustix::process::Pid;

    pub(in super::super) fn processes() -> io::Result<impl Iterator<Item = Pid>> {
        Ok(std::iter::empty())
    }

    pub(in super::super) fn stat(_: Pid) -> Option<super::ProcStat> {
        None
    }

    pub(in super::super) fn bytes_moved(_: Pid) -> u64 {
        0
    }

    pub(in super::super) fn children(_: Pid) -> Vec<Pid> {
        Vec::new()
    }

    pub(in super::super) fn arguments(_: Pid) -> Option<Vec<u8>> {
        None
    }

    pub(super) fn environ(_: Pid) -> io::Result<io::Empty> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests {
    use super::{EnvironSearch, ProcStat, WINDOW_BYTES};

    #[test]
    fn a_name_with_brackets_and_spaces_hides_no_number() {
        let line = b"71 (npm (x) run) S 70 69 68 0 -1 4194560 1 2 3 4 100 20 3 4 20 0 11 0 5678 99 1 18446";
        let stat = ProcStat::parse(line).expect("it runs");
        assert_eq!(
            stat,
            ProcStat {
                name: "npm (x) run".to_owned(),
                state: b'S',
                parent: 70,
                group: 69,
                ticks: 127,
                started: 5678,
                resident_pages: 1,
            }
        );
        assert_eq!(
            ProcStat::parse(b"71 (sh) Z 70 69 68 0 -1 4 1 2 3 4 1 2 3 4 20 0 1 0 5 6 7"),
            None
        );
    }

    #[test]
    fn a_value_is_read_wherever_a_read_cuts_its_entry() {
        let entry = b"MAINSTAY_TREE=0123.4\0";
        for before in WINDOW_BYTES - entry.len() - 1..=WINDOW_BYTES + 1 {
            let mut environ = vec![b'x'; before];
            environ.extend_from_slice(entry);
            environ.extend_from_slice(b"HOME=/\0");
            let value = EnvironSearch::new(b"MAINSTAY_TREE=0123.").value_in(&mut environ.as_slice());
            assert_eq!(value.as_deref(), Some("4"), "after {before} bytes");
        }
    }

    #[test]
    fn a_value_without_an_end_and_a_prefix_that_only_begins_alike_are_not_found() {
        let mut search = EnvironSearch::new(b"MAINSTAY_TREE=0123.");
        let environ = b"A=b\0MAINSTAY_TREE=0124.45\0".repeat(2_000);
        assert_eq!(search.value_in(&mut environ.as_slice()), None);
        let endless = [&b"MAINSTAY_TREE=0123."[..], &vec![b'9'; 3 * WINDOW_BYTES]].concat();
        assert_eq!(search.value_in(&mut endless.as_slice()), None);
    }
}
