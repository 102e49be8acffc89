//! Progress of requests: the token on the wire is the request's own number, whatever token the caller chose.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use memchr::memmem::{self, Finder};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::envelope::our_number;
use super::object::{Object, TooManyMembers, with_meta};
use super::options::ProgressMode;
use super::params::MetaEntries;
use super::params::Params;
use super::raw::RawJson;
use super::write::{self, MetaText};

/// The progress notification.
pub(crate) const PROGRESS: &str = "notifications/progress";

const META: &str = "_meta";
const TOKEN: &str = "progressToken";

/// The longest token that is kept when its request has been answered: those that clients choose have some tens of bytes.
const TOKEN_LIMIT: usize = 256;

/// Made once: for a request of ordinary length it takes longer to prepare than to search.
static FIND_META: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(META));

/// Takes the parameters of each progress notification of one request, on the task that reads; it returns at once.
pub(crate) type ProgressSink = Arc<dyn Fn(RawJson) + Send + Sync>;

/// Who listens to the progress of one request.
#[derive(Clone)]
pub(super) struct ProgressListener {
    sink: Option<ProgressSink>,
    /// The token the caller put into the request, by which it knows the progress.
    callers_token: Option<RawJson>,
}

impl ProgressListener {
    /// Hands progress on under the caller's own token.
    pub(super) fn notify(&self, params: RawJson) {
        let Some(sink) = &self.sink else {
            return;
        };
        let restored = self.callers_token.clone().and_then(|token| {
            let mut params = Object::parse(&params)?;
            params.set(TOKEN, token);
            Some(params.to_raw())
        });
        sink(restored.unwrap_or(params));
    }

    /// The listener after the answer, if the caller has a sink and a token of its own. The token is copied, so that the
    /// message it came in is freed.
    pub(super) fn after_the_answer(self) -> Option<Self> {
        let token = self
            .callers_token
            .filter(|token| token.as_str().len() <= TOKEN_LIMIT)?;
        self.sink.is_some().then_some(Self {
            sink: self.sink,
            callers_token: Some(RawJson::from_text(token.as_str()).ok()?),
        })
    }
}

/// The parameters of a request, ready to be written.
pub(super) enum Prepared<'a> {
    Whole(Option<RawJson>),
    /// An object to which a `_meta` with all that belongs there is added as it is written.
    LackMeta(RawJson),
    /// An object that was read already, and what belongs into its `_meta`.
    Parts(&'a Object, MetaText<'a>),
}

impl Prepared<'_> {
    /// The request, as one line.
    pub(super) fn line(&self, id: u64, method: &str, meta: Option<&MetaEntries>, token: bool) -> Bytes {
        match self {
            Self::Whole(params) => write::request(id, method, params.as_ref()),
            Self::LackMeta(params) => write::request_with_meta(id, method, params, meta, token),
            Self::Parts(top, meta) => write::request_in_parts(id, method, top, meta),
        }
    }
}

/// A request as one line, and who listens to its progress. Parameters that cannot be edited are refused: a caller's
/// progress token in them could be the number of another request.
pub(super) fn compose(
    params: &Params,
    id: u64,
    method: &str,
    progress: ProgressMode,
    meta: Option<&MetaEntries>,
) -> Result<(Bytes, Option<ProgressListener>), TooManyMembers> {
    let (params, listener) = prepare(params, id, progress, meta)?;
    let line = params.line(id, method, meta, listener.is_some());
    Ok((line, listener))
}

/// Puts the token of request `id` into its parameters when progress is wanted, beside what else belongs into their
/// `_meta`. When progress is not wanted, a token of the caller's is taken out: it could be taken for the number of another
/// request. There is a listener when there is a token.
fn prepare<'a>(
    params: &'a Params,
    id: u64,
    progress: ProgressMode,
    meta: Option<&'a MetaEntries>,
) -> Result<(Prepared<'a>, Option<ProgressListener>), TooManyMembers> {
    let (parts, adds_nothing) = (
        params.parts()?,
        matches!(progress, ProgressMode::NotRequested) && meta.is_none(),
    );
    let Some((top, own_meta)) = parts.filter(|_| !adds_nothing) else {
        return prepare_raw(params.to_raw(), id, progress, meta);
    };
    let (wanted, sink) = progress.sink();
    let listener = |callers_token| wanted.then_some(ProgressListener { sink, callers_token });
    let Some(own_meta) = own_meta else {
        let text = MetaText::Entries {
            entries: meta.map_or(&[][..], MetaEntries::text),
            token: wanted,
        };
        return Ok((Prepared::Parts(top, text), listener(None)));
    };
    let mut members = own_meta.clone();
    for (key, value) in meta.map_or(&[][..], MetaEntries::entries) {
        members.set(key, value.clone());
    }
    let callers_token = members.get(TOKEN).cloned();
    if wanted {
        members.set(TOKEN, id.into());
    } else {
        members.remove(TOKEN);
    }
    let prepared = Prepared::Parts(top, MetaText::Members(members));
    Ok((prepared, listener(callers_token)))
}

