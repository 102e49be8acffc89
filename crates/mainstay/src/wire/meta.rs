//! Entries for the `_meta` of requests, written once and put into many.

use super::raw::RawJson;

/// Some entries of a `_meta`.
#[derive(Clone, Debug)]
pub(crate) struct Meta {
    entries: Vec<(&'static str, RawJson)>,
    /// The same as they stand inside of the braces, on one line.
    text: Vec<u8>,
}

impl Meta {
    /// Takes entries with different keys, at least one.
    pub(crate) fn new(entries: Vec<(&'static str, RawJson)>) -> Self {
        let mut text = Vec::new();
        for (key, value) in &entries {
            text.extend_from_slice(if text.is_empty() { b"\"" } else { b",\"" });
            text.extend_from_slice(key.as_bytes());
            text.extend_from_slice(b"\":");
            text.extend_from_slice(value.as_bytes());
        }
        // Between the tokens of valid JSON they are white space.
        let breaks = text.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r'));
        breaks.for_each(|byte| *byte = b' ');
        Self { entries, text }
    }

    pub(crate) fn entries(&self) -> &[(&'static str, RawJson)] {
        &self.entries
    }

    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }
}
