//! Which lines of stderr explain why a program failed. This is the only place that decides it.
//!
//! Programs print their error first and their usage after it, or last and a stack trace before it, and write a banner either way.
//! A line that begins with its error is believed most; a line that only names one comes next; usage and banners come last or
//! never.

/// How many lines of stderr go with a failure.
const EXCERPT_LINES_LIMIT: usize = 10;

/// Words that a line begins with which is an error, behind a time and the name of a program.
const FIRST_WORDS: [&str; 7] = [
    "error",
    "fatal",
    "panic",
    "panicked",
    "critical",
    "exception",
    "uncaught",
];

/// The levels of a log that report no failure.
const QUIET_LEVELS: [&str; 4] = ["info", "debug", "trace", "notice"];

/// The levels that a line of a log begins with, behind its time.
const LEVELS: [&str; 8] = [
    "info", "debug", "trace", "notice", "warning", "warn", "error", "critical",
];

/// Words of lines that say what is wrong.
const ERROR_WORDS: [&str; 26] = [
    "error",
    "exception",
    "fail",
    "fatal",
    "panic",
    "cannot",
    "can't",
    "could not",
    "unable",
    "not found",
    "no such",
    "no module",
    "not set",
    "not in this registry",
    "denied",
    "refused",
    "invalid",
    "missing",
    "required",
    "unauthorized",
    "undefined",
    "unknown",
    "unrecognized",
    "unexpected",
    "not defined",
    "unsupported",
];

/// What package managers put before each line, whatever it says.
const PREFIXES: [&str; 3] = ["npm error", "npm ERR!", "npm err!"];

/// Beginnings of lines that say nothing about the server.
const NOTICES: [&str; 9] = [
    "npm notice",
    "npm warn",
    "npm WARN",
    "A complete log of this run",
    "at ",
    "Node.js v",
    TRACEBACK,
    "warning:",
    "(Use `node --trace",
];

/// What the last line of a stack trace of Python follows.
const TRACEBACK: &str = "Traceback (most recent call last)";

/// What servers say when they come up.
const BANNERS: [&str; 8] = [
    "running on stdio",
    "server running",
    "server started",
    "server is running",
    "starting",
    "listening",
    "welcome to",
    "press ctrl",
];

/// What a failure keeps of the stderr of its process.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StderrExcerpt {
    /// The last lines. If none of them is the reason, it comes first.
    pub(crate) lines: Vec<String>,
    /// The line that explains best why the program failed: the last that begins with its error or ends a stack trace, else the last
    /// that names an error, else the last with any content. `None` if there are only banners, frames and notices.
    pub(crate) reason: Option<String>,
}

impl StderrExcerpt {
    /// The excerpt of all lines of a program. The reason is chosen here once: without the heading above it, a line of the usage
    /// looks like an error.
    pub(crate) fn of(mut lines: Vec<String>) -> Self {
        let last = lines.len().saturating_sub(EXCERPT_LINES_LIMIT);
        let explaining = explaining(&lines);
        let reason = explaining.map(|index| without_margin(&lines[index]).trim().to_owned());
        let lines = match explaining {
            Some(index) if index < last => {
                let mut excerpt = lines.split_off(last + 1);
                excerpt.insert(0, lines.swap_remove(index));
                excerpt
            }
            Some(_) | None => lines.split_off(last),
        };
        Self { lines, reason }
    }
}

fn explaining(lines: &[String]) -> Option<usize> {
    let mut classifier = Classifier::default();
    let weights = lines.iter().map(|line| classifier.weigh(line));
    let weighed = weights
        .enumerate()
        .filter_map(|(index, weight)| Some((weight?, index)));
    weighed.max().map(|(_, index)| index)
}

/// How well a line explains a failure, the least first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    /// How the program is called.
    Usage,
    /// Some text.
    Content,
    /// A text that names an error.
    NamesError,
    /// A text that begins with its error.
    IsError,
}

/// What the lines above say of the next one.
#[derive(Default)]
struct Classifier {
    within: Block,
    /// Whether the last line that was not indented came up with the server: a banner, or a log's line that reports no failure.
    is_quiet: bool,
}

/// What a line belongs to.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Block {
    #[default]
    Nothing,
    /// The usage of the program: until a line that is neither indented nor an option nor a heading.
    Usage,
    /// A stack trace of Python: until a line that is not indented.
    Traceback,
}

