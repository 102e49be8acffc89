//! The configuration: whether it can be read, and what the reader says of it. Variables that are named and not set are
//! among that.

use mainstay::ServerConfig;
use mainstay::config::Severity;

use super::examination::Examination;
use crate::args::Common;
use crate::load::{FoundBy, Source, load_beside};
use crate::through_daemon::running_daemon;

/// Reads the configuration. Returns the servers that are enabled and have no errors.
pub(super) fn examine(common: &Common) -> (Examination, Vec<ServerConfig>) {
    let mut found = Examination::new("configuration", "");
    let setup = match load_beside(running_daemon().as_ref(), common) {
        Ok(setup) => setup,
        Err(failure) => {
            "it cannot be used".clone_into(&mut found.summary);
            found.problem(
                "configuration",
                format!("{:#}", failure.error),
                "correct the file, or name another with --config",
            );
            return (found, Vec::new());
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
    let count = setup.servers.len();
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
    (found, enabled.collect())
}
