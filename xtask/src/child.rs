//! Runs other programs, each with a time limit.
//!
//! Work of unknown length is bounded by silence: a child may take as long as it says something. The rest has a time limit.
//!
//! A child shares xtask's process group, so that Ctrl-C reaches it too. When its time is up it is ended together with
//! all its descendants, found by parentage: SIGTERM first, because a test runner then stops its tests; SIGKILL to what
//! is left.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, IsTerminal as _, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

const POLL_EVERY: Duration = Duration::from_millis(20);
/// What a child may take to clean up after SIGTERM.
const GRACE: Duration = Duration::from_secs(10);
/// The first try and two more: enough for a network that hiccups, too few to hide one that is down.
const TRIES: u32 = 3;
const PAUSE_BETWEEN_TRIES: Duration = Duration::from_secs(3);

/// Runs a command with our own output and no input; anything but success within the time is an error.
pub(crate) fn run(command: &mut Command, within: Duration) -> Result<()> {
    let child = spawn(command.stdin(Stdio::null()))?;
    let status = in_time(command, wait(child, within)?)?;
    succeeded(command, status)
}

/// Runs a command with our own output and no input for as long as it keeps writing: it is ended when it has written nothing
/// for `silence`. Its output passes through us.
pub(crate) fn run_while_it_speaks(command: &mut Command, silence: Duration) -> Result<()> {
    if io::stderr().is_terminal() {
        // Cargo sees a pipe, and a person sees what comes out of it.
        command.env("CARGO_TERM_COLOR", "always");
    }
    let piped = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = spawn(piped)?;
    let last_output = LastOutput::default();
    let stdout = child.stdout.take().context("stdout is piped")?;
    let stderr = child.stderr.take().context("stderr is piped")?;
    // They end with the last process that holds the pipes; that may be one which outlives the child.
    pass_on(stdout, io::stdout(), last_output.clone());
    pass_on(stderr, io::stderr(), last_output.clone());
    let status = loop {
        if let Some(status) = poll(&mut child, POLL_EVERY)? {
            break status;
        }
        if last_output.silent_for() >= silence {
            end(&mut child)?;
            bail!(
                "`{}`: wrote nothing for {} s and was ended",
                line(command),
                silence.as_secs()
            );
        }
    };
    last_output.wait_until_quiet();
    succeeded(command, status)
}

/// When a child last wrote something, and how many of its pipes are still open.
#[derive(Clone)]
struct LastOutput(Arc<Mutex<(Instant, usize)>>);

impl Default for LastOutput {
    fn default() -> Self {
        Self(Arc::new(Mutex::new((Instant::now(), 0))))
    }
}

impl LastOutput {
    fn locked(&self) -> MutexGuard<'_, (Instant, usize)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn silent_for(&self) -> Duration {
        self.locked().0.elapsed()
    }

    /// Waits until all that was written is passed on; what a process left behind may hold the pipe for longer.
    fn wait_until_quiet(&self) {
        let deadline = Instant::now() + GRACE;
        while self.locked().1 > 0 && Instant::now() < deadline {
            thread::sleep(POLL_EVERY);
        }
    }
}

/// Passes a pipe on to its end, in a thread.
fn pass_on(
    mut from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
    last_output: LastOutput,
) {
    last_output.locked().1 += 1;
    thread::spawn(move || {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            last_output.locked().0 = Instant::now();
            // A reader of ours that has left is no reason to end the child.
            let _ = to.write_all(&buffer[..read]).and_then(|()| to.flush());
        }
        last_output.locked().1 -= 1;
    });
}

/// Like [`run`], but tries again when it fails: for commands that need the network.
pub(crate) fn run_with_retries(command: &mut Command, within: Duration) -> Result<()> {
    let mut tries = 1;
    loop {
        match run(command, within) {
            Ok(()) => return Ok(()),
            Err(error) if tries == TRIES => return Err(error.context(format!("gave up after {TRIES} tries"))),
            Err(error) => {
                eprintln!("{error:#}; trying again");
                tries += 1;
                thread::sleep(PAUSE_BETWEEN_TRIES);
            }
        }
    }
}

/// Runs a command and returns what it writes to stdout.
pub(crate) fn output(command: &mut Command, within: Duration) -> Result<String> {
    let (text, status) = said(command, within)?;
    succeeded(command, status)?;
    Ok(text)
}

/// Runs a command and returns what it writes to stdout and how it ended, which is up to the caller to judge.
pub(crate) fn said(command: &mut Command, within: Duration) -> Result<(String, ExitStatus)> {
    let mut child = spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()))?;
    let mut stdout = child.stdout.take().context("stdout is piped")?;
    let reader = thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).map(|_| text)
    });
    let status = in_time(command, wait(child, within)?)?;
    let text = reader
        .join()
        .map_err(|_| anyhow!("the reader of stdout panicked"))?
        .context("stdout is not text")?;
    Ok((text, status))
}

/// Whether a command can be started and succeeds; what it says is thrown away.
pub(crate) fn succeeds(command: &mut Command, within: Duration) -> bool {
    let quiet = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    quiet
        .spawn()
        .is_ok_and(|child| matches!(wait(child, within), Ok(Some(status)) if status.success()))
}

/// Starts a command. The caller ends it.
pub(crate) fn spawn(command: &mut Command) -> Result<Child> {
    command
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().display()))
}

fn in_time(command: &Command, end: Option<ExitStatus>) -> Result<ExitStatus> {
    end.with_context(|| format!("`{}`: took too long and was ended", line(command)))
}

