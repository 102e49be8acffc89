//! Where the program is, and what it needs from the shell that installs the service.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::args::Common;
use crate::load::set_path;

/// What a service is started with.
pub(super) struct ServicePlace {
    /// The program.
    pub(super) program: String,
    /// The configuration, if one was named.
    pub(super) config: Option<String>,
    /// The PATH of the shell that installs the service. A service manager has a short one, which often lacks npx and uvx.
    pub(super) path: Option<String>,
}

impl ServicePlace {
    pub(super) fn of_this_program(common: &Common) -> anyhow::Result<Self> {
        let program = env::current_exe().context("the path of this program is not known")?;
        let path = env::var_os("PATH");
        // Package managers replace the file and keep the link in the PATH, so the link survives an upgrade.
        let linked = path.as_ref().and_then(|path| {
            let mut candidates = env::split_paths(path).map(|directory| directory.join("mainstay"));
            candidates.find(|candidate| candidate.is_absolute() && is_same(candidate, &program))
        });
        // The service has its own environment, so what names the configuration here is written down.
        let config = match common.config.clone().or_else(|| set_path("MAINSTAY_CONFIG")) {
            Some(config) => {
                let absolute = std::path::absolute(&config).context("the working directory is not known")?;
                Some(written(&absolute, "the path of the configuration")?)
            }
            None => None,
        };
        let path = match path {
            Some(path) => Some(written(Path::new(&path), "PATH")?),
            None => None,
        };
        Ok(Self {
            program: written(&linked.unwrap_or(program), "the path of this program")?,
            config,
            path,
        })
    }

    /// The arguments of the program.
    pub(super) fn arguments(&self, own: &[&str]) -> Vec<String> {
        let mut arguments: Vec<String> = ["daemon", "run"]
            .iter()
            .chain(own)
            .map(|word| (*word).to_owned())
            .collect();
        if let Some(config) = &self.config {
            arguments.extend(["--config".to_owned(), config.clone()]);
        }
        arguments
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| -> Option<PathBuf> { path.canonicalize().ok() };
    real(one).is_some() && real(one) == real(other)
}

/// A path as text that a file of one line per value can hold.
fn written(path: &Path, what: &str) -> anyhow::Result<String> {
    let Some(text) = path.to_str() else {
        bail!("{what} is not UTF-8: {}", path.display());
    };
    if text.contains(char::is_control) {
        bail!("{what} holds a control character: {text:?}");
    }
    Ok(text.to_owned())
}
