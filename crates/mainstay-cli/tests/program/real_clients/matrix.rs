//! What was seen, as a document.

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use super::client::{Client, Family};
use super::server::Thing;
use super::way::Way;

const HEAD: &str = "\
# Clients in front of servers

Real clients, each in front of each of three servers, through `mainstay serve` (all servers at `/mcp`, one at `/mcp/SERVER`),
`mainstay wrap` and `mainstay connect`. A test makes this document and fails when it is not what was seen: `cargo xtask test`, in
`crates/mainstay-cli/tests/program/real_clients`. Versions are pinned in `tests/clients` and `tests/partners`.

**yes**: seen in all four ways. **no**: seen to fail; where some ways work, they are named. **–**: the client or the server has
no such thing; the Inspector's command line shows no progress, and offers to answer nothing but roots.

The reference server (`everything`) speaks 2025-11-25 alone, the two others both eras. What it asks reaches a client of
2025-11-25 as a request and one of 2026-07-28 as `input_required`, whose retry finds the waiting call. `mainstay serve` tells every
server that its client can answer elicitation, sampling and roots, so the reference server has the tools that ask; a question
goes to the client whose call caused it, and is declined when that client never said that it can answer. The same holds for `mainstay connect`. `mainstay wrap` tells the
server what its one client says of itself.
";

/// One thing that a client did with one server in one way.
pub(crate) struct Seen {
    pub(crate) way: Way,
    pub(crate) server: &'static str,
    pub(crate) thing: Thing,
    /// What was wrong, if it did not work.
    pub(crate) outcome: Result<(), String>,
}

/// Compares what the committed document says of a client with what was seen, or writes it when `UPDATE_MATRIX` is set.
pub(crate) fn check(client: Client, seen: &[Seen]) {
    // Tests of one process write to the same file.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for Seen {
        way,
        server,
        thing,
        outcome,
    } in seen
    {
        if let Err(problem) = outcome {
            eprintln!("{client}, {way}, {server}, {thing}: {problem}");
        }
    }
    let file = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/clients.md"));
    let committed = fs::read_to_string(&file).unwrap_or_default();
    let now = document(&committed, client, seen);
    if std::env::var_os("UPDATE_MATRIX").is_some_and(|wish| !wish.is_empty()) {
        fs::write(&file, now).expect("the document is written");
        return;
    }
    assert!(
        committed == now,
        "docs/clients.md is not what was seen of {client}; `UPDATE_MATRIX=1 cargo test -p mainstay-cli --test program real_clients` would write:\n{now}"
    );
}

/// The document with the rows of one client as they were seen, and those of the others as they were.
fn document(committed: &str, client: Client, seen: &[Seen]) -> String {
    let mut lines = vec![
        format!(
            "| client | server | {} |",
            Thing::ALL.map(|thing| thing.to_string()).join(" | ")
        ),
        format!("|---|---|{}", "---|".repeat(Thing::ALL.len())),
    ];
    for row_of in Family::ALL.into_iter().flat_map(Family::clients) {
        if row_of == client {
            lines.extend(rows(client, seen));
        } else {
            let start = format!("| {row_of} |");
            lines.extend(
                committed
                    .lines()
                    .filter(|line| line.starts_with(&start))
                    .map(str::to_owned),
            );
        }
    }
    format!("{HEAD}\n{}\n", lines.join("\n"))
}

/// A row for each server, in the order in which they were met.
fn rows(client: Client, seen: &[Seen]) -> Vec<String> {
    let mut servers: Vec<&str> = Vec::new();
    for one in seen {
        if !servers.contains(&one.server) {
            servers.push(one.server);
        }
    }
    let row = |server: &str| {
        let cells = Thing::ALL.map(|thing| {
            cell(
                seen.iter()
                    .filter(|one| one.server == server && one.thing == thing),
            )
        });
        format!("| {client} | {server} | {} |", cells.join(" | "))
    };
    servers.into_iter().map(row).collect()
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

#[cfg(test)]
mod tests {
    use super::{Client, Family, HEAD, Seen, Thing, Way, document};
    use crate::real_clients::client::Era;

    const PYTHON: Client = Client {
        family: Family::Python,
        era: Era::Legacy,
    };

    #[test]
    fn the_document_tells_what_worked_where_and_keeps_what_it_says_of_others() {
        let seen = |thing, way, worked: bool| Seen {
            way,
            server: "time",
            thing,
            outcome: worked.then_some(()).ok_or_else(String::new),
        };
        let seen = [
            seen(Thing::List, Way::Union, true),
            seen(Thing::List, Way::Wrap, true),
            seen(Thing::Call, Way::Union, false),
            seen(Thing::Call, Way::Wrap, true),
            seen(Thing::Progress, Way::Wrap, false),
        ];
        let other = "| TypeScript SDK, 2025-11-25 | time | as it was |";
        let committed = format!("{other}\n| Python SDK, 2025-11-25 | git | outdated |\n");
        let expected = [
            "| client | server | list | call | progress | elicitation | sampling | prompts | resources |",
            "|---|---|---|---|---|---|---|---|---|",
            "| Python SDK, 2025-11-25 | time | yes | `wrap` | no | – | – | – | – |",
            other,
        ];
        let expected = format!("{HEAD}\n{}\n", expected.join("\n"));
        assert_eq!(document(&committed, PYTHON, &seen), expected);
    }
}
