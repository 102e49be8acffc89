//! `mainstay wrap`: one server under its own names, supervised.

use std::collections::BTreeSet;

use anyhow::{Context as _, anyhow};
use mainstay::ServerConfig;
use mainstay_gateway::Scope;

use crate::args::{Common, Wrap};
use crate::exit::{Done, Failure};
use crate::load::{Setup, Source, cache_directory};
use crate::output::Screen;
use crate::serve::{Meets, PassesStderr, serve_stdio};

/// Programs that run another: the server's name is in their arguments.
const RUNNERS: [&str; 12] = [
    "npx", "bunx", "pnpx", "uvx", "pipx", "node", "bun", "deno", "python", "python3", "uv", "docker",
];

/// Their arguments that are no names.
const VERBS: [&str; 6] = ["run", "exec", "dlx", "tool", "x", "start"];

pub(crate) fn run(arguments: &Wrap, common: &Common, screen: &Screen) -> Done {
    let name = arguments.name.clone().unwrap_or_else(|| name(arguments));
    let server = server(arguments, &name)?;
    let setup = Setup {
        source: Source::Arguments,
        servers: vec![server],
        problems: Vec::new(),
        refused: BTreeSet::new(),
        mentioned: Vec::new(),
        store: (!common.no_cache).then(cache_directory).flatten(),
        stop_within: common.stop_within,
    };
    // One client on stdin and stdout is one session, and this server is its own in any case.
    let meets = Meets::Client(passes_stderr(arguments));
    serve_stdio(&setup, Scope::Server(name.into()), meets, 1, screen)
}

fn server(arguments: &Wrap, name: &str) -> Result<ServerConfig, Failure> {
    let builder = match (&arguments.url, arguments.command.split_first()) {
        (Some(url), _) => {
            let builder = ServerConfig::http(name, url.as_str());
            match &arguments.bearer_token_env {
                Some(variable) => builder.bearer_token(token(variable)?),
                None => builder,
            }
        }
        (None, Some((command, args))) => {
            ServerConfig::stdio(name, command.as_str()).args(args.iter().map(String::as_str))
        }
        (None, None) => {
            return Err(Failure::usage(anyhow!(
                "name a command behind `--`, or an address with --url"
            )));
        }
    };
    builder.build().map_err(Failure::usage)
}

fn passes_stderr(arguments: &Wrap) -> PassesStderr {
    // A server over HTTP has none.
    match (
        arguments.no_stderr || arguments.url.is_some(),
        arguments.stderr_prefix,
    ) {
        (true, _) => PassesStderr::No,
        (false, true) => PassesStderr::Prefixed,
        (false, false) => PassesStderr::Yes,
    }
}

fn token(variable: &str) -> Result<String, Failure> {
    let token = std::env::var(variable).with_context(|| format!("the variable {variable} holds no token"));
    token.map_err(Failure::usage)
}

/// What a person would call the server.
fn name(arguments: &Wrap) -> String {
    let raw = match &arguments.url {
        Some(url) => {
            let host = url.split("://").nth(1).unwrap_or(url);
            host.split(['/', '?', ':']).next().unwrap_or(host).to_owned()
        }
        None => {
            let mut words = arguments.command.iter().map(String::as_str);
            let program = base(words.next().unwrap_or_default());
            let named = words.find(|word| !word.starts_with('-') && !VERBS.contains(word));
            match named.filter(|_| RUNNERS.contains(&program)) {
                Some(package) => base(package).to_owned(),
                None => program.to_owned(),
            }
        }
    };
    let tidy: String = raw
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '-' || c == '.' {
                c
            } else {
                '-'
            }
        })
        .take(48)
        .collect();
    match tidy.trim_matches('-') {
        "" => "server".to_owned(),
        tidy => tidy.to_owned(),
    }
}

/// The last part of a path or package, without a version.
fn base(path: &str) -> &str {
    let last = path.rsplit('/').next().unwrap_or(path);
    last.split('@').find(|part| !part.is_empty()).unwrap_or(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_called_what_a_person_would_call_it() {
        for (line, expected) in [
            (
                "npx -y @modelcontextprotocol/server-everything@1.2.3",
                "server-everything",
            ),
            ("/usr/bin/mcp-server-time --local", "mcp-server-time"),
            ("uvx mcp-server-git --repository .", "mcp-server-git"),
            ("docker run -i --rm mcp/fetch", "fetch"),
            ("python3 server.py", "server.py"),
            ("-", "server"),
        ] {
            let wrap = Wrap {
                name: None,
                url: None,
                bearer_token_env: None,
                no_stderr: false,
                stderr_prefix: false,
                command: line.split(' ').map(str::to_owned).collect(),
            };
            assert_eq!(name(&wrap), expected, "{line}");
        }
    }
}
