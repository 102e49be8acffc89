//! `mainstay reload`: has the daemon read its configuration again.

use mainstay_control::ControlError;

use super::documents::ReloadDocument;
use super::{ReloadArgs, failed, in_place, say, with_daemon};
use crate::exit::{CommandFailure, Done, Exit};
use crate::output::{Screen, Text, plain, text};

pub(crate) fn run(arguments: &ReloadArgs, screen: &Screen) -> Done {
    with_daemon(async |client| {
        let report = client.reload().await.map_err(failed)?;
        for problem in &report.problems {
            screen.warning(plain(&in_place(problem)));
        }
        if arguments.json {
            screen.print(Text::document(&ReloadDocument::new(&report)))?;
        } else {
            let file = report.file.as_deref().unwrap_or("the configuration");
            screen.print(text!("applied {}: {}\n", plain(file), say::changes(&report)))?;
        }
        Ok(Exit::Success)
    })
}

/// Has the daemon read its configuration again, and tells why it does not use this server then; `None` if it does.
pub(crate) fn unused_after_reload(server: &str) -> Result<Option<String>, CommandFailure> {
    let mut why = None;
    with_daemon(async |client| {
        let (problems, otherwise) = match client.reload().await {
            Ok(report) => (report.problems, "its entry has an error".to_owned()),
            Err(ControlError::Problem(problem)) => (problem.problems, problem.title),
            Err(error) => return Err(failed(error)),
        };
        let list = client.servers(false).await.map_err(failed)?;
        if !list.servers.iter().any(|used| used.name == server) {
            let own = problems
                .iter()
                .find(|problem| problem.server.as_deref() == Some(server));
            why = Some(own.map_or(otherwise, |problem| problem.message.clone()));
        }
        Ok(Exit::Success)
    })?;
    Ok(why)
}
