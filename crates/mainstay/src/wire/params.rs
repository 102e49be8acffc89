//! The parameters of one request: read at most once, and written once.
//!
//! The top level is read when a member is first asked for, and the `_meta` when one of its members is; both are kept. Edits
//! are noted, and put together only when the request is written. Everything else stays byte-equal.

use std::sync::OnceLock;

use super::object::{Object, SHORTEST_BEYOND_LIMIT, TooManyMembers};
use super::raw::RawJson;
use crate::large::{self, INLINE_LIMIT};

const META: &str = "_meta";

/// The parameters of a request, on their way from a client to a server.
#[derive(Clone, Debug, Default)]
pub struct Params {
    /// As they came.
    raw: Option<RawJson>,
    /// Their top level, once it was read; nothing where they are no object.
    top: OnceLock<Read>,
    /// Their `_meta`, once it was read; nothing where there is none, or it is no object.
    meta: OnceLock<Read>,
    /// Whether something of the top level was edited, apart from `_meta`.
    is_edited: bool,
    /// Whether something of the `_meta` was.
    is_meta_edited: bool,
}

type Read = Result<Option<Object>, TooManyMembers>;

impl Params {
    /// Takes parameters as they came.
    pub fn new(raw: Option<RawJson>) -> Self {
        Self {
            raw,
            ..Self::default()
        }
    }

    /// Takes parameters as they came, and reads them on a thread that may block where they are large.
    ///
    /// Cancel safety: dropping it loses the parameters.
    pub async fn read(raw: Option<RawJson>) -> Self {
        let params = Self::new(raw);
        let length = params.length();
        if length <= INLINE_LIMIT {
            return params;
        }
        let read = move || {
            params.meta();
            params.top();
            params
        };
        large::process(length, read).await
    }

    /// Their length in bytes, as they came.
    pub(super) fn length(&self) -> usize {
        self.raw.as_ref().map_or(0, |raw| raw.as_bytes().len())
    }

    /// The parameters as they came, whatever was edited since.
    pub fn as_raw(&self) -> Option<&RawJson> {
        self.raw.as_ref()
    }

    /// Refuses parameters that cannot be read: they, or their `_meta`, have too many members. Nothing in
    /// such parameters is found or edited, so a receiver checks this first.
    pub fn check_members(&self) -> Result<(), TooManyMembers> {
        if self.length() < SHORTEST_BEYOND_LIMIT {
            return Ok(());
        }
        self.read_top().as_ref().map_err(|error| *error)?;
        self.read_meta().as_ref().map_err(|error| *error)?;
        Ok(())
    }

    /// Whether they are an object.
    pub fn is_object(&self) -> bool {
        self.top().is_some()
    }

    /// The value of a member; of members with the same name the last one counts.
    pub fn get(&self, name: &str) -> Option<&RawJson> {
        // A search is many times cheaper than a parse.
        let may_be = || self.raw.as_ref().is_some_and(|raw| raw.may_hold(name));
        if self.top.get().is_none() && !may_be() {
            return None;
        }
        self.top()?.get(name)
    }

    /// The JSON of a text member, if that can be told without a parse: the parameters were read already, or they begin with the
    /// member, as most clients write the name of what they call. It is for display: of members with the same name it may be the
    /// first one. `None` says nothing about whether there is such a member.
    pub fn quick_text(&self, name: &str) -> Option<&str> {
        match self.top.get() {
            Some(Ok(Some(top))) => Some(top.get(name)?.as_str()).filter(|text| text.starts_with('"')),
            Some(Ok(None) | Err(_)) => None,
            None => leading_text(self.raw.as_ref()?.as_str(), name),
        }
    }

    /// The JSON of a member, for display, with a parse only where it is needed.
    pub fn shown_text(&self, name: &str) -> Option<&str> {
        self.quick_text(name).or_else(|| Some(self.get(name)?.as_str()))
    }

    /// Replaces a member where it stands, or adds it at the end. What is no object stays as it is. It is not for `_meta`.
    pub fn set(&mut self, name: &str, value: RawJson) {
        debug_assert_ne!(name, META, "it is edited for itself");
        self.top();
        if let Some(Ok(Some(top))) = self.top.get_mut() {
            top.set(name, value);
            self.is_edited = true;
        }
    }

    /// Their `_meta`, where it is an object.
    pub fn meta(&self) -> Option<&Object> {
        self.read_meta().as_ref().ok()?.as_ref()
    }

