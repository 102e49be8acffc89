//! What is shown while servers come up: a table redrawn in place on a terminal, elsewhere a line for each change.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mainstay::server::StartStage;
use mainstay::{Fleet, StateKind, Status};
use tokio::time::Instant;

use super::board::{Row, board, notable_start, state};
use super::{Standing, Startup};
use crate::output::{Live, Screen, count, plain, span};

pub(crate) struct Progress<'s> {
    screen: &'s Screen,
    way: Way,
}

enum Way {
    Silent,
    Redrawn(Live),
    /// What was said of each server last.
    Lines(HashMap<Arc<str>, Said>),
}

/// How often a line says again what a server does that is slow to start.
const SAY_AGAIN: Duration = Duration::from_secs(10);

/// What a line said of a server.
struct Said {
    state: StateKind,
    attempt: u32,
    /// How far its start was, and when that was said.
    start: Option<(StartStage, Instant)>,
}

impl Said {
    /// What to say of a server now; `None` where it was said already.
    fn news(before: Option<&Self>, status: &Status) -> Option<Self> {
        let is_old = |said: &Self| (said.state, said.attempt) == (status.state, status.attempt);
        let said = before.filter(|said| is_old(said));
        let start = notable_start(status);
        let start_is_news = start.is_some_and(|start| {
            said.and_then(|said| said.start)
                .is_none_or(|(stage, at)| stage != start.stage || at.elapsed() >= SAY_AGAIN)
        });
        let is_before_start = status.state == StateKind::Disabled && before.is_none();
        (said.is_none() && !is_before_start || start_is_news).then(|| Self {
            state: status.state,
            attempt: status.attempt,
            start: start.map(|start| (start.stage, Instant::now())),
        })
    }
}

impl<'s> Progress<'s> {
    /// A table on a terminal; elsewhere lines, if they are wanted.
    pub(crate) fn new(screen: &'s Screen, lines: bool) -> Self {
        let way = if screen.is_live() {
            Way::Redrawn(Live::default())
        } else if lines && screen.shows_progress() {
            Way::Lines(HashMap::new())
        } else {
            Way::Silent
        };
        Self { screen, way }
    }

    pub(crate) fn show(&mut self, startup: &Startup, fleet: &Fleet, statuses: &[Status]) {
        let row = |status| row(startup, fleet, status);
        match &mut self.way {
            Way::Silent => {}
            Way::Redrawn(live) => {
                let rows: Vec<_> = statuses.iter().map(row).collect();
                live.draw(&board(self.screen.err, &rows));
            }
            Way::Lines(said) => {
                for status in statuses {
                    if let Some(news) = Said::news(said.get(&status.server), status) {
                        self.screen.note(plain(&line(&row(status))));
                        said.insert(status.server.clone(), news);
                    }
                }
            }
        }
    }
}

fn row<'a>(startup: &Startup, fleet: &Fleet, status: &'a Status) -> Row<'a> {
    let catalog = fleet.catalog();
    let known = catalog.freshness(&status.server).is_some();
    let tools = || {
        catalog
            .tools()
            .iter()
            .filter(|tool| tool.server() == &*status.server)
            .count()
    };
    Row {
        status,
        took: startup.took(status),
        tools: known.then(tools),
    }
}

fn line(row: &Row<'_>) -> String {
    let name = plain(&row.status.server);
    let state = state(row.status);
    match (Standing::of(row.status), row.tools) {
        (Standing::Up, Some(tools)) => {
            format!(
                "{name}: {state} after {}, {}",
                span(row.took),
                count(tools, "tool")
            )
        }
        (Standing::Up, None) => format!("{name}: {state} after {}", span(row.took)),
        (Standing::Starting | Standing::Down | Standing::Off, _) => match &row.status.last_error {
            Some(error) => format!("{name}: {state}: {}", error.message),
            None => format!("{name}: {state}"),
        },
    }
}
