//! The lists that a legacy host has read. A daemon notifies a session only of changes of lists that the session has read, so the bridge
//! reads them again from the next daemon, and notifies the host of those that are different there.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// A list that a host reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ListKind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

/// What the host knows of each list: the hash of its first page. The gateway puts a hash of the whole list into the cursor to the next
/// page, so the first page differs if any page does.
#[derive(Default)]
pub(super) struct ReadLists(BTreeMap<ListKind, u64>);

impl ListKind {
    /// The list that requests of this method read.
    pub(super) fn read_by(method: &str) -> Option<Self> {
        match method {
            "tools/list" => Some(Self::Tools),
            "prompts/list" => Some(Self::Prompts),
            "resources/list" => Some(Self::Resources),
            "resources/templates/list" => Some(Self::Templates),
            _other => None,
        }
    }

    /// The method that reads it.
    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
        }
    }

    /// The notification that it has changed, with the end of the line.
    fn changed(self) -> Vec<u8> {
        let list = match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources | Self::Templates => "resources",
        };
        format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{list}/list_changed\"}}\n").into_bytes()
    }
}

impl ReadLists {
    /// The host gets this result.
    pub(super) fn note(&mut self, list: ListKind, result: &str) {
        self.0.insert(list, hash(result));
    }

    /// The next daemon gave this result to the bridge. Returns what the host gets if the result is another than the last one.
    pub(super) fn compare(&mut self, list: ListKind, result: &str) -> Option<Vec<u8>> {
        let now = hash(result);
        let before = self.0.insert(list, now);
        (before != Some(now)).then(|| list.changed())
    }

    /// The lists that the host has read.
    pub(super) fn all(&self) -> Vec<ListKind> {
        self.0.keys().copied().collect()
    }
}

fn hash(result: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    result.hash(&mut hasher);
    hasher.finish()
}
