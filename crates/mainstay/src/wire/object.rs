//! A shallow editor of a JSON object.
//!
//! Only the top level is read. Every member that is not edited is written back byte for byte, the white space around
//! it, the spelling of its key and its place in the order included.

use std::fmt;

use bytes::Bytes;
use bytestring::ByteString;
use serde::de::{Deserializer as _, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::raw::RawJson;
use super::rpc_error::RpcError;

/// The most members that an [`Object`] can have. Each costs about a hundred bytes of bookkeeping for as few as five bytes of
/// text. The objects that the protocol edits (parameters, `_meta`, capabilities, results) have some tens. A fuzzer's inputs are
/// short, so it gets a limit that they can exceed.
pub const MAX_MEMBERS: usize = if cfg!(fuzzing) { 64 } else { 4096 };

/// The shortest text of an object with more than [`MAX_MEMBERS`] members: `{"":0,"":0…}`.
pub(super) const SHORTEST_BEYOND_LIMIT: usize = 5 * (MAX_MEMBERS + 1) + 1;

/// A JSON object has more than [`MAX_MEMBERS`] members, so it was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an object has more than {MAX_MEMBERS} members")]
pub struct TooManyMembers;

impl From<TooManyMembers> for RpcError {
    fn from(error: TooManyMembers) -> Self {
        Self::new(Self::INVALID_PARAMS, error.to_string())
    }
}

/// The top level of one JSON object. What is not edited stays byte-equal.
#[derive(Clone, Debug, Default)]
pub struct Object {
    members: Vec<Member>,
    /// White space of an object that has no members.
    blank: Bytes,
}

#[derive(Clone, Debug)]
struct Member {
    /// Everything from the brace or comma before it to its value.
    before: Bytes,
    /// The key inside its quotes, as spelt.
    key: Bytes,
    value: RawJson,
    /// White space up to the comma or brace that follows.
    after: Bytes,
}

impl Object {
    /// Reads the top level of a value; `None` when it is not an object.
    pub fn read(raw: &RawJson) -> Result<Option<Self>, TooManyMembers> {
        let text = raw.text();
        if !text.starts_with('{') {
            return Ok(None);
        }
        let mut reader = serde_json::Deserializer::from_str(text);
        // The text is known to be valid JSON, so there is nothing else that can fail.
        let read = reader.deserialize_map(Members(text));
        read.map(Some).map_err(|_error| TooManyMembers)
    }

    /// Whether a value is an object with too many members to be read.
    pub(crate) fn has_too_many_members(raw: &RawJson) -> bool {
        raw.as_bytes().len() >= SHORTEST_BEYOND_LIMIT && Self::read(raw).is_err()
    }

    /// The same where an object with too many members may be taken for no object. [`Object::read`] tells the two apart.
    pub fn parse(raw: &RawJson) -> Option<Self> {
        Self::read(raw).ok().flatten()
    }

    /// The values of the members with these names (each given once), without keeping track of any other; of members with the same name the last
    /// one counts. `None` when the value is no object.
    pub fn find<const N: usize>(raw: &RawJson, names: [&str; N]) -> Option<[Option<RawJson>; N]> {
        let found = find_members(raw.as_str(), names, Repeated::LastCounts).ok()?;
        Some(found.map(|value| value.map(|value| RawJson::part_of(raw.text(), value))))
    }

    /// The same, in the text of one JSON value, where each of these members may be there only once: readers disagree on which of two counts, so a caller could
    /// be shown one value while the server is sent the other.
    pub(crate) fn find_once<'t, const N: usize>(
        text: &'t str,
        names: [&'static str; N],
    ) -> Result<[Option<&'t RawValue>; N], serde_json::Error> {
        find_members(text, names, Repeated::IsAnError)
    }

    /// The value of a member; of members with the same name the last one counts.
    pub fn get(&self, name: &str) -> Option<&RawJson> {
        let member = self.members.iter().rev().find(|member| member.is(name))?;
        Some(&member.value)
    }

    /// The first of these names (at most eight) that readers may find in different members: two have it, or one has it in another case. Some
    /// readers take the first of two, and some ignore the case. So the gateway could check one member, and the server use the other.
    pub fn ambiguous<'n>(&self, names: &'n [&'n str]) -> Option<&'n str> {
        let mut seen = SeenNames::new(names);
        self.members.iter().for_each(|member| seen.see(&member.key));
        seen.ambiguous
    }

    /// The same, without keeping track of any member. `None` when the value is no object.
    pub(super) fn ambiguous_in<'n>(raw: &RawJson, names: &'n [&'n str]) -> Option<&'n str> {
        let mut reader = serde_json::Deserializer::from_str(raw.as_str());
        reader.deserialize_map(SeenNames::new(names)).ok()?
    }

    /// Replaces a member where it stands, or adds it at the end. There is one of that name afterwards.
    pub fn set(&mut self, name: &str, value: RawJson) {
        let Some(at) = self.members.iter().position(|member| member.is(name)) else {
            return self.members.push(Member::new(name, value));
        };
        self.members[at].value = value;
        let mut seen = 0..;
        self.members
            .retain(|member| seen.next() <= Some(at) || !member.is(name));
    }

    /// Takes a member out, and any other of the same name.
    pub fn remove(&mut self, name: &str) -> Option<RawJson> {
        let value = self.get(name).cloned()?;
        self.members.retain(|member| !member.is(name));
        Some(value)
    }

    /// The object as text.
    pub fn to_raw(&self) -> RawJson {
        let mut text = Vec::with_capacity(self.length());
        self.write(&mut text);
        RawJson::assembled(text)
    }

    /// The text of an object, with members of these names added at its end; `None` where it is no object, or where it is
    /// not certain without a parse that it has none of them yet.
    pub fn extended(raw: &RawJson, members: &[(&str, RawJson)]) -> Option<RawJson> {
        let text = raw.as_bytes();
        let may_hold = |(name, _): &(&str, RawJson)| raw.may_hold(name);
        if text.first() != Some(&b'{') || members.iter().any(may_hold) {
            return None;
        }
        let open = &text[..text.len() - 1];
        let added: usize = members
            .iter()
            .map(|(name, value)| name.len() + value.as_bytes().len() + 4)
            .sum();
        let mut extended = Vec::with_capacity(text.len() + added);
        let mut is_empty = open[1..].trim_ascii_start().is_empty();
        extended.extend_from_slice(if is_empty { b"{" } else { open });
        for (name, value) in members {
            extended.extend_from_slice(if is_empty { b"" } else { b"," });
            is_empty = false;
            serde_json::to_writer(&mut extended, name).expect("a string can be written to memory");
            extended.push(b':');
            extended.extend_from_slice(value.as_bytes());
        }
        extended.push(b'}');
        Some(RawJson::assembled(extended))
    }

    /// As many bytes as its text has at most.
    pub(super) fn length(&self) -> usize {
        let members: usize = self.members.iter().map(Member::length).sum();
        members + self.blank.len() + 2
    }

    pub(super) fn write(&self, text: &mut Vec<u8>) {
        self.write_with(text, None);
    }

    /// Writes it with a member of this name: its value is written by `write`, where the member stands, or at the end. There
    /// is one of that name then.
    pub(super) fn write_with(&self, text: &mut Vec<u8>, member: Option<(&str, WriteValue<'_>)>) {
        text.push(b'{');
        if self.members.is_empty() {
            text.extend_from_slice(&self.blank);
        }
        let (mut is_first, mut is_written) = (true, false);
        for own in &self.members {
            let given = member.filter(|(name, _)| own.is(name));
            if given.is_some() && is_written {
                continue;
            }
            text.extend_from_slice(if is_first { b"" } else { b"," });
            is_first = false;
            text.extend_from_slice(&own.before);
            match given {
                Some((_, write)) => {
                    is_written = true;
                    write(text);
                }
                None => text.extend_from_slice(own.value.as_bytes()),
            }
            text.extend_from_slice(&own.after);
        }
        if let Some((name, write)) = member.filter(|_| !is_written) {
            text.extend_from_slice(if is_first { b"" } else { b"," });
            serde_json::to_writer(&mut *text, name).expect("a string can be written to memory");
            text.push(b':');
            write(text);
        }
        text.push(b'}');
    }
}

/// Writes the value of a member.
pub(super) type WriteValue<'a> = &'a dyn Fn(&mut Vec<u8>);

/// Merges entries into `params._meta`. Keys that are not named stay byte-equal; a `_meta` that is no object is
/// replaced; parameters that are no object have no room for one and stay as they are.
pub(crate) fn with_meta(
    params: Option<&RawJson>,
    entries: &[(&str, RawJson)],
) -> Result<RawJson, TooManyMembers> {
    let params = params.cloned().unwrap_or(RawJson::EMPTY_OBJECT);
    let Some(mut object) = Object::read(&params)? else {
        return Ok(params);
    };
    let meta = object.get("_meta").map(Object::read).transpose()?;
    let mut meta = meta.flatten().unwrap_or_default();
    for (key, value) in entries {
        meta.set(key, value.clone());
    }
    object.set("_meta", meta.to_raw());
    Ok(object.to_raw())
}

impl Member {
    fn new(name: &str, value: RawJson) -> Self {
        let mut before = serde_json::to_vec(name).expect("a string can be written");
        before.push(b':');
        let before = Bytes::from(before);
        Self {
            key: before.slice(1..before.len() - 2),
            before,
            value,
            after: Bytes::new(),
        }
    }

    fn is(&self, name: &str) -> bool {
        spells(&self.key, name)
    }

    fn length(&self) -> usize {
        self.before.len() + self.value.as_bytes().len() + self.after.len() + 1
    }
}

/// Whether a key, as spelt inside its quotes, is this name.
fn spells(key: &[u8], name: &str) -> bool {
    if memchr::memchr(b'\\', key).is_none() {
        return *key == *name.as_bytes();
    }
    let quoted = [b"\"", key, b"\""].concat();
    serde_json::from_slice::<String>(&quoted).is_ok_and(|key| key == name)
}

/// Looks whether some names are ambiguous in an object, key by key.
struct SeenNames<'n> {
    names: &'n [&'n str],
    /// One bit for each name that a key was seen for.
    seen: u8,
    ambiguous: Option<&'n str>,
}

impl<'n> SeenNames<'n> {
    fn new(names: &'n [&'n str]) -> Self {
        debug_assert!(names.len() <= 8, "there is a bit for each");
        let (seen, ambiguous) = (0, None);
        Self {
            names,
            seen,
            ambiguous,
        }
    }

    /// Takes a key, as spelt inside its quotes.
    fn see(&mut self, key: &[u8]) {
        let Some(at) = self.names.iter().position(|name| spells_in_any_case(key, name)) else {
            return;
        };
        let was_seen = self.seen & (1 << at) != 0;
        self.seen |= 1 << at;
        if was_seen || !spells(key, self.names[at]) {
            self.ambiguous.get_or_insert(self.names[at]);
        }
    }
}

impl<'de, 'n> Visitor<'de> for SeenNames<'n> {
    type Value = Option<&'n str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Option<&'n str>, A::Error> {
        while let Some((key, IgnoredAny)) = map.next_entry::<&RawValue, IgnoredAny>()? {
            let quoted = key.get().as_bytes();
            self.see(&quoted[1..quoted.len() - 1]);
        }
        Ok(self.ambiguous)
    }
}

/// The same as [`spells`] for readers that ignore the case, as those of Go do. They take `ſ` for an `s` and the sign for Kelvin for a `k`.
fn spells_in_any_case(key: &[u8], name: &str) -> bool {
    if memchr::memchr(b'\\', key).is_none() && key.is_ascii() {
        return key.eq_ignore_ascii_case(name.as_bytes());
    }
    let quoted = [b"\"", key, b"\""].concat();
    let folded = |text: &str| -> String {
        let upper = text.chars().flat_map(char::to_uppercase);
        upper.flat_map(char::to_lowercase).collect()
    };
    serde_json::from_slice::<String>(&quoted).is_ok_and(|key| folded(&key) == folded(name))
}

/// What a second member of the same name means.
#[derive(Clone, Copy)]
enum Repeated {
    LastCounts,
    IsAnError,
}

fn find_members<'t, const N: usize>(
    text: &'t str,
    names: [&str; N],
    repeated: Repeated,
) -> Result<[Option<&'t RawValue>; N], serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    reader.deserialize_map(Wanted { names, repeated })
}

