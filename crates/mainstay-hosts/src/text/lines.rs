//! Lines of a text: where they begin and end, and how they are indented.

/// The first byte of the line that `at` stands in.
pub(crate) fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

/// The byte after the line that `at` stands in, its line break included.
pub(crate) fn line_end(text: &str, at: usize) -> usize {
    text[at..]
        .find('\n')
        .map_or(text.len(), |newline| at + newline + 1)
}

/// The white space that a line begins with.
pub(crate) fn indentation(text: &str, at: usize) -> &str {
    let line = &text[line_start(text, at)..];
    let blank = line.len() - line.trim_start_matches([' ', '\t']).len();
    &line[..blank]
}

/// The white space before `at`, if nothing else stands before it on its line.
pub(crate) fn begins_line(text: &str, at: usize) -> Option<&str> {
    let before = &text[line_start(text, at)..at];
    is_blank(before).then_some(before)
}

pub(crate) fn is_blank(text: &str) -> bool {
    text.bytes().all(|byte| byte == b' ' || byte == b'\t')
}

/// The line break that a text uses.
pub(crate) fn line_break(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        Some(_) | None => "\n",
    }
}

/// What each level of a text is indented by.
pub(crate) fn indent_unit(text: &str) -> &str {
    let indents = text.lines().map(|line| {
        let blank = line.len() - line.trim_start_matches([' ', '\t']).len();
        (&line[..blank], line[blank..].starts_with(['"', '}', ']']))
    });
    let mut unit = indents.filter(|(blank, is_value)| *is_value && !blank.is_empty());
    unit.next().map_or("  ", |(blank, _)| blank)
}

/// The lines that `from` to `to` take up, if nothing else stands on them: the whole lines, with their last line break.
pub(crate) fn whole_lines(text: &str, from: usize, to: usize) -> Option<std::ops::Range<usize>> {
    begins_line(text, from)?;
    let end = line_end(text, to);
    let rest = text[to..end].trim_end_matches(['\r', '\n']);
    is_blank(rest).then_some(line_start(text, from)..end)
}
