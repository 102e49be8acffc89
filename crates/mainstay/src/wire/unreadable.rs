//! Finds a message behind text that was printed without a line break, and finds out which requests an unreadable message was
//! meant to answer, so that they fail at once and not at their timeouts.
//!
//! It guesses, carefully: a wrong guess fails a request whose real answer is yet to come. So only something that starts
//! as a message counts (a log line that quotes one does not), only keys of the top level are looked at, something
//! with a method is no answer, and there must be more to it than an `id`.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

/// How much text may stand before a message: more than a person prints on one line.
const TEXT_LIMIT: usize = 4 * 1024;

/// At how many places of a line a message is looked for. Text has few braces; a line of braces is not worth the time.
const BRACE_LIMIT: usize = 16;

/// Takes a line apart that is text and, behind it, one whole message.
pub(super) fn split_off_text(line: &Bytes) -> Option<(Bytes, Bytes)> {
    if matches!(line.trim_ascii_start().first(), Some(b'{' | b'[')) {
        return None;
    }
    let begins = memchr::memchr_iter(b'{', &line[..line.len().min(TEXT_LIMIT)]).take(BRACE_LIMIT);
    let mut whole = begins.filter(|&at| is_message(&line[at..]));
    let at = whole.next()?;
    // Of two messages on a line, the second must not be taken alone.
    let is_one = memchr::memmem::find(&line[..at], br#""jsonrpc""#).is_none();
    is_one.then(|| (line.slice(..at), line.slice(at..)))
}

fn is_message(bytes: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Marked<'a> {
        #[serde(borrow)]
        jsonrpc: &'a RawValue,
    }
    serde_json::from_slice::<Marked<'_>>(bytes).is_ok_and(|marked| marked.jsonrpc.get() == r#""2.0""#)
}

/// What an unreadable message seems to be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum UnreadableKind {
    /// Answers to these requests.
    Answers(Vec<u64>),
    /// A request or a notification.
    NoAnswer,
    /// It cannot be told.
    Unclear,
}

/// Looks at the start and the end of a message; both may be the whole of it.
pub(super) fn classify(head: &[u8], tail: &[u8]) -> UnreadableKind {
    if !matches!(head.trim_ascii_start().first(), Some(b'{' | b'[')) {
        return UnreadableKind::Unclear;
    }
    let mut scan = Scan::new(head);
    let mut ids = Vec::new();
    let mut calls = false;
    // Several when it is a broken batch, or when the line break between two messages is missing.
    while let Some(object) = scan.next_object() {
        if object.method {
            calls = true;
        } else if object.answers {
            ids.extend(object.id);
        }
    }
    if !calls && ids.is_empty() {
        match last_members(tail) {
            Last::Id(id) => ids.push(id),
            Last::Method => calls = true,
            Last::Other => {}
        }
    }
    match ids.is_empty() {
        false => UnreadableKind::Answers(ids),
        true if calls => UnreadableKind::NoAnswer,
        true => UnreadableKind::Unclear,
    }
}

