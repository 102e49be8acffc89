//! Where the real MCP servers and clients are that Mainstay's tests talk to.
//!
//! `cargo xtask partners` installs them and writes `target/partners/partners.json`; [`partners`] reads it. What
//! happens without it is decided here, once, by the environment variable `MAINSTAY_PARTNERS`:
//!
//! - a path, as `cargo xtask test` sets it: every partner must be there, and a missing one fails the test;
//! - empty: tests with partners are skipped;
//! - not set, as in a plain `cargo test`: what is installed is used, and without it the tests are skipped.

mod http;
mod protected;
mod python_protected;
mod serving;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

pub use http::{HttpPartner, HttpPartners, RunningServer, free_port};
pub use protected::{ProtectedServer, ProtectedStats, TokenFault};
pub use python_protected::{PythonFramework, PythonProtectedServer};
pub use serving::serve_http;

/// The real servers, each ready to be started over stdio; [`Partners::over_http`] has those that speak HTTP too.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Partners {
    /// The reference server with every feature (TypeScript SDK).
    pub everything: Partner,
    /// Files under one directory (TypeScript SDK). Its last argument is that directory.
    pub filesystem: Partner,
    /// A knowledge graph kept in the file `MEMORY_FILE_PATH` (TypeScript SDK).
    pub memory: Partner,
    /// Time zones (Python SDK, both eras).
    pub time: Partner,
    /// One git repository with one commit (Python SDK, both eras). Its last argument is that repository.
    pub git: Partner,
    /// The project's own server on the Python SDK, both eras.
    pub python: Partner,
    /// This crate's own program on rmcp, both eras.
    pub rmcp: Partner,
    /// Small servers on old releases of the SDKs, legacy era alone, with a tool `echo`: by the name of the release, such as
    /// `python-sdk-1.6.0`.
    pub old_sdks: BTreeMap<String, Partner>,
    /// The real clients.
    pub clients: Clients,
    /// A real authorization server and an MCP server that it protects. Its last argument, which the test adds, is how long a
    /// token lives in seconds. `None` if an older `cargo xtask partners` installed the others.
    #[serde(default)]
    pub authorization_server: Option<Partner>,
    /// A host, Gemini CLI. The test adds the command. `None` if an older `cargo xtask partners` installed the others.
    #[serde(default)]
    pub gemini_cli: Option<Partner>,
}

/// What the real clients are run with.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clients {
    /// A Node that all of them run on; just `node` where none was brought for this machine.
    pub node: PathBuf,
    /// The Python that has the Python SDK.
    pub python: PathBuf,
    /// The `node_modules` with the TypeScript client and the Inspector.
    pub packages: PathBuf,
    /// The scripts that drive the clients, a directory of the project.
    pub scripts: PathBuf,
}

/// How one real server is started.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Partner {
    /// The program, as an absolute path, or a name to look up in `PATH`.
    pub command: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// What its environment must have beside the inherited one.
    pub env: BTreeMap<String, String>,
}

/// The installed partners, or `None` when the calling test should return early; a line on stderr says so.
///
/// # Panics
///
/// When `MAINSTAY_PARTNERS` promises partners and one is not there, and when what is installed is broken.
#[must_use]
pub fn partners() -> Option<Partners> {
    let promised = env::var_os("MAINSTAY_PARTNERS").map(PathBuf::from);
    let Some(file) = locate(promised, installed()) else {
        eprintln!("skipped: no test partners; run `cargo xtask partners` to have them");
        return None;
    };
    match read(&file) {
        Ok(partners) => Some(partners),
        Err(problem) => panic!("{problem}; run `cargo xtask partners`"),
    }
}

