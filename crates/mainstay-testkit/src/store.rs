//! The catalogs that a fleet keeps on disk.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// A file gives no event when it is written.
const POLL: Duration = Duration::from_millis(5);

/// Longer than the slowest disk takes; reached only by a test that fails.
const LIMIT: Duration = Duration::from_secs(30);

/// Waits until so many catalogs are in a directory. The end of a fleet waits only a moment for a slow disk.
///
/// # Panics
/// When they are not there in time.
///
/// # Cancel safety
/// Safe: it only reads.
pub async fn catalogs_are_stored(directory: &Path, count: usize) {
    let is_catalog = |entry: &fs::DirEntry| entry.path().extension().is_some_and(|end| end == "catalog");
    let deadline = Instant::now() + LIMIT;
    while fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter(is_catalog)
        .count()
        < count
    {
        assert!(Instant::now() < deadline, "{count} catalogs are stored");
        tokio::time::sleep(POLL).await;
    }
}
