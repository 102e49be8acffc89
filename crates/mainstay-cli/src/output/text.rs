//! Text that may be shown, and how it is laid out.
//!
//! [`Text`] is the only type that the screen takes. It is made of the program's own words and of text that the library's
//! cleaner has been through, so that nothing a server says can reach a terminal as it came: what is not cleaned does not
//! compile.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use mainstay::StateKind;
use mainstay::gateway::PlainText;
use mainstay::server::TransportKind;
use mainstay_control::api::ServerCount;
use serde::Serialize;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::paint::Paint;

/// Text that may be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text(String);

/// Formats like `format!`, from arguments that may be shown. Names in the template are not accepted, since they would
/// not be checked: arguments stand behind it.
macro_rules! text {
    ($template:literal $(, $argument:expr)* $(,)?) => {
        $crate::output::Text::formatted(format_args!(
            concat!($template) $(, $crate::output::harmless(&$argument))*
        ))
    };
}
pub(crate) use text;

/// What may be shown as it is: the program's own words, numbers, and cleaned text.
pub(crate) trait Harmless: fmt::Display {}

/// Lets through what may be shown.
pub(crate) fn harmless<T: Harmless + ?Sized>(shown: &T) -> &T {
    shown
}

impl Harmless for Text {}
impl Harmless for PlainText {}
impl Harmless for &'static str {}
impl Harmless for u32 {}
impl Harmless for u64 {}
impl Harmless for usize {}
impl Harmless for i64 {}
impl Harmless for f64 {}
impl Harmless for SocketAddr {}
impl Harmless for StateKind {}
impl Harmless for TransportKind {}
impl<T: Harmless> Harmless for &T {}

impl Text {
    /// For `text!` alone, which checks the arguments.
    pub(crate) fn formatted(arguments: fmt::Arguments<'_>) -> Self {
        Self(arguments.to_string())
    }

    /// A text of many lines from elsewhere, cleaned.
    pub(crate) fn lines(text: &str) -> Self {
        PlainText::lines(text).into()
    }

    /// A JSON document. What is not seen is escaped, so that a terminal shows it and a parser reads what was meant.
    pub(crate) fn document(document: &impl Serialize) -> Self {
        let json =
            serde_json::to_string_pretty(document).expect("own types have text keys and finite numbers");
        Self(escaped(&json) + "\n")
    }

    /// One JSON object on one line.
    pub(crate) fn object(object: &impl Serialize) -> Self {
        let json = serde_json::to_string(object).expect("own types have text keys and finite numbers");
        Self(escaped(&json))
    }

    /// For [`Paint`] alone, whose sequences are the only ones that reach a terminal.
    pub(super) fn painted(text: String) -> Self {
        Self(text)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn push(&mut self, text: impl Into<Self>) {
        self.0.push_str(&text.into().0);
    }

    /// Adds a line.
    pub(crate) fn push_line(&mut self, text: impl Into<Self>) {
        self.push(text);
        self.0.push('\n');
    }

    /// The parts with this between them.
    pub(crate) fn join(parts: impl IntoIterator<Item = Self>, between: &'static str) -> Self {
        let parts: Vec<_> = parts.into_iter().map(|part| part.0).collect();
        Self(parts.join(between))
    }

    /// So many spaces.
    pub(crate) fn spaces(count: usize) -> Self {
        Self(" ".repeat(count))
    }

    /// Its lines.
    pub(crate) fn split_lines(&self) -> Vec<Self> {
        self.0.lines().map(|line| Self(line.to_owned())).collect()
    }

    /// Without white space at its end.
    pub(crate) fn trimmed(&self) -> Self {
        Self(self.0.trim_end().to_owned())
    }
}

/// Characters that a JSON string may hold as they are, and that are not seen, stand only in strings: so an escape can
/// take the place of each.
fn escaped(json: &str) -> String {
    if !json.contains(PlainText::is_hidden) {
        return json.to_owned();
    }
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if PlainText::is_hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            escaped.push(c);
        }
    }
    escaped
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<&'static str> for Text {
    fn from(words: &'static str) -> Self {
        Self(words.to_owned())
    }
}

impl From<PlainText> for Text {
    fn from(text: PlainText) -> Self {
        Self(text.into_string())
    }
}

impl From<&Self> for Text {
    fn from(text: &Self) -> Self {
        text.clone()
    }
}

