//! `mainstay sessions`: which clients there are, and what they use.

use mainstay_control::api::{SessionDoor, SessionStatus};

use super::say::{between, now_ms};
use super::{SessionsArgs, failed, with_daemon};
use crate::exit::{Done, Exit};
use crate::json::SessionsDocument;
use crate::output::{Cell, Ink, Paint, Screen, Text, table};

pub(crate) fn run(arguments: &SessionsArgs, screen: &Screen) -> Done {
    with_daemon(async |client| {
        let list = client.sessions().await.map_err(failed)?;
        if arguments.json {
            screen.print(Text::document(&SessionsDocument::new(&list.sessions)))?;
        } else if list.sessions.is_empty() {
            screen.print("no client is connected\n")?;
        } else {
            screen.print(text(&list.sessions, now_ms(), screen.out))?;
        }
        Ok(Exit::Success)
    })
}

fn text(sessions: &[SessionStatus], now_ms: u64, paint: Paint) -> Text {
    let headings = ["id", "client", "door", "for", "protocol", "servers", "running"];
    let headings = headings.map(|heading| Cell::new(Ink::Dim, heading)).to_vec();
    let rows = sessions.iter().map(|session| row(session, now_ms));
    let rows: Vec<_> = std::iter::once(headings).chain(rows).collect();
    let mut text = Text::default();
    for line in table(paint, &rows) {
        text.push_line(line);
    }
    text
}

fn row(session: &SessionStatus, now_ms: u64) -> Vec<Cell> {
    let client = match (&session.client, &session.client_version) {
        (Some(client), Some(version)) => format!("{client} {version}"),
        (Some(client), None) => client.clone(),
        (None, _) => "(unnamed)".to_owned(),
    };
    let door = match session.door {
        SessionDoor::Stdio => "stdio",
        SessionDoor::Http => "HTTP",
        SessionDoor::Sse => "HTTP+SSE",
        SessionDoor::Bridge => "connect",
        SessionDoor::Unknown => "unknown",
    };
    let servers = match (&session.scope, session.servers.is_empty()) {
        (Some(scope), _) => scope.clone(),
        (None, true) => "none yet".to_owned(),
        (None, false) => session.servers.join(", "),
    };
    let running: Vec<_> = session
        .running
        .iter()
        .map(|call| {
            let what = call.name.as_deref().unwrap_or(&call.method);
            format!("{what} for {}", between(now_ms, call.since_ms))
        })
        .collect();
    vec![
        Cell::number(Ink::Dim, session.id.to_string()),
        Cell::new(Ink::Cyan, client),
        Cell::new(Ink::None, door),
        Cell::new(Ink::None, between(now_ms, session.since_ms)),
        Cell::new(Ink::Dim, session.protocol_version.as_deref().unwrap_or_default()),
        Cell::new(Ink::None, servers),
        Cell::new(Ink::Yellow, running.join(", ")),
    ]
}
