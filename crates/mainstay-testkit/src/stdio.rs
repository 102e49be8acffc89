//! The stage of the `faulty-server` process: stdin, stdout, signals and children.
//!
//! One thread reads; what has to wait gets a thread of its own. A process whose script says to
//! hang does hang. Only `LIFETIME` ends it, so that a test that dies leaves no process behind.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufWriter, Read, Write};
use std::process::{self, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal as UnixSignal, getpid, kill_process};

use crate::action::{Action, Child, Signal, Work};
use crate::ledger::Ledger;
use crate::responder::Responder;
use crate::script::Script;

/// Longer than any test, short enough for a forgotten process to be forgiven.
pub(crate) const LIFETIME: Duration = Duration::from_secs(600);

/// Plays the script on this process's stdin and stdout, and never returns.
///
/// # Panics
/// When the ledger cannot be opened.
pub fn play(script: Script) -> ! {
    let stage = Arc::new(Stage::new(script));
    thread::spawn(|| {
        thread::sleep(LIFETIME);
        process::exit(124);
    });
    let opening = stage.responder().start();
    stage.perform_here(opening);
    stage.read_to_end();
    let ending = stage.responder().end_of_input();
    stage.perform_here(ending);
    park()
}

struct Stage {
    responder: Mutex<Responder>,
    stdout: Mutex<()>,
    silent: AtomicBool,
    stdin_closed: AtomicBool,
    ledger: Option<File>,
    ledger_path: String,
}

impl Stage {
    fn new(script: Script) -> Self {
        let path = script.ledger.clone();
        let ledger = path.as_ref().map(|path| {
            let mut file = OpenOptions::new()
                .create(true)
                .append(true)
                .open(path)
                .expect("open the ledger");
            write_note(&mut file, &format!("start {}", process::id()));
            file
        });
        let start = path.as_ref().map_or(1, |path| Ledger::at(path).count("start"));
        Self {
            responder: Mutex::new(Responder::new(script, start as u64)),
            stdout: Mutex::new(()),
            silent: AtomicBool::new(false),
            stdin_closed: AtomicBool::new(false),
            ledger,
            ledger_path: path.map(|path| path.display().to_string()).unwrap_or_default(),
        }
    }

