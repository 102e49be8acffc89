//! Text laid out for a person. What servers say of themselves passes through here before a terminal sees it.

use std::time::Duration;

use super::paint::Paint;

/// A text on one line that cannot move the cursor: each run of control characters and white space becomes one space.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for word in text.split(|c: char| c.is_control() || c.is_whitespace()) {
        if word.is_empty() {
            continue;
        }
        if !plain.is_empty() {
            plain.push(' ');
        }
        plain.push_str(word);
    }
    plain
}

/// A text of many lines that cannot move the cursor; line ends and tabs stay.
pub(crate) fn readable(text: &str) -> String {
    let harmless = |c: char| matches!(c, '\n' | '\t') || !c.is_control();
    text.replace("\r\n", "\n")
        .chars()
        .filter(|&c| harmless(c))
        .collect()
}

/// The first line that says something.
pub(crate) fn first_line(text: &str) -> String {
    plain(
        text.lines()
            .find(|line| !line.trim().is_empty())
            .unwrap_or_default(),
    )
}

/// How many columns a text takes, one for each character. Wide characters are rare in names and cost only alignment.
pub(crate) fn width(text: &str) -> usize {
    text.chars().count()
}

/// The text, cut to at most `columns`.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let kept: String = text.chars().take(columns.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// The words on as many lines as they need, none wider than `columns` unless a single word is.
pub(crate) fn wrapped<'w>(words: impl IntoIterator<Item = &'w str>, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(word) <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Prose on as many lines as it needs, none wider than `columns`: a word too wide, such as a long path, is broken.
pub(crate) fn prose(text: &str, columns: usize) -> Vec<String> {
    let text = plain(text);
    let pieces = text.split(' ').flat_map(|word| broken(word, columns.max(1)));
    wrapped(pieces, columns)
}

fn broken(mut word: &str, columns: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    while let Some((end, _)) = word.char_indices().nth(columns) {
        let (piece, rest) = word.split_at(end);
        pieces.push(piece);
        word = rest;
    }
    pieces.push(word);
    pieces
}

/// The lines below one another behind a label, which stands beside the first.
pub(crate) fn labelled(paint: Paint, label: &str, label_width: usize, lines: &[String]) -> String {
    let mut text = String::new();
    for (n, line) in lines.iter().enumerate() {
        let label = if n == 0 { label } else { "" };
        let pad = " ".repeat(label_width.saturating_sub(width(label)));
        text.push_str(&format!("  {}{pad}{line}\n", paint.dim(label)));
    }
    text
}

/// A time as people say it: `31 ms`, `2.4 s`, `3 min`, `2 h`, `5 d`.
pub(crate) fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 if time.as_millis() < 1000 => format!("{} ms", time.as_millis()),
        0..=59 => format!("{:.1} s", time.as_secs_f64()),
        60..=3599 => format!("{} min", seconds / 60),
        3600..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// A short time as people say it, with as many digits as tell one from another: `0.61 ms`, `8.4 ms`, `31 ms`.
pub(crate) fn fine_span(time: Duration) -> String {
    match time.as_micros() {
        micros @ 0..1_000 => format!("{:.2} ms", micros as f64 / 1e3),
        micros @ 1_000..10_000 => format!("{:.1} ms", micros as f64 / 1e3),
        _ => span(time),
    }
}

/// `1 tool`, `2 tools`.
pub(crate) fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_a_server_says_moves_the_cursor() {
        assert_eq!(plain("a\u{1b}[2Jb\r\n\tc"), "a [2Jb c");
        assert_eq!(readable("a\u{1b}]0;x\u{7}b\r\nc\td\u{9b}"), "a]0;xb\nc\td");
        assert_eq!(first_line("\n \n  Adds.\nMore."), "Adds.");
    }

    #[test]
    fn a_cut_text_fits_and_says_so() {
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("much too long", 6), "much…");
        assert_eq!(width(&cut("ééééééé", 4)), 4);
    }

    #[test]
    fn words_wrap_and_a_word_too_wide_stands_alone() {
        assert_eq!(wrapped(["a", "bb", "ccc"], 4), ["a bb", "ccc"]);
        assert_eq!(wrapped(["a", "toolong", "b"], 4), ["a", "toolong", "b"]);
        assert_eq!(wrapped([], 4), Vec::<String>::new());
    }

    #[test]
    fn prose_never_leaves_its_column() {
        assert_eq!(prose("an overlong\nword", 4), ["an", "over", "long", "word"]);
        assert_eq!(prose("", 4), [""]);
        assert_eq!(prose("ééééé x", 3), ["ééé", "éé", "x"]);
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
            assert_eq!(span(Duration::from_millis(millis)), said);
        }
        for (micros, said) in [(612, "0.61 ms"), (8_440, "8.4 ms"), (31_000, "31 ms")] {
            assert_eq!(fine_span(Duration::from_micros(micros)), said);
        }
    }
}
