//! The four kinds of things a server offers, and how the protocol spells each.

use std::fmt;

/// A kind of thing that a server offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Something a model can call.
    Tool,
    /// A prompt a person can pick.
    Prompt,
    /// A document that can be read by its uri.
    Resource,
    /// A pattern of uris that can be read.
    Template,
}

impl Kind {
    /// Every kind, in the order in which catalogs are listed, hashed and stored.
    pub const ALL: [Self; 4] = [Self::Tool, Self::Prompt, Self::Resource, Self::Template];

    /// The method that lists this kind.
    pub fn method(self) -> &'static str {
        match self {
            Self::Tool => "tools/list",
            Self::Prompt => "prompts/list",
            Self::Resource => "resources/list",
            Self::Template => "resources/templates/list",
        }
    }

    /// The server capability without which this kind is not asked for.
    pub fn capability(self) -> &'static str {
        match self {
            Self::Tool => "tools",
            Self::Prompt => "prompts",
            Self::Resource | Self::Template => "resources",
        }
    }

    /// The field of a listing's result that holds the items.
    pub(crate) fn list_field(self) -> &'static str {
        match self {
            Self::Tool => "tools",
            Self::Prompt => "prompts",
            Self::Resource => "resources",
            Self::Template => "resourceTemplates",
        }
    }

    pub(super) fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
            Self::Template => "resource template",
        })
    }
}
