//! Tells which mutant is chosen. `cargo xtask mutants` adds this file to each crate that it mutates.

use std::collections::BTreeSet;
use std::env;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};

/// Whether this mutant is chosen. Where a trace is asked for, writes the number of each mutant that is reached.
pub(crate) fn is(mutant: usize) -> bool {
    static CHOSEN: OnceLock<Option<usize>> = OnceLock::new();
    static TRACE: OnceLock<Option<Mutex<ReachLog>>> = OnceLock::new();

    if let Some(trace) = TRACE.get_or_init(ReachLog::open) {
        trace.lock().expect("no holder panics").note(mutant);
    }
    *CHOSEN.get_or_init(|| env::var("MUTANT").ok()?.parse().ok()) == Some(mutant)
}

/// Opened once. A test may leave its process without descriptors before that: then it is opened later.
struct ReachLog {
    path: PathBuf,
    file: Option<File>,
    reached: BTreeSet<usize>,
    unwritten: String,
}

impl ReachLog {
    fn open() -> Option<Mutex<Self>> {
        Some(Mutex::new(Self {
            path: env::var_os("MUTANT_TRACE")?.into(),
            file: None,
            reached: BTreeSet::new(),
            unwritten: String::new(),
        }))
    }

    fn note(&mut self, mutant: usize) {
        if self.reached.insert(mutant) {
            self.unwritten.push_str(&format!("{mutant}\n"));
        }
        if self.unwritten.is_empty() {
            return;
        }
        if self.file.is_none() {
            self.file = OpenOptions::new().append(true).create(true).open(&self.path).ok();
        }
        if let Some(file) = &mut self.file {
            // One write, so that the lines of two processes do not mix.
            let text = std::mem::take(&mut self.unwritten);
            file.write_all(text.as_bytes()).expect("write the trace of mutants");
        }
    }
}
