//! `mainstay replay`: plays the client's side of a recording against a server, and says where the answers differ.

mod compare;
mod handler;
mod plan;
mod play;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use mainstay::config::parse_duration;
use mainstay::gateway::{Introduction, introduced_as};
use mainstay::{Fleet, FleetBuilder};
use serde_json::Value;

use crate::args::{AdHoc, AdHocServer, Common};
use crate::exit::{CommandFailure, Done, Exit};
use crate::json::ReplayDocument;
use crate::load::{Setup, servers};
use crate::output::{Ink, Screen, Text, count, plain, text};
use crate::recording_file::RecordingFile;
use crate::run::with_fleet_made;
use compare::IgnoredPlaces;
use handler::ReplayHandler;
use plan::{PlayPlan, RecordedClient};
use play::Playing;
pub(crate) use play::{DifferentAnswer, PlayReport};

/// How long the server may take to come up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// Characters of a value that a difference shows.
const VALUE_CHARS: usize = 160;

/// Play a recording against a server, and say where its answers differ
///
/// The client's side of the recording is sent in its order, to a server that is started for it: the one of the configuration
/// that the recording names, or another. Answers are compared by their JSON. The exit code is 1 if one differs.
#[derive(Debug, Args)]
#[command(
    override_usage = "mainstay replay [OPTIONS] FILE [SERVER]\n       mainstay replay [OPTIONS] FILE [--url URL | -- COMMAND...]",
    after_help = "\
Examples:
  mainstay replay github.jsonl
  mainstay replay github.jsonl --ignore updatedAt --ignore '/result/content/*/text'
  mainstay replay everything.jsonl -- npx -y @modelcontextprotocol/server-everything"
)]
pub(crate) struct ReplayArgs {
    /// The recording, as `mainstay record` wrote it
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The server of the configuration [default: the one that was recorded]
    #[arg(value_name = "SERVER", conflicts_with_all = ["url", "command"])]
    server: Option<String>,
    /// Do not compare members of this name, or this place: a JSON Pointer such as /result/content/*/text
    #[arg(long, value_name = "PLACE")]
    ignore: Vec<String>,
    /// How long each answer may take
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    timeout: Duration,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    adhoc: AdHocServer,
}

pub(crate) fn run(arguments: &ReplayArgs, common: &Common, screen: &Screen) -> Done {
    let file = RecordingFile::read(&arguments.file)?;
    let plan = plan(arguments, &file, screen)?;
    let setup = setup(arguments, &file, common, screen)?;
    let name = setup.servers.first().map(|config| config.name().to_owned());
    let name = name.ok_or_else(|| CommandFailure::usage(anyhow!("there is no server to play it against")))?;
    let introduction = plan.introduction.as_ref().map(introduction);
    let introduce = |builder: FleetBuilder| match introduction {
        Some(introduction) => introduced_as(builder, introduction),
        None => builder,
    };
    with_fleet_made(&setup, screen, introduce, async |fleet| {
        play(arguments, plan, fleet, &name, screen).await
    })
}

fn plan(arguments: &ReplayArgs, file: &RecordingFile, screen: &Screen) -> Result<PlayPlan, CommandFailure> {
    let shown = plain(&arguments.file.display().to_string());
    if !file.header.has_payloads {
        return Err(CommandFailure::usage(anyhow!(
            "{} holds heads only, and nothing can be played: start the program with --record, and record again",
            arguments.file.display()
        )));
    }
    if file.is_cut_off {
        screen.warning(text!(
            "{} is cut off: what is left of it is played",
            shown.clone()
        ));
    }
    if file.header.dropped > 0 {
        let dropped = usize::try_from(file.header.dropped).unwrap_or(usize::MAX);
        screen.warning(text!(
            "the recording begins late: {} before it {} no longer kept",
            count(dropped, "message"),
            if dropped == 1 { "was" } else { "were" }
        ));
    }
    let plan = PlayPlan::of(&file.messages);
    if !plan.without_payload.is_empty() {
        screen.warning(text!(
            "{} too large to be recorded, or no JSON once secrets were replaced: not played",
            count(plan.without_payload.len(), "request")
        ));
    }
    if plan.steps.is_empty() {
        return Err(CommandFailure::usage(anyhow!(
            "{} has no request of a client to play",
            arguments.file.display()
        )));
    }
    Ok(plan)
}

