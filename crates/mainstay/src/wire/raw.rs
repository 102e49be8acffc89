//! A JSON value as the text it came in.
//!
//! The text is known to be one valid JSON value and is never rewritten. A value cut out of a received message shares
//! that message's memory: cloning is free, and the message lives as long as its longest-lived piece.

use std::fmt;

use bytes::Bytes;
use bytestring::ByteString;
use memchr::memmem;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// How much of the text `Debug` shows; a payload may be many megabytes.
const DEBUG_SHOWS: usize = 200;

/// One JSON value, carried as text and known to be valid. Two values are equal when their bytes are.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RawJson(ByteString);

impl RawJson {
    /// `{}`
    pub const EMPTY_OBJECT: RawJson = RawJson(ByteString::from_static("{}"));
    /// `null`
    pub const NULL: RawJson = RawJson(ByteString::from_static("null"));

    /// Writes a value as JSON.
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::to_string(value).map(|text| Self(text.into()))
    }

    /// Takes JSON text as it is, once it is seen to be exactly one valid value. White space around it is left off.
    pub fn from_text(text: impl Into<String>) -> Result<Self, serde_json::Error> {
        Self::from_whole(&ByteString::from(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Whether a member of this name may be anywhere in it: `false` is certain, and a search is many times cheaper than a
    /// parse.
    pub fn may_hold(&self, name: &str) -> bool {
        // A name can be spelt with escapes too, and a letter only by its number.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let escape = if name.bytes().all(is_plain) {
            &b"\\u"[..]
        } else {
            b"\\"
        };
        let text = self.as_bytes();
        let has_escape =
            || memchr::memchr(b'\\', text).is_some_and(|at| memmem::find(&text[at..], escape).is_some());
        holds(text, name.as_bytes()) || has_escape()
    }

    /// Reads the value into a type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }

    fn from_whole(message: &ByteString) -> Result<Self, serde_json::Error> {
        let raw: &RawValue = serde_json::from_str(message)?;
        Ok(Self::part_of(message, raw))
    }

    /// A value found inside `message`, sharing its memory.
    pub(super) fn part_of(message: &ByteString, raw: &RawValue) -> Self {
        Self(message.slice_ref(raw.get()))
    }

    /// Text that was put together from valid pieces.
    pub(super) fn assembled(text: Vec<u8>) -> Self {
        debug_assert!(serde_json::from_slice::<&RawValue>(&text).is_ok());
        Self(ByteString::try_from(text).expect("pieces of UTF-8 make UTF-8"))
    }

    pub(super) fn text(&self) -> &ByteString {
        &self.0
    }
}

/// The text as it is, without a copy.
impl From<RawJson> for Bytes {
    fn from(raw: RawJson) -> Self {
        raw.0.into_bytes()
    }
}

impl From<u64> for RawJson {
    fn from(number: u64) -> Self {
        Self(number.to_string().into())
    }
}

impl fmt::Display for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.as_str();
        match text.char_indices().nth(DEBUG_SHOWS) {
            None => write!(f, "RawJson({text})"),
            Some((cut, _)) => write!(f, "RawJson({}… {} bytes)", &text[..cut], text.len()),
        }
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// Works with the deserializers of `serde_json` only, as those alone have the text.
impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(Box::<str>::from(raw).into()))
    }
}

/// Texts up to this length are searched without the tables that a faster search makes first.
const SHORT_TEXT: usize = 512;

fn holds(text: &[u8], word: &[u8]) -> bool {
    match word.first() {
        Some(&first) if text.len() <= SHORT_TEXT => {
            memchr::memchr_iter(first, text).any(|at| text[at..].starts_with(word))
        }
        Some(_) | None => memmem::find(text, word).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_kept_byte_for_byte() {
        let text = r#"{"b": 1.0e+2,"a":"\u0041", "big":123456789012345678901234567890}"#;
        let raw = RawJson::from_text(text).unwrap();
        assert_eq!(raw.as_str(), text);
        assert_eq!(serde_json::to_string(&raw).unwrap(), text);
        assert_eq!(serde_json::from_str::<RawJson>(text).unwrap(), raw);
        assert_eq!(raw.to_string(), text);
        assert_eq!(Bytes::from(raw), text);
    }

    #[test]
    fn what_is_not_one_value_is_refused() {
        for bad in ["", " ", "{", "{} {}", "nul", "\"a\nb\"", "[1,]"] {
            assert!(RawJson::from_text(bad).is_err(), "{bad:?}");
        }
        assert_eq!(RawJson::from_text(" [1]\n").unwrap().as_str(), "[1]");
    }

    #[test]
    fn a_member_that_is_there_is_never_missed() {
        let holds = |text: &str| RawJson::from_text(text).unwrap().may_hold("_meta");
        assert!(holds(r#"{"a":{"_meta":{}}}"#));
        assert!(holds(r#"{"\u005fmeta":{}}"#));
        assert!(!holds(r#"{"meta":"x\n\"\\"}"#));
        // Long texts are searched in another way.
        let long = "_met ".repeat(SHORT_TEXT);
        assert!(holds(&format!(r#"{{"a":"{long}","_meta":{{}}}}"#)));
        assert!(!holds(&format!(r#"{{"a":"{long}"}}"#)));
        assert!(!holds(r#"{"__met":"_met"}"#));
        let with_slash = RawJson::from_text(r#"{"a\/b":1}"#).unwrap();
        assert!(with_slash.may_hold("a/b"));
    }

    #[test]
    fn debug_output_of_a_large_value_is_short() {
        let raw = RawJson::from_value(&"é".repeat(100_000)).unwrap();
        assert!(format!("{raw:?}").len() < 1000);
        assert_eq!(format!("{:?}", RawJson::NULL), "RawJson(null)");
    }
}
