//! Where things are: the sources, the build directory, cargo.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

pub(crate) struct Project {
    root: PathBuf,
    target: PathBuf,
}

impl Project {
    /// Finds the root from where this program was compiled, and the build directory from where it runs
    /// (`TARGET/debug/xtask`), so that `CARGO_TARGET_DIR` is followed.
    pub(crate) fn find() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .context("xtask has no parent directory")?;
        let program = env::current_exe().context("cannot tell where xtask runs")?;
        let target = program
            .ancestors()
            .nth(2)
            .context("xtask does not run from a build directory")?;
        Ok(Self {
            root: root.to_owned(),
            target: target.to_owned(),
        })
    }

    /// A path below the project's root.
    pub(crate) fn source(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// A path below the build directory.
    pub(crate) fn built(&self, path: &str) -> PathBuf {
        self.target.join(path)
    }

    /// The cargo that runs this program, to be started in the project's root.
    pub(crate) fn cargo(&self) -> Command {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target);
        cargo
    }

    /// A subcommand of cargo that is a program of its own, to be started in the project's root.
    pub(crate) fn cargo_tool(&self, program: &Path) -> Command {
        let mut tool = Command::new(program);
        tool.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        tool
    }
}