impl FromIterator<Self> for Text {
    fn from_iter<I: IntoIterator<Item = Self>>(parts: I) -> Self {
        Self::join(parts, "")
    }
}

/// A text from elsewhere on one line, cleaned; each run of white space becomes one space.
pub(crate) fn plain(text: &str) -> Text {
    let line = PlainText::line(text);
    let words: Vec<_> = line.split_whitespace().collect();
    Text(words.join(" "))
}

/// The first line that says something.
pub(crate) fn first_line(text: &str) -> Text {
    let lines = PlainText::lines(text);
    plain(
        lines
            .lines()
            .find(|line| !line.trim().is_empty())
            .unwrap_or_default(),
    )
}

/// How many columns a terminal needs for a text.
pub(crate) fn width(text: impl AsRef<str>) -> usize {
    text.as_ref().width()
}

/// The length in bytes of the longest beginning of a text that fits into so many columns.
fn fitting(text: &str, columns: usize) -> usize {
    let mut taken = 0;
    let beyond = text.char_indices().find(|(_, c)| {
        taken += c.width().unwrap_or(0);
        taken > columns
    });
    beyond.map_or(text.len(), |(end, _)| end)
}

/// The text, cut to at most `columns`.
pub(crate) fn cut(text: &Text, columns: usize) -> Text {
    if width(text) <= columns {
        return text.clone();
    }
    let kept = &text.0[..fitting(&text.0, columns.saturating_sub(1))];
    Text(format!("{}…", kept.trim_end()))
}

/// The words on as many lines as they need, none wider than `columns` unless a single word is.
pub(crate) fn wrapped(words: impl IntoIterator<Item = Text>, columns: usize) -> Vec<Text> {
    let mut lines: Vec<Text> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if width(&*line) + 1 + width(&word) <= columns => {
                line.push(" ");
                line.push(word);
            }
            Some(_) | None => lines.push(word),
        }
    }
    lines
}

/// Prose from elsewhere, cleaned, on as many lines as it needs, none wider than `columns`: a word too wide, such as a
/// long path, is broken.
pub(crate) fn prose(text: impl AsRef<str>, columns: usize) -> Vec<Text> {
    let text = plain(text.as_ref());
    let pieces = text.0.split(' ').flat_map(|word| broken(word, columns.max(1)));
    wrapped(pieces.map(|piece| Text(piece.to_owned())), columns)
}

fn broken(mut word: &str, columns: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    while width(word) > columns {
        // A character that is wider than the column stands alone.
        let first = word.chars().next().map_or(0, char::len_utf8);
        let (piece, rest) = word.split_at(fitting(word, columns).max(first));
        pieces.push(piece);
        word = rest;
    }
    if !word.is_empty() || pieces.is_empty() {
        pieces.push(word);
    }
    pieces
}

/// The lines below one another behind a label, which stands beside the first.
pub(crate) fn labelled(paint: Paint, label: impl Into<Text>, label_width: usize, lines: &[Text]) -> Text {
    let label = label.into();
    let mut text = Text::default();
    for (n, line) in lines.iter().enumerate() {
        let label = if n == 0 { label.clone() } else { Text::default() };
        let pad = Text::spaces(label_width.saturating_sub(width(&label)));
        text.push(text!("  {}{}{}\n", paint.dim(label), pad, line));
    }
    text
}

/// A time as people say it: `31 ms`, `2.4 s`, `3 min`, `2 h`, `5 d`.
pub(crate) fn span(time: Duration) -> Text {
    let seconds = time.as_secs();
    Text(match seconds {
        0 if time.as_millis() < 1000 => format!("{} ms", time.as_millis()),
        0..=59 => format!("{:.1} s", time.as_secs_f64()),
        60..=3599 => format!("{} min", seconds / 60),
        3600..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    })
}

/// A short time as people say it, with as many digits as tell one from another: `0.61 ms`, `8.4 ms`, `31 ms`.
pub(crate) fn fine_span(time: Duration) -> Text {
    match time.as_micros() {
        micros @ 0..1_000 => Text(format!("{:.2} ms", micros as f64 / 1e3)),
        micros @ 1_000..10_000 => Text(format!("{:.1} ms", micros as f64 / 1e3)),
        _ => span(time),
    }
}

/// How many servers are up: `4 of 8 servers up`.
pub(crate) fn counted_up(count: ServerCount) -> Text {
    Text(count.to_string())
}

