//! `mainstay restart`, `enable`, `disable`, `refresh` and `reload`, and changes of the daemon's configuration: orders to the daemon.

use mainstay_control::api::{
    ApiProblem, EntryDocument, ProblemKind, RefreshReport, ReloadReport, ServerStatus, StateName,
};
use mainstay_control::{ControlClient, ControlError};

use super::say::word;
use super::{OrderArgs, ReloadArgs, failed, in_place, say, with_daemon};
use crate::exit::{CommandFailure, Done, Exit};
use crate::json::ReloadDocument;
use crate::output::{Screen, Text, count, plain, text};

pub(crate) fn restart(arguments: &OrderArgs, screen: &Screen) -> Done {
    order(&arguments.servers, screen, &async |client, server| {
        Ok(state_now(&client.restart(server).await?))
    })
}

pub(crate) fn enable(arguments: &OrderArgs, screen: &Screen) -> Done {
    order(&arguments.servers, screen, &async |client, server| {
        Ok(state_now(&client.enable(server).await?))
    })
}

pub(crate) fn disable(arguments: &OrderArgs, screen: &Screen) -> Done {
    order(&arguments.servers, screen, &async |client, server| {
        Ok(state_now(&client.disable(server).await?))
    })
}

pub(crate) fn refresh(arguments: &OrderArgs, screen: &Screen) -> Done {
    order(&arguments.servers, screen, &async |client, server| {
        Ok(offers_now(&client.refresh(server).await?))
    })
}

fn state_now(status: &ServerStatus) -> Text {
    let next = match status.state {
        StateName::Connected | StateName::Disabled => "",
        _ => "; `mainstay status` shows how it goes on",
    };
    text!("{} is {}{}", plain(&status.name), word(status.state), next)
}

fn offers_now(report: &RefreshReport) -> Text {
    let counts = [
        (report.tools, "tool"),
        (report.prompts, "prompt"),
        (report.resources, "resource"),
        (report.templates, "template"),
    ];
    let offered = counts
        .into_iter()
        .filter(|(number, what)| *number > 0 || *what == "tool");
    let offered = Text::join(offered.map(|(number, what)| count(number, what)), ", ");
    let news = match report.changed {
        true => "changed",
        false => "nothing changed",
    };
    text!(
        "{} offers {}; {} (revision {})",
        plain(&report.server),
        offered,
        news,
        report.revision
    )
}

/// Gives the order to each server, if all of them exist. One that does not take it does not keep the others from it; the last
/// failure is the result.
fn order(
    servers: &[String],
    screen: &Screen,
    give: &impl AsyncFn(&ControlClient, &str) -> Result<Text, ControlError>,
) -> Done {
    with_daemon(async |client| {
        for server in servers {
            client.server(server).await.map_err(failed)?;
        }
        let mut result = Ok(Exit::Success);
        for server in servers {
            match give(client, server).await {
                Ok(said) => screen.note(said),
                Err(error) => {
                    if let Err(before) = std::mem::replace(&mut result, Err(failed(error))) {
                        screen.error(Text::lines(&format!("{:#}", before.error)));
                    }
                }
            }
        }
        result
    })
}

pub(crate) fn reload(arguments: &ReloadArgs, screen: &Screen) -> Done {
    with_daemon(async |client| {
        let report = client.reload().await.map_err(failed)?;
        warn_of_problems(&report, screen);
        if arguments.json {
            screen.print(Text::document(&ReloadDocument::new(&report)))?;
        } else {
            let file = report.file.as_deref().unwrap_or("the configuration");
            screen.print(text!("applied {}: {}\n", plain(file), say::changes(&report)))?;
        }
        Ok(Exit::Success)
    })
}

/// Says what is worth a look in a file that was applied.
pub(crate) fn warn_of_problems(report: &ReloadReport, screen: &Screen) {
    for problem in &report.problems {
        screen.warning(plain(&in_place(problem)));
    }
}

/// A change of the daemon's configuration file.
pub(crate) enum ConfigEdit {
    Add(EntryDocument),
    Remove(String),
}

/// What became of it.
pub(crate) enum EditOutcome {
    Applied(ReloadReport),
    Refused(ApiProblem),
    /// The file is to be changed without the daemon: it has ended, or it does not use the server, as when it has not read the file yet.
    NotTaken,
}

/// Has the daemon change its configuration file and apply it.
pub(crate) fn configure(edit: &ConfigEdit) -> Result<EditOutcome, CommandFailure> {
    let mut outcome = EditOutcome::NotTaken;
    with_daemon(async |client| {
        let done = match edit {
            ConfigEdit::Add(entry) => client.add(entry).await,
            ConfigEdit::Remove(server) => client.remove(server).await,
        };
        outcome = match done {
            Ok(report) => EditOutcome::Applied(report),
            Err(ControlError::Unreachable(_)) => EditOutcome::NotTaken,
            Err(ControlError::Problem(problem)) if problem.kind == ProblemKind::UnknownServer => {
                EditOutcome::NotTaken
            }
            Err(ControlError::Problem(problem)) => EditOutcome::Refused(*problem),
            Err(error) => return Err(failed(error)),
        };
        Ok(Exit::Success)
    })?;
    Ok(outcome)
}
