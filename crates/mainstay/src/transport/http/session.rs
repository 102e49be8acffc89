//! The session of a legacy server: its number and version, and whether the server still knows it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, HeaderName, HeaderValue};

const ID: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

#[derive(Default)]
pub(super) struct Session(Mutex<State>);

#[derive(Default)]
struct State {
    /// The headers of every message of the session, as far as they are known.
    headers: HeaderMap,
    lost: bool,
}

impl Session {
    /// Keeps the number that came with the answer to `initialize`.
    pub(super) fn open(&self, headers: &HeaderMap) {
        if let Some(id) = headers.get(ID) {
            self.state().headers.insert(ID, id.clone());
        }
    }

    /// Keeps the version that was agreed on.
    pub(super) fn agree(&self, version: &str) {
        if let Ok(version) = HeaderValue::from_str(version) {
            self.state().headers.insert(VERSION, version);
        }
    }

    /// Whether the server was initialized in the old way.
    pub(super) fn is_agreed(&self) -> bool {
        self.state().headers.contains_key(VERSION)
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
