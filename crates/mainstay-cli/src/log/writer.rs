//! Writes lines to stderr in a thread of its own, so that a reader who is slow or has stopped reading holds up no other task.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::output::{Screen, Text, text, write_line};

/// Lines that wait to be written. What comes on top of them is dropped and counted.
const MAX_QUEUED: usize = 4096;
/// How often lines that were held back are looked for.
const TICK: Duration = Duration::from_secs(1);
/// How long the end of the program waits for the last lines.
const FINISH_TIMEOUT: Duration = Duration::from_millis(500);

pub(super) struct Writer {
    screen: Screen,
    queue: Mutex<Queue>,
    filled: Condvar,
    emptied: Condvar,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<Text>,
    /// Lines for which there was no room.
    dropped: u64,
    is_writing: bool,
}

impl Writer {
    pub(super) fn new(screen: Screen) -> Self {
        Self {
            screen,
            queue: Mutex::default(),
            filled: Condvar::new(),
            emptied: Condvar::new(),
        }
    }

    /// Takes a line. Never waits for the reader of stderr.
    pub(super) fn queue(&self, line: Text) {
        let mut queue = self.locked();
        if queue.lines.len() < MAX_QUEUED {
            queue.lines.push_back(line);
        } else {
            queue.dropped += 1;
        }
        drop(queue);
        self.filled.notify_one();
    }

    /// Writes lines until the program ends, and from time to time those that are due.
    pub(super) fn run(&self, write_due: impl Fn(Instant)) {
        let mut ticked = Instant::now();
        loop {
            let mut queue = self.locked();
            queue.is_writing = false;
            if queue.lines.is_empty() {
                self.emptied.notify_all();
                let waited = self.filled.wait_timeout(queue, TICK);
                (queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
            }
            queue.is_writing = true;
            let (lines, dropped) = (
                std::mem::take(&mut queue.lines),
                std::mem::take(&mut queue.dropped),
            );
            drop(queue);
            for line in lines {
                write_line(&line);
            }
            if dropped > 0 {
                self.screen
                    .warning(text!("{} log lines were dropped: stderr is not read", dropped));
            }
            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                write_due(ticked);
            }
        }
    }

    /// Waits until everything is written, unless stderr is not read.
    pub(super) fn finish(&self) {
        let is_busy = |queue: &mut Queue| queue.is_writing || !queue.lines.is_empty();
        let waited = self
            .emptied
            .wait_timeout_while(self.locked(), FINISH_TIMEOUT, is_busy);
        drop(waited);
    }

    fn locked(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
