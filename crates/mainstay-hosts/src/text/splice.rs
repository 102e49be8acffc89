//! Replaces parts of a text and keeps every other byte.

use std::ops::Range;

/// One replacement: these bytes give way to this text.
pub(crate) struct Splice {
    at: Range<usize>,
    text: String,
}

impl Splice {
    pub(crate) fn replace(at: Range<usize>, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { at, text }
    }

    pub(crate) fn insert(at: usize, text: impl Into<String>) -> Self {
        Self::replace(at..at, text)
    }

    pub(crate) fn delete(at: Range<usize>) -> Self {
        Self::replace(at, "")
    }
}

/// The text with all replacements made. Insertions at the same place keep their order.
///
/// # Panics
/// If two replacements overlap.
pub(crate) fn spliced(text: &str, mut splices: Vec<Splice>) -> String {
    splices.sort_by_key(|splice| (splice.at.start, splice.at.end));
    let mut edited = String::with_capacity(text.len() + 256);
    let mut kept = 0;
    for splice in splices {
        assert!(kept <= splice.at.start, "replacements overlap");
        edited.push_str(&text[kept..splice.at.start]);
        edited.push_str(&splice.text);
        kept = splice.at.end;
    }
    edited.push_str(&text[kept..]);
    edited
}
