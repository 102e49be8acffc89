//! Tells which mutant is chosen. `cargo xtask mutants` adds this file to each crate that it mutates.

use std::collections::BTreeSet;
use std::env;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
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

/// Opened once: a test may leave its process without descriptors.
struct ReachLog {
    file: File,
    reached: BTreeSet<usize>,
}

impl ReachLog {
    fn open() -> Option<Mutex<Self>> {
        let path = env::var("MUTANT_TRACE").ok()?;
        let file = OpenOptions::new().append(true).create(true).open(path);
        Some(Mutex::new(Self {
            file: file.expect("open the trace of mutants"),
            reached: BTreeSet::new(),
        }))
    }

    fn note(&mut self, mutant: usize) {
        if self.reached.insert(mutant) {
            // One write, so that the lines of two processes do not mix.
            let line = format!("{mutant}\n");
            self.file.write_all(line.as_bytes()).expect("write the trace of mutants");
        }
    }
}