/// The same for parameters that were not read yet.
fn prepare_raw<'a>(
    params: Option<RawJson>,
    id: u64,
    progress: ProgressMode,
    meta: Option<&MetaEntries>,
) -> Result<(Prepared<'a>, Option<ProgressListener>), TooManyMembers> {
    let (wanted, sink) = progress.sink();
    if !wanted && meta.is_none() {
        return Ok((Prepared::Whole(params.map(without_token).transpose()?), None));
    }
    let params = params.unwrap_or(RawJson::EMPTY_OBJECT);
    if has_no_meta(&params) {
        let callers_token = None;
        let listener = wanted.then_some(ProgressListener { sink, callers_token });
        return Ok((Prepared::LackMeta(params), listener));
    }
    let params = match meta {
        Some(meta) => with_meta(Some(&params), meta.entries())?,
        None => params,
    };
    if !wanted {
        return Ok((Prepared::Whole(Some(without_token(params)?)), None));
    }
    let Some(mut object) = Object::read(&params)? else {
        return Ok((Prepared::Whole(Some(params)), None));
    };
    let meta = object.get(META).map(Object::read).transpose()?;
    let mut meta = meta.flatten().unwrap_or_default();
    let callers_token = meta.get(TOKEN).cloned();
    meta.set(TOKEN, id.into());
    object.set(META, meta.to_raw());
    let listener = ProgressListener { sink, callers_token };
    Ok((Prepared::Whole(Some(object.to_raw())), Some(listener)))
}

/// Whether it is an object that certainly has no `_meta`, be it spelt with an escape. A search is many times cheaper than
/// a parse, and nearly all requests of older connections pass.
fn has_no_meta(params: &RawJson) -> bool {
    let text = params.as_bytes();
    text.first() == Some(&b'{')
        && FIND_META.find(text).is_none()
        && (memchr::memchr(b'\\', text).is_none() || memmem::find(text, b"\\u").is_none())
}

/// The request of ours that a progress notification is about.
pub(super) fn request_of(params: Option<&RawJson>) -> Option<u64> {
    #[derive(Deserialize)]
    struct ProgressParams<'a> {
        #[serde(borrow, rename = "progressToken")]
        token: &'a RawValue,
    }
    let params = params?.text();
    let progress: ProgressParams<'_> = serde_json::from_str(params).ok()?;
    our_number(&RawJson::part_of(params, progress.token))
}

