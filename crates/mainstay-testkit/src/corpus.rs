//! The inputs that the fuzzers found worth keeping.

use std::fs;
use std::path::Path;

/// Runs a fuzz target with every file of its corpus. The file at work is shown where it fails.
///
/// # Panics
///
/// If the corpus is missing or empty, or the target panics.
pub fn replay_corpus(name: &str, target: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(name);
    let files = fs::read_dir(&corpus).unwrap_or_else(|error| panic!("{}: {error}", corpus.display()));
    let mut replayed = 0;
    for file in files {
        let path = file.unwrap().path();
        println!("{}", path.display());
        target(&fs::read(&path).unwrap());
        replayed += 1;
    }
    assert!(replayed > 0, "{} is empty", corpus.display());
}
