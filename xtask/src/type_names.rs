//! One type name, one meaning: no two types of the workspace share a name.
//!
//! A reader who meets `Server` or `Event` must not have to ask which one. The step reads the sources of all crates, tests and
//! benchmarks aside, and fails if a name is defined twice and at least one of the two is visible outside of its file. Two
//! types that are private to their files may share a name. Nested items (in a function, in an inner module) do not count.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::project::Project;

/// Names that may stand twice, each with its reason.
const EXCEPTIONS: &[(&str, &str)] = &[
    (
        "Endpoint",
        "`no_client.rs` stands in for it without the feature `http`",
    ),
    (
        "PortProbe",
        "`no_client.rs` stands in for it without the feature `http`",
    ),
    (
        "TlsConfig",
        "`no_tls.rs` stands in for it without the feature `tls`",
    ),
];

pub(crate) fn check(project: &Project) -> Result<()> {
    let mut sources = Vec::new();
    for package in directories(&project.source("crates"))? {
        collect_sources(&package.join("src"), &mut sources)?;
    }
    collect_sources(&project.source("xtask").join("src"), &mut sources)?;
    let mut names = Names::default();
    for source in &sources {
        let text = fs::read_to_string(source).with_context(|| format!("cannot read {}", source.display()))?;
        names.add(&source.display().to_string(), &text);
    }
    let shared = names.shared(EXCEPTIONS);
    if shared.is_empty() {
        println!(
            "{} type names in {} files: no visible one stands twice",
            names.0.len(),
            sources.len()
        );
        return Ok(());
    }
    bail!(
        "a type name must have one meaning in the whole workspace; rename one of each:\n{}",
        shared.join("\n")
    )
}

/// Each type name with the places that define it.
#[derive(Default)]
struct Names(BTreeMap<String, Vec<Definition>>);

struct Definition {
    place: String,
    is_visible: bool,
}

impl Names {
    fn add(&mut self, file: &str, text: &str) {
        for (index, line) in text.lines().enumerate() {
            if line == "mod tests {" {
                break;
            }
            if let Some((name, is_visible)) = defined(line) {
                self.0.entry(name.to_owned()).or_default().push(Definition {
                    place: format!("{file}:{}", index + 1),
                    is_visible,
                });
            }
        }
    }

    /// A paragraph for each name that is defined more than once and is visible at one place at least.
    fn shared(&self, exceptions: &[(&str, &str)]) -> Vec<String> {
        let shared = self.0.iter().filter(|(name, definitions)| {
            definitions.len() > 1
                && definitions.iter().any(|definition| definition.is_visible)
                && !exceptions.iter().any(|(excepted, _)| excepted == name)
        });
        shared
            .map(|(name, definitions)| {
                let places = definitions
                    .iter()
                    .map(|definition| format!("\n    {}", definition.place));
                format!("  {name}{}", places.collect::<String>())
            })
            .collect()
    }
}

/// The type that a line at the top level of a file defines, and whether other files can see it.
fn defined(line: &str) -> Option<(&str, bool)> {
    let (is_visible, item) = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => (true, rest.split_once(") ")?.1),
        Some(rest) => (true, rest.strip_prefix(' ')?),
        None => (false, line),
    };
    let keywords = ["struct ", "enum ", "trait ", "type ", "union "];
    let rest = keywords.iter().find_map(|keyword| item.strip_prefix(keyword))?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
    Some((&rest[..end.unwrap_or(rest.len())], is_visible))
}

/// The sources below a directory, without files and directories of tests.
fn collect_sources(directory: &Path, sources: &mut Vec<PathBuf>) -> Result<()> {
    for path in entries(directory)? {
        if path.file_stem().is_some_and(|name| name == "tests") {
            continue;
        }
        if path.is_dir() {
            collect_sources(&path, sources)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push(path);
        }
    }
    Ok(())
}

fn directories(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = entries(directory)?.into_iter();
    Ok(entries.filter(|path| path.join("src").is_dir()).collect())
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::{Names, defined};

    fn shared(files: &[(&str, &str)]) -> Vec<String> {
        let mut names = Names::default();
        for (file, text) in files {
            names.add(file, text);
        }
        names.shared(&[("Allowed", "a reason")])
    }

    #[test]
    fn a_visible_name_that_stands_twice_is_found_with_both_places() {
        let found = shared(&[
            ("a.rs", "\npub(crate) struct Event<'a> {"),
            ("b.rs", "enum Event {"),
        ]);
        assert_eq!(found, ["  Event\n    a.rs:2\n    b.rs:1"]);
    }

    #[test]
    fn private_twins_exceptions_nested_types_and_tests_are_let_pass() {
        let found = shared(&[
            (
                "a.rs",
                "struct Shared;\npub struct Allowed;\npub struct Server;\n",
            ),
            (
                "b.rs",
                "struct Shared;\npub enum Allowed {}\n    struct Server;\n#[cfg(test)]\nmod tests {\nstruct Server;",
            ),
        ]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn every_kind_of_type_and_visibility_is_read() {
        for (line, expected) in [
            ("pub trait Transport: Send {", Some(("Transport", true))),
            ("pub(in crate::transport) struct Head {", Some(("Head", true))),
            ("type Work = Box<u8>;", Some(("Work", false))),
            ("pub struct Unit;", Some(("Unit", true))),
            ("pub fn structure() {", None),
            ("publish", None),
        ] {
            assert_eq!(defined(line), expected, "{line}");
        }
    }
}
