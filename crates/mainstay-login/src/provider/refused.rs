//! Keeps in the stored login that the server refused its token, so that `auth status` can tell a login that does not help from one
//! that is missing.

use std::sync::Arc;
use std::time::Duration;

use super::{ProviderState, lock};
use crate::blocking::on_store;
use crate::store::{LoginStoreError, StoredLogin};

/// How long the note waits for a renewal of another process.
const LOCK_TIMEOUT: Duration = Duration::from_secs(12);

/// What is kept where the server named no error.
const NO_ERROR: &str = "no error named";

impl ProviderState {
    /// The server asks for a login. If it was shown the token of the stored login, that is kept.
    pub(super) fn note_refused_token(self: &Arc<Self>) {
        let current = self.current.load();
        let shown = lock(&self.given).clone();
        if shown.is_none() || current.value() != shown.as_ref() {
            return;
        }
        let challenge = lock(&self.notes).challenge.clone();
        let error = challenge.as_ref().and_then(|challenge| challenge.error_name());
        self.keep_note(Some(error.unwrap_or(NO_ERROR).to_owned()));
    }

    /// The server is connected: what it said of the token does not hold any more.
    pub(super) fn note_accepted_token(self: &Arc<Self>) {
        if self.current.load().value().is_some() {
            self.keep_note(None);
        }
    }

    fn keep_note(self: &Arc<Self>, refused: Option<String>) {
        let is_known = |login: &StoredLogin| login.refused == refused;
        if self
            .current
            .load()
            .login()
            .is_none_or(|read| is_known(&read.login))
        {
            return;
        }
        let state = self.clone();
        tokio::spawn(async move {
            if let Err(error) = state.save_note(refused).await {
                tracing::debug!(%error, "whether the server accepts the token could not be saved");
            }
        });
    }

    /// Under the lock, so that no renewal finds another login than the one it read.
    async fn save_note(self: &Arc<Self>, refused: Option<String>) -> Result<(), LoginStoreError> {
        let key = self.key.clone();
        let value = self.current.load().value().cloned();
        let _lock = on_store(&self.store, move |store| store.lock(&key, LOCK_TIMEOUT)).await?;
        self.read_again().await?;
        let current = self.current.load_full();
        let Some(read) = current.login().filter(|_| current.value() == value.as_ref()) else {
            return Ok(());
        };
        let noted = StoredLogin {
            refused,
            ..read.login.clone()
        };
        let expected = read.version.clone();
        on_store(&self.store, move |store| store.replace(&noted, Some(&expected))).await?;
        self.read_again().await
    }
}
