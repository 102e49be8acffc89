//! The catalogs that a fleet keeps on disk.

use std::fs;
use std::path::Path;

use crate::poll;

/// Waits until so many catalogs are in a directory. The end of a fleet waits only a moment for a slow disk.
///
/// # Panics
/// When they are not there in time.
///
/// # Cancel safety
/// Safe: it only reads.
pub async fn catalogs_are_stored(directory: &Path, count: usize) {
    let is_catalog = |entry: &fs::DirEntry| entry.path().extension().is_some_and(|end| end == "catalog");
    let stored = || {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.filter(is_catalog).count() >= count
    };
    let are_stored = poll::comes_true_async(poll::LIMIT, stored).await;
    assert!(are_stored, "{count} catalogs are stored");
}
