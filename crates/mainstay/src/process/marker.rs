//! The mark in the environment by which a process tree is known, `MAINSTAY_TREE=<fleet token>.<n>`, and the processes that carry
//! one and whose program is gone.
//!
//! The token is drawn once per program and distinguishes its trees from those of other programs on the machine; `n` counts
//! the starts. It is a name to search for, not a secret.
//!
//! The program that drew a marker's token is alive if its guardian is, which carries the token in its arguments, or if a
//! process of the tree still has a parent outside of it that did not adopt it. When a program dies, the system gives its
//! children to `init` or to another process that adopts orphans.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;
use std::{fmt, io};

use rustix::process::Pid;

use super::scan::{self, EnvironSearch, ProcStat};

/// A process that a program of Mainstay started and left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Orphan {
    /// The number of the process.
    pub pid: i32,
    /// The first 15 bytes of its name.
    pub name: String,
}

/// Programs that adopt the children of those that died, beside process 1: those of service managers and containers.
const ADOPTERS: [&str; 7] = [
    "systemd",
    "init",
    "tini",
    "dumb-init",
    "docker-init",
    "catatonit",
    "s6-svscan",
];

/// Finds the processes of this user that a program of Mainstay started and that outlived it. Looks at every process: a few
/// milliseconds. Ends none.
///
/// # Errors
/// If the system has no `/proc` to look at.
pub fn orphans() -> io::Result<Vec<Orphan>> {
    let orphans = orphan_trees()?
        .flat_map(|(_, tree)| tree)
        .map(|(pid, stat)| Orphan {
            pid: pid.as_raw_nonzero().get(),
            name: stat.name,
        });
    Ok(orphans.collect())
}

/// The tokens of programs that are gone and left processes behind. Whatever else a process may carry in the variable is no token.
pub(super) fn orphan_tokens() -> io::Result<Vec<String>> {
    let tokens = orphan_trees()?.map(|(token, _)| token);
    Ok(tokens.filter(|token| is_token(token)).collect())
}

fn is_token(text: &str) -> bool {
    text.len() == TOKEN_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The processes with one token.
type MarkedTree = Vec<(Pid, ProcStat)>;

/// What programs that are gone left behind, by their tokens.
fn orphan_trees() -> io::Result<impl Iterator<Item = (String, MarkedTree)>> {
    let mut search = EnvironSearch::new(format!("{}=", VARIABLE).as_bytes());
    let mut trees: BTreeMap<String, MarkedTree> = BTreeMap::new();
    let mut guarded = HashSet::new();
    let mut processes = 0;
    for pid in scan::processes()? {
        processes += 1;
        guarded.extend(guarded_token(pid));
        // The environment of another user's process cannot be read.
        let Ok(Some(value)) = search.value_of(pid) else {
            continue;
        };
        if let (Some((token, _)), Some(stat)) = (value.split_once('.'), scan::stat(pid)) {
            trees.entry(token.to_owned()).or_default().push((pid, stat));
        }
    }
    if processes == 0 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let lost = trees
        .into_iter()
        .filter(move |(token, tree)| !guarded.contains(token) && !has_parent(tree));
    Ok(lost)
}

/// Whether a process of a tree is the child of a process outside of the tree that may have started it.
fn has_parent(tree: &[(Pid, ProcStat)]) -> bool {
    let members: HashMap<i32, &ProcStat> = tree
        .iter()
        .map(|(pid, stat)| (pid.as_raw_nonzero().get(), stat))
        .collect();
    tree.iter().any(|(_, stat)| {
        let Some(parent) = Pid::from_raw(stat.parent).filter(|parent| !parent.is_init()) else {
            return false;
        };
        !members.contains_key(&stat.parent)
            && scan::stat(parent).is_some_and(|parent| !ADOPTERS.contains(&parent.name.as_str()))
    })
}

/// The token whose trees this process guards.
fn guarded_token(pid: Pid) -> Option<String> {
    let arguments = scan::arguments(pid)?;
    let mark = format!("{}=", VARIABLE);
    let token = arguments.split(|byte| *byte == 0).find_map(|argument| {
        let argument = str::from_utf8(argument).ok()?;
        argument.strip_prefix(&mark)?.strip_suffix('.')
    })?;
    Some(token.to_owned())
}

/// The environment variable that holds the marker.
pub(super) const VARIABLE: &str = "MAINSTAY_TREE";

/// The marker of one process tree; never drawn twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Marker(String);

impl Marker {
    pub(super) fn next() -> Self {
        static STARTS: AtomicU64 = AtomicU64::new(1);
        let n = STARTS.fetch_add(1, Ordering::Relaxed);
        Self(format!("{}.{n}", fleet_token()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is what a process carries, by what follows [`prefix`] in its environment. All of it counts: `.1` is not
    /// the beginning of `.12`.
    pub(super) fn is(&self, value: &str) -> bool {
        self.number() == value
    }

    /// The part that differs from the other markers of this program.
    pub(super) fn number(&self) -> &str {
        let dot = fleet_token().len() + 1;
        &self.0[dot..]
    }
}

/// How the marker of each tree of this program begins, as it stands in `/proc/<pid>/environ`.
pub(super) fn prefix() -> Vec<u8> {
    format!("{VARIABLE}={}.", fleet_token()).into_bytes()
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The length of a token.
const TOKEN_DIGITS: usize = 16;

/// What the markers of this program have in common: hexadecimal digits.
pub(super) fn fleet_token() -> &'static str {
    static TOKEN: OnceLock<String> = OnceLock::new();
    TOKEN.get_or_init(|| {
        // The hasher's keys are random per program; pid and time guard against a system without randomness.
        let drawn = RandomState::new().hash_one((std::process::id(), SystemTime::now()));
        format!("{drawn:016x}")
    })
}

#[cfg(test)]
mod tests {
    use super::{Marker, fleet_token, is_token};

    #[test]
    fn markers_share_the_token_and_never_repeat() {
        let (first, second) = (Marker::next(), Marker::next());
        assert_ne!(first, second);
        assert!(first.as_str().starts_with(&format!("{}.", fleet_token())));
        assert!(is_token(fleet_token()));
    }

    #[test]
    fn a_value_that_would_match_the_processes_of_others_is_no_token() {
        for text in [
            "",
            "\n",
            "0123456789abcde",
            "0123456789abcdef0",
            "0123456789abcde\n",
        ] {
            assert!(!is_token(text), "{text:?}");
        }
    }
}