    /// The first of these names (at most eight) that another reader may find in another member than this one: see [`Object::ambiguous`].
    pub fn ambiguous<'n>(&self, names: &'n [&'n str]) -> Option<&'n str> {
        match self.top.get() {
            Some(read) => read.as_ref().ok()?.as_ref()?.ambiguous(names),
            None => Object::ambiguous_in(self.raw.as_ref()?, names),
        }
    }

    /// Takes members out of the `_meta`, where it is an object.
    pub fn remove_from_meta(&mut self, names: &[&str]) {
        self.meta();
        if let Some(Ok(Some(meta))) = self.meta.get_mut() {
            for name in names {
                meta.remove(name);
            }
            self.is_meta_edited = true;
        }
    }

    /// The parameters as they are now, as text.
    pub fn to_raw(&self) -> Option<RawJson> {
        match self.edited() {
            None => self.raw.clone(),
            Some((top, None)) => Some(top.to_raw()),
            Some((top, Some(meta))) => {
                let mut top = top.clone();
                top.set(META, meta.to_raw());
                Some(top.to_raw())
            }
        }
    }

    /// What has to be put together, where something was edited: the top level, and the `_meta` in the place of the one there.
    fn edited(&self) -> Option<(&Object, Option<&Object>)> {
        if !self.is_edited && !self.is_meta_edited {
            return None;
        }
        let meta = self.meta().filter(|_| self.is_meta_edited);
        Some((self.top()?, meta))
    }

    /// The top level, if it was read already, and the `_meta` as it is now, where it is an object.
    pub(super) fn parts(&self) -> Result<Option<(&Object, Option<&Object>)>, TooManyMembers> {
        let Some(Ok(Some(top))) = self.top.get() else {
            return Ok(None);
        };
        let meta = self.read_meta().as_ref().map_err(|error| *error)?;
        Ok(Some((top, meta.as_ref())))
    }

    fn top(&self) -> Option<&Object> {
        self.read_top().as_ref().ok()?.as_ref()
    }

    fn read_top(&self) -> &Read {
        let read = || self.raw.as_ref().map_or(Ok(None), Object::read);
        self.top.get_or_init(read)
    }

    fn read_meta(&self) -> &Read {
        let read = || self.get(META).map_or(Ok(None), Object::read);
        self.meta.get_or_init(read)
    }
}

impl From<Option<RawJson>> for Params {
    fn from(raw: Option<RawJson>) -> Self {
        Self::new(raw)
    }
}

/// Some entries of a `_meta`.
#[derive(Clone, Debug)]
pub(crate) struct MetaEntries {
    entries: Vec<(&'static str, RawJson)>,
    /// The same as they stand inside of the braces, on one line.
    text: Vec<u8>,
}

impl MetaEntries {
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

/// The JSON of the text member with which an object begins.
fn leading_text<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let text = object.strip_prefix("{\"")?;
    let value = text.strip_prefix(name)?.strip_prefix("\":")?;
    let inner = value.strip_prefix('"')?;
    let end = memchr::memchr2(b'"', b'\\', inner.as_bytes())?;
    let is_plain = inner.as_bytes()[end] == b'"';
    is_plain.then(|| &value[..end + 2])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::MAX_MEMBERS;

    fn params(text: &str) -> Params {
        Params::new(Some(RawJson::from_text(text).unwrap()))
    }

    fn text(params: &Params) -> String {
        params.to_raw().expect("parameters").to_string()
    }

    #[tokio::test]
    async fn large_parameters_are_read_before_they_are_handed_on() {
        let of_length = |length: usize| {
            let empty = r#"{"_meta":{"k":1},"name":""}"#.len();
            RawJson::from_text(format!(
                r#"{{"_meta":{{"k":1}},"name":"{}"}}"#,
                "x".repeat(length - empty)
            ))
        };
        for (length, is_read) in [(INLINE_LIMIT, false), (INLINE_LIMIT + 1, true)] {
            let raw = of_length(length).unwrap();
            let read = Params::read(Some(raw.clone())).await;
            assert_eq!(read.as_raw(), Some(&raw));
            assert_eq!((read.length(), read.top.get().is_some()), (length, is_read));
            assert_eq!(read.meta().unwrap().get("k").unwrap().as_str(), "1");
        }
    }