/// What the top level of one object shows, as far as it goes.
#[derive(Default)]
struct Shown {
    id: Option<u64>,
    method: bool,
    answers: bool,
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn next_object(&mut self) -> Option<Shown> {
        self.at += memchr::memchr(b'{', self.bytes.get(self.at..)?)? + 1;
        let mut shown = Shown::default();
        let mut depth = 1usize;
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                b'"' => {
                    let Some(text) = self.string() else { break };
                    if depth == 1 && self.colon() {
                        match text {
                            b"id" => shown.id = leading_number(&self.bytes[self.at..]),
                            b"method" => shown.method = true,
                            b"result" | b"error" | b"jsonrpc" => shown.answers = true,
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
        Some(shown)
    }

    /// The rest of a string whose quote was just passed.
    fn string(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        loop {
            self.at += memchr::memchr2(b'"', b'\\', self.bytes.get(self.at..)?)? + 1;
            if self.bytes[self.at - 1] == b'"' {
                return Some(&self.bytes[start..self.at - 1]);
            }
            self.at += 1;
        }
    }

    /// Passes the colon that makes the string before it a key.
    fn colon(&mut self) -> bool {
        let rest = &self.bytes[self.at..];
        let Some(after) = rest.trim_ascii_start().strip_prefix(b":") else {
            return false;
        };
        self.at = self.bytes.len() - after.len();
        true
    }
}

/// A whole number at the start, bare or in quotes, of which no digit is cut off.
fn leading_number(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii_start();
    let quoted = text.strip_prefix(b"\"");
    let text = quoted.unwrap_or(text);
    let digits = text.iter().position(|byte| !byte.is_ascii_digit())?;
    let (digits, rest) = text.split_at(digits);
    let ended = match quoted {
        Some(_) => rest.starts_with(b"\""),
        None => matches!(rest[0], b',' | b'}' | b' ' | b'\t' | b'\r'),
    };
    std::str::from_utf8(digits).ok().filter(|_| ended)?.parse().ok()
}

enum Last {
    Id(u64),
    Method,
    Other,
}

/// Reads the members at the very end backwards, as long as they are simple ones of an envelope.
fn last_members(tail: &[u8]) -> Last {
    let Some(mut rest) = tail.trim_ascii_end().strip_suffix(b"}") else {
        return Last::Other;
    };
    while let Some((before, key, value)) = last_member(rest) {
        match key {
            b"id" => return leading_number(&[value, b","].concat()).map_or(Last::Other, Last::Id),
            b"method" => return Last::Method,
            b"jsonrpc" => rest = before,
            _ => break,
        }
    }
    Last::Other
}

/// The last `,"key":value`, where both are free of quotes and backslashes inside.
fn last_member(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let colon = memchr::memrchr(b':', text)?;
    let (before, value) = (&text[..colon], text[colon + 1..].trim_ascii());
    let simple = value
        .iter()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'"' | b'.' | b'/' | b'_'));
    let before = before.trim_ascii_end().strip_suffix(b"\"")?;
    let quote = memchr::memrchr(b'"', before)?;
    let key = &before[quote + 1..];
    let before = before[..quote].trim_ascii_end().strip_suffix(b",")?;
    simple.then_some((before, key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(head: &str, tail: &str, expected: &UnreadableKind) {
        assert_eq!(
            &classify(head.as_bytes(), tail.as_bytes()),
            expected,
            "{head} … {tail}"
        );
    }

    fn answers(ids: &[u64]) -> UnreadableKind {
        UnreadableKind::Answers(ids.to_vec())
    }

    #[test]
    fn text_and_the_message_behind_it_are_taken_apart() {
        let message = r#"{"jsonrpc":"2.0","id":7,"result":{"text":"{"}}"#;
        for text in [
            "loading…",
            "50% {done} ",
            r#"{not json} {"level":"info"} "#,
            "a\u{1b}[0m",
        ] {
            let text = text.trim_start_matches('{');
            let line = Bytes::from(format!("{text}{message}"));
            let (before, found) = split_off_text(&line).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((&before[..], &found[..]), (text.as_bytes(), message.as_bytes()));
        }
        for line in [
            message.to_owned(),
            format!("{message}{message}"),
            format!("text {message}{message}"),
            format!("text {message} more"),
            format!("text {}", &message[..message.len() - 1]),
            r#"text {"id":7,"result":{}}"#.to_owned(),
            format!("{}{message}", "x".repeat(TEXT_LIMIT)),
            format!("x{}{message}", "{".repeat(BRACE_LIMIT)),
        ] {
            assert_eq!(split_off_text(&Bytes::from(line.clone())), None, "{line}");
        }
    }

    #[test]
    fn the_id_is_found_at_the_start() {
        check(
            r#"{"jsonrpc":"2.0","id":7,"result":{"id":8,"x":"#,
            "",
            &answers(&[7]),
        );
        check(
            r#" {"jsonrpc":"2.0", "id" : "7" ,"result":[{"id":8}"#,
            "",
            &answers(&[7]),
        );
        check(r#"{"result":{"id":8,"t":"a\"}{"},"id":7,"x"#, "", &answers(&[7]));
        check(r#"{"id":7,"error":bro"#, "", &answers(&[7]));
    }

    #[test]
    fn the_id_is_found_at_the_end() {
        let head = r#"{"result":{"content":[{"id":8,"text":"aaa"#;
        check(head, r#"aaa"}]},"id":7,"jsonrpc":"2.0"}"#, &answers(&[7]));
        check(
            head,
            "aaa\"}]}, \"jsonrpc\": \"2.0\", \"id\": \"7\" }\r",
            &answers(&[7]),
        );
    }

    #[test]
    fn an_id_deeper_down_is_not_taken() {
        check(
            r#"{"jsonrpc":"2.0","result":{"id":8"#,
            r#"{"id":8}}"#,
            &UnreadableKind::Unclear,
        );
        check(
            r#"{"jsonrpc":"2.0","result":["#,
            r#"{"a":1,"id":8}]}"#,
            &UnreadableKind::Unclear,
        );
    }

    #[test]
    fn what_has_a_method_is_no_answer() {
        check(
            r#"{"jsonrpc":"2.0","method":"n","params":{"#,
            r#"},"id":7}"#,
            &UnreadableKind::NoAnswer,
        );
        check(
            r#"{"jsonrpc":"2.0","id":7,"method":"sampling/x","params":{"#,
            "",
            &UnreadableKind::NoAnswer,
        );
        check(
            r#"{"params":{"x":"aaa"#,
            r#"aaa"},"method":"n","jsonrpc":"2.0"}"#,
            &UnreadableKind::NoAnswer,
        );
    }

    #[test]
    fn what_only_looks_like_an_answer_is_not_taken_for_one() {
        for line in [
            r#"sent {"jsonrpc":"2.0","id":7,"result":{}}"#,
            r#"{"level":"info","id":7,"msg":"x"}x"#,
            r#"{"jsonrpc":"2.0","id":7"#,
            r#"{"jsonrpc":"2.0","id":7.5,"result":1"#,
            r#"{"jsonrpc":"2.0","id":"x7","result":1"#,
            "{",
            "[",
            "\"",
            "",
            r#"{"\"#,
            r#"{"id""#,
            r#"{"id":"#,
        ] {
            check(line, "", &UnreadableKind::Unclear);
        }
    }

    #[test]
    fn messages_run_together_are_all_found() {
        check(
            r#"{"id":1,"result":{}}{"id":2,"result":{}}"#,
            "",
            &answers(&[1, 2]),
        );
        check(
            r#"[{"id":1,"result":{}},{"method":"x"},{"id":2,"result":"#,
            "",
            &answers(&[1, 2]),
        );
    }
}
