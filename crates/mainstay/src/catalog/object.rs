//! Reading and replacing single fields of a raw JSON object; every other byte of it stays as it was.
//!
//! A rewrite through a parsed tree would lose what a server may rely on: the order of fields, digits of large numbers,
//! the spelling of escapes. So a field is found by its place in the text, and replaced there.

use std::fmt;
use std::ops::Range;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The values of the `wanted` fields of the object in `text`, at the top level only.
///
/// A wanted field that appears twice is an error: readers disagree on which of the two counts, so a caller could be
/// shown one name while the server is sent the other. Fields not wanted are skipped without being kept.
pub(super) fn fields<'a, const N: usize>(
    text: &'a str,
    wanted: [&'static str; N],
) -> Result<[Option<&'a RawValue>; N], serde_json::Error> {
    let mut json = serde_json::Deserializer::from_str(text);
    let found = json.deserialize_map(Fields(wanted))?;
    json.end()?;
    Ok(found)
}

/// The object in `text` with another `name`, and another `description` if one is given (added where there was none).
pub(super) fn renamed(
    text: &str,
    name: &str,
    description: Option<&str>,
) -> Result<String, serde_json::Error> {
    let [old_name, old_description] = fields(text, ["name", "description"])?;
    let old_name = old_name.ok_or_else(|| serde_json::Error::missing_field("name"))?;
    let name_at = span(text, old_name);

    let mut edits = Vec::with_capacity(2);
    if let Some(description) = description {
        let value = serde_json::to_string(description)?;
        edits.push(match old_description {
            Some(old) => (span(text, old), value),
            None => (name_at.end..name_at.end, format!(",\"description\":{value}")),
        });
    }
    edits.push((name_at, serde_json::to_string(name)?));
    edits.sort_by_key(|(at, _)| at.start);

    let mut out = String::with_capacity(text.len() + name.len() + description.map_or(0, str::len));
    let mut copied = 0;
    for (at, value) in edits {
        out.push_str(&text[copied..at.start]);
        out.push_str(&value);
        copied = at.end;
    }
    out.push_str(&text[copied..]);
    Ok(out)
}

/// Where in `text` the `part` lies that was borrowed from it.
fn span(text: &str, part: &RawValue) -> Range<usize> {
    let start = part.get().as_ptr().addr() - text.as_ptr().addr();
    start..start + part.get().len()
}

struct Fields<const N: usize>([&'static str; N]);

impl<'de, const N: usize> Visitor<'de> for Fields<N> {
    type Value = [Option<&'de RawValue>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = [None; N];
        while let Some(key) = map.next_key_seed(Key(&self.0))? {
            match key {
                None => _ = map.next_value::<IgnoredAny>()?,
                Some(at) if found[at].is_some() => return Err(A::Error::duplicate_field(self.0[at])),
                Some(at) => found[at] = Some(map.next_value()?),
            }
        }
        Ok(found)
    }
}

/// Reads a key as its place among the wanted ones.
#[derive(Clone, Copy)]
struct Key<'a>(&'a [&'static str]);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, key: D) -> Result<Self::Value, D::Error> {
        key.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|wanted| *wanted == key))
    }
}

#[cfg(test)]
mod tests {
    use super::{fields, renamed};

    #[test]
    fn only_the_bytes_of_name_and_description_change() {
        let text = r#" {"x-new" : 1e400,"n\u0061me":"old", "description":"was", "big":123456789012345678901234567890,"u":"\ud800 é\u00e9"} "#;
        assert_eq!(
            renamed(text, "new", Some("is \"now\"")).unwrap(),
            r#" {"x-new" : 1e400,"n\u0061me":"new", "description":"is \"now\"", "big":123456789012345678901234567890,"u":"\ud800 é\u00e9"} "#
        );
    }

    #[test]
    fn a_description_is_replaced_before_the_name_too_and_kept_when_none_is_given() {
        assert_eq!(
            renamed(r#"{"description":"was","name":"a"}"#, "b", Some("is")).unwrap(),
            r#"{"description":"is","name":"b"}"#
        );
        assert_eq!(
            renamed(r#"{"description":"was","name":"a"}"#, "b", None).unwrap(),
            r#"{"description":"was","name":"b"}"#
        );
    }

    #[test]
    fn a_missing_description_is_added_after_the_name() {
        assert_eq!(
            renamed(r#"{"name":"a","inputSchema":{"name":"inner"}}"#, "b", Some("d")).unwrap(),
            r#"{"name":"b","description":"d","inputSchema":{"name":"inner"}}"#
        );
    }

    #[test]
    fn a_field_that_appears_twice_is_refused() {
        assert!(fields(r#"{"name":"a","n\u0061me":"b"}"#, ["name"]).is_err());
        assert!(fields(r#"{"x":1,"x":2,"name":"a"}"#, ["name"]).is_ok());
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for text in ["[]", "null", "1", "\"name\"", "{", ""] {
            assert!(fields(text, ["name"]).is_err(), "{text}");
        }
    }
}
