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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: u64 = 1_800_000_000_000;

    fn session(id: u64, members: Value) -> SessionStatus {
        let mut session = json!({
            "id": id, "node": null, "client": null, "client_version": null, "era": "legacy",
            "protocol_version": null, "door": "http", "since_ms": NOW - 300, "scope": null,
            "servers": [], "running": [], "questions": 0, "missed": 0,
        });
        let Value::Object(members) = members else {
            panic!("an object")
        };
        for (key, value) in members {
            session[key] = value;
        }
        serde_json::from_value(session).expect("a session")
    }

    #[test]
    fn a_table_says_who_is_connected_how_and_what_each_waits_for() {
        let sessions = [
            session(
                7,
                json!({ "client": "Claude\u{1b}[2J Code", "client_version": "2.1", "door": "bridge",
                    "since_ms": NOW - 7_200_000, "protocol_version": "2025-11-25", "scope": "files",
                    "servers": ["files"], "running": [
                        { "method": "tools/call", "server": "files", "name": "search", "since_ms": NOW - 12_000 },
                        { "method": "tools/list", "server": null, "name": null, "since_ms": NOW - 200 },
                    ] }),
            ),
            session(
                12,
                json!({ "client": "cursor", "door": "stdio", "servers": ["files", "web"] }),
            ),
            session(13, json!({ "door": "sse" })),
        ];
        let expected = "\
id  client           door      for       protocol    servers     running
 7  Claude Code 2.1  connect   2 h       2025-11-25  files       search for 12 s, tools/list for a moment
12  cursor           stdio     a moment              files, web
13  (unnamed)        HTTP+SSE  a moment              none yet
";
        let shown = text(&sessions, NOW, Paint::PLAIN);
        assert_eq!(shown.as_str(), expected, "\n{}", shown.as_str());
    }
}
