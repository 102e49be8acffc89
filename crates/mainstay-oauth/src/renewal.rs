//! Refreshing and revoking the tokens of a stored login.
//!
//! A [`Renewal`] is one request and one response. The caller holds a lock around *read the record again, refresh, save*:
//! a refresh token that two processes use at once is revoked, and the login with it.

use std::time::SystemTime;

use crate::client::{ClientError, OAuthClient};
use crate::context::Context;
use crate::form::Form;
use crate::http::{HttpRequest, HttpResponse};
use crate::record::LoginRecord;
use crate::secret::SecretText;
use crate::token::{self, Expect, TokenError};

/// A refresh or a revocation that cannot be asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RenewalError {
    /// The login has no refresh token.
    #[error("the login has no refresh token; log in again when the access token has expired")]
    NoRefreshToken,
    /// The client belongs to another issuer, or is not the one the tokens were issued to.
    #[error("the tokens were issued to another client or by another issuer ({issuer}); log in again")]
    OtherClient {
        /// The issuer of the tokens.
        issuer: String,
    },
    /// The client cannot authenticate.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The token endpoint refused.
    #[error(transparent)]
    Token(#[from] TokenError),
}

/// A refresh that is under way.
#[derive(Clone, Debug)]
pub struct Renewal {
    record: LoginRecord,
    requested_at: SystemTime,
}

impl Renewal {
    /// The request that refreshes a login. It asks for the granted scopes and for no others.
    pub fn start(
        record: LoginRecord,
        client: Option<&OAuthClient>,
        context: &Context<'_>,
    ) -> Result<(Self, HttpRequest), RenewalError> {
        check_client(&record, client)?;
        let token = record
            .refresh_token
            .as_ref()
            .ok_or(RenewalError::NoRefreshToken)?;
        let form = Form::grant("refresh_token")
            .with("refresh_token", token.expose())
            .with_some("resource", record.resource.as_deref())
            .with_scopes(&record.granted_scopes);
        let request = form.into_request(record.token_endpoint.clone(), client, context);
        let request = request.map_err(ClientError::from)?;
        let requested_at = context.now;
        Ok((Self { record, requested_at }, request))
    }

    /// The record to save, before the new access token is used.
    pub fn handle_response(
        &self,
        response: &HttpResponse,
        context: &Context<'_>,
    ) -> Result<LoginRecord, RenewalError> {
        // The life of the token began before its answer arrived.
        let issued_at = self.requested_at.min(context.now);
        let tokens = token::read(response, Expect::Bearer, issued_at)?;
        Ok(self.record.renewed(tokens))
    }
}

/// The requests that revoke the tokens of a login (RFC 7009), the refresh token first. There are none if the
/// authorization server offers no revocation. Any response may be ignored: the caller deletes the login anyway.
pub fn revocation_requests(
    record: &LoginRecord,
    client: Option<&OAuthClient>,
    context: &Context<'_>,
) -> Result<Vec<HttpRequest>, RenewalError> {
    check_client(record, client)?;
    let Some(endpoint) = &record.revocation_endpoint else {
        return Ok(Vec::new());
    };
    let revoke = |token: &SecretText, hint| {
        let form = Form::default()
            .with("token", token.expose())
            .with("token_type_hint", hint);
        form.into_request(endpoint.clone(), client, context)
            .map_err(ClientError::from)
    };
    let mut requests = Vec::new();
    if let Some(token) = &record.refresh_token {
        requests.push(revoke(token, "refresh_token")?);
    }
    requests.push(revoke(&record.access_token, "access_token")?);
    Ok(requests)
}

fn check_client(record: &LoginRecord, client: Option<&OAuthClient>) -> Result<(), RenewalError> {
    let same_id = record.client_id.as_deref() == client.map(|client| client.id.as_str());
    let same_issuer = client.is_none_or(|client| client.issuer == record.issuer);
    if same_id && same_issuer {
        return Ok(());
    }
    Err(RenewalError::OtherClient {
        issuer: record.issuer.clone(),
    })
}
