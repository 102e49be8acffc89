//! What is shown while servers come up: a table redrawn in place on a terminal, elsewhere a line for each change.

use std::collections::HashMap;
use std::sync::Arc;

use mainstay::{Fleet, StateKind, Status};

use super::board::{Row, board, state};
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
    Lines(HashMap<Arc<str>, (StateKind, u32)>),
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
                    let now = (status.state, status.attempt);
                    let before = said.insert(status.server.clone(), now);
                    let is_before_start = status.state == StateKind::Disabled && before.is_none();
                    if before != Some(now) && !is_before_start {
                        self.screen.note(plain(&line(&row(status))));
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
