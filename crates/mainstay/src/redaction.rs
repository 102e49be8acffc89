//! Removes known secrets from what a server writes and from messages about it.
//!
//! Every value of its environment, its headers and its expanded variables counts as a secret; its name stands in its place, so
//! that the text stays readable. Values of a few characters are left: they are no secrets, and would be found everywhere.

use std::borrow::Cow;
use std::fmt;

use serde::de::IgnoredAny;

use crate::config::{ConfigText, HttpTarget, ServerConfig, StdioTarget, Target};

/// Shorter values stay: `true`, `8080`, `debug`.
const SHORTEST_SECRET: usize = 6;

/// The secrets of one server, and what is shown in their place. Has no `Debug` of its own accord: it is nothing but secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Redaction {
    /// The longest first: one secret may be a part of another.
    secrets: Vec<(String, String)>,
}

impl Redaction {
    pub(crate) fn of(config: &ServerConfig) -> Self {
        let mut redaction = Self::default();
        match config.target() {
            Target::Stdio(program) => redaction.add_program(program),
            Target::Http(address) => redaction.add_address(address),
            Target::Custom(_) | Target::Unusable(_) => {}
        }
        redaction
            .secrets
            .sort_by(|(one, _), (other, _)| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        redaction.secrets.dedup_by(|(one, _), (other, _)| one == other);
        redaction
    }

    fn add_program(&mut self, program: &StdioTarget) {
        for (name, value) in program.env() {
            self.add(value.expose(), name);
        }
        let texts = std::iter::once(program.command())
            .chain(program.args())
            .chain(program.cwd());
        texts.for_each(|text| self.add_text(text));
    }

    fn add_address(&mut self, address: &HttpTarget) {
        for (name, value) in address.headers() {
            self.add_header(value.expose(), name);
        }
        if let Some(token) = address.bearer_token() {
            self.add(token.expose(), "token");
        }
        self.add_text(address.url());
    }

    /// A header may be a scheme and a token: `Bearer abc`.
    fn add_header(&mut self, value: &str, name: &str) {
        self.add(value, name);
        if let Some((_, token)) = value.split_once(' ') {
            self.add(token, name);
        }
    }

    /// Of a text with variables, what they stand for.
    fn add_text(&mut self, text: &ConfigText) {
        let (value, shown) = (text.value(), text.shown());
        if value == shown {
            return;
        }
        let before = value
            .bytes()
            .zip(shown.bytes())
            .take_while(|(value, shown)| value == shown)
            .count();
        let (value, shown) = (value.get(before..), shown.get(before..));
        let (Some(value), Some(shown)) = (value, shown) else {
            return self.add(text.value(), text.shown());
        };
        let after = value
            .bytes()
            .rev()
            .zip(shown.bytes().rev())
            .take_while(|(value, shown)| value == shown)
            .count();
        match (value.get(..value.len() - after), shown.get(..shown.len() - after)) {
            (Some(value), Some(shown)) => self.add(value, shown.trim_matches(['$', '{', '}'])),
            _cut_in_a_character => self.add(value, shown),
        }
    }

    /// A secret of several lines, such as a key, is written line by line.
    fn add(&mut self, value: &str, name: &str) {
        for line in value.lines().map(str::trim) {
            if line.len() >= SHORTEST_SECRET {
                self.secrets.push((line.to_owned(), format!("[{name}]")));
            }
        }
    }

    /// The text without the secrets.
    pub(crate) fn apply(&self, mut text: String) -> String {
        for (secret, shown) in &self.secrets {
            if text.contains(secret) {
                text = text.replace(secret, shown);
            }
        }
        text
    }

    /// The same for JSON, which stays JSON: a number with a secret in it becomes a string. Text that is no JSON is treated as text.
    pub(crate) fn apply_to_json(&self, text: String) -> String {
        if self.secrets.is_empty() {
            return text;
        }
        if serde_json::from_str::<IgnoredAny>(&text).is_err() {
            return self.apply_escaped(text);
        }
        let mut redacted = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(begin) = rest.find(|sign: char| matches!(sign, '"' | '-' | '0'..='9')) {
            let (before, token) = rest.split_at(begin);
            let (token, after) = token.split_at(token_length(token));
            redacted.push_str(before);
            redacted.push_str(&self.apply_to_token(token));
            rest = after;
        }
        redacted.push_str(rest);
        // A secret that is JSON itself consists of several tokens.
        let is_structured = |secret: &str| secret.contains(['{', '[', ',', ':', '"']);
        for (secret, shown) in &self.secrets {
            if is_structured(secret) && redacted.contains(secret) {
                redacted = redacted.replace(secret, &quoted(shown));
            }
        }
        redacted
    }

    /// One string or number of JSON. A string is searched for what it says, however it is escaped.
    fn apply_to_token<'t>(&self, token: &'t str) -> Cow<'t, str> {
        let said = if token.starts_with('"') {
            match serde_json::from_str::<String>(token) {
                Ok(said) => said,
                // A half of a surrogate pair: JSON for some, and no text.
                Err(_) => return Cow::Owned(self.apply_escaped(token.to_owned())),
            }
        } else {
            token.to_owned()
        };
        let redacted = self.apply_escaped(said.clone());
        if redacted == said {
            return Cow::Borrowed(token);
        }
        Cow::Owned(quoted(&redacted))
    }

    /// The text without the secrets, where a secret may also stand with its quotes and backslashes escaped.
    fn apply_escaped(&self, text: String) -> String {
        let mut text = self.apply(text);
        for (secret, shown) in &self.secrets {
            let escaped = secret.replace('\\', r"\\").replace('"', r#"\""#);
            if escaped != *secret && text.contains(&escaped) {
                text = text.replace(&escaped, shown);
            }
        }
        text
    }

    /// The same for a text that was cut off, perhaps within a secret.
    pub(crate) fn apply_to_cut(&self, mut text: String) -> String {
        for (secret, shown) in &self.secrets {
            let cuts = secret.char_indices().map(|(at, _)| at).rev();
            let begun = cuts
                .take_while(|&at| at >= SHORTEST_SECRET)
                .find(|&at| text.ends_with(&secret[..at]));
            if let Some(begun) = begun {
                text.truncate(text.len() - begun);
                text.push_str(shown);
                break;
            }
        }
        self.apply(text)
    }
}