fn without_token(params: RawJson) -> Result<RawJson, TooManyMembers> {
    // Nearly no request has one: a search is cheaper than a parse.
    if !params.may_hold(TOKEN) {
        return Ok(params);
    }
    let Some(mut object) = Object::read(&params)? else {
        return Ok(params);
    };
    let meta = object.get(META).map(Object::read).transpose()?;
    let Some(mut meta) = meta.flatten() else {
        return Ok(params);
    };
    if meta.remove(TOKEN).is_none() {
        return Ok(params);
    }
    object.set(META, meta.to_raw());
    Ok(object.to_raw())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::MAX_MEMBERS;

    fn prepared(params: &str) -> (Prepared<'static>, Option<RawJson>) {
        let params = RawJson::from_text(params).unwrap();
        let (params, listener) = prepare_raw(Some(params), 7, ProgressMode::Counted, None).unwrap();
        (params, listener.and_then(|listener| listener.callers_token))
    }

    #[test]
    fn parameters_without_meta_are_left_to_be_completed() {
        for params in ["{}", r#"{"a":[1.0]}"#, r#"{"a":"\"\n"}"#] {
            let (Prepared::LackMeta(raw), None) = prepared(params) else {
                panic!("{params} has no meta");
            };
            assert_eq!(raw.as_str(), params);
        }
    }

    #[test]
    fn meta_is_found_however_it_is_spelt() {
        for meta in ["_meta", r"\u005fmeta", r"_me\u0074a"] {
            let (Prepared::Whole(Some(raw)), Some(callers_token)) =
                prepared(&format!(r#"{{"{meta}":{{"progressToken":"mine"}},"a":1}}"#))
            else {
                panic!("{meta} is a meta");
            };
            assert_eq!(
                raw.as_str(),
                format!(r#"{{"{meta}":{{"progressToken":7}},"a":1}}"#)
            );
            assert_eq!(callers_token.as_str(), r#""mine""#);
        }
    }

    #[test]
    fn what_was_read_on_the_way_is_written_as_if_nobody_had_looked() {
        let entries = MetaEntries::new(vec![("k", RawJson::from(1)), ("z", RawJson::from(2))]);
        let line = |params: &Params, progress: ProgressMode, meta: Option<&MetaEntries>| {
            let (prepared, listener) = prepare(params, 7, progress, meta).unwrap();
            let line = prepared.line(7, "m", meta, listener.is_some());
            (line, listener.and_then(|listener| listener.callers_token))
        };
        for text in [
            "{}",
            "{ }",
            "[1]",
            r#"{"name":"a" }"#,
            "{\n\"name\":\"_meta\",\r\"x\":\"\\u0041\"\n}",
            r#"{"_meta":{},"name":"a"}"#,
            r#"{"_meta":{ },"name":"a"}"#,
            r#"{ "name":"a", "_meta" : {"a": [ ] ,"progressToken":"mine", "k":0 } }"#,
            r#"{"\u005fmeta":{"a":1},"name":"a"}"#,
            r#"{"_meta":{"a":1},"name":"a","_meta":{"b":2}}"#,
            r#"{"_meta":null,"name":"a"}"#,
        ] {
            let params = || Params::new(RawJson::from_text(text).ok());
            let read = params();
            read.meta();
            read.get("name");
            let mut edited = params();
            edited.set("name", RawJson::from(3));
            edited.remove_from_meta(&["a"]);
            let anew = Params::new(edited.to_raw());
            for progress in [ProgressMode::NotRequested, ProgressMode::Counted] {
                for meta in [None, Some(&entries)] {
                    let line = |params: &Params| line(params, progress.clone(), meta);
                    assert_eq!(line(&read), line(&params()), "{text}");
                    assert_eq!(line(&edited), line(&anew), "{text}");
                }
            }
        }
    }

    #[test]
    fn entries_join_the_meta_that_is_there() {
        let meta = MetaEntries::new(vec![("k", RawJson::from(1))]);
        let params = || RawJson::from_text(r#"{"_meta":{"a":[ ],"progressToken":"mine"}}"#).ok();
        for (progress, expected) in [
            (ProgressMode::NotRequested, r#"{"_meta":{"a":[ ],"k":1}}"#),
            (
                ProgressMode::Counted,
                r#"{"_meta":{"a":[ ],"progressToken":7,"k":1}}"#,
            ),
        ] {
            let prepared = prepare_raw(params(), 7, progress, Some(&meta)).unwrap();
            let (Prepared::Whole(Some(raw)), _) = prepared else {
                panic!("it has a meta");
            };
            assert_eq!(raw.as_str(), expected);
        }
        let lacking = prepare_raw(None, 7, ProgressMode::NotRequested, Some(&meta));
        assert!(matches!(lacking, Ok((Prepared::LackMeta(_), None))));
    }

    #[test]
    fn a_token_of_the_caller_is_never_sent_unread() {
        let line = |text: &str, progress: ProgressMode| {
            let params = Params::new(RawJson::from_text(text).ok());
            let (line, _) = compose(&params, 7, "m", progress, None)?;
            Ok(String::from_utf8(line.to_vec()).unwrap())
        };
        for token in ["progressToken", r"progress\u0054oken"] {
            let text = format!(r#"{{"_meta":{{"{token}":3,"a":1}}}}"#);
            let sent: Result<_, TooManyMembers> = line(&text, ProgressMode::NotRequested);
            assert!(
                sent.unwrap().ends_with(r#""params":{"_meta":{"a":1}}}"#),
                "{token}"
            );
        }
        let many = vec![r#""":0"#; MAX_MEMBERS].join(",");
        for text in [
            format!(r#"{{{many},"_meta":{{"progressToken":3}}}}"#),
            format!(r#"{{"_meta":{{{many},"progressToken":3}}}}"#),
        ] {
            assert_eq!(line(&text, ProgressMode::NotRequested), Err(TooManyMembers));
            assert_eq!(line(&text, ProgressMode::Counted), Err(TooManyMembers));
        }
        // Parameters that certainly have no `_meta` need not be read.
        assert!(line(&format!(r#"{{{many},"a":0}}"#), ProgressMode::Counted).is_ok());
    }
}
