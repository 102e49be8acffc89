//! The programs that the configuration names: whether this machine has them where the configuration looks.

use std::env;
use std::ffi::OsString;
use std::path::Path;

use mainstay::ServerConfig;
use mainstay::config::{StdioTarget, Target};

use super::examination::Examination;
use super::program;

/// The PATH that a server's program is looked up in. It may be configured, and so may hold a secret: it is not shown.
pub(super) fn path_of(target: &StdioTarget) -> OsString {
    match target.env().get("PATH") {
        Some(path) => path.expose().into(),
        None => env::var_os("PATH").unwrap_or_default(),
    }
}

/// The servers that are programs.
pub(super) fn programs(servers: &[ServerConfig]) -> impl Iterator<Item = (&str, &StdioTarget)> {
    servers.iter().filter_map(|server| match server.target() {
        Target::Stdio(target) => Some((server.name(), target)),
        _ => None,
    })
}

pub(super) fn examine(servers: &[ServerConfig]) -> Examination {
    let count = programs(servers).count();
    let mut found = Examination::new("commands", format!("{count} looked up"));
    for (server, target) in programs(servers) {
        if let Some(cwd) = target.cwd().filter(|cwd| !Path::new(cwd.value()).is_dir()) {
            found.problem(
                server,
                format!("its working directory {cwd} does not exist"),
                "create it, or correct \"cwd\"",
            );
        }
        let (command, shown) = (target.command().value(), target.command().shown());
        if command.contains('/') {
            at_path(server, target, &mut found);
        } else if program::in_path(command, &path_of(target)).is_none() {
            found.problem(
                server,
                format!("the program {shown:?} is not in PATH"),
                remedy(command),
            );
        }
    }
    found
}

fn at_path(server: &str, target: &StdioTarget, found: &mut Examination) {
    let (command, shown) = (target.command().value(), target.command().shown());
    let place = match target.cwd() {
        Some(cwd) => Path::new(cwd.value()).join(command),
        None => Path::new(command).to_owned(),
    };
    if program::is_runnable(&place) {
        return;
    }
    if place.is_file() {
        let problem = format!("the file {shown:?} is not executable");
        found.problem(
            server,
            problem,
            "run `chmod +x` on it, or name the program that runs it",
        );
        return;
    }
    let name = Path::new(command).file_name().and_then(|name| name.to_str());
    let instead = name.and_then(|name| {
        let path = path_of(target);
        program::in_path(name, &path).or_else(|| program::elsewhere(name))
    });
    let remedy = match instead {
        Some(instead) => format!("it is at {}: write that in \"command\"", instead.display()),
        None => "correct \"command\", or install the program".to_owned(),
    };
    found.problem(server, format!("there is no program at {shown:?}"), remedy);
}

/// What to do about a program that is not in the PATH.
fn remedy(name: &str) -> String {
    if let Some(found) = program::elsewhere(name) {
        let directory = found.parent().unwrap_or(Path::new("/"));
        // Programs such as npx look for their runtime in the PATH, so an absolute `command` alone is not enough.
        return format!(
            "it is at {}: add that directory to PATH, or write \"env\": {{\"PATH\": \"{}:${{PATH}}\"}}",
            found.display(),
            directory.display()
        );
    }
    let advice = match name {
        "npx" | "npm" | "node" => "install Node.js (https://nodejs.org), which brings it",
        "uvx" | "uv" => "install uv (https://docs.astral.sh/uv), which brings it",
        "bunx" | "bun" => "install Bun (https://bun.sh), which brings it",
        "pnpx" | "pnpm" => "install pnpm (https://pnpm.io)",
        "python" | "python3" | "pip" | "pip3" => "install Python 3 from the packages of the system",
        "pipx" => "install pipx (https://pipx.pypa.io)",
        "docker" => "install Docker (https://docs.docker.com/get-started/get-docker)",
        "podman" => "install Podman (https://podman.io)",
        "deno" => "install Deno (https://deno.com)",
        _ => "install it, or write its whole path in \"command\"",
    };
    advice.to_owned()
}