impl Classifier {
    fn weigh(&mut self, line: &str) -> Option<Weight> {
        let line = without_prefix(without_margin(line));
        let text = line.trim_start();
        // Usages and stack traces have blank lines within.
        if text.is_empty() {
            self.is_quiet = false;
            return None;
        }
        let is_indented = text.len() < line.len() && !begins_with(text, &LEVELS);
        let names_error = has_any(text, &ERROR_WORDS);
        if text.contains(TRACEBACK) {
            self.within = Block::Traceback;
            return None;
        }
        if starts_with_ignoring_case(text, "usage") {
            self.within = Block::Usage;
            return has_content(text).then_some(Weight::Usage);
        }
        let is_option =
            text.starts_with('-') && text.trim_start_matches('-').starts_with(char::is_alphabetic);
        let is_heading = text.ends_with(':') && !names_error;
        if self.within == Block::Usage && (is_indented || is_option || is_heading) {
            return None;
        }
        let ends_traceback = self.within == Block::Traceback && !is_indented;
        if !is_indented {
            self.within = Block::Nothing;
            self.is_quiet = has_any(text, &BANNERS) || begins_with(text, &QUIET_LEVELS);
        }
        // The second line of a wrapped banner is a banner.
        if !has_content(text) || (is_indented && self.is_quiet) {
            return None;
        }
        if ends_traceback || begins_with(text, &FIRST_WORDS) || is_exception(text) {
            return Some(Weight::IsError);
        }
        if names_error {
            return Some(Weight::NamesError);
        }
        if is_option || text.contains("--help") {
            return Some(Weight::Usage);
        }
        (!has_any(text, &BANNERS)).then_some(Weight::Content)
    }
}

/// The line without what frames the stack trace of an exception group.
fn without_margin(line: &str) -> &str {
    let framed = line.trim_start().strip_prefix("| ");
    framed.unwrap_or(line)
}

fn without_prefix(line: &str) -> &str {
    let text = line.trim_start();
    match PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix)) {
        Some(rest) => rest.trim_start(),
        None => line,
    }
}

fn has_content(text: &str) -> bool {
    let letters = text.chars().filter(|c| c.is_alphanumeric()).count();
    let is_framed = text.contains(|c| matches!(c, '\u{2500}'..='\u{259f}'));
    // A word of two letters and a frame are decoration; so is a line that is mostly signs.
    letters > 2
        && !is_framed
        && letters * 3 >= text.chars().filter(|c| !c.is_whitespace()).count()
        && !NOTICES.iter().any(|notice| text.starts_with(notice))
}

/// Whether the first word of a log's line is one of these: behind a time, and behind the name of a program with a colon.
fn begins_with(text: &str, words: &[&str]) -> bool {
    let mut tokens = text.split_whitespace().filter(|token| {
        let is_time = token.contains(|c: char| c.is_ascii_digit());
        !is_time && token.contains(char::is_alphabetic)
    });
    let is_one = |token: &str| {
        let token = token.to_lowercase();
        let token = token.strip_prefix("level=").unwrap_or(&token);
        let word: String = token
            .chars()
            .skip_while(|c| !c.is_alphabetic())
            .take_while(|c| c.is_alphabetic())
            .collect();
        words.contains(&word.as_str())
    };
    let Some(first) = tokens.next() else {
        return false;
    };
    is_one(first) || (first.ends_with(':') && tokens.next().is_some_and(is_one))
}

/// Whether the first word is the name of an exception: `ValueError: …`, `java.io.IOException: …`.
fn is_exception(text: &str) -> bool {
    let word = text.split([':', ' ']).next().unwrap_or_default();
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '$');
    word.chars().all(is_name) && (word.ends_with("Error") || word.ends_with("Exception"))
}

fn starts_with_ignoring_case(text: &str, beginning: &str) -> bool {
    let head = text.get(..beginning.len());
    head.is_some_and(|head| head.eq_ignore_ascii_case(beginning))
}

fn has_any(line: &str, words: &[&str]) -> bool {
    let line = line.to_lowercase();
    words.iter().any(|word| line.contains(word))
}

#[cfg(test)]
mod tests;