/// A program of the machine that `cargo xtask partners` installs there, or `None` when the calling test should return early; a line
/// on stderr says so.
///
/// # Panics
///
/// When `MAINSTAY_PARTNERS` promises partners and the program is not in `PATH`.
#[must_use]
pub fn system_program(name: &str) -> Option<PathBuf> {
    let promised = env::var_os("MAINSTAY_PARTNERS");
    let is_promised = promised.as_ref().is_some_and(|promised| !promised.is_empty());
    let places = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&places)
        .map(|place| place.join(name))
        .find(|path| path.is_file());
    assert!(
        found.is_some() || !is_promised,
        "{name} is not in PATH; run `cargo xtask partners`"
    );
    if found.is_none() || promised.is_some_and(|promised| promised.is_empty()) {
        eprintln!("skipped: {name} is not wanted, or not installed");
        return None;
    }
    found
}

/// The Python that has what `tests/traces` needs, or `None` when the calling test should return early; a line on stderr says so.
///
/// # Panics
///
/// When `MAINSTAY_PARTNERS` promises partners and this one is not there.
#[must_use]
pub fn traced_python() -> Option<PathBuf> {
    python_in("traces")
}

/// The Python that has NVIDIA NeMo Agent Toolkit, or `None` when the calling test should return early; a line on stderr says so.
///
/// # Panics
///
/// When `MAINSTAY_PARTNERS` promises partners and this one is not there.
#[must_use]
pub fn nemo_agent_toolkit_python() -> Option<PathBuf> {
    python_in("nemo-agent-toolkit")
}

/// The Python of the environment that is installed under this name.
fn python_in(environment: &str) -> Option<PathBuf> {
    let promised = env::var_os("MAINSTAY_PARTNERS").map(PathBuf::from);
    let is_promised = promised
        .as_ref()
        .is_some_and(|promised| !promised.as_os_str().is_empty());
    let found = locate(promised, installed()).map(|file| file.with_file_name(environment).join("bin/python"));
    let found = found.filter(|python| python.is_file());
    assert!(
        found.is_some() || !is_promised,
        "the Python of {environment} is not there; run `cargo xtask partners`"
    );
    if found.is_none() {
        eprintln!("skipped: no Python of {environment}; run `cargo xtask partners` to have it");
    }
    found
}

/// Which file to read, if any: the promised one, else the installed one; an empty promise means none.
fn locate(promised: Option<PathBuf>, installed: Option<PathBuf>) -> Option<PathBuf> {
    match promised {
        Some(file) if file.as_os_str().is_empty() => None,
        Some(file) => Some(file),
        None => installed,
    }
}

/// The file beside the build that the running test belongs to: `TARGET/debug/deps/test` → `TARGET/partners`.
fn installed() -> Option<PathBuf> {
    let test = env::current_exe().ok()?;
    test.ancestors()
        .map(|directory| directory.join("partners/partners.json"))
        .find(|file| file.is_file())
}

fn read(file: &Path) -> Result<Partners, String> {
    let text =
        fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let partners: Partners = serde_json::from_str(&text)
        .map_err(|error| format!("{} is not understood: {error}", file.display()))?;
    let old_sdks = partners.old_sdks.iter();
    let old_sdks = old_sdks.map(|(name, partner)| (name.as_str(), partner));
    for (name, partner) in partners.each().into_iter().chain(old_sdks) {
        let is_path = partner.command.components().count() > 1;
        if is_path && !partner.command.is_file() {
            return Err(format!(
                "partner {name} is missing at {}",
                partner.command.display()
            ));
        }
    }
    Ok(partners)
}

impl Partners {
    /// Every partner with its name, but for those on old SDKs.
    #[must_use]
    pub fn each(&self) -> [(&'static str, &Partner); 7] {
        let Self {
            everything,
            filesystem,
            memory,
            time,
            git,
            python,
            rmcp,
            old_sdks: _,
            clients: _,
            authorization_server: _,
            gemini_cli: _,
        } = self;
        [
            ("everything", everything),
            ("filesystem", filesystem),
            ("memory", memory),
            ("time", time),
            ("git", git),
            ("python", python),
            ("rmcp", rmcp),
        ]
    }
}

#[cfg(test)]
mod tests;