/// The length of the string or number of JSON that a text begins with.
fn token_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    if bytes.first() != Some(&b'"') {
        let is_number = |byte: &u8| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
        return bytes.iter().take_while(|byte| is_number(byte)).count();
    }
    let mut is_escaped = false;
    for (at, byte) in bytes.iter().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    bytes.len()
}

/// A text as a string of JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl fmt::Debug for Redaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secrets", self.secrets.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_give_way_to_their_names_the_longest_first() {
        let server = ServerConfig::stdio("s", "x")
            .env("SHORT", "true")
            .env("TOKEN", "sk-12345")
            .env("LONGER_TOKEN", "sk-12345-678")
            .env("KEY", "-----BEGIN KEY-----\nMIIEvQIBADAN\n");
        let redaction = Redaction::of(&server.build().expect("valid"));
        for (text, shown) in [
            ("token=sk-12345, debug=true", "token=[TOKEN], debug=true"),
            ("sk-12345-678", "[LONGER_TOKEN]"),
            ("  MIIEvQIBADAN", "  [KEY]"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(redaction.apply(text.to_owned()), shown);
        }
        assert_eq!(
            redaction.apply_to_cut("it is sk-12345-6".to_owned()),
            "it is [LONGER_TOKEN]"
        );
        assert_eq!(format!("{redaction:?}"), "4 secrets");
    }

    #[test]
    fn json_without_its_secrets_is_json() {
        let server = ServerConfig::stdio("s", "x")
            .env("PIN", "123456")
            .env("TOKEN", r#"sk-"12"\34"#)
            .env("ODD\"NAME", "odd-value")
            .env("ACCOUNT", r#"{"user":"me","id":77}"#);
        let redaction = Redaction::of(&server.build().expect("valid"));
        for (text, shown) in [
            (r#"{"pin":123456}"#, r#"{"pin":"[PIN]"}"#),
            (r#"[-1234567.5e3, 12345 ]"#, r#"["-[PIN]7.5e3", 12345 ]"#),
            (r#"{"123456":"a 123456 b"}"#, r#"{"[PIN]":"a [PIN] b"}"#),
            (r#"{"a":"is \u0031\u00323456"}"#, r#"{"a":"is [PIN]"}"#),
            (r#"{"a":"sk-\"12\"\\34"}"#, r#"{"a":"[TOKEN]"}"#),
            (
                r#"{"a":"{\"b\":\"sk-\\\"12\\\"\\\\34\"}"}"#,
                r#"{"a":"{\"b\":\"[TOKEN]\"}"}"#,
            ),
            (r#"{"a":"odd-value"}"#, r#"{"a":"[ODD\"NAME]"}"#),
            (r#"{"a":{"user":"me","id":77}}"#, r#"{"a":"[ACCOUNT]"}"#),
            (
                r#"{"a":"\ud800","b" : 123456}"#,
                r#"{"a":"\ud800","b" : "[PIN]"}"#,
            ),
            (
                r#"{"a" : "\u00e9", "b":[1,2.50,-0]}"#,
                r#"{"a" : "\u00e9", "b":[1,2.50,-0]}"#,
            ),
            ("no JSON: 123456", "no JSON: [PIN]"),
        ] {
            assert_eq!(redaction.apply_to_json(text.to_owned()), shown);
            let is_json = |text: &str| serde_json::from_str::<IgnoredAny>(text).is_ok();
            assert_eq!(is_json(shown), is_json(text), "{shown}");
        }
    }

    #[test]
    fn the_token_of_a_header_is_known_without_its_scheme() {
        let server =
            ServerConfig::http("s", "https://x.example/mcp").header("Authorization", "Bearer abc-def-ghi");
        let redaction = Redaction::of(&server.build().expect("valid"));
        let text = redaction.apply("bad token abc-def-ghi (sent: Bearer abc-def-ghi)".to_owned());
        assert_eq!(text, "bad token [Authorization] (sent: [Authorization])");
    }

    #[test]
    fn of_an_argument_with_a_variable_only_its_value_is_taken_out() {
        let mut redaction = Redaction::default();
        redaction.add_text(&ConfigText::hidden(
            "--token=tok-123456,v2",
            "--token=${TOKEN},v2",
        ));
        let text = redaction.apply("unknown option --token=tok-123456,v2".to_owned());
        assert_eq!(text, "unknown option --token=[TOKEN],v2");
    }
}
