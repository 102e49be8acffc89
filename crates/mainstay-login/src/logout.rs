//! Ends the logins of a server: revokes their tokens, then deletes them.

use std::sync::Arc;

use mainstay_oauth::{Registration, revocation_requests};

use crate::blocking::on_store;
use crate::context::context;
use crate::error::LoginFailure;
use crate::provider::LoginProvider;
use crate::send::send;
use crate::settings::LoginSettings;
use crate::store::{KeyringFailure, LoginStore, LoginStoreError, ReadLogin};

/// How long a logout waits for a refresh that runs.
const LOCK_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(20);

/// What became of one login.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogoutReport {
    /// The issuer.
    pub issuer: String,
    /// Whether the authorization server accepted the revocation. `None` if it offers no revocation.
    pub revoked: Option<bool>,
    /// Why the authorization server could not be told.
    pub error: Option<String>,
    /// Whether the registration of the client was deleted too. It is kept while another login uses it.
    pub forgot_registration: bool,
}

/// Revokes and deletes all logins of a server, and the registrations of their clients that no other login uses. A login is deleted
/// even if it could not be revoked.
///
/// Cancel safety: dropped, some logins may be revoked and not deleted; another logout deletes them. A registration may be kept.
pub async fn log_out(provider: &LoginProvider) -> Result<Vec<LogoutReport>, LoginFailure> {
    let (settings, store) = (provider.settings(), provider.store());
    let key = settings.key();
    let of_lock = key.clone();
    let _lock = on_store(store, move |store| store.lock(&of_lock, LOCK_TIMEOUT)).await?;
    let of_logins = key.clone();
    let found = on_store(store, move |store| store.logins(&of_logins)).await;
    // What cannot be read cannot be revoked, and is deleted all the same.
    let found = match found {
        Err(
            LoginStoreError::Unreadable { .. }
            | LoginStoreError::Unsafe { .. }
            | LoginStoreError::Keyring(KeyringFailure::Missing { .. }),
        ) => Vec::new(),
        found => found?,
    };
    let mut reports = Vec::new();
    for read in &found {
        let (revoked, error) = revoke(settings, store, read).await;
        reports.push(LogoutReport {
            issuer: read.login.record.issuer.clone(),
            revoked,
            error,
            forgot_registration: false,
        });
    }
    on_store(store, move |store| store.remove_all(&key)).await?;
    for (read, report) in found.into_iter().zip(&mut reports) {
        report.forgot_registration = on_store(store, move |store| forget_registration(store, &read)).await?;
    }
    Ok(reports)
}

/// Deletes the registration of a deleted login, so that the next login registers the client again: the authorization server may have
/// forgotten it.
fn forget_registration(store: &dyn LoginStore, read: &ReadLogin) -> Result<bool, LoginStoreError> {
    let record = &read.login.record;
    let Some(client_id) = &record.client_id else {
        return Ok(false);
    };
    let is_known = |known: &Registration| known.issuer == record.issuer && known.client_id == *client_id;
    let is_used = |other: &ReadLogin| {
        other.login.record.issuer == record.issuer && other.login.record.client_id == record.client_id
    };
    if !store.registrations()?.iter().any(is_known) || store.all_logins()?.iter().any(is_used) {
        return Ok(false);
    }
    store.forget_registration(&record.issuer, client_id)?;
    Ok(true)
}

async fn revoke(
    settings: &LoginSettings,
    store: &Arc<dyn LoginStore>,
    read: &ReadLogin,
) -> (Option<bool>, Option<String>) {
    let record = &read.login.record;
    let registrations = on_store(store, LoginStore::registrations).await;
    let requests = registrations
        .map_err(|error| error.to_string())
        .and_then(|registrations| {
            let client = record.client(&settings.client, &registrations);
            let client = client.map_err(|error| error.to_string())?;
            revocation_requests(record, client.as_ref(), &context()).map_err(|error| error.to_string())
        });
    let requests = match requests {
        Ok(requests) if requests.is_empty() => return (None, None),
        Ok(requests) => requests,
        Err(error) => return (Some(false), Some(error)),
    };
    for request in requests {
        match send(&request, settings).await {
            Ok(response) if (200..300).contains(&response.status) => {}
            Ok(response) => {
                let error = format!("the revocation was answered with status {}", response.status);
                return (Some(false), Some(error));
            }
            Err(error) => return (Some(false), Some(error.to_string())),
        }
    }
    (Some(true), None)
}