/// The failures in a row: `3 of 10 failures`, and behind the budget `11 failures`.
pub(crate) fn failures(failures: u32, budget: u32) -> Text {
    match failures <= budget {
        true => text!("{} of {} failures", failures, budget),
        false => text!("{} failures", failures),
    }
}

/// `1 tool`, `2 tools`.
pub(crate) fn count(number: usize, what: &'static str) -> Text {
    let plural = if number == 1 { "" } else { "s" };
    text!("{} {}{}", number, what, plural)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(lines: Vec<Text>) -> Vec<String> {
        lines.into_iter().map(|line| line.0).collect()
    }

    #[test]
    fn nothing_a_server_says_moves_the_cursor() {
        assert_eq!(plain("a\u{1b}[2Jb\r\n\tc").0, "ab c");
        assert_eq!(
            Text::lines("a\u{1b}]0;x\u{7}b\r\nc\td\u{9b}\u{202e}").0,
            "ab\nc\td"
        );
        assert_eq!(first_line("\n \n  Adds.\nMore.").0, "Adds.");
    }

    #[test]
    fn text_that_was_not_cleaned_is_not_accepted() {
        /// Does not compile for a type that may be shown: it would have two implementations to choose from.
        trait NotShown<A> {
            fn holds() {}
        }
        impl<T: ?Sized> NotShown<()> for T {}
        impl<T: Harmless> NotShown<u8> for T {}
        <String as NotShown<_>>::holds();
        <str as NotShown<_>>::holds();

        trait NotConverted<A> {
            fn holds() {}
        }
        impl<T: ?Sized> NotConverted<()> for T {}
        impl<T: Into<Text>> NotConverted<u8> for T {}
        <String as NotConverted<_>>::holds();
        <&String as NotConverted<_>>::holds();
    }

    #[test]
    fn a_document_hides_nothing_and_means_the_same() {
        let said = "a\u{1b}[2J\u{9b}\u{7f}\u{202e}\u{e0041}\n✓";
        let document = Text::document(&serde_json::json!({ "said": said }));
        assert!(!document.0.contains(PlainText::is_hidden), "{document}");
        let read: serde_json::Value = serde_json::from_str(&document.0).unwrap();
        assert_eq!(read["said"], said);
    }

    #[test]
    fn a_cut_text_fits_and_says_so() {
        assert_eq!(cut(&plain("short"), 5).0, "short");
        assert_eq!(cut(&plain("much too long"), 6).0, "much…");
        assert_eq!(width(cut(&plain("ééééééé"), 4)), 4);
    }

    #[test]
    fn a_wide_character_takes_two_columns() {
        assert_eq!((width("検索"), width("e\u{301}")), (4, 1));
        assert_eq!(cut(&plain("検索検索"), 6).0, "検索…");
        assert_eq!(shown(prose("検索検索", 4)), ["検索", "検索"]);
        assert_eq!(shown(prose("検索", 1)), ["検", "索"]);
    }

    #[test]
    fn words_wrap_and_a_word_too_wide_stands_alone() {
        let words = |words: &[&'static str], columns| {
            shown(wrapped(words.iter().map(|&word| Text::from(word)), columns))
        };
        assert_eq!(words(&["a", "bb", "ccc"], 4), ["a bb", "ccc"]);
        assert_eq!(words(&["a", "toolong", "b"], 4), ["a", "toolong", "b"]);
        assert_eq!(words(&[], 4), Vec::<String>::new());
    }

    #[test]
    fn prose_never_leaves_its_column() {
        assert_eq!(
            shown(prose("an overlong\nword", 4)),
            ["an", "over", "long", "word"]
        );
        assert_eq!(shown(prose("", 4)), [""]);
        assert_eq!(shown(prose("ééééé x", 3)), ["ééé", "éé", "x"]);
    }

    #[test]
    fn times_are_said_in_the_unit_that_suits_them() {
        for (millis, said) in [
            (31, "31 ms"),
            (999, "999 ms"),
            (2_440, "2.4 s"),
            (180_000, "3 min"),
            (7_200_000, "2 h"),
            (432_000_000, "5 d"),
        ] {
            assert_eq!(span(Duration::from_millis(millis)).0, said);
        }
        for (micros, said) in [(612, "0.61 ms"), (8_440, "8.4 ms"), (31_000, "31 ms")] {
            assert_eq!(fine_span(Duration::from_micros(micros)).0, said);
        }
    }
}
