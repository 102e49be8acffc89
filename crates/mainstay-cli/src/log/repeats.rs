//! Keeps lines that repeat themselves few: of each kind so many in some seconds, then the last one with a count.
//!
//! The last line of a burst is always written, at the end of its window, so that the log ends with how things are.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tracing::Level;

use super::record::{ACCESS, PAYLOAD, Record, STATE, STORE};
use super::writer::Writer;
use crate::output::{Screen, Text};

/// How long lines of one kind are counted together.
const WINDOW: Duration = Duration::from_secs(10);
/// How many lines of one kind are written in that time.
const BURST: u32 = 10;
/// How many kinds are counted separately. All others together are one more.
const MAX_KINDS: usize = 1024;

/// Which lines are alike: of one server and one message; all changes of one server's state are.
type RecordKind = (&'static str, String, String);

pub(super) struct Repeats {
    /// `None` where all lines wait for the end.
    writer: Option<Arc<Writer>>,
    screen: Screen,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    windows: HashMap<RecordKind, Window>,
    deferred: Vec<Record>,
    store_said: bool,
}

struct Window {
    ends: Instant,
    written: u32,
    /// The last line that was not written, and how many were left out before it.
    held: Option<(Record, u64)>,
}

impl Repeats {
    pub(super) fn start(screen: Screen, is_deferred: bool) -> Arc<Self> {
        let writer = (!is_deferred).then(|| Arc::new(Writer::new(screen)));
        let repeats = Arc::new(Self {
            writer: writer.clone(),
            screen,
            kept: Mutex::default(),
        });
        if let Some(writer) = writer {
            let (due, writing) = (repeats.clone(), writer.clone());
            let started = thread::Builder::new()
                .name("log".to_owned())
                .spawn(move || writing.run(|now| due.write_due(now)));
            match started {
                Ok(_) => drop(super::WRITER.set(writer)),
                Err(_) => screen.warning("the system starts no thread for the log: nothing is logged"),
            }
        }
        repeats
    }

    /// Writes a line, or holds it back.
    pub(super) fn offer(&self, record: Record) {
        let mut kept = self.kept();
        // Each server meets the same unusable directory.
        if record.target == STORE && std::mem::replace(&mut kept.store_said, true) {
            return;
        }
        if self.writer.is_none() {
            kept.deferred.push(record);
            return;
        }
        if [ACCESS, PAYLOAD].contains(&record.target) || record.level > Level::INFO {
            return self.write(&record, 0);
        }
        let now = Instant::now();
        let mut kind = kind(&record);
        if kept.windows.len() >= MAX_KINDS && !kept.windows.contains_key(&kind) {
            kind = ("", String::new(), String::new());
        }
        let window = kept.windows.entry(kind).or_insert_with(|| Window::new(now));
        if window.ends <= now {
            if let Some((held, left_out)) = window.held.take() {
                self.write(&held, left_out);
            }
            *window = Window::new(now);
        }
        if window.written < BURST {
            window.written += 1;
            self.write(&record, 0);
        } else {
            let left_out = window.held.take().map_or(0, |(_, left_out)| left_out + 1);
            window.held = Some((record, left_out));
        }
    }

    /// Writes everything that was held back.
    pub(super) fn flush(&self) {
        let mut kept = self.kept();
        for record in kept.deferred.drain(..) {
            self.screen.warning(record.sentence());
        }
        for window in kept.windows.values_mut() {
            if let Some((held, left_out)) = window.held.take() {
                self.write(&held, left_out);
            }
        }
        drop(kept);
        if let Some(writer) = &self.writer {
            writer.finish();
        }
    }

    /// Writes what was held back until now.
    fn write_due(&self, now: Instant) {
        self.kept().windows.retain(|_, window| {
            if window.ends > now {
                return true;
            }
            if let Some((held, left_out)) = window.held.take() {
                self.write(&held, left_out);
            }
            false
        });
    }

    fn write(&self, record: &Record, left_out: u64) {
        if let Some(writer) = &self.writer {
            writer.queue(self.form(record, left_out));
        }
    }

    fn form(&self, record: &Record, left_out: u64) -> Text {
        if self.screen.writes_json() {
            record.object(left_out)
        } else {
            record.line(self.screen.err, left_out)
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Window {
    fn new(now: Instant) -> Self {
        Self {
            ends: now + WINDOW,
            written: 0,
            held: None,
        }
    }
}

fn kind(record: &Record) -> RecordKind {
    let server = record.text("server").unwrap_or_default().to_string();
    let message = if record.target == STATE {
        String::new()
    } else {
        record.message.to_string()
    };
    (record.target, server, message)
}
