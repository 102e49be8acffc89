//! One server that no configuration knows: given by its address or its command on the command line.

use std::collections::BTreeSet;
use std::env;

use anyhow::{Context as _, anyhow};
use mainstay::config::Problem;
use mainstay::{Era, ServerConfig};

use crate::args::{AdHoc, Common};
use crate::exit::CommandFailure;
use crate::load::{Setup, Source};
use crate::naming;

/// A server by its address or its command. Nothing is remembered of it.
pub(crate) fn setup(adhoc: &AdHoc, common: &Common) -> Result<Option<Setup>, CommandFailure> {
    let (server, source) = match (&adhoc.server.url, &adhoc.server.command[..]) {
        (Some(url), _) => (
            of_address(url, adhoc.server.bearer_token_env.as_deref(), None, None)?,
            Source::Address,
        ),
        // The parser does not tell `check --` from `check`.
        (None, []) if env::args_os().next_back().is_some_and(|last| last == "--") => {
            return Err(no_command());
        }
        (None, []) => return Ok(None),
        (None, command) => (of_command(command, None, None)?, Source::Arguments),
    };
    Ok(Some(Setup {
        source,
        servers: vec![server],
        problems: Vec::new(),
        refused: BTreeSet::new(),
        mentioned: Vec::new(),
        store: None,
        stop_within: common.stop_within,
        daemon: None,
    }))
}

/// A server by its address.
pub(crate) fn of_address(
    url: &str,
    token_variable: Option<&str>,
    name: Option<&str>,
    era: Option<Era>,
) -> Result<ServerConfig, CommandFailure> {
    // Not repeated in the message: it would be on the screen and in its scrollback.
    if naming::has_user_info(url) {
        return Err(CommandFailure::usage(anyhow!(
            "the address holds a user name or a password before its `@`; leave it out, and name the variable that holds \
             a token with --bearer-token-env"
        )));
    }
    let name = name.map_or_else(|| naming::of_address(url), str::to_owned);
    let builder = ServerConfig::http(name, url);
    let builder = match token_variable {
        Some(variable) => builder.bearer_token(token(variable)?),
        None => builder,
    };
    let builder = match era {
        Some(era) => builder.era(era),
        None => builder,
    };
    builder.build().map_err(|invalid| {
        let said: Vec<_> = invalid.problems().iter().map(in_words).collect();
        CommandFailure::usage(anyhow!(said.join("\n")))
    })
}

/// A server by its command.
pub(crate) fn of_command(
    command: &[String],
    name: Option<&str>,
    era: Option<Era>,
) -> Result<ServerConfig, CommandFailure> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(no_command());
    };
    let name = name.map_or_else(|| naming::of_command(command), str::to_owned);
    let builder = ServerConfig::stdio(name, program.as_str()).args(arguments.iter().map(String::as_str));
    let builder = match era {
        Some(era) => builder.era(era),
        None => builder,
    };
    builder.build().map_err(CommandFailure::usage)
}

fn no_command() -> CommandFailure {
    CommandFailure::usage(anyhow!("name a command behind `--`, or an address with --url"))
}

fn token(variable: &str) -> Result<String, CommandFailure> {
    let token = env::var(variable).with_context(|| format!("the variable {variable} holds no token"));
    token.map_err(CommandFailure::usage)
}

/// A problem without its key: there is no configuration file.
fn in_words(problem: &Problem) -> String {
    match &problem.fix {
        Some(fix) => format!("{}; {fix}", problem.message),
        None => problem.message.clone(),
    }
}
