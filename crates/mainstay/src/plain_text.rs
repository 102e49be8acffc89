//! Text from elsewhere (servers, clients, files), made safe to show in a terminal, a log, a page or a prompt.
//!
//! This is the only cleaner of the workspace. It removes
//! - terminal sequences: CSI, OSC, DCS, SOS, PM and APC strings and two-character escapes, begun with ESC or with the
//!   single C1 character for them;
//! - all other control characters, a carriage return that could hide the start of its line included;
//! - marks that change the direction of text: overrides, embeddings, isolates;
//! - characters that take no place, and could make two names look the same or carry hidden text: zero-width characters,
//!   variation selectors, tags, fillers.
//!
//! What is left can be read from left to right and top to bottom, and shows all that is there.

use std::fmt;
use std::ops::Deref;

/// Text that no terminal, log viewer or page can take for anything but text.
///
/// ```
/// use mainstay::gateway::PlainText;
///
/// let shown = PlainText::line("\u{1b}]0;a new title\u{7}files\u{202e}\r\nready");
/// assert_eq!(shown.as_str(), "files ready");
/// assert_eq!(PlainText::lines("one\r\ntwo\u{1b}[2J").as_str(), "one\ntwo");
/// assert_eq!(PlainText::line("much too long").cut(8).as_str(), "much to…");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlainText(String);

impl PlainText {
    /// The text on one line: line breaks and tabs become spaces.
    pub fn line(text: &str) -> Self {
        Self(clean(text, Breaks::BecomeSpaces))
    }

    /// The text on as many lines as it has. Line breaks of all kinds become `\n`; tabs stay.
    pub fn lines(text: &str) -> Self {
        Self(clean(text, Breaks::Stay))
    }

    /// At most this many characters of it; a text that was cut ends in `…`.
    #[must_use]
    pub fn cut(self, max_chars: usize) -> Self {
        if self.0.chars().nth(max_chars).is_none() {
            return self;
        }
        let mut cut: String = self.0.chars().take(max_chars.saturating_sub(1)).collect();
        cut.push('…');
        Self(cut)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, to own.
    pub fn into_string(self) -> String {
        self.0
    }

    /// Whether a character is removed from every text: a control character other than a line break or a tab, or one that
    /// is not seen. For writers that escape such characters instead, as JSON can.
    pub fn is_hidden(c: char) -> bool {
        !matches!(c, '\n' | '\r' | '\t') && (c.is_control() || is_invisible(c))
    }
}

impl Deref for PlainText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for PlainText {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PlainText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<PlainText> for String {
    fn from(text: PlainText) -> Self {
        text.0
    }
}

/// What becomes of line breaks and tabs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Breaks {
    Stay,
    BecomeSpaces,
}

/// Where in a terminal sequence a character stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Text,
    /// After ESC.
    Escape,
    /// In a control sequence (`ESC [`), until its final letter.
    Control,
    /// In a string for the terminal (`ESC ]` and its like), until BEL or the string terminator.
    String,
}

fn clean(text: &str, breaks: Breaks) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut within = Within::Text;
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        if is_line_break(c) {
            // A sequence that is not finished must not swallow the lines below it.
            within = Within::Text;
            if c == '\r' && characters.peek() == Some(&'\n') {
                continue;
            }
            plain.push(if breaks == Breaks::Stay { '\n' } else { ' ' });
            continue;
        }
        within = match within.next(c) {
            Some(within) => within,
            None => {
                if c == '\t' {
                    plain.push(if breaks == Breaks::Stay { '\t' } else { ' ' });
                } else if !PlainText::is_hidden(c) {
                    plain.push(c);
                }
                Within::Text
            }
        };
    }
    plain
}

