//! Where the programs of the workspace are that tests start.
//!
//! Cargo builds a crate's own programs for its tests, but not those of a dependency. So a program is looked for beside the
//! test executable, and built there when it is missing or older than its sources.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// The path of the up-to-date program `name` of `package`, a crate of this workspace.
///
/// # Panics
/// When the program is not built and cannot be.
#[must_use]
pub fn program(package: &str, name: &str) -> String {
    let directory = profile_directory();
    let program = directory.join(name);
    if is_stale(&program, &sources(package)) {
        build(&directory, package, name);
    }
    assert!(
        program.exists(),
        "{} is still missing after its build",
        program.display()
    );
    program.display().to_string()
}

/// `target/<profile>`: tests run from its `deps`, examples from its `examples`, programs from itself.
fn profile_directory() -> PathBuf {
    let executable = env::current_exe().expect("know the path of this test");
    let beside = executable.parent().expect("a program is in a directory");
    let nested = beside.ends_with("deps") || beside.ends_with("examples");
    let directory = if nested { beside.parent() } else { Some(beside) };
    directory.expect("deps is in a directory").to_owned()
}

fn is_stale(program: &Path, sources: &Path) -> bool {
    let Ok(built) = fs::metadata(program).and_then(|metadata| metadata.modified()) else {
        return true;
    };
    newest_under(sources).is_some_and(|changed| changed > built)
}

/// Where the package was built from; a test binary carried elsewhere takes the program beside it as it is.
fn sources(package: &str) -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    crates
        .expect("a crate is in a directory")
        .join(package)
        .join("src")
}

fn newest_under(directory: &Path) -> Option<SystemTime> {
    let entries = fs::read_dir(directory).ok()?;
    entries
        .flatten()
        .filter_map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => newest_under(&entry.path()),
            Ok(_) | Err(_) => entry.metadata().ok()?.modified().ok(),
        })
        .max()
}

fn build(directory: &Path, package: &str, name: &str) {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let profile = match directory.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let output = Command::new(cargo)
        .args([
            "build",
            "--quiet",
            "--offline",
            "--package",
            package,
            "--bin",
            name,
        ])
        .args(["--profile", profile, "--target-dir"])
        .arg(directory.parent().expect("a profile has a target directory"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output();
    let output =
        output.unwrap_or_else(|error| panic!("cannot run cargo to build {name} ({error}); set CARGO"));
    assert!(
        output.status.success(),
        "cargo could not build {name} ({}); build it by hand with `cargo build -p {package} --bin {name}`:\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr),
    );
}
