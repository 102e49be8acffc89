//! `mainstay tools`: what all servers offer. A server that cannot be asked is shown as it was last seen, marked stale.

use std::time::Duration;

use mainstay::{Catalog, Status};
use serde::Deserialize;

use crate::args::{Common, ToolsArgs};
use crate::exit::{Done, Exit};
use crate::json;
use crate::load::servers;
use crate::output::{Cell, Ink, Screen, Text, cut, first_line, plain, span, table, text, width};
use crate::run::with_fleet;
use crate::startup::{Progress, Standing, Startup};

/// Narrower than this, a description says nothing and is left out.
const LEAST_DESCRIPTION: usize = 12;
/// How far everything below a server's name is indented.
const INDENT: usize = 2;
/// How wide the word for a kind is: that of the longest.
const KINDS: usize = "resource".len();

pub(crate) fn run(tools: &ToolsArgs, common: &Common, screen: &Screen) -> Done {
    let wanted = &tools.servers;
    let mut setup = servers(&wanted.adhoc, common, screen)?;
    setup.keep(&wanted.server)?;
    with_fleet(&setup, screen, async |fleet| {
        let startup = Startup::of(fleet);
        let mut progress = Progress::new(screen, false);
        let mut statuses = startup
            .settle(wanted.timeout, |statuses| {
                progress.show(&startup, fleet, statuses);
            })
            .await;
        drop(progress);
        if let Some(daemon) = &setup.daemon {
            // A bridge is connected while its server is down. The servers had their time to start.
            daemon.wait(&mut statuses, Duration::ZERO, |_| {}).await?;
        }
        let catalog = fleet.catalog();
        let text = if wanted.json {
            Text::document(&json::ToolsDocument::of(&setup, &catalog, &statuses))
        } else {
            text(&catalog, &statuses, screen)
        };
        screen.print(text)?;
        let mut exit = Exit::Success;
        for status in &statuses {
            if !is_listed(&catalog, status) && Standing::of(status) != Standing::Off {
                screen.error(missing(status));
                exit = Exit::Failed;
            }
        }
        Ok(exit)
    })
}

/// Whether anything is known of what a server offers.
fn is_listed(catalog: &Catalog, status: &Status) -> bool {
    catalog.freshness(&status.server).is_some()
}

fn missing(status: &Status) -> Text {
    let state = text!("server {} is {}", plain(&status.server), status.state);
    match &status.last_error {
        Some(error) => text!("{}: {}", state, plain(&error.to_string())),
        None => state,
    }
}

fn text(catalog: &Catalog, statuses: &[Status], screen: &Screen) -> Text {
    let mut text = Text::default();
    for status in statuses {
        let is_off = Standing::of(status) == Standing::Off;
        if !is_off && !is_listed(catalog, status) {
            continue;
        }
        if !text.is_empty() {
            text.push("\n");
        }
        text.push(heading(status, screen));
        // A disabled server offers nothing now, and may offer anything once it is enabled.
        if !is_off {
            text.push(section(catalog, status, screen));
        }
    }
    text
}

fn heading(status: &Status, screen: &Screen) -> Text {
    let name = screen.out.bold(plain(&status.server));
    if Standing::of(status) == Standing::Off {
        return text!("{}  {}\n", name, screen.out.dim("disabled"));
    }
    let Some(stale_since) = status.stale_since else {
        return text!("{}\n", name);
    };
    let age = status.listed_at.unwrap_or(stale_since).elapsed();
    let mut state = text!(
        "stale: listed {} ago, now {}",
        span(age.unwrap_or_default()),
        status.state
    );
    if let Some(failure) = &status.listing_failure {
        state.push(text!("; {}", plain(&failure.message)));
    }
    text!("{}  {}\n", name, screen.out.ink(Ink::Yellow, state))
}

/// One thing offered: its kind, its name, what it is said to do, what it says of its effects.
struct Line {
    kind: &'static str,
    name: Text,
    description: Text,
    hints: Text,
}

fn section(catalog: &Catalog, status: &Status, screen: &Screen) -> Text {
    macro_rules! lines {
        ($kind:literal, $offers:expr) => {
            $offers
                .iter()
                .filter(|offer| offer.server() == &*status.server)
                .map(|offer| Line::read($kind, offer.name(), offer.published()))
        };
    }
    // Each kind is aligned by itself: one long uri must not push the tools' descriptions off the screen.
    let kinds: [Vec<Line>; 4] = [
        lines!("tool", catalog.tools()).collect(),
        lines!("prompt", catalog.prompts()).collect(),
        lines!("resource", catalog.resources()).collect(),
        lines!("template", catalog.templates()).collect(),
    ];
    let text: Text = kinds.iter().map(|lines| aligned(lines, screen)).collect();
    if text.is_empty() {
        return text!("{}{}\n", Text::spaces(INDENT), screen.out.dim("nothing"));
    }
    text
}

fn aligned(lines: &[Line], screen: &Screen) -> Text {
    let widest =
        |measure: fn(&Line) -> &Text| lines.iter().map(|line| width(measure(line))).max().unwrap_or(0);
    let gaps = 3 * 2;
    let taken = INDENT + KINDS + gaps + widest(|line| &line.name) + widest(|line| &line.hints);
    // A pipe has no width: what reads it may want all of it.
    let room = screen.is_terminal().then(|| screen.width.saturating_sub(taken));
    let rows: Vec<_> = lines.iter().map(|line| line.cells(room)).collect();
    let mut text = Text::default();
    for line in table(screen.out, &rows) {
        text.push(text!("{}{}\n", Text::spaces(INDENT), line));
    }
    text
}

impl Line {
    fn read(kind: &'static str, name: &str, published: &mainstay::RawJson) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Read {
            title: Option<String>,
            description: Option<String>,
            annotations: Option<Said>,
        }
        let read: Read = published.parse().unwrap_or_default();
        Self {
            kind,
            name: plain(name),
            description: first_line(&read.description.or(read.title).unwrap_or_default()),
            hints: read.annotations.unwrap_or_default().words(),
        }
    }

    /// `room` is how wide a description may be; `None` where nothing is cut.
    fn cells(&self, room: Option<usize>) -> Vec<Cell> {
        let description = match room {
            None => self.description.clone(),
            Some(room) if room < LEAST_DESCRIPTION => Text::default(),
            Some(room) => cut(&self.description, room),
        };
        vec![
            Cell::new(Ink::Dim, format!("{:KINDS$}", self.kind)),
            Cell::new(Ink::Cyan, &self.name),
            Cell::new(Ink::Yellow, &self.hints),
            Cell::new(Ink::None, description),
        ]
    }
}

/// What a published tool says of its effects, in words.
pub(crate) fn hints(published: &mainstay::RawJson) -> Text {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Read {
        annotations: Said,
    }
    published.parse::<Read>().unwrap_or_default().annotations.words()
}

/// What a tool says of its effects. What it leaves unsaid is not shown, although a cautious caller assumes the worst.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Said {
    read_only_hint: Option<bool>,
    idempotent_hint: Option<bool>,
    destructive_hint: Option<bool>,
}

impl Said {
    fn words(&self) -> Text {
        let mut words = Vec::new();
        if self.read_only_hint == Some(true) {
            // A tool that only reads is idempotent and destroys nothing.
            return "read-only".into();
        }
        if self.idempotent_hint == Some(true) {
            words.push("idempotent".into());
        }
        if self.destructive_hint == Some(true) {
            words.push("destructive".into());
        }
        Text::join(words, " ")
    }
}
