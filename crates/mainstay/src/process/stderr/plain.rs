//! Text that is safe to show in a terminal or a page.

/// Removes terminal sequences (colours, titles, cursor movements), control characters, and the marks that turn the
/// direction of text around, so that what a server writes cannot pass for anything else. Tabs become spaces.
pub(in super::super) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut within = Within::Text;
    for c in text.chars() {
        within = match (within, c) {
            // Whatever it is within, an escape begins anew; of a string's end (ESC \) it is the first half.
            (_, '\u{1b}') => Within::Escape,
            (Within::Escape, '[') | (Within::Text, '\u{9b}') => Within::Control,
            (Within::Escape, ']' | 'P' | 'X' | '^' | '_')
            | (Within::Text, '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}') => Within::String,
            (Within::Escape, ' '..='/') => Within::Escape,
            (Within::Escape, _) => Within::Text,
            (Within::Control, '@'..='~') => Within::Text,
            (Within::Control, _) => Within::Control,
            (Within::String, '\u{07}' | '\u{9c}') => Within::Text,
            (Within::String, _) => Within::String,
            (Within::Text, '\t') => {
                plain.push(' ');
                Within::Text
            }
            (Within::Text, c) => {
                if !c.is_control() && !turns_text(c) {
                    plain.push(c);
                }
                Within::Text
            }
        };
    }
    plain
}

/// Where in a terminal sequence a character stands.
enum Within {
    Text,
    /// After ESC.
    Escape,
    /// In a control sequence (`ESC [`), until its final letter.
    Control,
    /// In a string for the terminal (`ESC ]` and its like), until BEL or the string terminator.
    String,
}

/// Marks of direction, and the two separators that some viewers break lines at.
fn turns_text(c: char) -> bool {
    matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::plain;

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
            (
                "bell\u{07} back\u{08}space nul\0 del\u{7f}",
                "bell backspace nul del",
            ),
            ("\u{202e}txt.exe\u{202c}", "txt.exe"),
            ("a\tb", "a b"),
            ("naïve 日本語 ✓", "naïve 日本語 ✓"),
            ("unfinished \u{1b}[", "unfinished "),
        ] {
            assert_eq!(plain(written), shown, "written: {written:?}");
        }
    }
}
