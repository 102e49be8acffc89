//! The documents of `mainstay login`, `logout` and `auth status`. They hold no secret.

use mainstay::ServerConfig;
use mainstay_login::{LoginProvider, LoginSummary, LogoutReport, StoreDescription, StoredLogin};
use serde::Serialize;
use utoipa::ToSchema;

use super::{DocumentVersion, unix_ms};
use crate::auth::AuthStatus;

#[derive(Serialize, ToSchema)]
pub(crate) struct LoggedInDocument {
    version: DocumentVersion,
    ok: bool,
    server: String,
    address: String,
    issuer: Option<String>,
    scopes: Vec<String>,
    expires_at_ms: Option<u64>,
    renewable: Option<bool>,
    store: StoreDocument,
    error: Option<String>,
}

/// Where logins are kept.
#[derive(Serialize, ToSchema)]
struct StoreDocument {
    place: String,
    protection: &'static str,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct LogoutDocument {
    version: DocumentVersion,
    ok: bool,
    server: String,
    logins: Vec<EndedLogin>,
}

#[derive(Serialize, ToSchema)]
struct EndedLogin {
    issuer: String,
    revoked: Option<bool>,
    error: Option<String>,
    forgot_registration: bool,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct AuthStatusDocument {
    version: DocumentVersion,
    store: StoreDocument,
    logins: Vec<KnownLogin>,
}

#[derive(Serialize, ToSchema)]
struct KnownLogin {
    server: Option<String>,
    address: String,
    state: &'static str,
    issuer: Option<String>,
    user: Option<String>,
    scopes: Vec<String>,
    logged_in_at_ms: Option<u64>,
    expires_at_ms: Option<u64>,
    renewable: Option<bool>,
    error: Option<String>,
}

impl LoggedInDocument {
    pub(crate) fn of(
        server: &ServerConfig,
        provider: &LoginProvider,
        done: Result<&LoginSummary, &anyhow::Error>,
        store: &StoreDescription,
    ) -> Self {
        let summary = done.ok();
        Self {
            version: DocumentVersion,
            ok: done.is_ok(),
            server: server.name().to_owned(),
            address: provider.settings().server.to_string(),
            issuer: summary.map(|summary| summary.issuer.clone()),
            scopes: summary.map(|summary| summary.scopes.clone()).unwrap_or_default(),
            expires_at_ms: summary.and_then(|summary| summary.expires_at).map(unix_ms),
            renewable: summary.map(|summary| summary.renewable),
            store: StoreDocument::of(store),
            error: done.err().map(|error| format!("{error:#}")),
        }
    }
}

impl StoreDocument {
    fn of(store: &StoreDescription) -> Self {
        Self {
            place: store.place.clone(),
            protection: store.protection,
        }
    }
}

impl LogoutDocument {
    pub(crate) fn of(server: &ServerConfig, reports: &[LogoutReport]) -> Self {
        let ended = |report: &LogoutReport| EndedLogin {
            issuer: report.issuer.clone(),
            revoked: report.revoked,
            error: report.error.clone(),
            forgot_registration: report.forgot_registration,
        };
        Self {
            version: DocumentVersion,
            ok: true,
            server: server.name().to_owned(),
            logins: reports.iter().map(ended).collect(),
        }
    }
}

impl AuthStatusDocument {
    pub(crate) fn of(statuses: &[AuthStatus], store: &StoreDescription) -> Self {
        Self {
            version: DocumentVersion,
            store: StoreDocument::of(store),
            logins: statuses.iter().map(KnownLogin::of).collect(),
        }
    }
}

impl KnownLogin {
    fn of(status: &AuthStatus) -> Self {
        let login = status.login.as_ref().map(|read| &read.login);
        let record = login.map(|login| &login.record);
        Self {
            server: status.server.clone(),
            address: status.address.clone(),
            state: status.state.as_str(),
            issuer: record.map(|record| record.issuer.clone()),
            user: record.and_then(|record| record.user.clone()),
            scopes: record
                .map(|record| record.granted_scopes.clone())
                .unwrap_or_default(),
            logged_in_at_ms: login.map(|login| login.logged_in_at),
            expires_at_ms: login.and_then(|login| login.record.expires_at()).map(unix_ms),
            renewable: record.map(|record| record.refresh_token.is_some()),
            error: login.and_then(error),
        }
    }
}

/// Why a login cannot be used, or could not be renewed.
fn error(login: &StoredLogin) -> Option<String> {
    let refused = login.refused.as_ref();
    let refused = || refused.map(|error| format!("the server refused the token ({error})"));
    let ended = login.ended.clone().or_else(|| login.last_error.clone());
    ended.or_else(refused)
}
