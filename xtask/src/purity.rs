//! Proves that the lifecycle machine is pure: no dependency, no clock, no randomness, no lock, no IO.
//!
//! The compiler cannot say this of a crate, so the sources are read: comments and tests aside, none of the words below
//! may occur. It errs on the side of refusing; a name that only looks impure is better renamed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::child;
use crate::project::Project;

const CRATE: &str = "mainstay-lifecycle";
const CARGO_TREE_WITHIN: Duration = Duration::from_secs(120);

/// What may not occur, with what it would let in.
const FORBIDDEN: &[(&str, &str)] = &[
    ("Instant::now", "a clock"),
    ("SystemTime", "a clock"),
    (".elapsed()", "a clock"),
    ("rand::", "randomness"),
    ("RandomState", "randomness"),
    ("HashMap", "an order that differs from run to run"),
    ("HashSet", "an order that differs from run to run"),
    ("Mutex", "a lock"),
    ("RwLock", "a lock"),
    ("OnceLock", "shared state"),
    ("LazyLock", "shared state"),
    ("std::sync::atomic", "shared state"),
    ("thread_local!", "shared state"),
    ("std::thread", "threads"),
    ("async fn", "waiting"),
    (".await", "waiting"),
    ("std::env", "the environment"),
    ("std::fs", "input and output"),
    ("std::io", "input and output"),
    ("std::net", "input and output"),
    ("std::process", "input and output"),
    ("println!", "input and output"),
    ("unsafe", "anything at all"),
];

pub(crate) fn check(project: &Project) -> Result<()> {
    let mut findings = dependencies(project)?;
    let mut sources = Vec::new();
    collect_sources(&project.source("crates").join(CRATE).join("src"), &mut sources)?;
    for source in &sources {
        let text = fs::read_to_string(source).with_context(|| format!("cannot read {}", source.display()))?;
        findings.extend(
            impurities(&text)
                .into_iter()
                .map(|found| format!("{}:{found}", source.display())),
        );
    }
    if findings.is_empty() {
        println!(
            "{CRATE}: no dependency, and nothing impure in {} files",
            sources.len()
        );
        return Ok(());
    }
    bail!("{CRATE} is not pure:\n  {}", findings.join("\n  "))
}

/// One finding for each crate that the machine depends on, however far down.
fn dependencies(project: &Project) -> Result<Vec<String>> {
    let mut tree = project.cargo();
    tree.args([
        "tree",
        "--package",
        CRATE,
        "--edges",
        "normal,build",
        "--all-features",
    ]);
    tree.args(["--target", "all", "--prefix", "none"]);
    let tree = child::output(&mut tree, CARGO_TREE_WITHIN)?;
    let crates = tree
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with(CRATE));
    Ok(crates.map(|line| format!("depends on {line}")).collect())
}

fn collect_sources(directory: &Path, sources: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    paths.sort();
    let root = fs::read_to_string(directory.join("lib.rs")).unwrap_or_default();
    for path in paths {
        let module = path.file_stem().unwrap_or_default().to_string_lossy();
        let is_test = module == "tests" || is_for_tests(&root, &module);
        if path.is_dir() && !is_test {
            collect_sources(&path, sources)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") && !is_test {
            sources.push(path);
        }
    }
    Ok(())
}

/// Whether the root of a crate declares this module for its tests alone.
fn is_for_tests(root: &str, module: &str) -> bool {
    root.contains(&format!("#[cfg(test)]\nmod {module};\n"))
}

/// Each forbidden word in a source, as `LINE: word and what it lets in`. Tests come last in a file, so reading stops
/// where they begin.
fn impurities(source: &str) -> Vec<String> {
    let untested = source
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or_default();
    let findings = untested.lines().enumerate().flat_map(|(index, line)| {
        let code = line.split("//").next().unwrap_or_default();
        let found = FORBIDDEN.iter().filter(|(word, _)| contains_word(code, word));
        found.map(move |(word, lets_in)| format!("{}: `{word}` lets in {lets_in}", index + 1))
    });
    findings.collect()
}

/// Whether `word` occurs and is not a part of a longer name, as `rand::` is in `operand::`.
fn contains_word(code: &str, word: &str) -> bool {
    let in_name = |neighbour: char| neighbour.is_alphanumeric() || neighbour == '_';
    code.match_indices(word).any(|(start, _)| {
        let before = code[..start].chars().next_back().is_some_and(in_name) && word.starts_with(in_name);
        let after = code[start + word.len()..].chars().next().is_some_and(in_name) && word.ends_with(in_name);
        !before && !after
    })
}

#[cfg(test)]
mod tests {
    use super::{impurities, is_for_tests};

    #[test]
    fn a_module_for_tests_alone_is_told_from_the_others() {
        let root = "mod step;\n#[cfg(test)]\nmod walk;\nmod walker;\n";
        assert!(is_for_tests(root, "walk"));
        assert!(!is_for_tests(root, "step") && !is_for_tests(root, "walker"));
    }

    #[test]
    fn a_clock_in_the_code_is_found_with_its_line() {
        let found = impurities("fn f() {\n    let now = std::time::Instant::now();\n}\n");
        assert_eq!(found, ["2: `Instant::now` lets in a clock"]);
    }

    #[test]
    fn comments_and_tests_may_speak_of_clocks_and_locks() {
        let source = "//! Takes no Mutex.\nfn f() {} // not Instant::now\n#[cfg(test)]\nmod tests { use std::thread; }\n";
        assert_eq!(impurities(source), [""; 0]);
    }

    #[test]
    fn code_after_the_declaration_of_a_test_file_is_still_read() {
        let source = "#[cfg(test)]\nmod tests;\nstatic LAST: Mutex<u8> = Mutex::new(0);\n";
        assert_eq!(impurities(source), ["3: `Mutex` lets in a lock"]);
    }

    #[test]
    fn a_longer_name_is_not_a_finding() {
        assert_eq!(
            impurities("use operand::x; struct MutexFree; let y = a.elapsed_since(b);"),
            [""; 0]
        );
    }

    #[test]
    fn a_hash_map_is_found_wherever_it_is_named() {
        assert_eq!(impurities("use std::collections::{BTreeMap, HashMap};").len(), 1);
    }
}
