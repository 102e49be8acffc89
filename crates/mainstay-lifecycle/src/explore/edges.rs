//! Writes what the exploration saw into the repository: the edges as a table and a diagram, and the scopes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::effect::Cause;
use crate::explore::Generations;
use crate::explore::search::{Edge, SearchScope};
use crate::explore::simulation::Pace;
use crate::state::StateKind;

/// Set to write the files instead of comparing them.
const UPDATE_VARIABLE: &str = "UPDATE_EDGES";

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

/// The part of the documents that shows the edges: a diagram and a table.
pub(super) fn diagram(edges: &BTreeSet<Edge>) -> String {
    let mut arrows: BTreeMap<(StateKind, StateKind), Vec<Cause>> = BTreeMap::new();
    for (from, cause, to) in edges {
        arrows.entry((*from, *to)).or_default().push(*cause);
    }
    let mut page = "```mermaid\nstateDiagram-v2\n    [*] --> disabled\n".to_owned();
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

/// The part of the documents that shows what the exploration covers.
pub(super) fn scope_table(scopes: &[(SearchScope, Generations)]) -> String {
    let mut page = "| scope | policies | connections followed at each change | at night | inputs come |\n\
         | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for (scope, Generations { gate, full, .. }) in scopes {
        let paces = match scope.pace {
            Pace::Deadlines => "at a deadline, or right after the last input",
            Pace::Ticks => "also at every tick between two deadlines",
        };
        let policies = scope.policies.len();
        page += &format!("| {} | {policies} | {gate} | {full} | {paces} |\n", scope.name);
    }
    page
}

/// The file that lists the edges.
const FILE: &str = "edges.txt";

/// Compares the list of the edges with those that the exploration saw, or writes it.
pub(super) fn compare_file(text: &str) {
    compare_or_write(
        FILE,
        &std::fs::read_to_string(full(FILE)).unwrap_or_default(),
        text,
    );
}

/// Fails if an edge is not in the list.
pub(super) fn check_listed(edges: &BTreeSet<Edge>) {
    let listed = std::fs::read_to_string(full(FILE)).expect("the edges are listed");
    let listed: BTreeSet<&str> = listed.lines().collect();
    let seen = table(edges);
    let new: Vec<&str> = seen.lines().filter(|line| !listed.contains(line)).collect();
    assert!(
        new.is_empty(),
        "{FILE} lacks {new:#?}; to write it, set {UPDATE_VARIABLE}=1 and MAINSTAY_EXPLORE=full"
    );
}

/// Compares or writes the part of a file between the comments `<!-- NAME -->` and `<!-- end of NAME -->`.
pub(super) fn compare_part(path: &str, name: &str, text: &str) {
    let kept = std::fs::read_to_string(full(path)).expect("the file is there");
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->\n"));
    let (before, rest) = kept.split_once(&begin).expect("the part begins");
    let (_, after) = rest.split_once(&end).expect("the part ends");
    let wanted = format!("{before}{begin}\n{text}\n{end}{after}");
    compare_or_write(path, &kept, &wanted);
}

fn full(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn compare_or_write(path: &str, kept: &str, text: &str) {
    let path = full(path);
    if std::env::var_os(UPDATE_VARIABLE).is_some() {
        std::fs::write(&path, text).expect("the file can be written");
        return;
    }
    assert!(
        kept == text,
        "{} differs from what the machine does; to write it, set {UPDATE_VARIABLE}=1",
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
        StateKind::Connecting => "the first connection since the server was enabled: dial, handshake, list",
        StateKind::Connected => "a generation is live; it was listed, or answered its listing with an error",
        StateKind::Reconnecting => {
            "another connection, within the budget: pausing, waiting for a token, or dialling"
        }
        StateKind::Disconnected => {
            "no attempt under way: idle, login required, lost and not restarted, or budget spent until the next slow probe"
        }
        StateKind::PermanentlyFailed => "stays down until a person acts",
        StateKind::Disabling => "not wanted; the last connections are being closed",
    }
}
