//! `mainstay call`: one call of one tool. Only its server is started.

mod arguments;
mod content;
mod progress;

use std::io;

use mainstay::catalog::PublicTool;
use mainstay::{Fleet, Reply};
use serde::Deserialize;

use crate::args::{CallArgs, Common};
use crate::ask::Asking;
use crate::exit::{CommandFailure, Done, Exit};
use crate::json;
use crate::load::servers;
use crate::output::{Screen, Text, text};
use crate::pick::{Picked, Sought};
use arguments::Schema;
use content::ShownAnswer;

pub(crate) use arguments::CallArguments;
pub(crate) use content::{shown, shown_resource};

pub(crate) fn run(call: &CallArgs, common: &Common, screen: &Screen) -> Done {
    let mut setup = servers(&call.request.adhoc, common, screen)?;
    let picked = Picked::read(&mut setup, &call.words, Sought::Tool)?;
    // Before anything is started: a mistake here costs nothing, and Ctrl-C while stdin is awaited ends the program.
    let arguments = CallArguments::read(&picked.rest, io::stdin()).map_err(CommandFailure::usage)?;
    let asking = Asking::new(&setup, screen, &call.request, Sought::Tool, &picked.name).calling();
    asking.run(&setup, async |fleet| {
        make(&asking, fleet, &picked.name, &arguments).await
    })
}

async fn make(asking: &Asking<'_>, fleet: &Fleet, name: &str, arguments: &CallArguments) -> Done {
    let server = asking
        .locate(fleet, |catalog| {
            catalog.tool(name).map(|tool| tool.server().to_owned())
        })
        .await?;
    if let Err(error) = asking.connected(fleet, &server).await {
        return asking.failed(&server, &error).await;
    }
    let catalog = fleet.catalog();
    let (tool, schema) = match (asking.find(catalog.tools()), asking.name_at_unlisted(&server)) {
        (Ok(tool), _) => (tool.original().to_owned(), schema(tool)),
        (Err(_), Some(name)) => (name, None),
        (Err(failure), None) => return asking.not_offered(&server, failure).await,
    };
    let arguments = arguments.fit(schema.as_ref()).map_err(CommandFailure::usage)?;
    let (progress, options) = progress::shown(asking.screen, asking.options());
    let answered = server.call(&tool, &arguments).options(options).await;
    progress.ended().await;
    match answered {
        Ok(reply) => report(asking, &reply),
        Err(error) => asking.failed(&server, &error).await,
    }
}

/// The call has run: its answer cannot be shown.
fn after_call(failure: CommandFailure) -> CommandFailure {
    CommandFailure {
        exit: Exit::MayHaveRun,
        error: failure.error.context("the call has run"),
    }
}

fn report(asking: &Asking<'_>, reply: &Reply) -> Done {
    let answer = ShownAnswer::read(&reply.result);
    if let Some(outcome) = answer.outcome() {
        return asking.failed_at_gateway(answer.text().trim_end(), outcome);
    }
    let exit = match answer.is_error {
        true => Exit::Failed,
        false => Exit::Success,
    };
    if asking.request.json {
        let document = json::AnswerDocument::answered(asking.asked(), reply, exit != Exit::Success);
        let printed = asking.screen.print(Text::document(&document));
        printed.map_err(after_call)?;
    } else if answer.is_error {
        asking.screen.error(text!(
            "the tool answered with an error: {}",
            Text::lines(answer.text().trim_end())
        ));
    } else {
        let printed = asking.screen.print_payload(&answer.text());
        printed.map_err(after_call)?;
    }
    Ok(exit)
}

fn schema(tool: &PublicTool) -> Option<Schema> {
    #[derive(Deserialize)]
    struct Tool {
        #[serde(rename = "inputSchema")]
        input_schema: Schema,
    }
    tool.raw().parse::<Tool>().ok().map(|tool| tool.input_schema)
}
