//! The parameters of one request: read at most once, and written once.
//!
//! Whoever needs a member reads the top level, and whoever needs the `_meta` reads that; both are remembered. What is edited
//! is noted, and put together only when the request is written. Everything else stays byte-equal.

use std::sync::OnceLock;

use super::object::Object;
use super::raw::RawJson;
use crate::large::{self, INLINE_LIMIT};

const META: &str = "_meta";

/// The parameters of a request, on their way from a client to a server.
#[derive(Clone, Debug, Default)]
pub struct Params {
    /// As they came.
    raw: Option<RawJson>,
    /// Their top level, once it was read; nothing where they are no object.
    top: OnceLock<Option<Object>>,
    /// Their `_meta`, once it was read; nothing where there is none, or it is no object.
    meta: OnceLock<Option<Object>>,
    /// Whether something of the top level was edited, apart from `_meta`.
    is_edited: bool,
    /// Whether something of the `_meta` was.
    is_meta_edited: bool,
}

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

    /// Whether they are an object.
    pub fn is_object(&self) -> bool {
        self.top().is_some()
    }

    /// The value of a member; of members with the same name the last one counts.
    pub fn get(&self, name: &str) -> Option<&RawJson> {
        self.top()?.get(name)
    }

    /// Replaces a member where it stands, or adds it at the end. What is no object stays as it is. It is not for `_meta`.
    pub fn set(&mut self, name: &str, value: RawJson) {
        debug_assert_ne!(name, META, "it is edited for itself");
        self.top();
        if let Some(Some(top)) = self.top.get_mut() {
            top.set(name, value);
            self.is_edited = true;
        }
    }

    /// Their `_meta`, where it is an object.
    pub fn meta(&self) -> Option<&Object> {
        let read = || Object::parse(self.get(META)?);
        // To search is many times cheaper than to parse.
        let may_be = || self.raw.as_ref().is_some_and(|raw| raw.may_hold(META));
        let meta = self.meta.get_or_init(|| may_be().then(read).flatten());
        meta.as_ref()
    }

    /// Takes members out of the `_meta`, where it is an object.
    pub fn remove_from_meta(&mut self, names: &[&str]) {
        self.meta();
        if let Some(Some(meta)) = self.meta.get_mut() {
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
        let meta = self.meta.get().and_then(Option::as_ref);
        Some((self.top()?, meta.filter(|_| self.is_meta_edited)))
    }

    /// The top level, if somebody has read it, and the `_meta` as it is now, where it is an object.
    pub(super) fn parts(&self) -> Option<(&Object, Option<&Object>)> {
        let top = self.top.get()?.as_ref()?;
        Some((top, self.meta()))
    }

    fn top(&self) -> Option<&Object> {
        let top = self.top.get_or_init(|| Object::parse(self.raw.as_ref()?));
        top.as_ref()
    }
}

impl From<Option<RawJson>> for Params {
    fn from(raw: Option<RawJson>) -> Self {
        Self::new(raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(text: &str) -> Params {
        Params::new(Some(RawJson::from_text(text).unwrap()))
    }

    fn text(params: &Params) -> String {
        params.to_raw().expect("parameters").to_string()
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
}
