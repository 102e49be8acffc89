//! The arguments of a call that a modern server wants to see in headers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;

/// Says which arguments of a call are repeated in `Mcp-Param-` headers; tools ask for it with `x-mcp-header`.
pub trait ParamHeaders: Send + Sync + 'static {
    /// The names after `Mcp-Param-` and their values, unencoded, for one call of a tool with these arguments (JSON).
    fn of_call(&self, tool: &str, arguments: &str) -> Vec<(String, String)>;
}

/// The longest value of a header: what is longer is left out, since servers refuse long headers.
const LONGEST_VALUE: usize = 8 * 1024;

/// What marks a value as encoded.
const MARK: &str = "=?base64?";

/// A text as the value of a header: as it is where a header can hold it, else encoded; `None` when it is too long.
pub(super) fn header_value(text: &str) -> Option<HeaderValue> {
    let plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let padded = text.starts_with(' ') || text.ends_with(' ');
    let value = if plain && !padded && !text.starts_with(MARK) {
        HeaderValue::from_str(text)
    } else {
        HeaderValue::from_str(&format!("{MARK}{}?=", STANDARD.encode(text)))
    };
    value.ok().filter(|value| value.len() <= LONGEST_VALUE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_header_cannot_hold_is_encoded() {
        let cases = [
            ("read_file", "read_file"),
            ("two words", "two words"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="),
        ];
        for (text, expected) in cases {
            assert_eq!(header_value(text).unwrap(), expected);
        }
        assert_eq!(header_value(&"x".repeat(LONGEST_VALUE + 1)), None);
    }
}