impl Within {
    /// Where this character of a sequence leads; `None` if it is no part of one.
    fn next(self, c: char) -> Option<Self> {
        match (self, c) {
            // Whatever it is within, these begin another sequence. ESC is also the first half of a string's end (ESC \).
            (_, '\u{1b}') => Some(Self::Escape),
            (_, '\u{9b}') => Some(Self::Control),
            (_, '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}') => Some(Self::String),
            // CAN and SUB end any sequence, as the string terminator does.
            (Self::Escape | Self::Control | Self::String, '\u{18}' | '\u{1a}' | '\u{9c}') => Some(Self::Text),
            (Self::Escape, '[') => Some(Self::Control),
            (Self::Escape, ']' | 'P' | 'X' | '^' | '_') => Some(Self::String),
            (Self::Escape, ' '..='/') => Some(Self::Escape),
            (Self::Escape, '0'..='~') => Some(Self::Text),
            (Self::Control, ' '..='?') => Some(Self::Control),
            (Self::Control, '@'..='~') => Some(Self::Text),
            // A terminal obeys control characters inside of a sequence, and goes on with it.
            (Self::Escape | Self::Control, c) if c.is_control() => Some(self),
            (Self::String, '\u{7}') => Some(Self::Text),
            (Self::String, _) => Some(Self::String),
            (Self::Text | Self::Escape | Self::Control, _) => None,
        }
    }
}

fn is_line_break(c: char) -> bool {
    matches!(
        c,
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

/// Marks of direction, and characters that take no place: what Unicode calls default ignorable, and the format
/// characters that nothing draws.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::PlainText;

    #[test]
    fn terminal_sequences_and_control_characters_leave_only_their_text() {
        for (written, shown) in [
            ("\u{1b}[1;31merror\u{1b}[0m: no such file", "error: no such file"),
            ("\u{1b}]0;a new title\u{07}ready", "ready"),
            (
                "\u{1b}]8;;http://evil.example\u{1b}\\here\u{1b}]8;;\u{1b}\\",
                "here",
            ),
            ("\u{1b}Pq#0;2;0;0;0\u{1b}\\done", "done"),
            ("\u{1b}(Bplain\u{1b}c", "plain"),
            ("\u{9b}2Jcleared", "cleared"),
            ("\u{9d}0;title\u{9c}after", "after"),
            ("\u{90}payload\u{9c}after \u{9f}apc\u{7}x", "after x"),
            ("\u{1b}[3\u{9b}2Jtwice", "twice"),
            ("\u{1b}]0;cut short\u{18}shown", "shown"),
            (
                "bell\u{07} back\u{08}space nul\0 del\u{7f}",
                "bell backspace nul del",
            ),
            ("naïve 日本語 ✓ 👍", "naïve 日本語 ✓ 👍"),
            ("unfinished \u{1b}[", "unfinished "),
            ("a\tb", "a b"),
        ] {
            assert_eq!(PlainText::line(written).as_str(), shown, "written: {written:?}");
        }
    }

    #[test]
    fn text_cannot_be_turned_around_or_hidden() {
        for (written, shown) in [
            ("\u{202e}txt.exe\u{202c}", "txt.exe"),
            ("\u{2066}isolated\u{2069}\u{200f}\u{61c}", "isolated"),
            ("pay\u{200b}pal\u{200d}\u{feff}\u{2060}\u{ad}", "paypal"),
            ("a\u{fe0f}\u{e0041}\u{e0042}\u{3164}b", "ab"),
        ] {
            assert_eq!(PlainText::line(written).as_str(), shown, "written: {written:?}");
            assert_eq!(PlainText::lines(written).as_str(), shown, "written: {written:?}");
        }
    }

    #[test]
    fn every_kind_of_line_break_is_one_and_none_returns_the_carriage() {
        let written = "a\r\nb\rc\u{85}d\u{2028}e\u{b}f\n\tg";
        assert_eq!(PlainText::lines(written).as_str(), "a\nb\nc\nd\ne\nf\n\tg");
        assert_eq!(PlainText::line(written).as_str(), "a b c d e f  g");
    }

    #[test]
    fn a_sequence_that_never_ends_hides_no_line_but_its_own() {
        assert_eq!(
            PlainText::lines("one \u{1b}]0;hidden\nthe error").as_str(),
            "one \nthe error"
        );
    }

    #[test]
    fn nothing_of_a_cut_text_is_longer_than_it_may_be() {
        assert_eq!(PlainText::line("ééééé").cut(5).as_str(), "ééééé");
        assert_eq!(PlainText::line("éééééé").cut(5).as_str(), "éééé…");
    }

    #[test]
    fn no_character_that_is_left_is_hidden() {
        let everything: String = ('\0'..=char::MAX).collect();
        for plain in [PlainText::line(&everything), PlainText::lines(&everything)] {
            assert_eq!(plain.chars().find(|c| PlainText::is_hidden(*c)), None);
            assert!(!plain.contains('\r'));
        }
        assert!(!PlainText::line(&everything).contains(['\n', '\t']));
    }
}
