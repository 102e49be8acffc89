//! The session of a legacy server: its number and version, and whether the server still knows it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, HeaderName, HeaderValue};

const ID: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

pub(super) struct Session(Mutex<State>);

struct State {
    /// The headers of every message of the session, as far as they are known.
    headers: HeaderMap,
    /// All headers of a message that is posted: made when those of the session change, not for each message.
    posted: Arc<HeaderMap>,
    is_agreed: bool,
    lost: bool,
}

impl Session {
    /// A session that is not open yet, whose messages have these headers beside its own.
    pub(super) fn new(posted: Arc<HeaderMap>) -> Self {
        Self(Mutex::new(State {
            headers: HeaderMap::new(),
            posted,
            is_agreed: false,
            lost: false,
        }))
    }

    /// Keeps the number that came with the answer to `initialize`.
    pub(super) fn open(&self, headers: &HeaderMap) {
        if let Some(id) = headers.get(ID) {
            self.state().insert(ID, id.clone());
        }
    }

    /// Keeps the version that was agreed on.
    pub(super) fn agree(&self, version: &str) {
        if let Ok(version) = HeaderValue::from_str(version) {
            let mut state = self.state();
            state.insert(VERSION, version);
            state.is_agreed = true;
        }
    }

    /// Whether the server was initialized in the old way.
    pub(super) fn is_agreed(&self) -> bool {
        self.state().is_agreed
    }

    /// Whether the server gave it a number.
    pub(super) fn has_id(&self) -> bool {
        self.state().headers.contains_key(ID)
    }

    /// The number that the server gave it, as text.
    pub(super) fn id(&self) -> Option<String> {
        let state = self.state();
        let id = state.headers.get(ID)?;
        Some(String::from_utf8_lossy(id.as_bytes()).into_owned())
    }

    /// Marks it as lost; `true` when it was not known before.
    pub(super) fn lose(&self) -> bool {
        !std::mem::replace(&mut self.state().lost, true)
    }

    pub(super) fn is_lost(&self) -> bool {
        self.state().lost
    }

    /// Puts the headers of this session to those of a message.
    pub(super) fn mark(&self, headers: &mut HeaderMap) {
        let state = self.state();
        for (name, value) in &state.headers {
            headers.insert(name, value.clone());
        }
    }

    /// All headers of a message that is posted.
    pub(super) fn posted(&self) -> Arc<HeaderMap> {
        self.state().posted.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn insert(&mut self, name: HeaderName, value: HeaderValue) {
        self.headers.insert(name.clone(), value.clone());
        Arc::make_mut(&mut self.posted).insert(name, value);
    }
}
