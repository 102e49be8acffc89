//! The minimum Rust version: stated once, kept by every dependency, and compiled with where that compiler is installed.
//!
//! The lints find newer parts of the standard library (`clippy::incompatible_msrv`), with any compiler. What is left to the old
//! compiler alone is newer syntax.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::child;
use crate::metadata::{self, Package};
use crate::project::Project;

const LOOK_WITHIN: Duration = Duration::from_secs(30);
const BUILD_SILENCE: Duration = Duration::from_secs(15 * 60);

pub(crate) fn check(project: &Project) -> Result<()> {
    let manifest = fs::read_to_string(project.source("Cargo.toml")).context("cannot read Cargo.toml")?;
    let minimum = said_in(&manifest).context("Cargo.toml names no rust-version")?;
    let packages = metadata::packages(project)?;
    let findings = findings(&packages, &minimum);
    if !findings.is_empty() {
        bail!(
            "the minimum Rust version is {minimum}, but:\n  {}",
            findings.join("\n  ")
        );
    }
    println!(
        "{} packages build with Rust {minimum}, or do not say",
        packages.len()
    );
    compile(project, &minimum)
}

/// Compiles everything that users build with the oldest compiler that is promised, if it is installed.
fn compile(project: &Project, minimum: &str) -> Result<()> {
    let mut look = Command::new("rustup");
    look.args(["run", minimum, "cargo", "--version"])
        .env("RUSTUP_AUTO_INSTALL", "0");
    if !child::succeeds(&mut look, LOOK_WITHIN) {
        println!(
            "Rust {minimum} is not installed, so nothing is compiled with it (rustup toolchain install {minimum})"
        );
        return Ok(());
    }
    let mut cargo = Command::new("rustup");
    cargo
        .args([
            "run",
            minimum,
            "cargo",
            "check",
            "--locked",
            "--package",
            "mainstay-cli",
        ])
        .current_dir(project.source(""))
        .env("CARGO_TARGET_DIR", project.built("minimum-rust"))
        // Those of the cargo that runs us.
        .env_remove("CARGO")
        .env_remove("RUSTC")
        .env_remove("RUSTUP_TOOLCHAIN");
    child::run_while_it_speaks(&mut cargo, BUILD_SILENCE)
}

/// The version that a manifest names.
fn said_in(manifest: &str) -> Option<String> {
    let line = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = "))?;
    Some(line.trim().trim_matches('"').to_owned())
}

fn findings(packages: &[Package], minimum: &str) -> Vec<String> {
    let finding = |package: &Package| match &package.rust_version {
        Some(version) if number(version) > number(minimum) => {
            Some(format!("{} needs Rust {version}", package.name))
        }
        Some(version) if package.is_ours() && version != minimum => {
            Some(format!("{} says {version}", package.name))
        }
        None if package.is_ours() => Some(format!("{} says nothing", package.name)),
        Some(_) | None => None,
    };
    packages.iter().filter_map(finding).collect()
}

/// `1.88` and `1.88.0` as numbers that can be compared.
fn number(version: &str) -> Vec<u32> {
    let mut number: Vec<u32> = version.split('.').map(|part| part.parse().unwrap_or(0)).collect();
    number.resize(3, 0);
    number
}

#[cfg(test)]
mod tests {
    use super::{findings, metadata, said_in};

    const METADATA: &str = r#"{"packages":[
        {"name":"old","version":"1.0.0","source":"registry+x","rust_version":"1.60"},
        {"name":"silent","version":"1.0.0","source":"registry+x","rust_version":null},
        {"name":"new","version":"2.0.0","source":"registry+x","rust_version":"1.90.1"},
        {"name":"mainstay","version":"0.1.0","source":null,"rust_version":"1.88"}]}"#;

    #[test]
    fn a_dependency_that_needs_a_newer_compiler_is_found() {
        let packages = metadata::read(METADATA).unwrap();
        assert_eq!(findings(&packages, "1.88"), ["new needs Rust 1.90.1"]);
        assert_eq!(findings(&packages, "1.91"), ["mainstay says 1.88"]);
    }

    #[test]
    fn a_crate_of_ours_that_says_nothing_is_found() {
        let ours = r#"{"packages":[{"name":"x","version":"0.1.0","source":null,"rust_version":null}]}"#;
        let packages = metadata::read(ours).unwrap();
        assert_eq!(findings(&packages, "1.88"), ["x says nothing"]);
    }

    #[test]
    fn the_version_is_read_from_the_manifest() {
        assert_eq!(said_in("[a]\nrust-version = \"1.88\"\n").as_deref(), Some("1.88"));
        assert_eq!(said_in("rust-version.workspace = true"), None);
    }
}
