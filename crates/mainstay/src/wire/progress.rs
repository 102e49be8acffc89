//! Progress of requests: the token on the wire is the request's own number, whatever token the caller chose.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::envelope::our_number;
use super::object::Object;
use super::raw::RawJson;

const META: &str = "_meta";
const TOKEN: &str = "progressToken";

/// Takes the parameters of each progress notification of one request, on the task that reads; it returns at once.
pub(crate) type ProgressSink = Arc<dyn Fn(RawJson) + Send + Sync>;

/// Who listens to the progress of one request.
#[derive(Clone)]
pub(super) struct Listener {
    sink: ProgressSink,
    /// The token the caller put into the request, by which it knows the progress.
    callers_token: Option<RawJson>,
}

impl Listener {
    /// Hands progress on under the caller's own token.
    pub(super) fn hear(&self, params: RawJson) {
        let restored = self.callers_token.clone().and_then(|token| {
            let mut params = Object::parse(&params)?;
            params.set(TOKEN, token);
            Some(params.to_raw())
        });
        (self.sink)(restored.unwrap_or(params));
    }
}

/// Puts the token of request `id` into its parameters when somebody listens. When nobody does, a token of the
/// caller's is taken out: it could be taken for the number of another request.
pub(super) fn prepare(
    params: Option<RawJson>,
    id: u64,
    sink: Option<ProgressSink>,
) -> (Option<RawJson>, Option<Listener>) {
    let Some(sink) = sink else {
        return (params.map(without_token), None);
    };
    let Some(mut object) = Object::parse(params.as_ref().unwrap_or(&RawJson::EMPTY_OBJECT)) else {
        return (params, None);
    };
    let mut meta = object.get(META).and_then(Object::parse).unwrap_or_default();
    let callers_token = meta.get(TOKEN).cloned();
    meta.set(TOKEN, id.into());
    object.set(META, meta.to_raw());
    let listener = Listener { sink, callers_token };
    (Some(object.to_raw()), Some(listener))
}

/// The request of ours that a progress notification is about.
pub(super) fn request_of(params: Option<&RawJson>) -> Option<u64> {
    #[derive(Deserialize)]
    struct Progress<'a> {
        #[serde(borrow, rename = "progressToken")]
        token: &'a RawValue,
    }
    let params = params?.bytes();
    let progress: Progress<'_> = serde_json::from_slice(params).ok()?;
    our_number(&RawJson::part_of(params, progress.token))
}

fn without_token(params: RawJson) -> RawJson {
    // Nearly no request has one: a search is cheaper than a parse.
    if memchr::memmem::find(params.as_bytes(), TOKEN.as_bytes()).is_none() {
        return params;
    }
    let stripped = Object::parse(&params).and_then(|mut object| {
        let mut meta = Object::parse(object.get(META)?)?;
        meta.remove(TOKEN)?;
        object.set(META, meta.to_raw());
        Some(object.to_raw())
    });
    stripped.unwrap_or(params)
}
