//! `cargo xtask packages`: the packages in which the program reaches people without Rust, built from a release build and installed as users
//! install them.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::child;
use crate::npm;
use crate::project::Project;
use crate::steps::StepEnd;

/// The Nodes of the npm package's tests: the names in `tests/npm/package.json`.
const NODES: [&str; 2] = ["node-20", "node-22"];

const BUILD_WITHIN: Duration = Duration::from_secs(1800);
const TEST_WITHIN: Duration = Duration::from_secs(900);

/// Packs, installs and tests each package.
pub(crate) fn run(project: &Project) -> Result<StepEnd> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Ok(StepEnd::Skipped("they are tested on Linux x64 alone".to_owned()));
    }
    let mut build = project.cargo();
    child::run(
        build.args(["build", "--release", "--package", "mainstay-cli", "--bins"]),
        BUILD_WITHIN,
    )?;
    let program = project.built("release/mainstay");
    test_npm(project, &program)?;
    test_python(project, &program).map(StepEnd::from)
}

fn test_npm(project: &Project, program: &Path) -> Result<()> {
    let home = project.built("packages/npm");
    npm::install(project, "tests/npm", &home)?;
    let nodes = NODES.map(|name| home.join("node_modules").join(name).join("bin/node"));
    let [_, newest] = &nodes;
    let listed = std::env::join_paths(&nodes).context("the path of a Node has a colon")?;
    let mut tests = Command::new(newest);
    tests
        .arg("--test")
        .arg(project.source("npm/test.mjs"))
        .env("MAINSTAY_PROGRAM", program)
        .env("MAINSTAY_NODES", listed);
    child::run(&mut tests, TEST_WITHIN).context("the npm packages do not do what docs/npm.md says")
}

fn test_python(project: &Project, program: &Path) -> Result<()> {
    let mut tests = Command::new("python3");
    tests
        .arg(project.source("python/test.py"))
        .arg("--program")
        .arg(program)
        .arg("--bridge")
        .arg(program.with_file_name("mainstay-bridge"))
        .arg("--cache")
        .arg(project.built("packages/python"));
    child::run(&mut tests, TEST_WITHIN).context("the Python package does not do what docs/python.md says")
}
