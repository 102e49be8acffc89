//! The table of all servers, while they come up and when they have.

use std::time::Duration;

use mainstay::lifecycle::Desired;
use mainstay::server::{StartProgress, StartStage};
use mainstay::{StateKind, Status};

use super::Standing;
use crate::output::{Cell, Ink, Paint, Text, failures, plain, span, table};

/// Pictures of something under way, one after the other.
const TURNING: [&str; 4] = ["◐", "◓", "◑", "◒"];
/// How long each is shown.
const TURN: Duration = Duration::from_millis(100);

/// One server as the table shows it.
pub(crate) struct Row<'a> {
    pub(crate) status: &'a Status,
    pub(crate) took: Duration,
    /// How many tools it offers, where that is known.
    pub(crate) tools: Option<usize>,
}

/// The table, one line for each server, below a line of headings.
pub(crate) fn board(paint: Paint, rows: &[Row<'_>]) -> Vec<Text> {
    let heading = |text: &str| Cell::new(Ink::Dim, text);
    let headings = vec![
        heading(" "),
        heading("server"),
        heading("state"),
        Cell::number(Ink::Dim, "time"),
        Cell::number(Ink::Dim, "tools"),
        heading("protocol"),
    ];
    let rows: Vec<_> = std::iter::once(headings)
        .chain(rows.iter().map(Row::cells))
        .collect();
    table(paint, &rows)
}

impl Row<'_> {
    fn cells(&self) -> Vec<Cell> {
        let status = self.status;
        let standing = Standing::of(status);
        let (mark, ink) = mark(standing, self.took);
        let time = match standing {
            Standing::Up | Standing::Starting => span(self.took),
            Standing::Down | Standing::Off => Text::default(),
        };
        let tools = self.tools.map(|tools| tools.to_string()).unwrap_or_default();
        let protocol = status
            .protocol
            .as_ref()
            .map(|(_, version)| plain(version))
            .unwrap_or_default();
        vec![
            Cell::new(ink, mark),
            Cell::new(Ink::Cyan, plain(&status.server)),
            Cell::new(ink, state(status)),
            Cell::number(Ink::None, time),
            Cell::number(Ink::None, tools),
            Cell::new(Ink::Dim, protocol),
        ]
    }
}

/// The state in words, with what the server does while it starts.
pub(super) fn state(status: &Status) -> String {
    match notable_start(status).map(in_words) {
        Some(doing) => format!("{}, {doing}", bare_state(status)),
        None => bare_state(status),
    }
}

/// A listing that takes longer is shown.
const LONG_LISTING: Duration = Duration::from_secs(2);

/// The start of a server if it says more than `connecting`. The first stage is left out until its program is known, and a listing until it takes long, so
/// what a person reads of a quick start does not depend on the moment at which it was looked at.
pub(super) fn notable_start(status: &Status) -> Option<&StartProgress> {
    let start = status.start.as_ref()?;
    let says_more = match start.stage {
        StartStage::Waiting | StartStage::Unanswered => true,
        StartStage::Listing => start.since.elapsed().unwrap_or_default() >= LONG_LISTING,
        _ => start.program.is_some(),
    };
    says_more.then_some(start)
}

/// What a server does that is being started, and for how long: `installing: npm, 34.0 s`.
pub(crate) fn doing(status: &Status) -> Option<String> {
    status.start.as_ref().map(in_words)
}

fn in_words(start: &StartProgress) -> String {
    let time = start.since.elapsed().unwrap_or_default();
    format!("{}, {}", plain(&start.to_string()), span(time))
}

/// The state alone, with the attempt where there is more than one.
fn bare_state(status: &Status) -> String {
    if status.state == StateKind::Disabled && status.desired == Desired::Enabled {
        return "starting".to_owned();
    }
    match (status.attempt, status.reason) {
        (0, None) => status.state.to_string(),
        (0, Some(reason)) => format!("{} ({})", status.state, reason.as_str()),
        (attempt, _) => format!("{} ({})", status.state, failures(attempt, status.budget)),
    }
}

fn mark(standing: Standing, took: Duration) -> (&'static str, Ink) {
    match standing {
        Standing::Up => ("✔", Ink::Green),
        Standing::Down => ("✖", Ink::Red),
        Standing::Off => ("○", Ink::Dim),
        Standing::Starting => {
            let turn = took.as_millis() / TURN.as_millis() % TURNING.len() as u128;
            (TURNING[usize::try_from(turn).unwrap_or(0)], Ink::Yellow)
        }
    }
}
