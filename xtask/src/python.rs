//! What comes from PyPI: an environment of its own for each list of requirements.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{fs, iter};

use anyhow::{Context, Result};

use crate::child;
use crate::project::Project;
use crate::stamp::Stamp;

const LOCAL_WITHIN: Duration = Duration::from_secs(120);
const INSTALL_WITHIN: Duration = Duration::from_secs(600);

/// Installs the `requirements.txt` of this directory into the environment at `home`, unless it is there.
pub(crate) fn install(project: &Project, source: &str, home: &Path) -> Result<()> {
    install_with(project, source, home, None)
}

/// As [`install`]; then installs each release that the file `releases` of the same directory names, without its
/// dependencies and beside the others: `mcp==1.6.0` goes to `home/releases/mcp==1.6.0`, for `PYTHONPATH`.
pub(crate) fn install_releases(
    project: &Project,
    source: &str,
    home: &Path,
    releases: &'static str,
) -> Result<()> {
    install_with(project, source, home, Some(releases))
}

/// The releases that a file of [`install_releases`] names.
pub(crate) fn releases(project: &Project, source: &str, file: &str) -> Result<Vec<String>> {
    let path = project.source(source).join(file);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines = text.lines().map(str::trim);
    Ok(lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect())
}

/// Where [`install_releases`] puts a release.
pub(crate) fn release_home(home: &Path, release: &str) -> PathBuf {
    home.join("releases").join(release)
}

fn install_with(project: &Project, source: &str, home: &Path, beside: Option<&'static str>) -> Result<()> {
    let manifests: Vec<_> = iter::once("requirements.txt").chain(beside).collect();
    let stamp = Stamp::of(project, source, home, &manifests)?;
    let python = home.join("bin/python");
    // An upgrade of the machine's Python can leave an environment behind that no longer starts.
    let starts = || child::succeeds(Command::new(&python).args(["-c", ""]), LOCAL_WITHIN);
    if stamp.is_current() && starts() {
        return Ok(());
    }
    child::run(
        Command::new("python3").args(["-m", "venv", "--clear"]).arg(home),
        LOCAL_WITHIN,
    )?;
    stamp.copy_manifests()?;
    let pip = || {
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--disable-pip-version-check", "--quiet"])
            .current_dir(home);
        pip
    };
    child::run_with_retries(pip().args(["--requirement", "requirements.txt"]), INSTALL_WITHIN)?;
    if let Some(beside) = beside {
        for release in releases(project, source, beside)? {
            let mut pip = pip();
            pip.args(["--no-deps", "--target"])
                .arg(release_home(home, &release))
                .arg(&release);
            child::run_with_retries(&mut pip, INSTALL_WITHIN)?;
        }
    }
    stamp.write()
}