fn succeeded(command: &Command, status: ExitStatus) -> Result<()> {
    if status.success() {
        return Ok(());
    }
    bail!("`{}`: {status}", line(command))
}

/// The command as a person would type it, its program without a path.
fn line(command: &Command) -> String {
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or(command.get_program());
    let words: Vec<_> = [program]
        .into_iter()
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .collect();
    words.join(" ")
}

/// Waits for the end of a child; `None` when it had to be ended.
fn wait(mut child: Child, within: Duration) -> Result<Option<ExitStatus>> {
    if let Some(status) = poll(&mut child, within)? {
        return Ok(Some(status));
    }
    end(&mut child)?;
    Ok(None)
}

/// Ends a child with all its descendants.
pub(crate) fn end(child: &mut Child) -> Result<()> {
    let family = descendants(child.id());
    signal("TERM", &family);
    poll(child, GRACE)?;
    // Processes that the first signal reached may have started others meanwhile.
    let mut left = descendants(child.id());
    left.extend(
        family
            .iter()
            .copied()
            .filter(|pid| !left.contains(pid) && is_alive(*pid))
            .collect::<Vec<_>>(),
    );
    signal("KILL", &left);
    poll(child, GRACE)?;
    Ok(())
}

fn poll(child: &mut Child, within: Duration) -> Result<Option<ExitStatus>> {
    let deadline = Instant::now() + within;
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for a child")? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        thread::sleep(POLL_EVERY);
    }
}

/// Sends a signal through the shell, whose `kill` is built in: no unsafe code, no dependency, no extra package.
fn signal(name: &str, pids: &[u32]) {
    if pids.is_empty() {
        return;
    }
    let script = r#"signal=$1; shift; kill -s "$signal" "$@""#;
    let mut shell = Command::new("sh");
    shell
        .args(["-c", script, "sh", name])
        .args(pids.iter().map(u32::to_string))
        .stderr(Stdio::null());
    // It fails when one of them has just ended, which is what was wanted.
    let _ = shell.status();
}

/// A process and everything that descends from it, itself first. Without `/proc` only itself.
fn descendants(root: u32) -> Vec<u32> {
    let parents = parents();
    let mut family = vec![root];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        family.extend(
            parents
                .iter()
                .filter(|(_, of)| **of == parent)
                .map(|(pid, _)| *pid),
        );
        next += 1;
    }
    family
}

/// The parent of every process.
fn parents() -> BTreeMap<u32, u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, parent_of(pid)?))).collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    let (_state, parent) = state_and_parent(pid)?;
    Some(parent)
}

/// A zombie is not: its parent may never reap it.
fn is_alive(pid: u32) -> bool {
    state_and_parent(pid).is_some_and(|(state, _)| state != "Z")
}

/// From `/proc/PID/stat`: `PID (NAME) STATE PARENT …`, where the name may hold anything, parentheses included.
fn state_and_parent(pid: u32) -> Option<(String, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{Command, Duration, Instant, is_alive, output, run, run_while_it_speaks, succeeds};

    fn shell(script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        shell
    }

    #[test]
    fn a_failing_command_is_an_error_that_names_it() {
        let error = run(&mut shell("exit 3"), Duration::from_secs(10))
            .unwrap_err()
            .to_string();
        assert!(error.contains("sh -c exit 3") && error.contains('3'), "{error}");
    }

    #[test]
    fn output_is_what_the_command_wrote() {
        assert_eq!(
            output(&mut shell("echo hello"), Duration::from_secs(10)).unwrap(),
            "hello\n"
        );
    }

    #[test]
    fn a_command_that_does_not_exist_does_not_succeed() {
        assert!(!succeeds(
            &mut Command::new("mainstay-no-such-command"),
            Duration::from_secs(10)
        ));
    }

    /// A shell that the machine stalls for as long as it may be silent would be ended.
    mod timing {
        use super::{Duration, Instant, run_while_it_speaks, shell};

        #[test]
        fn a_command_that_keeps_writing_may_take_as_long_as_it_needs() {
            let silence = Duration::from_secs(4);
            let started = Instant::now();
            let script = "for i in 1 2 3 4 5 6 7 8 9 10; do echo $i; echo $i >&2; sleep 0.5; done";
            run_while_it_speaks(&mut shell(script), silence).unwrap();
            assert!(
                started.elapsed() > silence,
                "it took longer than it may be silent"
            );
        }
    }

    #[test]
    fn a_command_that_writes_and_fails_is_an_error() {
        assert!(run_while_it_speaks(&mut shell("echo begun; exit 3"), Duration::from_secs(60)).is_err());
    }

    #[test]
    fn a_command_that_falls_silent_is_ended() {
        let error = run_while_it_speaks(&mut shell("echo begun; sleep 600"), Duration::from_millis(300))
            .unwrap_err()
            .to_string();
        assert!(error.contains("wrote nothing"), "{error}");
    }

    #[test]
    fn a_command_out_of_time_is_ended_with_its_descendants() {
        let directory = std::env::temp_dir().join(format!("xtask-child-{}", std::process::id()));
        let script = format!("sleep 600 & echo $! > {}; wait", directory.display());
        let error = run(&mut shell(&script), Duration::from_secs(3))
            .unwrap_err()
            .to_string();
        assert!(error.contains("took too long"), "{error}");
        let deadline = Instant::now() + Duration::from_secs(60);
        let grandchild: u32 = std::fs::read_to_string(&directory)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        std::fs::remove_file(&directory).unwrap();
        while is_alive(grandchild) {
            assert!(Instant::now() < deadline, "process {grandchild} is still there");
            std::thread::yield_now();
        }
    }
}
