//! What comes from PyPI: an environment of its own for each list of requirements.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::child;
use crate::project::Project;
use crate::stamp::Stamp;

const LOCAL_WITHIN: Duration = Duration::from_secs(120);
const INSTALL_WITHIN: Duration = Duration::from_secs(600);

/// Installs the `requirements.txt` of this directory into the environment at `home`, unless it is there.
pub(crate) fn install(project: &Project, source: &str, home: &Path) -> Result<()> {
    let stamp = Stamp::of(project, source, home, &["requirements.txt"])?;
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
    let mut pip = Command::new(&python);
    pip.args([
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--quiet",
        "--requirement",
        "requirements.txt",
    ]);
    child::run_with_retries(pip.current_dir(home), INSTALL_WITHIN)?;
    stamp.write()
}
