//! The program: reads its arguments and hands over to one command.
//!
//! `args` says what can be asked; `load` finds the configuration, `adhoc` takes a server from the command line; `run`
//! supervises the servers for as long as a command lasts and leaves nothing behind. Each command has a module of its name;
//! `pick` and `ask` are what those share that ask one server for one thing. `output` is what a person sees, `json` what a
//! script sees, `log` what an operator sees. Results go to stdout, everything else to stderr.

mod add;
mod adhoc;
mod args;
mod ask;
mod call;
mod check;
mod completions;
mod connect;
mod daemon;
mod demo;
mod describe;
mod doctor;
mod exit;
mod import;
mod json;
mod live;
mod load;
mod log;
mod man;
mod memory;
mod naming;
mod output;
mod pick;
mod ping;
mod prompt;
mod reach;
mod read;
mod run;
mod schema;
mod serve;
mod server_stderr;
mod standard;
mod startup;
mod tools;
mod wrap;

use std::process::ExitCode;

use clap::Parser as _;

use args::{Command, CommandLine};
use exit::{CommandFailure, Done, Exit};
use log::Logged;
use output::{Screen, Text};

fn main() -> ExitCode {
    memory::return_large_blocks();
    let arguments = CommandLine::parse();
    let common = &arguments.common;
    // A bridge stays small, and has no log.
    if let Command::Connect(connect) = &arguments.command {
        return ended(
            connect::run(connect, common),
            &Screen::new(common.quiet, common.log_format),
        );
    }
    let screen = Screen::new(common.quiet, common.log_format);
    let _log = log::init(&screen, logged(&arguments));
    if let Err(error) = mainstay::process::raise_descriptor_limit() {
        tracing::warn!(%error, "the limit of open files is not raised");
    }
    let done = match &arguments.command {
        Command::Check(check) => check::run(check, common, &screen),
        Command::Tools(tools) => tools::run(tools, common, &screen),
        Command::Describe(describe) => describe::run(describe, common, &screen),
        Command::Call(call) => call::run(call, common, &screen),
        Command::Read(read) => read::run(read, common, &screen),
        Command::Prompt(prompt) => prompt::run(prompt, common, &screen),
        Command::Serve(serve) => serve::run(serve, common, &screen),
        Command::Wrap(wrap) => wrap::run(wrap, common, &screen),
        Command::Connect(connect) => connect::run(connect, common),
        Command::Daemon(daemon) => daemon::run(daemon, common, &screen),
        Command::Ping(ping) => ping::run(ping, common, &screen),
        Command::Import(import) => import::run(import, common, &screen),
        Command::Add(server) => add::add(server, common, &screen),
        Command::Remove(server) => add::remove(server, common, &screen),
        Command::Doctor(doctor) => doctor::run(doctor, common, &screen),
        Command::Schema(_) => schema::run(&screen),
        Command::Completions(completions) => completions::run(completions, &screen),
        Command::Man(man) => man::run(man, &screen),
        Command::DemoServer => demo::run()
            .map(|()| Exit::Success)
            .map_err(CommandFailure::failed),
    };
    ended(done, &screen)
}

fn ended(done: Done, screen: &Screen) -> ExitCode {
    done.unwrap_or_else(|failure| {
        screen.error(Text::lines(&format!("{:#}", failure.error)));
        failure.exit
    })
    .into()
}

/// What is logged unless `MAINSTAY_LOG` says otherwise.
fn logged(arguments: &CommandLine) -> Logged {
    match &arguments.command {
        Command::Serve(_) if !arguments.common.quiet => Logged::Changes,
        Command::Serve(_) => Logged::Problems,
        Command::Wrap(_) => Logged::GivenUp,
        Command::Daemon(daemon) if daemon.is_run() => Logged::Changes,
        Command::Check(_)
        | Command::Tools(_)
        | Command::Describe(_)
        | Command::Call(_)
        | Command::Read(_)
        | Command::Prompt(_)
        | Command::Ping(_)
        | Command::Connect(_)
        | Command::Daemon(_)
        | Command::Import(_)
        | Command::Add(_)
        | Command::Remove(_)
        | Command::Doctor(_)
        | Command::Schema(_)
        | Command::Completions(_)
        | Command::Man(_)
        | Command::DemoServer => Logged::Cache,
    }
}
