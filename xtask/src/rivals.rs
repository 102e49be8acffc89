//! `cargo xtask rivals`: the programs that the gateway is measured beside, installed below `target/rivals`.
//!
//! The benchmark itself installs nothing: it leaves out, and says so, what is not there.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::child;
use crate::project::Project;
use crate::stamp::Stamp;

const SOURCE: &str = "tests/rivals";

/// The crate, as its authors locked it.
const CRATE: (&str, &str) = ("mcp-proxy", "0.6.0");

const INSTALL_WITHIN: Duration = Duration::from_secs(600);
const BUILD_WITHIN: Duration = Duration::from_secs(2400);

/// Installs what is missing.
pub(crate) fn install(project: &Project) -> Result<()> {
    install_python(project).context("cannot install the rival from PyPI")?;
    install_crate(project).context("cannot install the rival from crates.io")?;
    println!("rivals are ready: {}", project.built("rivals").display());
    Ok(())
}

fn install_python(project: &Project) -> Result<()> {
    let home = project.built("rivals/python");
    let stamp = Stamp::of(project, SOURCE, &home, &["requirements.txt"])?;
    if stamp.is_current() {
        return Ok(());
    }
    child::run(
        Command::new("python3").args(["-m", "venv", "--clear"]).arg(&home),
        INSTALL_WITHIN,
    )?;
    stamp.copy_manifests()?;
    let mut pip = Command::new(home.join("bin/python"));
    pip.args([
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--quiet",
        "--requirement",
        "requirements.txt",
    ]);
    child::run_with_retries(pip.current_dir(&home), INSTALL_WITHIN)?;
    stamp.write()
}

/// Cargo knows by itself whether the program is there in this version.
fn install_crate(project: &Project) -> Result<()> {
    let (name, version) = CRATE;
    let mut install = project.cargo();
    install
        .args(["install", name, "--version", version, "--locked", "--root"])
        .arg(project.built("rivals"))
        .arg("--target-dir")
        .arg(project.built("rivals/build"));
    child::run(&mut install, BUILD_WITHIN)
}
