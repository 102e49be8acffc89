//! Colours, where they are seen.

use std::io::IsTerminal;

use super::text::Text;

/// A colour that means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    /// Up.
    Green,
    /// Under way, or worth a look.
    Yellow,
    /// Down, or wrong.
    Red,
    /// A name to look for.
    Cyan,
    /// Beside the point.
    Dim,
    /// A heading.
    Bold,
    /// As everything else.
    None,
}

/// Paints text for one stream, or leaves it alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    coloured: bool,
}

impl Paint {
    /// Leaves all text as it is.
    pub(crate) const PLAIN: Self = Self { coloured: false };

    /// Colours on a terminal that has them, unless `NO_COLOR` is set.
    pub(crate) fn for_stream(stream: &impl IsTerminal) -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            coloured: obeys(stream) && !no_color,
        }
    }

    /// Whether text is painted.
    pub(crate) fn is_coloured(self) -> bool {
        self.coloured
    }

    pub(crate) fn ink(self, ink: Ink, text: impl Into<Text>) -> Text {
        let text = text.into();
        let code = match ink {
            Ink::Green => "32",
            Ink::Yellow => "33",
            Ink::Red => "31",
            Ink::Cyan => "36",
            Ink::Dim => "2",
            Ink::Bold => "1",
            Ink::None => return text,
        };
        if self.coloured && !text.is_empty() {
            Text::painted(format!("\u{1b}[{code}m{text}\u{1b}[0m"))
        } else {
            text
        }
    }

    pub(crate) fn dim(self, text: impl Into<Text>) -> Text {
        self.ink(Ink::Dim, text)
    }

    pub(crate) fn bold(self, text: impl Into<Text>) -> Text {
        self.ink(Ink::Bold, text)
    }
}

/// Whether a stream is a terminal that obeys escape sequences.
pub(super) fn obeys(stream: &impl IsTerminal) -> bool {
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    stream.is_terminal() && !dumb
}
