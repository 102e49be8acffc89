//! `cargo xtask partners`: the real MCP servers that tests talk to, pinned in `tests/partners`, and the real clients, pinned in
//! `tests/clients`, installed below `target/partners`.
//!
//! `partners.json` says how each partner is started; the crate `mainstay-partner` reads it.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::project::Project;
use crate::stamp::write;
use crate::{child, npm, python, tools};

const SOURCE: &str = "tests/partners";
const CLIENTS: &str = "tests/clients";
const LOCAL_WITHIN: Duration = Duration::from_secs(120);
const BUILD_WITHIN: Duration = Duration::from_secs(1200);

/// Installs what is missing and writes `partners.json`.
pub(crate) fn install(project: &Project) -> Result<()> {
    tools::ensure_partner_tools()?;
    npm::install(project, SOURCE, &project.built("partners/npm"))
        .context("cannot install the partners from npm")?;
    npm::install(project, CLIENTS, &project.built("partners/clients"))
        .context("cannot install the clients from npm")?;
    python::install(project, SOURCE, &project.built("partners/python"))
        .context("cannot install the partners from PyPI")?;
    prepare_files(project).context("cannot prepare what the partners serve")?;
    let file = file(project);
    write(&file, &describe(project))?;
    println!("partners are ready: {}", file.display());
    Ok(())
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
    // Nobody's own settings (signing, hooks, templates) belong into this commit.
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
fn describe(project: &Project) -> String {
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
        clients(
            &npm::node(&project.built("partners/clients")).to_string_lossy(),
            &python("python"),
            &built("partners/clients/node_modules"),
            &source(CLIENTS),
        ),
    ];
    format!("{{\n{}\n}}\n", entries.join(",\n"))
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
