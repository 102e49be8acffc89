//! The configuration: whether it can be read, and what the reader says of it. Variables that are named and not set are
//! among that.

use std::env;
use std::path::{Path, PathBuf};

use mainstay::config::Severity;
use mainstay::{Configuration, ServerConfig};

use super::examination::Examination;
use super::variables::DaemonVariables;
use crate::args::Common;
use crate::load::{FoundBy, Source, load_beside};
use crate::through_daemon::running_daemon;

/// What the other checks need of the configuration.
#[derive(Default)]
pub(super) struct ConfigurationRead {
    /// The file, if there is one.
    pub(super) file: Option<PathBuf>,
    /// The servers that are enabled and have no errors.
    pub(super) servers: Vec<ServerConfig>,
    /// The environment that the daemon reads the file in, if it is known.
    pub(super) daemon: Option<DaemonVariables>,
}

/// Reads the configuration.
pub(super) fn examine(common: &Common) -> (Examination, ConfigurationRead) {
    let mut found = Examination::new("configuration", "");
    // A daemon that has no configuration yet names the file that it would use.
    let daemon = running_daemon().filter(|daemon| {
        let file = daemon.config.as_deref().map(Path::new);
        file.is_none_or(Path::exists)
    });
    let mut setup = match load_beside(daemon.as_ref(), common) {
        Ok(setup) => setup,
        Err(failure) => {
            "it cannot be used".clone_into(&mut found.summary);
            found.problem(
                "configuration",
                format!("{:#}", failure.error),
                "correct the file, or name another with --config",
            );
            return (found, ConfigurationRead::default());
        }
    };
    let source = match &setup.source {
        Source::File {
            path,
            found: FoundBy::Daemon,
            ..
        } => format!("{}, which the daemon uses", path.display()),
        Source::File { path, .. } => path.display().to_string(),
        Source::Demo { .. } | Source::Arguments | Source::Address => {
            "no file, so the built-in demo server is used".to_owned()
        }
    };
    let file = setup.file().map(PathBuf::from);
    let daemon = file
        .as_ref()
        .and_then(|file| DaemonVariables::of(daemon.as_ref(), file));
    // What only this shell lacks harms no server.
    if let (Some(file), Some(daemon)) = (&file, &daemon)
        && let Ok(read) =
            Configuration::load_with(file, |name| env::var(name).ok().or_else(|| daemon.running(name)))
    {
        (setup.servers, setup.problems, setup.refused) = (read.servers, read.problems, read.refused);
    }
    let count = setup.servers.len() + setup.refused.len();
    let servers = if count == 1 { "server" } else { "servers" };
    found.summary = format!("{source}: {count} {servers}");
    for problem in &setup.problems {
        let place = match (&problem.file, problem.position) {
            (Some(file), Some(position)) => format!("{}:{position}", file.display()),
            (Some(file), None) => file.display().to_string(),
            (None, _) => "configuration".to_owned(),
        };
        let message = match &problem.key {
            Some(key) => format!("{key}: {}", problem.message),
            None => problem.message.clone(),
        };
        let remedy = problem.fix.clone();
        match problem.severity {
            Severity::Error => {
                found.problem(
                    place,
                    message,
                    remedy.unwrap_or_else(|| "correct the value".to_owned()),
                );
            }
            Severity::Warning => {
                found.hint(
                    place,
                    message,
                    remedy.unwrap_or_else(|| "correct the value".to_owned()),
                );
            }
            Severity::Note => {}
        }
    }
    let enabled = setup.servers.into_iter().filter(ServerConfig::enabled);
    let read = ConfigurationRead {
        file,
        servers: enabled.collect(),
        daemon,
    };
    (found, read)
}
