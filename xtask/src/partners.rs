//! `cargo xtask partners`: the real MCP servers that tests talk to, pinned in `tests/partners`, old releases of the SDKs, pinned in
//! `tests/old-sdks`, the real clients, pinned in `tests/clients` and `tests/nemo-agent-toolkit`, a real host, pinned in `tests/hosts`, and
//! a real authorization server, pinned in `tests/authorization-server`, installed below `target/partners`.
//!
//! `partners.json` says how each partner is started; the crate `mainstay-partner` reads it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::project::Project;
use crate::stamp::write;
use crate::{child, npm, python, tools};

const SOURCE: &str = "tests/partners";
const CLIENTS: &str = "tests/clients";
const OLD_SDKS: &str = "tests/old-sdks";
/// A client and a server that trace, and what decodes spans.
const TRACES: &str = "tests/traces";
/// An agent framework with an MCP client of its own.
const NEMO_AGENT_TOOLKIT: &str = "tests/nemo-agent-toolkit";
/// Hosts that read their configuration and list its servers without a login.
const HOSTS: &str = "tests/hosts";
const AUTHORIZATION_SERVER: &str = "tests/authorization-server";
const OLD_PYTHON_SDKS: &str = "python-sdks.txt";
const LOCAL_WITHIN: Duration = Duration::from_secs(120);
const BUILD_WITHIN: Duration = Duration::from_secs(1200);

/// How many partners are installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Those that the tests of every change talk to.
    Gate,
    /// The old SDKs and the hosts too.
    Nightly,
}

/// Installs the partners that are missing and writes `partners.json`.
pub(crate) fn install(project: &Project, extent: Extent) -> Result<()> {
    tools::ensure_partner_tools()?;
    npm::install(project, SOURCE, &project.built("partners/npm"))
        .context("cannot install the partners from npm")?;
    npm::install(project, CLIENTS, &project.built("partners/clients"))
        .context("cannot install the clients from npm")?;
    python::install(project, SOURCE, &project.built("partners/python"))
        .context("cannot install the partners from PyPI")?;
    python::install(project, TRACES, &project.built("partners/traces"))
        .context("cannot install the partners that trace from PyPI")?;
    python::install(
        project,
        NEMO_AGENT_TOOLKIT,
        &project.built("partners/nemo-agent-toolkit"),
    )
    .context("cannot install NeMo Agent Toolkit from PyPI, which needs Python 3.11 to 3.13")?;
    npm::install(
        project,
        AUTHORIZATION_SERVER,
        &project.built("partners/authorization-server"),
    )
    .context("cannot install the authorization server from npm")?;
    if extent == Extent::Nightly {
        install_old_sdks_and_hosts(project)?;
    }
    prepare_files(project).context("cannot prepare what the partners serve")?;
    let file = file(project);
    let old_sdks = match extent {
        Extent::Gate => String::new(),
        Extent::Nightly => old_sdks(project)?,
    };
    write(&file, &describe(project, &old_sdks))?;
    println!("partners are ready: {}", file.display());
    Ok(())
}

fn install_old_sdks_and_hosts(project: &Project) -> Result<()> {
    npm::install(project, OLD_SDKS, &project.built("partners/old/npm"))
        .context("cannot install the old releases of the TypeScript SDK")?;
    python::install_releases(
        project,
        OLD_SDKS,
        &project.built("partners/old/python"),
        OLD_PYTHON_SDKS,
    )
    .context("cannot install the old releases of the Python SDK")?;
    npm::install(project, HOSTS, &project.built("partners/hosts"))
        .context("cannot install the hosts from npm")
}

/// Where `partners.json` is or will be.
pub(crate) fn file(project: &Project) -> PathBuf {
    project.built("partners/partners.json")
}

/// Builds the partner that is a program of this project.
pub(crate) fn build_rmcp_server(project: &Project) -> Result<()> {
    let mut cargo = project.cargo();
    child::run(
        cargo.args(["build", "--package", "mainstay-partner", "--bin", "rmcp-server"]),
        BUILD_WITHIN,
    )
}

/// A directory with a file, and a repository with a commit.
fn prepare_files(project: &Project) -> Result<()> {
    write(&project.built("partners/files/hello.txt"), "hello\n")?;
    let repository = project.built("partners/repository");
    let git_directory = repository.join(".git");
    let git = || {
        let mut git = Command::new("git");
        // Inside a git hook these point to the project's own repository.
        git.env_remove("GIT_DIR")
            .env_remove("GIT_WORK_TREE")
            .env_remove("GIT_INDEX_FILE");
        git
    };
    let mut head = git();
    head.arg("--git-dir")
        .arg(&git_directory)
        .args(["rev-parse", "--verify", "HEAD"]);
    if child::succeeds(&mut head, LOCAL_WITHIN) {
        return Ok(());
    }
    child::run(git().args(["init", "--quiet"]).arg(&repository), LOCAL_WITHIN)?;
    let mut commit = git();
    commit.arg("--git-dir").arg(&git_directory);
    // The user's own git settings (signing, hooks, templates) must not affect this commit.
    for setting in [
        "user.name=Mainstay",
        "user.email=mainstay@localhost",
        "commit.gpgSign=false",
        "core.hooksPath=/dev/null",
    ] {
        commit.args(["-c", setting]);
    }
    child::run(
        commit.args([
            "commit",
            "--quiet",
            "--allow-empty",
            "--message",
            "A first commit",
        ]),
        LOCAL_WITHIN,
    )
}

