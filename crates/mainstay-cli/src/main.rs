//! The program: reads its arguments and hands over to one command.
//!
//! `args` says what can be asked; `load` finds the configuration, `adhoc` takes a server from the command line; `run`
//! supervises the servers for as long as a command lasts and leaves nothing behind. Each command has a module of its name;
//! `pick` and `ask` are what those share that ask one server for one thing. `output` is what a person sees, `json` what a
//! script sees, `log` what an operator sees. Results go to stdout, everything else to stderr.

mod add;
mod adhoc;
mod admin;
mod args;
mod ask;
mod audit;
mod auth;
mod browser;
mod call;
mod check;
mod completions;
mod connect;
mod control;
mod controlled;
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
mod login;
mod logins;
mod logout;
mod man;
mod memory;
mod naming;
mod otlp;
mod output;
mod pick;
mod ping;
mod prompt;
mod reach;
mod read;
mod record;
mod recording_file;
mod replay;
mod run;
mod schema;
mod serve;
mod server_stderr;
mod service;
mod standard;
mod startup;
mod through_daemon;
mod tokens;
mod tools;
mod top;
mod ui;
mod watchdog;
mod wrap;

use std::env;
use std::process::ExitCode;

use clap::Parser as _;

use args::{Command, CommandLine};
use connect::ConnectArgs;
use exit::{CommandFailure, Done, Exit};
use log::Logged;
use otlp::OtlpSettings;
use output::{LogFormat, Screen, Text};

fn main() -> ExitCode {
    memory::return_large_blocks();
    // A bridge stays small, and has no log.
    if let Some(connect) = quick_connect() {
        return ended(
            connect::run(&connect, None, false),
            &Screen::new(false, LogFormat::Text),
        );
    }
    let arguments = CommandLine::parse();
    let common = &arguments.common;
    let screen = Screen::new(common.quiet, common.log_format);
    let traces = match traces(&arguments) {
        Ok(traces) => traces,
        Err(failure) => return ended(Err(failure), &screen),
    };
    let _log = log::init(&screen, logged(&arguments), traces);
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
        Command::Connect(connect) => connect::run(connect, common.config.as_deref(), common.no_cache),
        Command::Ui(ui) => ui::run(ui, &screen),
        Command::Daemon(daemon) => daemon::run(daemon, common, &screen),
        Command::Ping(ping) => ping::run(ping, common, &screen),
        Command::Status(status) => control::status(status, &screen),
        Command::Restart(restart) => control::restart(restart, &screen),
        Command::Enable(enable) => control::enable(enable, &screen),
        Command::Disable(disable) => control::disable(disable, &screen),
        Command::Refresh(refresh) => control::refresh(refresh, &screen),
        Command::Reload(reload) => control::reload(reload, &screen),
        Command::Logs(logs) => control::logs(logs, &screen),
        Command::Events(events) => control::events(events, &screen),
        Command::Sessions(sessions) => control::sessions(sessions, &screen),
        Command::Record(record) => record::run(record, &screen),
        Command::Replay(replay) => replay::run(replay, common, &screen),
        Command::Login(login) => login::run(login, common, &screen),
        Command::Logout(logout) => logout::run(logout, common, &screen),
        Command::Auth(auth) => auth::run(auth, common, &screen),
        Command::Import(import) => import::run(import, common, &screen),
        Command::Add(server) => add::add(server, common, &screen),
        Command::Remove(server) => add::remove(server, common, &screen),
        Command::Doctor(doctor) => doctor::run(doctor, common, &screen),
        Command::Service(service) => service::run(service, common, &screen),
        Command::Top(top) => top::run(top, common, &screen),
        Command::Schema(schema) => schema::run(schema, &screen),
        Command::Completions(completions) => completions::run(completions, &screen),
        Command::Man(man) => man::run(man, &screen),
        Command::DemoServer => demo::run()
            .map(|()| Exit::Success)
            .map_err(CommandFailure::failed),
    };
    ended(done, &screen)
}

/// The arguments of a bridge in their plain form.
fn quick_connect() -> Option<ConnectArgs> {
    let words: Option<Vec<String>> = env::args_os()
        .skip(1)
        .map(|word| word.into_string().ok())
        .collect();
    ConnectArgs::quick(words?.into_iter())
}

fn ended(done: Done, screen: &Screen) -> ExitCode {
    done.unwrap_or_else(|failure| {
        screen.error(Text::lines(&format!("{:#}", failure.error)));
        failure.exit
    })
    .into()
}

/// Where traces go, for a program that serves.
fn traces(arguments: &CommandLine) -> Result<Option<OtlpSettings>, CommandFailure> {
    match &arguments.command {
        Command::Serve(serve) => OtlpSettings::find(serve.otlp_endpoint.as_deref()),
        Command::Daemon(daemon) if daemon.is_run() => OtlpSettings::find(None),
        _other => Ok(None),
    }
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
        | Command::Login(_)
        | Command::Logout(_)
        | Command::Auth(_)
        | Command::Connect(_)
        | Command::Daemon(_)
        | Command::Status(_)
        | Command::Restart(_)
        | Command::Enable(_)
        | Command::Disable(_)
        | Command::Refresh(_)
        | Command::Reload(_)
        | Command::Logs(_)
        | Command::Events(_)
        | Command::Sessions(_)
        | Command::Ui(_)
        | Command::Record(_)
        | Command::Replay(_)
        | Command::Import(_)
        | Command::Add(_)
        | Command::Remove(_)
        | Command::Doctor(_)
        | Command::Service(_)
        | Command::Top(_)
        | Command::Schema(_)
        | Command::Completions(_)
        | Command::Man(_)
        | Command::DemoServer => Logged::Cache,
    }
}