/// Looks for some members of an object.
struct Wanted<'n, const N: usize> {
    names: [&'n str; N],
    repeated: Repeated,
}

impl<'de, const N: usize> Visitor<'de> for Wanted<'_, N> {
    type Value = [Option<&'de RawValue>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = [None; N];
        while let Some((key, value)) = map.next_entry::<&RawValue, &RawValue>()? {
            let key = key.get().as_bytes();
            let key = &key[1..key.len() - 1];
            if let Some(at) = self.names.iter().position(|name| spells(key, name)) {
                match self.repeated {
                    Repeated::IsAnError if found[at].is_some() => {
                        return Err(A::Error::custom(format_args!(
                            "duplicate field `{}`",
                            self.names[at]
                        )));
                    }
                    Repeated::IsAnError | Repeated::LastCounts => found[at] = Some(value),
                }
            }
        }
        Ok(found)
    }
}

/// Reads the members of the object that is the whole of the given text.
struct Members<'t>(&'t ByteString);

impl<'de> Visitor<'de> for Members<'_> {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
        let (whole, text) = (self.0, self.0.as_bytes());
        let end = text.len() - 1;
        let mut members: Vec<Member> = Vec::new();
        // Where the member being read starts: behind the brace, then behind each comma.
        let mut start = 1;
        while let Some((key, value)) = map.next_entry::<&RawValue, &RawValue>()? {
            if members.len() == MAX_MEMBERS {
                return Err(A::Error::custom("too many members"));
            }
            let key = text.slice_ref(key.get().as_bytes());
            let value = RawJson::part_of(whole, value);
            let value_at = offset(text, value.as_bytes());
            let value_end = value_at + value.as_bytes().len();
            let after = text[value_end..]
                .iter()
                .position(|byte| matches!(byte, b',' | b'}'));
            let after = value_end..value_end + after.unwrap_or(0);
            let next = after.end + 1;
            members.push(Member {
                before: text.slice(start..value_at),
                key: key.slice(1..key.len() - 1),
                value,
                after: text.slice(after),
            });
            start = next;
        }
        let blank = if members.is_empty() {
            text.slice(1..end)
        } else {
            Bytes::new()
        };
        Ok(Object { members, blank })
    }
}

fn offset(whole: &[u8], part: &[u8]) -> usize {
    part.as_ptr().addr() - whole.as_ptr().addr()
}

#[cfg(test)]
mod tests;