    #[test]
    fn what_is_only_read_stays_as_it_came() {
        let came = r#"{ "name":"a", "_meta" : {"k": 1.0 } ,"x":[ ] }"#;
        let read = params(came);
        assert_eq!(read.get("name").unwrap().as_str(), r#""a""#);
        assert_eq!(read.meta().unwrap().get("k").unwrap().as_str(), "1.0");
        assert_eq!(text(&read), came);
        assert!(Params::default().to_raw().is_none() && !Params::default().is_object());
    }

    #[test]
    fn a_member_that_stands_first_is_shown_without_a_parse() {
        let first = |text: &str| params(text).quick_text("name").map(str::to_owned);
        assert_eq!(first(r#"{"name":"a b","name":"c"}"#).as_deref(), Some(r#""a b""#));
        assert_eq!(first(r#"{"name":"é"}"#).as_deref(), Some(r#""é""#));
        for text in [
            r#"{"x":1,"name":"a"}"#,
            r#"{"name":"a\"b"}"#,
            r#"{"name":7}"#,
            r#"{"names":"a"}"#,
            r#"{ "name":"a"}"#,
            r#"["name"]"#,
            "{}",
        ] {
            assert_eq!(first(text), None, "{text}");
        }
        let read = params(r#"{"name":"a"}"#);
        assert!(read.shown_text("name").is_some() && read.get("task").is_none());
        assert!(read.top.get().is_none(), "nothing was parsed");
        assert!(read.get("name").is_some() && read.top.get().is_some());
        let mut renamed = params(r#"{"name":"a","uri":7}"#);
        renamed.set("name", RawJson::from_value("b").unwrap());
        assert_eq!(renamed.quick_text("name"), Some(r#""b""#), "the edited one");
        assert_eq!(
            (renamed.quick_text("uri"), renamed.shown_text("uri")),
            (None, Some("7"))
        );
        assert_eq!(params(r#"{"x":1,"name":"a"}"#).shown_text("name"), Some(r#""a""#));
    }

    #[test]
    fn what_is_edited_is_put_together_and_the_rest_stays_byte_equal() {
        let mut edited = params(r#"{ "name":"a", "_meta" : {"k": 1.0 ,"gone":2} ,"x":[ ] }"#);
        edited.set("name", RawJson::from(7));
        edited.remove_from_meta(&["gone", "absent"]);
        assert_eq!(text(&edited), r#"{ "name":7, "_meta" : {"k": 1.0 } ,"x":[ ] }"#);
        assert_eq!(
            edited.as_raw().unwrap().as_str(),
            r#"{ "name":"a", "_meta" : {"k": 1.0 ,"gone":2} ,"x":[ ] }"#
        );
    }

    #[test]
    fn what_is_no_object_is_left_alone() {
        let mut list = params("[1, 2]");
        list.set("name", RawJson::from(7));
        list.remove_from_meta(&["k"]);
        assert_eq!(text(&list), "[1, 2]");
        let mut null = params(r#"{"_meta":null}"#);
        null.remove_from_meta(&["k"]);
        assert_eq!(text(&null), r#"{"_meta":null}"#);
        assert!(null.meta().is_none());
    }

    #[test]
    fn parameters_with_too_many_members_are_refused_and_not_taken_for_none() {
        let members = |count: usize| vec![r#""":0"#; count].join(",");
        let (most, too_many) = (members(MAX_MEMBERS), members(MAX_MEMBERS + 1));
        let check = |text: &str| params(text).check_members();
        assert_eq!(check(&format!("{{{most}}}")), Ok(()));
        assert_eq!(check(&format!("{{{too_many}}}")), Err(TooManyMembers));
        assert_eq!(check(&format!(r#"{{"_meta":{{{most}}}}}"#)), Ok(()));
        assert_eq!(
            check(&format!(r#"{{"_meta":{{{too_many}}}}}"#)),
            Err(TooManyMembers)
        );
        assert_eq!(
            check(&format!(r#"{{"\u005fmeta":{{{too_many}}}}}"#)),
            Err(TooManyMembers)
        );
        // What is not edited may be as large as it likes.
        assert_eq!(check(&format!(r#"{{"arguments":{{{too_many}}}}}"#)), Ok(()));
        assert_eq!(format!("{{{too_many}}}").len(), SHORTEST_BEYOND_LIMIT);
    }
}
