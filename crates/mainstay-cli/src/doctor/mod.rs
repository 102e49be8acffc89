//! `mainstay doctor`: looks for what keeps servers from running on this machine, and says the remedy of each finding.
//!
//! Each check is a module of its own and returns an [`Examination`]. No check changes anything, starts a server or sends
//! anything to another machine. The only programs that run are `node`, `python` and `mainstay`, to learn their versions, and only
//! those that files of the user name: none that a project names.

mod cache;
mod commands;
mod configuration;
mod examination;
mod hosts;
mod limits;
mod orphans;
mod port;
mod program;
mod runtime_directory;
mod runtimes;
mod show;
mod variables;

use std::net::SocketAddr;

use clap::Args;

use crate::args::Common;
use crate::exit::{Done, Exit};
use crate::json::DoctorDocument;
use crate::output::{Screen, Text};

pub(crate) use examination::{Diagnosis, Examination};

/// Find what is wrong on this machine, and say the remedy of each finding
///
/// Looks at the configuration, the variables and programs that it names, the runtimes that they need, the port of `serve`, the daemon's socket, the
/// files of hosts, the cache, the limits of the system, and what earlier programs left behind. It changes nothing and starts no server. The exit code is 1
/// if something must be fixed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay doctor
  mainstay doctor --json --config mcp.json
  mainstay doctor --listen 0.0.0.0:8080")]
pub(crate) struct DoctorArgs {
    /// The address that `serve` is to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7332")]
    pub(crate) listen: SocketAddr,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(doctor: &DoctorArgs, common: &Common, screen: &Screen) -> Done {
    let (configuration, read) = configuration::examine(common);
    let examinations = vec![
        configuration,
        variables::examine(read.file.as_deref(), read.daemon.as_ref()),
        commands::examine(&read.servers),
        runtimes::examine(&read.servers),
        port::examine(doctor.listen),
        runtime_directory::examine(),
        hosts::examine(),
        cache::examine(common),
        limits::descriptors(read.servers.len()),
        limits::file_watches(),
        orphans::examine(),
    ];
    let needs_fix = examinations.iter().any(Examination::needs_fix);
    let text = if doctor.json {
        Text::document(&DoctorDocument::of(&examinations))
    } else {
        show::text(&examinations, screen.out)
    };
    screen.print(text)?;
    Ok(if needs_fix { Exit::Failed } else { Exit::Success })
}
