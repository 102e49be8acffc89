//! The edges that the walk took, as a table in the repository and as the diagram of the documents.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::effect::Cause;
use crate::state::StateKind;
use crate::walk::search::Edge;

/// Set to write the files anew instead of comparing them.
const UPDATE: &str = "UPDATE_EDGES";

const HEAD: &str = "\
# The lifecycle of a server

A server is always in one of seven states. What follows is written by the exhaustive walk of `mainstay-lifecycle`: it
shows every change of state that the machine can make, and no other. To write it anew after a change of the machine, run
`UPDATE_EDGES=1 cargo test -p mainstay-lifecycle`.
";

const STATES: [StateKind; 7] = [
    StateKind::Disabled,
    StateKind::Connecting,
    StateKind::Connected,
    StateKind::Reconnecting,
    StateKind::Disconnected,
    StateKind::PermanentlyFailed,
    StateKind::Disabling,
];

/// One line for each edge.
pub(super) fn table(edges: &BTreeSet<Edge>) -> String {
    let mut table = String::new();
    for (from, cause, to) in edges {
        writeln!(table, "{from:<18}  {:<15}  {to}", cause.as_str()).expect("a string takes every line");
    }
    table
}

/// The page of the documents: the diagram, and the same as a table.
pub(super) fn page(edges: &BTreeSet<Edge>) -> String {
    let mut arrows: BTreeMap<(StateKind, StateKind), Vec<Cause>> = BTreeMap::new();
    for (from, cause, to) in edges {
        arrows.entry((*from, *to)).or_default().push(*cause);
    }
    let mut page = format!("{HEAD}\n```mermaid\nstateDiagram-v2\n    [*] --> disabled\n");
    for ((from, to), causes) in &arrows {
        page += &format!("    {from} --> {to}: {}\n", words(causes, "<br/>"));
    }
    page += "```\n\n| state | means | leaves for, and why |\n| --- | --- | --- |\n";
    for state in STATES {
        let leaves: Vec<String> = arrows
            .iter()
            .filter(|((from, _), _)| *from == state)
            .map(|((_, to), causes)| format!("`{to}` ({})", words(causes, ", ")))
            .collect();
        page += &format!("| `{state}` | {} | {} |\n", meaning(state), leaves.join("; "));
    }
    page
}

/// Compares a file of the repository with what it should be, or writes it.
pub(super) fn keep(path: &str, text: &str) {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, text).expect("the file can be written");
        return;
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == text,
        "{} is not what the machine does any more; see the difference with {UPDATE}=1",
        path.display()
    );
}

fn words(causes: &[Cause], between: &str) -> String {
    let words: Vec<&str> = causes.iter().map(|cause| cause.as_str()).collect();
    words.join(between)
}

fn meaning(state: StateKind) -> &'static str {
    match state {
        StateKind::Disabled => "not wanted; nothing runs",
        StateKind::Connecting => "the first connection since enabled: dial, handshake, list",
        StateKind::Connected => "a generation is live and listed",
        StateKind::Reconnecting => "lost, and within the budget: pausing, waiting for a token, or dialling",
        StateKind::Disconnected => {
            "nothing under way: idle, login wanted, lost and not to be restarted, or budget spent and slow probe to come"
        }
        StateKind::PermanentlyFailed => "will not come back unless a person acts",
        StateKind::Disabling => "not wanted; what ran is being closed",
    }
}
