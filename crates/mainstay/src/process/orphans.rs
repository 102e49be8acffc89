//! Finds processes that carry a marker and whose program is gone.
//!
//! The program that drew a marker's token is alive if its guardian is, which carries the token in its arguments, or if a
//! process of the tree still has a parent outside of it that did not adopt it. When a program dies, the system gives its
//! children to `init` or to another process that adopts orphans.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;

use rustix::process::Pid;

use super::marker;
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
    let mut search = EnvironSearch::new(format!("{}=", marker::VARIABLE).as_bytes());
    let mut trees: BTreeMap<String, Vec<(Pid, ProcStat)>> = BTreeMap::new();
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
        .filter(|(token, tree)| !guarded.contains(token) && !has_parent(tree));
    let orphans = lost.flat_map(|(_, tree)| tree).map(|(pid, stat)| Orphan {
        pid: pid.as_raw_nonzero().get(),
        name: stat.name,
    });
    Ok(orphans.collect())
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
    let mark = format!("{}=", marker::VARIABLE);
    let token = arguments.split(|byte| *byte == 0).find_map(|argument| {
        let argument = str::from_utf8(argument).ok()?;
        argument.strip_prefix(&mark)?.strip_suffix('.')
    })?;
    Some(token.to_owned())
}
