//! The ledger: one line for each thing a server did, appended to a file that outlives its processes.
//!
//! Each line is one `write` to a descriptor opened for appending, so lines of several processes never mix. A line
//! is noted when a request arrives, before any fault: `call echo k1` says that the tool was started, not that it answered.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::poll;

/// Reads what the servers that share one ledger file did.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    /// Keeps a temporary ledger's directory alive.
    _directory: Option<TempDir>,
}

impl Ledger {
    /// A ledger in a directory of its own, removed when dropped.
    ///
    /// # Panics
    /// When no temporary directory can be made.
    #[must_use]
    pub fn temporary() -> Self {
        let directory = tempfile::tempdir().expect("make a temporary directory");
        Self {
            path: directory.path().join("ledger"),
            _directory: Some(directory),
        }
    }

    /// The ledger in this file, which need not exist yet.
    #[must_use]
    pub fn at(path: impl AsRef<Path>) -> Self {
        Self {
            path: path.as_ref().to_owned(),
            _directory: None,
        }
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All lines so far, oldest first.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let text = fs::read(&self.path).unwrap_or_default();
        let complete = text
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(&[][..], |end| &text[..end]);
        if complete.is_empty() {
            return Vec::new();
        }
        String::from_utf8_lossy(complete)
            .split('\n')
            .map(str::to_owned)
            .collect()
    }

    /// How many lines begin with these words: `call echo` counts `call echo k1` but not `call echo_2`.
    #[must_use]
    pub fn count(&self, words: &str) -> usize {
        self.lines()
            .iter()
            .filter(|line| begins_with_words(line, words))
            .count()
    }

    /// What follows these words in each line that begins with them, oldest first.
    #[must_use]
    pub fn after(&self, words: &str) -> Vec<String> {
        let lines = self.lines();
        let rest = lines
            .iter()
            .filter_map(|line| line.strip_prefix(words)?.strip_prefix(' '));
        rest.map(str::to_owned).collect()
    }

    /// The ids of the server processes, in the order of their start.
    #[must_use]
    pub fn pids(&self) -> Vec<i32> {
        self.numbers_after("start ")
    }

    /// The ids of the children that servers left behind.
    #[must_use]
    pub fn children(&self) -> Vec<i32> {
        self.numbers_after("child ")
    }

    /// Waits until `holds`, looking every few milliseconds; `false` when `limit` has passed first.
    ///
    /// Blocks the thread: in an async test use [`Ledger::wait_for_async`].
    pub fn wait_for(&self, mut holds: impl FnMut(&Self) -> bool, limit: Duration) -> bool {
        poll::comes_true(limit, || holds(self))
    }

    /// As [`Ledger::wait_for`], without blocking the thread.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn wait_for_async(&self, mut holds: impl FnMut(&Self) -> bool, limit: Duration) -> bool {
        poll::comes_true_async(limit, || holds(self)).await
    }

    fn numbers_after(&self, prefix: &str) -> Vec<i32> {
        self.lines()
            .iter()
            .filter_map(|line| line.strip_prefix(prefix)?.trim().parse().ok())
            .collect()
    }
}

pub(crate) fn begins_with_words(line: &str, words: &str) -> bool {
    line.strip_prefix(words)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_whole_words_and_leaves_out_a_line_still_being_written() {
        let ledger = Ledger::temporary();
        assert_eq!(ledger.lines(), Vec::<String>::new());
        fs::write(
            ledger.path(),
            "start 7\ncall echo k1\ncall echo\ncall echo_2 k\nstart 8\nstart 9",
        )
        .unwrap();
        assert_eq!(ledger.count("call echo"), 2);
        assert_eq!(ledger.count("call"), 3);
        assert_eq!(ledger.pids(), [7, 8]);
        assert_eq!(ledger.after("call echo"), ["k1"]);
    }
}
