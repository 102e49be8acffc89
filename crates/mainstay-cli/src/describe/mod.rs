//! `mainstay describe`: what a tool does and which arguments it takes, as text.

mod schema;

use mainstay::Fleet;
use mainstay::catalog::PublicTool;
use mainstay::gateway::PlainText;
use serde::Deserialize;
use serde_json::Value;

use crate::args::{Common, DescribeArgs, RequestArgs};
use crate::ask::Asking;
use crate::exit::{Done, Exit};
use crate::json;
use crate::load::servers;
use crate::output::{Ink, Screen, Text, plain, prose, text, width};
use crate::pick::{Picked, Sought};
use crate::startup::Standing;
use schema::Argument;

/// How far everything below a heading is indented.
const INDENT: usize = 2;
/// How wide the column of names may become.
const MAX_NAMES: usize = 28;

pub(crate) fn run(describe: &DescribeArgs, common: &Common, screen: &Screen) -> Done {
    let mut setup = servers(&describe.adhoc, common, screen)?;
    let picked = Picked::read(&mut setup, &describe.words, Sought::Tool)?;
    let request = RequestArgs {
        timeout: Some(describe.timeout),
        json: describe.json,
        adhoc: crate::args::AdHoc::default(),
    };
    let asking = Asking::new(&setup, screen, &request, Sought::Tool, &picked.name);
    asking.run(&setup, async |fleet| show(&asking, fleet, &picked.name).await)
}

async fn show(asking: &Asking<'_>, fleet: &Fleet, name: &str) -> Done {
    let server = asking
        .locate(fleet, |catalog| {
            catalog.tool(name).map(|tool| tool.server().to_owned())
        })
        .await?;
    let connected = asking.connected(fleet, &server).await;
    let catalog = fleet.catalog();
    // What is remembered of a server that is down is better than nothing.
    let is_known = catalog.freshness(server.name()).is_some();
    if let (Err(error), false) = (&connected, is_known) {
        return asking.failed(&server, error).await;
    }
    let tool = match asking.find(catalog.tools()) {
        Ok(tool) => tool,
        Err(failure) => return asking.not_offered(&server, failure).await,
    };
    let is_stale = match asking.behind(&server).await {
        Some(status) => Standing::of(&status) != Standing::Up,
        None => connected.is_err(),
    };
    let text = if asking.request.json {
        Text::document(&json::DescribedDocument::of(tool, is_stale))
    } else {
        page(tool, is_stale, asking.screen)
    };
    asking.screen.print(text)?;
    Ok(Exit::Success)
}

/// What is read of a tool's definition.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Definition {
    title: Option<String>,
    description: Option<String>,
    input_schema: Value,
    output_schema: Option<Value>,
}

fn page(tool: &PublicTool, is_stale: bool, screen: &Screen) -> Text {
    let definition: Definition = tool.published().parse().unwrap_or_default();
    let paint = screen.out;
    let mut page = paint.bold(plain(tool.name()));
    page.push(text!(
        "  {}",
        paint.dim(text!(
            "{} of server {}",
            plain(tool.original()),
            plain(tool.server())
        ))
    ));
    page.push("\n");
    if is_stale {
        page.push(text!(
            "  {}\n",
            paint.ink(
                Ink::Yellow,
                "stale: the server is not up; this is what it offered last"
            )
        ));
    }
    if let Some(title) = &definition.title {
        page.push(text!("  {}\n", plain(title)));
    }
    let hints = hints(tool);
    if !hints.is_empty() {
        page.push(text!("  {}\n", paint.ink(Ink::Yellow, hints)));
    }
    if let Some(description) = &definition.description {
        page.push("\n");
        for line in PlainText::lines(description).trim().lines() {
            // Indented lines are lists or examples, and stay as they are.
            let lines = if line.starts_with([' ', '\t']) {
                vec![PlainText::line(line).into()]
            } else {
                prose(line, screen.width.saturating_sub(INDENT))
            };
            for line in lines {
                page.push(text!("{}\n", text!("  {}", line).trimmed()));
            }
        }
    }
    page.push(section(
        "arguments",
        "none",
        &schema::arguments(&definition.input_schema),
        screen,
    ));
    if let Some(schema) = &definition.output_schema {
        page.push(section(
            "result",
            "not described",
            &schema::arguments(schema),
            screen,
        ));
    }
    page
}

fn section(heading: &'static str, none: &'static str, arguments: &[Argument], screen: &Screen) -> Text {
    let paint = screen.out;
    let mut text = text!("\n{}\n", paint.dim(heading));
    if arguments.is_empty() {
        text.push(text!("  {}\n", none));
        return text;
    }
    let indent = |argument: &Argument| INDENT + 2 * argument.depth;
    let names = arguments
        .iter()
        .map(|argument| indent(argument) + width(&argument.name));
    let names = names.max().unwrap_or(0).min(MAX_NAMES) + 2;
    for argument in arguments {
        let name = paint.ink(Ink::Cyan, &argument.name);
        let taken = indent(argument) + width(&argument.name);
        let pad = Text::spaces(names.saturating_sub(taken).max(2));
        text.push(text!(
            "{}{}{}{}\n",
            Text::spaces(indent(argument)),
            name,
            pad,
            argument.kind
        ));
        if !argument.description.is_empty() {
            for line in prose(&argument.description, screen.width.saturating_sub(names)) {
                text.push(text!("{}{}\n", Text::spaces(names), paint.dim(line)));
            }
        }
    }
    text
}

/// What the tool says of its effects.
fn hints(tool: &PublicTool) -> Text {
    crate::tools::hints(tool.published())
}
