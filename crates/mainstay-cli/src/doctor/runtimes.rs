//! The runtimes that servers need: whether they are there, and new enough for the SDKs of MCP.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use mainstay::ServerConfig;
use mainstay::config::StdioTarget;

use super::commands::{path_of, programs};
use super::examination::Examination;
use super::program;

/// A runtime that servers are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LanguageRuntime {
    Node,
    Python,
}

impl LanguageRuntime {
    /// What the program of a server needs. Programs that bring their own runtime (`uvx`, `bunx`, `deno`) need none.
    fn of(program: &str) -> Option<Self> {
        match program {
            "node" | "npx" | "npm" | "pnpm" | "pnpx" | "yarn" | "tsx" | "ts-node" => Some(Self::Node),
            "pipx" => Some(Self::Python),
            name if name.starts_with("python") => Some(Self::Python),
            _ => None,
        }
    }

    /// The oldest version that the official SDK runs on.
    fn oldest(self) -> &'static [u64] {
        match self {
            Self::Node => &[18],
            Self::Python => &[3, 10],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Node => "Node.js",
            Self::Python => "Python",
        }
    }
}

/// A runtime where a server looks for it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct NeededRuntime {
    runtime: LanguageRuntime,
    /// Where it is; `None` if the PATH of the server lacks it.
    program: Option<PathBuf>,
    path: OsString,
}

pub(super) fn examine(servers: &[ServerConfig]) -> Examination {
    let mut needed: BTreeMap<NeededRuntime, Vec<&str>> = BTreeMap::new();
    for (server, target) in programs(servers) {
        if let Some(runtime) = needs(target) {
            needed.entry(runtime).or_default().push(server);
        }
    }
    let mut found = Examination::new("runtimes", "");
    let mut seen = Vec::new();
    for (needed, servers) in needed {
        let servers = servers.join(", ");
        let name = needed.runtime.name();
        let Some(program) = needed.program else {
            let binary = match needed.runtime {
                LanguageRuntime::Node => "node",
                LanguageRuntime::Python => "python3",
            };
            let remedy = match program::elsewhere(binary) {
                Some(found) => format!("it is at {}: add its directory to PATH", found.display()),
                None => format!("install {name}"),
            };
            found.problem(servers, format!("{name} is not in PATH"), remedy);
            continue;
        };
        let Some(text) = program::version_text(&program, &needed.path) else {
            let problem = format!("{} does not say its version", program.display());
            found.problem(
                servers,
                problem,
                format!("run it by hand; install {name} again if it fails"),
            );
            continue;
        };
        let version = program::numbers(&text);
        let oldest = needed.runtime.oldest();
        seen.push(format!("{name} {}", dotted(&version)));
        if version.as_slice() < oldest {
            found.problem(
                servers,
                format!(
                    "{} is {name} {}; the SDK of MCP needs {} or newer",
                    program.display(),
                    dotted(&version),
                    dotted(oldest)
                ),
                format!("install a newer {name}, and put it first in PATH"),
            );
        }
    }
    seen.dedup();
    found.summary = if seen.is_empty() {
        "none needed".to_owned()
    } else {
        seen.join(", ")
    };
    found
}

/// The runtime of a server whose own program is there; a missing one is another check's finding.
fn needs(target: &StdioTarget) -> Option<NeededRuntime> {
    let command = target.command().value();
    let path = path_of(target);
    let name = Path::new(command).file_name()?.to_str()?;
    let runtime = LanguageRuntime::of(name)?;
    let own = match (command.contains('/'), target.cwd()) {
        (true, Some(cwd)) => Some(Path::new(cwd.value()).join(command)),
        (true, None) => Some(PathBuf::from(command)),
        (false, _) => program::in_path(command, &path),
    };
    let own = own.filter(|path| program::is_runnable(path))?;
    let program = match runtime {
        LanguageRuntime::Node if name == "node" => Some(own),
        LanguageRuntime::Node => program::in_path("node", &path),
        LanguageRuntime::Python if name.starts_with("python") => Some(own),
        LanguageRuntime::Python => program::in_path("python3", &path),
    };
    // What a relative path means is decided by the working directory, which may be a cloned repository: it is not run.
    if program.as_deref().is_some_and(Path::is_relative) {
        return None;
    }
    Some(NeededRuntime {
        runtime,
        program,
        path,
    })
}

fn dotted(version: &[u64]) -> String {
    version.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
}
