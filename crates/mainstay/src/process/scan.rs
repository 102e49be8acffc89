//! What the system knows of other processes, read from `/proc`.
//!
//! A look at a process costs 10 to 25 µs, so a scan is run off the runtime's threads, or where there is no runtime.
//! Where there is no `/proc`, every answer is "nothing", and the tree is the process group alone.

pub(super) use imp::{arguments, bytes_moved, children, processes, stat};

use std::time::Duration;
use std::{io, thread};

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
    /// Whether it is in `exec`: it has the memory of its next program, and no environment there yet. `None` for a thread of
    /// the kernel, which has no memory of its own.
    is_in_exec: Option<bool>,
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
        let has_memory = fields.next()? != "0";
        let resident_pages = fields.next()?.trim_end().parse().ok()?;
        // The address at which its environment ends. That of another user's process is a zero here, too.
        let is_in_exec = has_memory.then(|| fields.nth(26) == Some("0"));
        Some(Self {
            name,
            state,
            parent,
            group,
            ticks,
            started,
            resident_pages,
            is_in_exec,
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
    exec_looks_left: u32,
}

/// How much of an environment is held at a time; longer ones are read piece by piece.
const WINDOW_BYTES: usize = 16 * 1024;

/// How often one search waits for a process in `exec`, and how long. On an idle machine the process has its environment after
/// some microseconds; on a busy one it may have to wait for a processor. One that hangs in `exec` must not hold up the search.
const EXEC_LOOKS_LIMIT: u32 = 50;
const EXEC_LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// What a search of one environment found.
#[derive(Debug, PartialEq, Eq)]
enum EnvironEntry {
    /// What follows the prefix.
    Value(String),
    /// No entry begins with the prefix.
    Missing,
    /// There is no environment: it is a zombie's, or that of a process in `exec`, or it has no entries.
    Empty,
}

impl EnvironSearch {
    /// For entries that begin with `prefix`; what follows up to the end of the entry is short.
    pub(super) fn new(prefix: &[u8]) -> Self {
        debug_assert!(!prefix.is_empty() && prefix.len() < WINDOW_BYTES / 4);
        Self {
            prefix: Finder::new(prefix).into_owned(),
            buffer: Box::new([0; WINDOW_BYTES]),
            exec_looks_left: EXEC_LOOKS_LIMIT,
        }
    }

    /// What follows the prefix in the environment of the process, if it has such an entry. Fails if its environment may not be
    /// read, which is so for the processes of other users, and for the few that hide theirs. That of a zombie is empty. A
    /// process in `exec` has none for a moment, and is looked at again: its next program has the entry.
    pub(super) fn value_of(&mut self, pid: Pid) -> io::Result<Option<String>> {
        self.value_after_exec(|| imp::environ(pid), || stat(pid)?.is_in_exec)
    }

    /// Reads an environment until it is not empty, or was read after `is_in_exec` denied it.
    fn value_after_exec<R: io::Read>(
        &mut self,
        mut open: impl FnMut() -> io::Result<R>,
        mut is_in_exec: impl FnMut() -> Option<bool>,
    ) -> io::Result<Option<String>> {
        let mut is_settled = false;
        loop {
            match self.value_in(&mut open()?) {
                EnvironEntry::Value(value) => return Ok(Some(value)),
                EnvironEntry::Missing => return Ok(None),
                EnvironEntry::Empty if is_settled => return Ok(None),
                EnvironEntry::Empty => {}
            }
            match is_in_exec() {
                None => return Ok(None),
                Some(false) => is_settled = true,
                Some(true) if self.exec_looks_left == 0 => return Ok(None),
                Some(true) => {
                    self.exec_looks_left -= 1;
                    thread::sleep(EXEC_LOOK_INTERVAL);
                }
            }
        }
    }

    fn value_in(&mut self, environ: &mut impl io::Read) -> EnvironEntry {
        let mut kept = 0;
        let mut without_entry = EnvironEntry::Empty;
        loop {
            let read = match environ.read(&mut self.buffer[kept..]) {
                Ok(0) | Err(_) => return without_entry,
                Ok(read) => read,
            };
            without_entry = EnvironEntry::Missing;
            let filled = kept + read;
            let length = self.prefix.needle().len();
            let keep_from = match self.prefix.find(&self.buffer[..filled]) {
                Some(at) => {
                    let rest = &self.buffer[at + length..filled];
                    if let Some(end) = memchr::memchr(0, rest) {
                        return EnvironEntry::Value(String::from_utf8_lossy(&rest[..end]).into_owned());
                    }
                    if rest.len() > WINDOW_BYTES / 4 {
                        return EnvironEntry::Missing;
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
    use super::{EXEC_LOOKS_LIMIT, EnvironEntry, EnvironSearch, ProcStat, WINDOW_BYTES};

    fn value(value: &str) -> EnvironEntry {
        EnvironEntry::Value(value.to_owned())
    }

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
                is_in_exec: Some(false),
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
            let found = EnvironSearch::new(b"MAINSTAY_TREE=0123.").value_in(&mut environ.as_slice());
            assert_eq!(found, value("4"), "after {before} bytes");
        }
    }

    #[test]
    fn a_value_without_an_end_and_a_prefix_that_only_begins_alike_are_not_found() {
        let mut search = EnvironSearch::new(b"MAINSTAY_TREE=0123.");
        let environ = b"A=b\0MAINSTAY_TREE=0124.45\0".repeat(2_000);
        assert_eq!(search.value_in(&mut environ.as_slice()), EnvironEntry::Missing);
        let endless = [&b"MAINSTAY_TREE=0123."[..], &vec![b'9'; 3 * WINDOW_BYTES]].concat();
        assert_eq!(search.value_in(&mut endless.as_slice()), EnvironEntry::Missing);
        assert_eq!(search.value_in(&mut b"".as_slice()), EnvironEntry::Empty);
    }

    #[test]
    fn a_process_in_exec_is_told_from_one_that_runs_and_from_a_thread_of_the_kernel() {
        let is_in_exec = |memory: u64, environ_end: u64| {
            let head = "71 (sh) R 70 69 68 0 -1 4 1 2 3 4 1 2 3 4 20 0 1 0 5678";
            let middle = vec!["0"; 26].join(" ");
            let line = format!("{head} {memory} 1 {middle} {environ_end} 0\n");
            ProcStat::parse(line.as_bytes()).expect("it runs").is_in_exec
        };
        assert_eq!(is_in_exec(4096, 0), Some(true));
        assert_eq!(is_in_exec(4096, 140_000), Some(false));
        assert_eq!(is_in_exec(0, 0), None);
        #[cfg(target_os = "linux")]
        {
            let own = super::stat(rustix::process::getpid()).expect("this test runs");
            assert_eq!(own.is_in_exec, Some(false));
        }
    }

    /// What a search finds in environments that are read one after the other, and how many it reads. The process is in
    /// `exec` for as many looks.
    fn search(environs: &[&'static [u8]], mut in_exec: usize) -> (Option<String>, usize) {
        let mut opened = 0;
        let open = || {
            opened += 1;
            Ok(*environs
                .get(opened - 1)
                .or(environs.last())
                .expect("one at least"))
        };
        let is_in_exec = || {
            let is_in_exec = in_exec > 0;
            in_exec = in_exec.saturating_sub(1);
            Some(is_in_exec)
        };
        let found = EnvironSearch::new(b"MAINSTAY_TREE=0123.").value_after_exec(open, is_in_exec);
        (found.expect("it can be read"), opened)
    }

    #[test]
    fn a_process_in_exec_is_looked_at_until_it_has_its_environment() {
        let marked = b"MAINSTAY_TREE=0123.4\0".as_slice();
        let found = Some("4".to_owned());
        assert_eq!(search(&[marked], 0), (found.clone(), 1));
        assert_eq!(search(&[b"", b"", marked], 2), (found.clone(), 3));
        // The exec ended between the look at the environment and the look at the process.
        assert_eq!(search(&[b"", marked], 0), (found, 2));
        assert_eq!(search(&[b"HOME=/\0", marked], 9), (None, 1));
    }

    #[test]
    fn a_process_without_an_environment_is_not_looked_at_for_ever() {
        assert_eq!(search(&[b""], 0), (None, 2));
        let limit = usize::try_from(EXEC_LOOKS_LIMIT).expect("a small number");
        assert_eq!(search(&[b""], usize::MAX), (None, limit + 1));
        let mut search = EnvironSearch::new(b"MAINSTAY_TREE=0123.");
        let mut opened = 0;
        let open = || {
            opened += 1;
            Ok(b"".as_slice())
        };
        assert_eq!(search.value_after_exec(open, || None).expect("read"), None);
        assert_eq!(opened, 1, "a zombie, or a thread of the kernel");
    }
}
