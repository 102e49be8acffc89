//! `cargo xtask rivals`: the programs that the gateway is measured beside, installed below `target/rivals`.
//!
//! The benchmark itself installs nothing: it leaves out, and says so, what is not there.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::child;
use crate::project::Project;
use crate::python;

const SOURCE: &str = "tests/rivals";

/// The crate, as its authors locked it.
const CRATE: (&str, &str) = ("mcp-proxy", "0.6.0");

const BUILD_WITHIN: Duration = Duration::from_secs(2400);

/// Installs what is missing.
pub(crate) fn install(project: &Project) -> Result<()> {
    python::install(project, SOURCE, &project.built("rivals/python"))
        .context("cannot install the rival from PyPI")?;
    install_crate(project).context("cannot install the rival from crates.io")?;
    println!("rivals are ready: {}", project.built("rivals").display());
    Ok(())
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
