//! The audit log: every command of a person, kept on disk as lines of JSON.
//!
//! A command only puts its line into a bounded queue; a thread of its own writes the file. So a full or slow disk delays no command. A
//! line that finds no room is lost: it is counted, and the count is the next line of the file. `file` is the file and its rotation, `read`
//! reads it again.

mod file;
mod read;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::api::{ActorKind, EventDetail, EventRecord, now_ms};
use crate::control::new_instance;
use file::AuditFile;
pub use read::{AuditReading, read_audit};

/// Lines that wait for the disk. People give commands slowly; a script that gives more than this while the disk hangs loses some.
const QUEUE_LIMIT: usize = 1024;

/// Characters of the reason of a refusal that a line holds: a refused configuration may have thousands of problems.
const REASON_LIMIT: usize = 2_000;

/// Bytes of lines that are written at once.
const BATCH_LIMIT: usize = 64 * 1024;

/// How long the end of the program waits for the last lines to be written.
const END_TIMEOUT: Duration = Duration::from_millis(500);

/// A line of the file: an event, and the run of the program that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// The run of the program. With the number of the event it is unique.
    pub instance: String,
    /// What happened.
    #[serde(flatten)]
    pub event: EventRecord,
}

/// The way to the file. Dropped, it waits for a moment until the last lines are written.
pub(crate) struct AuditLog {
    instance: String,
    /// `None` only while this is dropped.
    lines: Option<SyncSender<String>>,
    lost: Arc<AtomicU64>,
    /// Its sender is gone when the thread has ended. Only the end of this waits for it.
    ended: Mutex<Receiver<()>>,
}

impl AuditLog {
    /// Writes to files in this directory, on a thread of its own. `None` if the system has no thread for it.
    pub(crate) fn start(directory: &Path, instance: &str) -> Option<Self> {
        Self::with_file(AuditFile::new(directory), instance)
    }

    fn with_file(file: AuditFile, instance: &str) -> Option<Self> {
        let (lines, waiting) = mpsc::sync_channel(QUEUE_LIMIT);
        let (end, ended) = mpsc::channel();
        let lost = Arc::new(AtomicU64::new(0));
        let writer = AuditWriter {
            file,
            instance: instance.to_owned(),
            lost: lost.clone(),
        };
        let write = move || {
            writer.run(&waiting);
            let _ended_without_a_listener = end.send(());
        };
        let started = thread::Builder::new()
            .name("mainstay-audit".to_owned())
            .spawn(write);
        if let Err(error) = started {
            tracing::warn!(%error, "commands are not kept on disk: the system has no thread");
            return None;
        }
        Some(Self {
            instance: instance.to_owned(),
            lines: Some(lines),
            lost,
            ended: Mutex::new(ended),
        })
    }

    /// Keeps an event, if a person caused it. Never waits.
    pub(crate) fn keep(&self, event: &EventRecord) {
        if !is_of_a_person(&event.detail) {
            return;
        }
        let line = line(&self.instance, event);
        let sent = self.lines.as_ref().map(|lines| lines.try_send(line));
        if !matches!(sent, Some(Ok(()))) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        self.lines = None;
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(END_TIMEOUT) {
            tracing::warn!("the last commands are not on disk: it does not answer");
        }
    }
}

/// Appends a command of a person that no running program records, such as a login at a terminal. Programs may write the same files at the
/// same time.
///
/// Blocks the thread for as long as the file system takes.
pub fn append_audit(directory: &Path, server: Option<String>, command: EventDetail) -> io::Result<()> {
    let event = EventRecord {
        sequence: 1,
        at_ms: now_ms(),
        node: None,
        server,
        detail: command,
    };
    AuditFile::new(directory).append(&line(&new_instance(), &event))
}

/// Whether an event is a command of a person, or the use of a link to the page. A reload by a signal is a command; a file that changed is
/// not.
fn is_of_a_person(detail: &EventDetail) -> bool {
    match detail {
        EventDetail::Command { .. } | EventDetail::PageLinkUsed { .. } => true,
        EventDetail::Reloaded { by, .. } | EventDetail::ReloadRefused { by, .. } => {
            by.via == ActorKind::Signal
        }
        EventDetail::Transition { .. }
        | EventDetail::CatalogChanged { .. }
        | EventDetail::Added
        | EventDetail::Removed
        | EventDetail::Lost { .. }
        | EventDetail::Unknown => false,
    }
}

/// The line of an event, in ASCII: what others chose, such as the name of a tool, drives no terminal that shows the file.
fn line(instance: &str, event: &EventRecord) -> String {
    let mut event = event.clone();
    match &mut event.detail {
        EventDetail::Command {
            refused: Some(why), ..
        }
        | EventDetail::ReloadRefused { title: why, .. } => cut(why),
        EventDetail::Reloaded { report, .. } => report.problems.clear(),
        EventDetail::Command { refused: None, .. }
        | EventDetail::Transition { .. }
        | EventDetail::CatalogChanged { .. }
        | EventDetail::PageLinkUsed { .. }
        | EventDetail::Added
        | EventDetail::Removed
        | EventDetail::Lost { .. }
        | EventDetail::Unknown => {}
    }
    let record = AuditRecord {
        instance: instance.to_owned(),
        event,
    };
    let mut line = ascii(&serde_json::to_string(&record).unwrap_or_default());
    line.push('\n');
    line
}

fn cut(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(REASON_LIMIT) {
        text.truncate(end);
        text.push('…');
    }
}

/// The same JSON with every character that is not printable ASCII as `\u` escapes. Such characters are in strings alone.
fn ascii(json: &str) -> String {
    let mut written = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            ' '..='~' => written.push(character),
            other => {
                for unit in other.encode_utf16(&mut [0; 2]) {
                    written.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    written
}

/// What the thread works with.
struct AuditWriter {
    file: AuditFile,
    instance: String,
    lost: Arc<AtomicU64>,
}

impl AuditWriter {
    fn run(mut self, waiting: &Receiver<String>) {
        let mut is_failing = false;
        while let Ok(first) = waiting.recv() {
            let mut lines = first;
            let mut count = 1;
            while lines.len() < BATCH_LIMIT
                && let Ok(line) = waiting.try_recv()
            {
                lines.push_str(&line);
                count += 1;
            }
            let lost = self.lost.swap(0, Ordering::Relaxed);
            let said = if lost > 0 { self.said(lost) } else { String::new() };
            match self.file.append(&(said + &lines)) {
                Ok(()) => {
                    if lost > 0 {
                        tracing::warn!(lost, "commands were not kept on disk");
                    }
                    is_failing = false;
                }
                Err(error) => {
                    self.lost.fetch_add(lost + count, Ordering::Relaxed);
                    // Once, until it works again.
                    if !is_failing {
                        tracing::warn!(%error, file = %self.file.shown(), "commands are not kept on disk");
                    }
                    is_failing = true;
                }
            }
        }
    }

    /// The line for those that are missing.
    fn said(&self, count: u64) -> String {
        let event = EventRecord {
            sequence: 0,
            at_ms: now_ms(),
            node: None,
            server: None,
            detail: EventDetail::Lost { count },
        };
        line(&self.instance, &event)
    }
}

#[cfg(test)]
mod tests;
