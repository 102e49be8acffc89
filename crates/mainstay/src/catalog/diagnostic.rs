//! What was set aside, and why: shown to a person, never an error.

use std::fmt;

use super::Kind;
use crate::PlainText;

/// Diagnostics kept for one server. A server with 10,000 malformed tools is one problem, not 10,000.
pub(super) const MAX_DIAGNOSTICS: usize = 100;
/// Characters of an item's name kept in a diagnostic; a name is the server's own text and may be of any length.
const MAX_ITEM_CHARS: usize = 128;

/// Something in a server's catalog that was set aside, or that a person should look at.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// The server that offered it.
    pub server: String,
    /// The kind of thing it is about.
    pub kind: Kind,
    /// What is wrong.
    pub fault: CatalogFault,
    /// The item's name or uri, as [`PlainText`] and shortened; `None` when it has none, or when the whole list is meant.
    pub item: Option<String>,
    /// The same for a person, in a few words.
    pub message: String,
}

/// What is wrong with an item or a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CatalogFault {
    /// The item lacks what its kind must have.
    Malformed,
    /// The item has more bytes than one may have.
    TooLarge,
    /// The server offers two different items under one name.
    Duplicate,
    /// An item offered before it, perhaps by another server, has the same public name or uri.
    Collision,
    /// A template fits addresses of another server, which are read from that server.
    Overlap,
    /// The list was longer than its bounds, or its pages did not end.
    CutOff,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.server, self.kind)?;
        if let Some(item) = &self.item {
            write!(f, " `{item}`")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Collects the diagnostics of one server, up to [`MAX_DIAGNOSTICS`].
#[derive(Debug)]
pub(super) struct DiagnosticList<'a> {
    server: &'a str,
    list: Vec<Diagnostic>,
}

impl<'a> DiagnosticList<'a> {
    pub(super) fn of(server: &'a str) -> Self {
        Self {
            server,
            list: Vec::new(),
        }
    }

    pub(super) fn add(
        &mut self,
        kind: Kind,
        fault: CatalogFault,
        item: Option<&str>,
        message: impl fmt::Display,
    ) {
        if self.list.len() < MAX_DIAGNOSTICS {
            self.list.push(Diagnostic {
                server: self.server.to_owned(),
                kind,
                fault,
                item: item.map(|item| PlainText::line(item).cut(MAX_ITEM_CHARS).into_string()),
                message: PlainText::line(&message.to_string()).into_string(),
            });
        }
    }

    pub(super) fn finish(self) -> Vec<Diagnostic> {
        self.list
    }
}
