//! The public API of the published crates, as listings in the repository: `crates/CRATE/public-api.txt`.
//!
//! A change of the API so shows in review as a change of a file. The step of `cargo xtask test` fails with the difference;
//! `cargo xtask public-api` writes the listings. They are made from rustdoc's JSON, whose format changes with the compiler:
//! with another format than the one below nothing is compared, and the step says so.

mod listing;
mod signature;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::child;
use crate::project::Project;

/// The crates with a stable API.
const CRATES: [&str; 5] = [
    "mainstay",
    "mainstay-gateway",
    "mainstay-lifecycle",
    "mainstay-oauth",
    "mainstay-rmcp",
];

/// The format of rustdoc's JSON that `listing` reads; that of Rust 1.95.
const FORMAT: u64 = 57;

const RUSTDOC_SILENCE: Duration = Duration::from_secs(15 * 60);

/// How many lines of a difference are shown.
const SHOWN: usize = 60;

/// Fails if the API of a crate is not the listed one.
pub(crate) fn check(project: &Project) -> Result<()> {
    let mut changed = Vec::new();
    for name in CRATES {
        let Some(now) = listed(project, name)? else {
            return Ok(());
        };
        let path = path(project, name);
        let before = fs::read_to_string(&path).unwrap_or_default();
        let difference = difference(&before, &now);
        if !difference.is_empty() {
            let shown = difference.iter().take(SHOWN).cloned().collect::<Vec<_>>();
            changed.push(format!("{name}:\n{}", shown.join("\n")));
        }
    }
    if changed.is_empty() {
        println!("the public API of {} crates is the listed one", CRATES.len());
        return Ok(());
    }
    bail!(
        "the public API changed; if that is meant, run `cargo xtask public-api` and commit the listings\n{}",
        changed.join("\n")
    )
}

/// Writes the listings.
pub(crate) fn renew(project: &Project) -> Result<()> {
    for name in CRATES {
        let Some(now) = listed(project, name)? else {
            bail!("the listings are made with the toolchain of rustdoc's format {FORMAT} (Rust 1.95)");
        };
        let path = path(project, name);
        fs::write(&path, now).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn path(project: &Project, name: &str) -> PathBuf {
    project.source("crates").join(name).join("public-api.txt")
}

/// The listing of a crate as it is now; `None` where this toolchain's rustdoc writes another format.
fn listed(project: &Project, name: &str) -> Result<Option<String>> {
    let mut cargo = project.cargo();
    cargo.env("RUSTDOC", project.source("xtask/rustdoc-json.sh"));
    cargo.args(["rustdoc", "--package", name, "--lib", "--all-features", "--"]);
    cargo.args(["-Z", "unstable-options", "--output-format", "json"]);
    child::run_while_it_speaks(&mut cargo, RUSTDOC_SILENCE)?;
    let path = project.built(&format!("doc/{}.json", name.replace('-', "_")));
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let document: Value = serde_json::from_str(&text).context("rustdoc's JSON cannot be read")?;
    let format = document["format_version"].as_u64();
    if format != Some(FORMAT) {
        println!("rustdoc writes format {format:?}, and the listings are of format {FORMAT}: not compared");
        return Ok(None);
    }
    let mut lines = listing::lines(&document).context("rustdoc's JSON is not as expected")?;
    lines.push(String::new());
    Ok(Some(lines.join("\n")))
}

/// The lines that only one of two listings has. Both are sorted, so their order says nothing.
fn difference(before: &str, now: &str) -> Vec<String> {
    let gone = before
        .lines()
        .filter(|line| !now.lines().any(|other| other == *line));
    let new = now
        .lines()
        .filter(|line| !before.lines().any(|other| other == *line));
    gone.map(|line| format!("- {line}"))
        .chain(new.map(|line| format!("+ {line}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn a_changed_signature_shows_as_one_line_gone_and_one_new() {
        let before = "fn a::b()\nfn a::c()\n";
        assert_eq!(difference(before, before), [""; 0]);
        let now = "fn a::b(&self)\nfn a::c()\n";
        assert_eq!(difference(before, now), ["- fn a::b()", "+ fn a::b(&self)"]);
    }
}
