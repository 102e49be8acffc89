//! What was seen, as a document.

use std::fs;
use std::path::PathBuf;

use crate::client::{Client, Family};
use crate::server::Thing;
use crate::way::Way;

const HEAD: &str = "\
# Clients in front of servers

Real clients, each in front of each of three servers, through `mainstay serve` (all servers at `/mcp`, one at `/mcp/SERVER`) and
through `mainstay wrap`. A test makes this document and fails when it is not what was seen: `cargo xtask test`, in
`crates/mainstay-cli/tests/clients`. Versions are pinned in `tests/clients` and `tests/partners`.

**yes**: seen in all three ways. **no**, or only some ways: the others failed. **–**: the client or the server has no such thing;
the Inspector's command line shows no progress and answers no server.

The reference server (`everything`) is legacy, and the two others speak both eras. A modern client is asked by it for input
(`input_required`) and a legacy one by a request. The gateway tells every server that its client can answer elicitation and
sampling, so the reference server offers the tools that need them; the question goes to the client whose call caused it.
";

/// One thing that one client did with one server in one way.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) client: Client,
    pub(crate) way: Way,
    pub(crate) server: &'static str,
    pub(crate) thing: Thing,
    /// What was wrong, if it did not work.
    pub(crate) outcome: Result<(), String>,
}

/// Compares the committed document with what was seen, or writes it when `UPDATE_MATRIX` is set.
pub(crate) fn check(seen: &[Seen]) {
    for one in seen {
        if let Err(problem) = &one.outcome {
            let Seen {
                client,
                way,
                server,
                thing,
                ..
            } = one;
            eprintln!("{client}, {way}, {server}, {thing}: {problem}");
        }
    }
    let file = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/clients.md"));
    let now = document(seen);
    if std::env::var_os("UPDATE_MATRIX").is_some_and(|wish| !wish.is_empty()) {
        fs::write(&file, now).expect("the document is written");
        return;
    }
    let committed = fs::read_to_string(&file).expect("docs/clients.md; UPDATE_MATRIX=1 writes it");
    assert!(
        committed == now,
        "docs/clients.md says something else (UPDATE_MATRIX=1 writes it anew) than was seen:\n{now}"
    );
}

fn document(seen: &[Seen]) -> String {
    let mut servers: Vec<_> = seen.iter().map(|one| one.server).collect();
    servers.dedup();
    let mut known = Vec::new();
    servers.retain(|server| {
        !known.contains(server) && {
            known.push(*server);
            true
        }
    });
    let tables = servers.iter().map(|server| table(seen, server));
    format!("{HEAD}\n{}", tables.collect::<Vec<_>>().join("\n"))
}

fn table(seen: &[Seen], server: &str) -> String {
    let titles = Thing::ALL.map(|thing| thing.to_string());
    let mut lines = vec![
        format!("## {server}\n"),
        format!("| client | {} |", titles.join(" | ")),
        format!("|---|{}", "---|".repeat(titles.len())),
    ];
    for client in Family::ALL.into_iter().flat_map(Family::clients) {
        let cells = Thing::ALL.map(|thing| {
            cell(
                seen.iter()
                    .filter(|one| one.client == client && one.server == server && one.thing == thing),
            )
        });
        lines.push(format!("| {client} | {} |", cells.join(" | ")));
    }
    lines.join("\n") + "\n"
}

/// In which ways something worked.
fn cell<'a>(seen: impl Iterator<Item = &'a Seen>) -> String {
    let (worked, failed): (Vec<_>, Vec<_>) = seen.partition(|one| one.outcome.is_ok());
    match (worked.as_slice(), failed.as_slice()) {
        ([], []) => "–".to_owned(),
        (_, []) => "yes".to_owned(),
        ([], _) => "no".to_owned(),
        (some, _) => some
            .iter()
            .map(|one| one.way.to_string())
            .collect::<Vec<_>>()
            .join(", "),
    }
}
