//! `mainstay check --no-start`: what the configuration says, with nothing started.

use mainstay::ServerConfig;

use crate::exit::{Done, Exit};
use crate::json;
use crate::load::Setup;
use crate::output::{Cell, Ink, Screen, Text, count, plain, table, text};
use crate::reach;

pub(super) fn run(setup: &Setup, is_json: bool, screen: &Screen) -> Done {
    // The problems themselves were announced with the configuration.
    let exit = if setup.refused.is_empty() {
        Exit::Success
    } else {
        Exit::Usage
    };
    let page = if is_json {
        Text::document(&json::ConfiguredDocument::of(setup, exit == Exit::Success))
    } else {
        page(setup, screen)
    };
    screen.print(page)?;
    Ok(exit)
}

fn page(setup: &Setup, screen: &Screen) -> Text {
    let rows: Vec<_> = setup.servers.iter().map(row).collect();
    let mut page = Text::default();
    for line in table(screen.out, &rows) {
        page.push_line(line);
    }
    if !rows.is_empty() {
        page.push("\n");
    }
    page.push(text!("{} configured", count(setup.servers.len(), "server")));
    if !setup.refused.is_empty() {
        let refused = setup.refused.iter().map(|name| plain(name));
        page.push(text!("; not used, for errors: {}", Text::join(refused, ", ")));
    }
    page.push("\n");
    page
}

fn row(server: &ServerConfig) -> Vec<Cell> {
    let place = reach::address(server).or_else(|| reach::command_line(server));
    vec![
        Cell::new(Ink::Cyan, server.name()),
        Cell::new(Ink::Yellow, marks(server)),
        Cell::new(Ink::Dim, place.unwrap_or_default()),
    ]
}

/// What is special about it.
fn marks(server: &ServerConfig) -> Text {
    let marks = [
        (!server.enabled(), "disabled"),
        (server.required(), "required"),
        (server.lazy(), "lazy"),
    ];
    let marks = marks.into_iter().filter(|(holds, _)| *holds);
    Text::join(marks.map(|(_, word)| word.into()), " ")
}