/// The text of `partners.json`.
fn describe(project: &Project, old_sdks: &str) -> String {
    let built = |path: &str| project.built(path).to_string_lossy().into_owned();
    let source = |path: &str| project.source(path).to_string_lossy().into_owned();
    let npm = |program: &str| built(&format!("partners/npm/node_modules/.bin/{program}"));
    let python = |program: &str| built(&format!("partners/python/bin/{program}"));
    let memory = ("MEMORY_FILE_PATH", built("partners/memory.jsonl"));
    let entries = [
        entry("everything", &npm("mcp-server-everything"), &["stdio"], None),
        entry(
            "filesystem",
            &npm("mcp-server-filesystem"),
            &[&built("partners/files")],
            None,
        ),
        entry("memory", &npm("mcp-server-memory"), &[], Some(memory)),
        entry(
            "time",
            &python("mcp-server-time"),
            &["--local-timezone", "UTC"],
            None,
        ),
        entry(
            "git",
            &python("mcp-server-git"),
            &["--repository", &built("partners/repository")],
            None,
        ),
        entry(
            "python",
            &python("python"),
            &[&source("tests/partners/python_server.py")],
            None,
        ),
        entry("rmcp", &built("debug/rmcp-server"), &[], None),
        format!("  \"old_sdks\": {{\n{old_sdks}\n  }}"),
        clients(
            &npm::node(&project.built("partners/clients")).to_string_lossy(),
            &python("python"),
            &built("partners/clients/node_modules"),
            &source(CLIENTS),
        ),
        entry(
            "authorization_server",
            &npm::node(&project.built("partners/authorization-server")).to_string_lossy(),
            &[
                &source("tests/authorization-server/server.mjs"),
                &built("partners/authorization-server/node_modules"),
            ],
            None,
        ),
        // It runs on the Node of the clients: every machine has that one.
        entry(
            "gemini_cli",
            &npm::node(&project.built("partners/clients")).to_string_lossy(),
            &[&built(
                "partners/hosts/node_modules/@google/gemini-cli/bundle/gemini.js",
            )],
            None,
        ),
    ];
    format!("{{\n{}\n}}\n", entries.join(",\n"))
}

/// How the servers on old releases of the SDKs are started, each under the name of its release.
fn old_sdks(project: &Project) -> Result<String> {
    let source = |path: &str| project.source(OLD_SDKS).join(path).to_string_lossy().into_owned();
    let python_home = project.built("partners/old/python");
    let python = python_home.join("bin/python").to_string_lossy().into_owned();
    let mut entries = Vec::new();
    for release in python::releases(project, OLD_SDKS, OLD_PYTHON_SDKS)? {
        let home = python::release_home(&python_home, &release);
        let path = ("PYTHONPATH", home.to_string_lossy().into_owned());
        let version = release.rsplit("==").next().unwrap_or(&release);
        let name = format!("python-sdk-{version}");
        entries.push(entry(&name, &python, &[&source("python_server.py")], Some(path)));
    }
    // They run on the Node of the clients: every machine has that one.
    let node = npm::node(&project.built("partners/clients"));
    let packages = project.built("partners/old/npm/node_modules");
    for name in installed_as(&packages, "typescript-sdk-")? {
        let sdk = packages.join(&name).to_string_lossy().into_owned();
        let server = source("typescript_server.mjs");
        entries.push(entry(&name, &node.to_string_lossy(), &[&server, &sdk], None));
    }
    Ok(entries.join(",\n"))
}

/// The packages in this `node_modules` whose names begin so.
fn installed_as(packages: &Path, prefix: &str) -> Result<Vec<String>> {
    let context = || format!("cannot read {}", packages.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(packages).with_context(context)? {
        let name = entry
            .with_context(context)?
            .file_name()
            .to_string_lossy()
            .into_owned();
        names.extend(Some(name).filter(|name| name.starts_with(prefix)));
    }
    names.sort();
    Ok(names)
}

fn entry(name: &str, command: &str, args: &[&str], env: Option<(&str, String)>) -> String {
    let args = args
        .iter()
        .map(|argument| json_string(argument))
        .collect::<Vec<_>>()
        .join(", ");
    let env = env
        .map(|(key, value)| format!("{}: {}", json_string(key), json_string(&value)))
        .unwrap_or_default();
    let (name, command) = (json_string(name), json_string(command));
    format!(r#"  {name}: {{ "command": {command}, "args": [{args}], "env": {{{env}}} }}"#)
}

/// What runs the clients, their packages from npm, and the scripts that drive them.
fn clients(node: &str, python: &str, packages: &str, scripts: &str) -> String {
    let [node, python, packages, scripts] = [node, python, packages, scripts].map(json_string);
    format!(
        r#"  "clients": {{ "node": {node}, "python": {python}, "packages": {packages}, "scripts": {scripts} }}"#
    )
}

/// A text as JSON.
pub(crate) fn json_string(text: &str) -> String {
    let mut json = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            control if control < ' ' => json.push_str(&format!("\\u{:04x}", u32::from(control))),
            plain => json.push(plain),
        }
    }
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use super::{entry, json_string};

    #[test]
    fn strings_are_written_as_json() {
        assert_eq!(json_string("a \"b\" \\ \n ü"), r#""a \"b\" \\ \u000a ü""#);
    }

    #[test]
    fn an_entry_says_how_a_partner_is_started() {
        let written = entry(
            "time",
            "/bin/time",
            &["--zone", "UTC"],
            Some(("TZ", "UTC".to_owned())),
        );
        assert_eq!(
            written,
            r#"  "time": { "command": "/bin/time", "args": ["--zone", "UTC"], "env": {"TZ": "UTC"} }"#
        );
    }
}
