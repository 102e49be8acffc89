//! The program on a terminal that a test reads and types into.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::sandbox::Sandbox;

/// Far more than any step takes.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct PseudoTerminal {
    child: Child,
    master: File,
    output: Receiver<Vec<u8>>,
    screen: String,
    /// How much of the screen was waited for.
    seen: usize,
}

impl PseudoTerminal {
    pub(crate) fn start(sandbox: &Sandbox, arguments: &[&str], env: &[(&str, &str)]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let terminal = open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let child = sandbox
            .command(arguments)
            .env("TERM", "xterm-256color")
            .env("NO_COLOR", "1")
            .envs(env.iter().copied())
            .stdin(Stdio::from(terminal.try_clone().unwrap()))
            .stdout(Stdio::from(terminal.try_clone().unwrap()))
            .stderr(Stdio::from(terminal))
            .spawn()
            .unwrap();
        let master = File::from(master);
        let mut reader = master.try_clone().unwrap();
        let (sender, output) = mpsc::channel();
        thread::spawn(move || {
            let mut piece = [0; 4096];
            // A terminal that no process holds open any more reads as an error, not as an end.
            while let Ok(read @ 1..) = reader.read(&mut piece) {
                if sender.send(piece[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            master,
            output,
            screen: String::new(),
            seen: 0,
        }
    }

    /// Waits until the terminal shows this text after what was waited for before.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) {
        let at = self.wait_until(|new| new.find(text).map(|at| at + text.len()));
        self.seen += at;
    }

    /// Waits for a word that begins so, and returns it whole.
    #[track_caller]
    pub(crate) fn wait_for_word(&mut self, start: &str) -> String {
        let mut word = String::new();
        let at = self.wait_until(|new| {
            let begin = new.find(start)?;
            let length = new[begin..].find(char::is_whitespace)?;
            new[begin..begin + length].clone_into(&mut word);
            Some(begin + length)
        });
        self.seen += at;
        word
    }

    /// The word that follows this text, which was waited for before.
    #[track_caller]
    pub(crate) fn wait_for_word_after(&mut self, text: &str) -> String {
        let start = self.screen.find(text).expect("waited for") + text.len();
        self.seen = start;
        let mut word = String::new();
        self.wait_until(|new| {
            let length = new.find(char::is_whitespace)?;
            new[..length].clone_into(&mut word);
            Some(length)
        });
        word
    }

    /// Types this text.
    pub(crate) fn write(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end of the program, and returns all that the terminal was sent.
    #[track_caller]
    pub(crate) fn finish(mut self, code: i32) -> String {
        let deadline = Instant::now() + STEP_TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(piece) => self.screen += &String::from_utf8_lossy(&piece),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let _ = self.child.kill();
                    panic!("the program hangs:\n{}", self.screen);
                }
            }
        }
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), Some(code), "{}", self.screen);
        std::mem::take(&mut self.screen)
    }

    #[track_caller]
    fn wait_until(&mut self, mut found: impl FnMut(&str) -> Option<usize>) -> usize {
        let deadline = Instant::now() + STEP_TIMEOUT;
        loop {
            if let Some(at) = found(&self.screen[self.seen..]) {
                return at;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(piece) => self.screen += &String::from_utf8_lossy(&piece),
                Err(_) => panic!("the terminal never shows it:\n{}", self.screen),
            }
        }
    }
}

impl Drop for PseudoTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
