//! The public API of the published crates, as listings in the repository: `crates/CRATE/public-api.txt`.
//!
//! A change of the API so shows in review as a change of a file. `cargo xtask nightly` fails with the difference;
//! `cargo xtask public-api` writes the listings. `cargo-public-api` makes them from rustdoc's JSON.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cargo_tools::{Installation, PUBLIC_API};
use crate::child;
use crate::project::Project;
use crate::steps::StepEnd;

/// The crates with a stable API.
const CRATES: [&str; 5] = [
    "mainstay",
    "mainstay-gateway",
    "mainstay-lifecycle",
    "mainstay-oauth",
    "mainstay-rmcp",
];

const RUSTDOC_SILENCE: Duration = Duration::from_secs(15 * 60);
const LISTING_TIMEOUT: Duration = Duration::from_secs(120);

/// How many lines of a difference are shown.
const SHOWN: usize = 60;

/// Fails if the API of a crate is not the listed one.
pub(crate) fn check(project: &Project) -> Result<StepEnd> {
    let tool = match PUBLIC_API.install(project)? {
        Installation::Ready(tool) => tool,
        Installation::Unreachable(reason) => return Ok(StepEnd::Skipped(reason)),
    };
    let mut changed = Vec::new();
    for name in CRATES {
        let now = listing(project, &tool, name)?;
        let before = fs::read_to_string(path(project, name)).unwrap_or_default();
        let difference = difference(&before, &now);
        if !difference.is_empty() {
            let shown = difference.iter().take(SHOWN).cloned().collect::<Vec<_>>();
            changed.push(format!("{name}:\n{}", shown.join("\n")));
        }
    }
    if changed.is_empty() {
        println!("the public API of {} crates is the listed one", CRATES.len());
        return Ok(StepEnd::Passed);
    }
    bail!(
        "the public API changed; if that is meant, run `cargo xtask public-api` and commit the listings\n{}",
        changed.join("\n")
    )
}

/// Writes the listings.
pub(crate) fn renew(project: &Project) -> Result<()> {
    let tool = match PUBLIC_API.install(project)? {
        Installation::Ready(tool) => tool,
        Installation::Unreachable(reason) => bail!(reason),
    };
    for name in CRATES {
        let path = path(project, name);
        let listing = listing(project, &tool, name)?;
        fs::write(&path, listing).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn path(project: &Project, name: &str) -> PathBuf {
    project.source("crates").join(name).join("public-api.txt")
}

/// The listing of a crate as it is now.
fn listing(project: &Project, tool: &Path, name: &str) -> Result<String> {
    let mut rustdoc = project.cargo();
    rustdoc.env("RUSTDOC", project.source("xtask/rustdoc-json.sh"));
    rustdoc.args(["rustdoc", "--package", name, "--lib", "--all-features", "--"]);
    // Without its own test for a nightly, so that the stable compiler of everything else makes the listing.
    rustdoc.args(["-Z", "unstable-options", "--output-format", "json"]);
    child::run_while_it_speaks(&mut rustdoc, RUSTDOC_SILENCE)?;
    let json = project.built(&format!("doc/{}.json", name.replace('-', "_")));
    let mut public_api = Command::new(tool);
    public_api
        .current_dir(project.source(""))
        .args(["public-api", "--color=never", "-sss", "--rustdoc-json"])
        .arg(json);
    child::output(&mut public_api, LISTING_TIMEOUT)
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
