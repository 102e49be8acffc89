//! Tools that cargo installs from the registry into `target/tools`, each in one version. They stay there for later runs.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::child;
use crate::project::Project;

const LOOK_TIMEOUT: Duration = Duration::from_secs(60);
/// The time in which an installation may write nothing.
const INSTALL_SILENCE: Duration = Duration::from_secs(15 * 60);

/// A subcommand of cargo.
pub(crate) struct CargoTool {
    name: &'static str,
    version: &'static str,
}

/// Licences, sources and bans, by the rules of `deny.toml`; advisories.
pub(crate) const DENY: CargoTool = CargoTool {
    name: "cargo-deny",
    version: "0.20.2",
};

/// The libraries with each set of their features, and with the oldest Rust.
pub(crate) const HACK: CargoTool = CargoTool {
    name: "cargo-hack",
    version: "0.6.46",
};

pub(crate) const MUTANTS: CargoTool = CargoTool {
    name: "cargo-mutants",
    version: "27.1.0",
};

/// The public API as a listing, from rustdoc's JSON. This version reads the format that Rust 1.95 writes.
pub(crate) const PUBLIC_API: CargoTool = CargoTool {
    name: "cargo-public-api",
    version: "0.52.0",
};

/// Whether a tool can be used.
pub(crate) enum Installation {
    Ready(PathBuf),
    /// It is not installed, and cannot be: the reason.
    Unreachable(String),
}

impl CargoTool {
    /// Installs the tool if this version is not there yet.
    pub(crate) fn install(&self, project: &Project) -> Result<Installation> {
        let root = project.built("tools");
        let program = root.join("bin").join(self.name);
        if self.is_at(&program) {
            return Ok(Installation::Ready(program));
        }
        let release = format!("{}@{}", self.name, self.version);
        if !is_reachable(&release) {
            return Ok(Installation::Unreachable(format!(
                "{release} is not installed, and the registry is not reachable"
            )));
        }
        // Without optimisation it is built in half the time, and nothing here keeps it busy for long.
        let mut install = Command::new("cargo");
        install
            .args(["install", "--locked", "--debug", "--force", &release])
            .arg("--root")
            .arg(&root)
            .arg("--target-dir")
            .arg(root.join("build"))
            .current_dir(project.source(""))
            .env("CARGO_PROFILE_DEV_DEBUG", "0");
        child::run_while_it_speaks(&mut install, INSTALL_SILENCE)
            .with_context(|| format!("cannot install {release}"))?;
        if !self.is_at(&program) {
            bail!("{} is not {release} after its installation", program.display());
        }
        Ok(Installation::Ready(program))
    }

    /// Whether this version is installed there. The first word of the tool's arguments is the subcommand's name, as cargo
    /// passes it.
    fn is_at(&self, program: &PathBuf) -> bool {
        let subcommand = self.name.trim_start_matches("cargo-");
        let version = child::output(
            Command::new(program).args([subcommand, "--version"]),
            LOOK_TIMEOUT,
        );
        version.is_ok_and(|version| version.split_whitespace().any(|word| word == self.version))
    }
}

/// Whether the registry answers for this release.
fn is_reachable(release: &str) -> bool {
    let mut info = Command::new("cargo");
    // Outside of the workspace, whose lock file would decide otherwise.
    info.args(["info", "--registry", "crates-io", release])
        .current_dir(std::env::temp_dir());
    child::succeeds(&mut info, LOOK_TIMEOUT)
}