/// The server that it is played against. It is started for this: those of the daemon are used by others.
fn setup(
    arguments: &ReplayArgs,
    file: &RecordingFile,
    common: &Common,
    screen: &Screen,
) -> Result<Setup, CommandFailure> {
    let adhoc = AdHoc {
        server: arguments.adhoc.clone(),
        no_daemon: true,
    };
    let mut setup = servers(&adhoc, common, screen)?;
    if adhoc.server.url.is_none() && adhoc.server.command.is_empty() {
        let name = arguments
            .server
            .clone()
            .unwrap_or_else(|| file.header.server.clone());
        setup.keep(&[name])?;
    }
    Ok(setup)
}

/// The server meets the same client as then.
fn introduction(recorded: &RecordedClient) -> Introduction {
    let introduction = Introduction::new(recorded.capabilities.clone());
    let introduction = match &recorded.client_info {
        Some(info) => introduction.client_info(info.clone()),
        None => introduction,
    };
    match &recorded.version {
        Some(version) => introduction.protocol_version(version),
        None => introduction,
    }
}

async fn play(
    arguments: &ReplayArgs,
    mut plan: PlayPlan,
    fleet: &Fleet,
    name: &str,
    screen: &Screen,
) -> Done {
    let server = fleet
        .server(name)
        .ok_or_else(|| CommandFailure::failed(anyhow!("the server is gone")))?;
    server
        .wait_connected(CONNECT_TIMEOUT)
        .await
        .map_err(CommandFailure::failed)?;
    let ignored = IgnoredPlaces::new(&arguments.ignore);
    let handler = ReplayHandler::new(std::mem::take(&mut plan.questions));
    let report = Playing::new(&server, &ignored, handler, arguments.timeout)
        .run(plan)
        .await;
    if arguments.json {
        screen.print(Text::document(&ReplayDocument::of(&report)))?;
    } else {
        screen.print(shown(&report, screen))?;
    }
    Ok(match report.different.is_empty() {
        true => Exit::Success,
        false => Exit::Failed,
    })
}

fn shown(report: &PlayReport, screen: &Screen) -> Text {
    let paint = screen.out;
    let mut shown = Text::default();
    for different in &report.different {
        let request = plain(&different.request);
        shown.push_line(paint.ink(Ink::Red, text!("line {}: {} differs", different.line, request)));
        for difference in &different.differences {
            let place = match difference.place.is_empty() {
                true => "the answer".into(),
                false => plain(&difference.place),
            };
            shown.push_line(text!(
                "  {}: recorded {}, now {}",
                place,
                value(difference.recorded.as_ref()),
                value(difference.now.as_ref())
            ));
        }
        let more = different.count - different.differences.len();
        if more > 0 {
            shown.push_line(text!("  and {}", count(more, "more difference")));
        }
    }
    for (line, request, now) in &report.unanswered {
        shown.push_line(text!(
            "line {}: {} has no answer in the recording; now: {}",
            *line,
            plain(request),
            plain(now)
        ));
    }
    let equal = report.compared - report.different.len();
    shown.push(text!("{} equal", count(equal, "answer")));
    shown.push(text!(", {} different", report.different.len()));
    if report.cancelled > 0 {
        shown.push(text!(", {} cancelled as then", report.cancelled));
    }
    shown.push("\n");
    shown
}

fn value(value: Option<&Value>) -> Text {
    let Some(value) = value else {
        return "nothing".into();
    };
    let text = value.to_string();
    match text.char_indices().nth(VALUE_CHARS) {
        None => plain(&text),
        Some((cut, _)) => plain(&format!("{}…", &text[..cut])),
    }
}
