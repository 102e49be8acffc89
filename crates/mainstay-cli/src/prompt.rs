//! `mainstay prompt`: one prompt, with its arguments filled in.

use std::io;

use mainstay::{Fleet, Reply};
use serde::Deserialize;
use serde_json::Value;

use crate::args::{Common, PromptArgs};
use crate::ask::Asking;
use crate::call::{CallArguments, shown};
use crate::exit::{CommandFailure, Done};
use crate::load::servers;
use crate::output::Screen;
use crate::pick::{Picked, Sought};

pub(crate) fn run(prompt: &PromptArgs, common: &Common, screen: &Screen) -> Done {
    let mut setup = servers(&prompt.request.adhoc, common, screen)?;
    let picked = Picked::read(&mut setup, &prompt.words, Sought::Prompt)?;
    let arguments = CallArguments::read(&picked.rest, io::stdin()).map_err(CommandFailure::usage)?;
    let asking = Asking::new(&setup, screen, &prompt.request, Sought::Prompt, &picked.name);
    asking.run(&setup, async |fleet| {
        make(&asking, fleet, &picked.name, &arguments).await
    })
}

async fn make(asking: &Asking<'_>, fleet: &Fleet, name: &str, arguments: &CallArguments) -> Done {
    let server = asking
        .locate(fleet, |catalog| {
            catalog.prompt(name).map(|prompt| prompt.server().to_owned())
        })
        .await?;
    if let Err(error) = asking.connected(fleet, &server).await {
        return asking.failed(&server, &error).await;
    }
    let catalog = fleet.catalog();
    let prompt = match (asking.find(catalog.prompts()), asking.name_at_unlisted(&server)) {
        (Ok(prompt), _) => prompt.original().to_owned(),
        (Err(_), Some(name)) => name,
        (Err(failure), None) => return asking.not_offered(&server, failure).await,
    };
    let arguments = arguments.all_text().map_err(CommandFailure::usage)?;
    let answered = server.prompt(&prompt, &arguments).options(asking.options()).await;
    asking.answered(&server, answered, text).await
}

/// Each message behind its role. A result of an unknown shape is shown whole.
fn text(reply: &Reply) -> String {
    #[derive(Deserialize)]
    struct Result {
        messages: Vec<Message>,
    }
    #[derive(Deserialize)]
    struct Message {
        role: String,
        content: Value,
    }
    let Ok(result) = reply.result.parse::<Result>() else {
        return format!("{}\n", reply.result);
    };
    let mut text = String::new();
    for message in &result.messages {
        text.push_str(&format!("{}: {}", message.role, shown(&message.content)));
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}