    fn responder(&self) -> MutexGuard<'_, Responder> {
        self.responder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_to_end(self: &Arc<Self>) {
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = io::stdin().lock().read_until(b'\n', &mut line);
            if self.stdin_closed.load(Ordering::SeqCst) {
                park();
            }
            match read {
                Ok(0) | Err(_) => return,
                Ok(_) => {
                    let actions = self.responder().line(line.trim_ascii_end());
                    self.perform(actions);
                }
            }
        }
    }

    /// Performs at once up to the first wait; the rest gets its own thread.
    fn perform(self: &Arc<Self>, mut actions: Vec<Action>) {
        let waits = actions
            .iter()
            .position(|action| matches!(action, Action::Wait(_) | Action::Work(..)));
        let rest = actions.split_off(waits.unwrap_or(actions.len()));
        if self.perform_here(actions) && !rest.is_empty() {
            let stage = Arc::clone(self);
            thread::spawn(move || stage.perform_here(rest));
        }
    }

    /// Performs all actions on this thread; `false` when they were stopped by a cancellation.
    fn perform_here(self: &Arc<Self>, actions: Vec<Action>) -> bool {
        for action in actions {
            match action {
                Action::Note(note) => self.note(&note),
                Action::Write(bytes) => self.write(|out| out.write_all(&bytes)),
                Action::WriteFilled { head, fill, tail } => self.write(|out| {
                    out.write_all(&head)?;
                    io::copy(&mut io::repeat(b'x').take(fill as u64), out)?;
                    out.write_all(&tail)
                }),
                Action::Repeat { line, count } => {
                    self.write(|out| (0..count).try_for_each(|_| out.write_all(&line)));
                }
                Action::Wait(pause) | Action::Block(pause) => thread::sleep(pause),
                Action::Work(time, of) => work(time, of),
                Action::StopIfCancelled(id) => {
                    if self.responder().is_cancelled(&id) {
                        return false;
                    }
                }
                Action::Aside(actions) => {
                    let stage = Arc::clone(self);
                    thread::spawn(move || stage.perform_here(actions));
                }
                Action::Silence => self.silent.store(true, Ordering::SeqCst),
                Action::Park => park(),
                Action::Exit(code) => process::exit(code),
                Action::Signal(signal) => signal_self(signal),
                Action::CloseStdout => replace_by_null(|null| rustix::stdio::dup2_stdout(null)),
                Action::CloseStdin => {
                    self.stdin_closed.store(true, Ordering::SeqCst);
                    replace_by_null(|null| rustix::stdio::dup2_stdin(null));
                }
                // A client that has closed our stderr is no reason to fail.
                Action::Stderr(bytes) => drop(io::stderr().write_all(&bytes)),
                Action::Spawn(child) => self.spawn(child),
            }
        }
        true
    }

    /// A client that no longer reads is no reason to fail: its server goes on until its input ends.
    fn write(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        let _one_at_a_time = self.stdout.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.silent.load(Ordering::SeqCst) {
            let mut out = BufWriter::with_capacity(64 * 1024, io::stdout().lock());
            let _unread = write(&mut out).and_then(|()| out.flush());
        }
    }

    fn note(&self, note: &str) {
        if let Some(mut ledger) = self.ledger.as_ref() {
            write_note(&mut ledger, note);
        }
    }

    fn spawn(&self, child: Child) {
        let trap = if child.ignores_term { "trap '' TERM; " } else { "" };
        let sleeper = format!(r#"{trap}[ -n "$1" ] && echo "child $$" >> "$1"; exec sleep 600"#);
        let mut command = Command::new("sh");
        if child.daemon {
            // This shell ends at once, which leaves the sleeper without a parent.
            command.args([
                "-c",
                r#"setsid sh -c "$0" sh "$1" &"#,
                &sleeper,
                &self.ledger_path,
            ]);
        } else {
            command.args(["-c", &sleeper, "sh", &self.ledger_path]);
        }
        if !child.holds_pipes {
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
        }
        match command.spawn() {
            Ok(mut shell) if child.daemon => drop(shell.wait()),
            Ok(_sleeping) => {}
            Err(error) => self.note(&format!("spawn failed: {error}")),
        }
    }
}

/// Works in silence, with pauses that leave the processor to others.
fn work(time: Duration, of: Work) {
    /// From one piece of work to the next.
    const PAUSE: Duration = Duration::from_millis(60);
    let end = Instant::now() + time;
    let mut file = tempfile::tempfile().expect("make a temporary file");
    while Instant::now() < end {
        match of {
            Work::Processor => {
                let until = Instant::now() + PAUSE / 2;
                while Instant::now() < until {
                    std::hint::spin_loop();
                }
            }
            Work::Disk => {
                file.write_all(&[b'x'; 16 * 1024])
                    .and_then(|()| file.set_len(0))
                    .expect("write to a temporary file");
            }
            Work::Children => {
                // It lives until the next one comes, so that it can be seen.
                let mut child = Command::new("sleep").arg("0.3").spawn().expect("start sleep");
                child.wait().expect("wait for sleep");
            }
        }
        thread::sleep(PAUSE);
    }
}

pub(crate) fn write_note(mut file: impl Write, note: &str) {
    let line = note.replace('\n', " ") + "\n";
    file.write_all(line.as_bytes()).expect("append to the ledger");
}

pub(crate) fn signal_self(signal: Signal) {
    let signal = match signal {
        Signal::Kill => UnixSignal::KILL,
        Signal::Term => UnixSignal::TERM,
        Signal::Abrt => UnixSignal::ABORT,
        Signal::Stop => UnixSignal::STOP,
    };
    kill_process(getpid(), signal).expect("signal this process");
}

/// Puts `/dev/null` in the place of a stream, which closes the pipe that was there.
fn replace_by_null(replace: impl FnOnce(&File) -> rustix::io::Result<()>) {
    let null = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")
        .expect("open /dev/null");
    replace(&null).expect("replace a standard stream");
}

fn park() -> ! {
    loop {
        thread::park();
    }
}
