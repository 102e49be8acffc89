//! `mainstay wrap`: one server under its own names, supervised.

use std::collections::BTreeSet;

use mainstay::ServerConfig;
use mainstay_gateway::Scope;

use crate::adhoc;
use crate::args::{Common, EraChoice, WrapArgs};
use crate::exit::{CommandFailure, Done};
use crate::load::{Setup, Source, cache_directory};
use crate::output::Screen;
use crate::serve::{Meets, PassesStderr, serve_stdio};

pub(crate) fn run(arguments: &WrapArgs, common: &Common, screen: &Screen) -> Done {
    let server = server(arguments)?;
    let name = server.name().to_owned();
    let setup = Setup {
        source: Source::Arguments,
        servers: vec![server],
        problems: Vec::new(),
        refused: BTreeSet::new(),
        mentioned: Vec::new(),
        store: (!common.no_cache).then(cache_directory).flatten(),
        stop_within: common.stop_within,
        daemon: None,
    };
    // One client on stdin and stdout is one session, and this server is its own in any case.
    let meets = Meets::Client(passes_stderr(arguments));
    serve_stdio(&setup, Scope::Server(name.into()), meets, 1, screen)
}

fn server(arguments: &WrapArgs) -> Result<ServerConfig, CommandFailure> {
    let name = arguments.name.as_deref();
    let era = arguments.era.map(EraChoice::era);
    match &arguments.url {
        Some(url) => adhoc::of_address(url, arguments.bearer_token_env.as_deref(), name, era),
        None => adhoc::of_command(&arguments.command, name, era),
    }
}

fn passes_stderr(arguments: &WrapArgs) -> PassesStderr {
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
