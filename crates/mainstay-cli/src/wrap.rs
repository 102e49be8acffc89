//! `mainstay wrap`: one server under its own names, supervised.

use std::collections::BTreeSet;

use mainstay::ServerConfig;
use mainstay_gateway::Scope;

use crate::adhoc;
use crate::args::{Common, Wrap};
use crate::exit::{Done, Failure};
use crate::load::{Setup, Source, cache_directory};
use crate::output::Screen;
use crate::serve::{Meets, serve_stdio};

pub(crate) fn run(arguments: &Wrap, common: &Common, screen: &Screen) -> Done {
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
    };
    // One client on stdin and stdout is one session, and this server is its own in any case.
    serve_stdio(&setup, Scope::Server(name.into()), Meets::Client, 1, screen)
}

fn server(arguments: &Wrap) -> Result<ServerConfig, Failure> {
    let name = arguments.name.as_deref();
    match &arguments.url {
        Some(url) => adhoc::of_address(url, arguments.bearer_token_env.as_deref(), name),
        None => adhoc::of_command(&arguments.command, name),
    }
}
