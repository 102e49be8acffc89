//! `mainstay restart`, `enable`, `disable` and `reload`: orders to the daemon.

use mainstay_control::api::{ServerStatus, StateName};
use mainstay_control::{ControlClient, ControlError};

use super::say::word;
use super::{OrderArgs, ReloadArgs, failed, in_place, say, with_daemon};
use crate::exit::{CommandFailure, Done, Exit};
use crate::json::ReloadDocument;
use crate::output::{Screen, Text, plain, text};

pub(crate) fn restart(arguments: &OrderArgs, screen: &Screen) -> Done {
    order(&arguments.servers, screen, &async |client, server| {
        client.restart(server).await
    })
}

pub(crate) fn enable(arguments: &OrderArgs, screen: &Screen) -> Done {
    order(&arguments.servers, screen, &async |client, server| {
        client.enable(server).await
    })
}

pub(crate) fn disable(arguments: &OrderArgs, screen: &Screen) -> Done {
    order(&arguments.servers, screen, &async |client, server| {
        client.disable(server).await
    })
}

/// Gives the order to each server, if all of them exist. One that does not take it does not keep the others from it; the last
/// failure is the result.
fn order(
    servers: &[String],
    screen: &Screen,
    give: &impl AsyncFn(&ControlClient, &str) -> Result<ServerStatus, ControlError>,
) -> Done {
    with_daemon(async |client| {
        for server in servers {
            client.server(server).await.map_err(failed)?;
        }
        let mut result = Ok(Exit::Success);
        for server in servers {
            match give(client, server).await {
                Ok(status) => {
                    let next = match status.state {
                        StateName::Connected | StateName::Disabled => "",
                        _ => "; `mainstay status` shows how it goes on",
                    };
                    screen.note(text!("{} is {}{}", plain(server), word(status.state), next));
                }
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

/// Has the daemon read its configuration again. Returns why it does not use this server then, and `None` if it does.
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
