//! Logins as a store keeps them: one for each server address, issuer and user.

use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::client::{AuthMethod, ClientAuthentication, ClientError, OAuthClient};
use crate::context::{from_unix_seconds, unix_seconds};
use crate::registration::{Registration, STORED_VERSION};
use crate::secret::SecretText;
use crate::settings::ClientSettings;
use crate::token::IssuedTokens;

/// A login: the tokens, whom they are for, and what a refresh needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LoginRecord {
    /// The version of this form, [`STORED_VERSION`].
    pub version: u32,
    /// The address of the MCP server. The access token is sent there and nowhere else.
    pub server: Url,
    /// The issuer of the tokens.
    pub issuer: String,
    /// The user the login belongs to, if there is more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The client that the tokens were issued to, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// How that client authenticates.
    pub method: AuthMethod,
    /// Whether the token endpoint wants `client_id` in the body beside `client_secret_basic`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub id_in_body: bool,
    /// The algorithm of client assertions, such as `ES256`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assertion_algorithm: Option<String>,
    /// Where the tokens are refreshed.
    pub token_endpoint: Url,
    /// Where the tokens are revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revocation_endpoint: Option<Url>,
    /// The access token.
    pub access_token: SecretText,
    /// The refresh token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<SecretText>,
    /// When the access token expires, in seconds since 1970. Without it the token is used until the server refuses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// The scopes that were asked for. A step-up asks for them again.
    #[serde(default)]
    pub requested_scopes: Vec<String>,
    /// The scopes that were granted. A refresh asks for exactly these.
    #[serde(default)]
    pub granted_scopes: Vec<String>,
    /// The text sent as `resource`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
}

impl LoginRecord {
    /// Whether this form is known and its tokens belong to this server.
    pub fn is_for(&self, server: &Url) -> bool {
        self.version == STORED_VERSION && self.server == *server
    }

    /// When the access token expires, if the server said so.
    pub fn expires_at(&self) -> Option<SystemTime> {
        self.expires_at.and_then(from_unix_seconds)
    }

    /// The value of the `Authorization` header for requests to the MCP server.
    pub fn authorization(&self) -> SecretText {
        SecretText::new(format!("Bearer {}", self.access_token.expose()))
    }

    /// The client that the tokens were issued to, from what is configured and stored now. `None` if the login needed no
    /// client, which is so for workloads.
    pub fn client(
        &self,
        settings: &ClientSettings,
        registrations: &[Registration],
    ) -> Result<Option<OAuthClient>, ClientError> {
        let Some(id) = &self.client_id else {
            return Ok(None);
        };
        if self.method == AuthMethod::PrivateKeyJwt
            && let Some(key) = &settings.signing_key
        {
            let accepted = self.assertion_algorithm.as_ref().map(std::slice::from_ref);
            let authentication = ClientAuthentication::PrivateKeyJwt {
                key: Arc::clone(key),
                algorithm: key.choose_algorithm(accepted)?,
            };
            return Ok(Some(OAuthClient::new(&self.issuer, id, authentication)));
        }
        let configured = settings
            .configured
            .as_ref()
            .filter(|client| client.is(id, &self.issuer));
        let is_same = |stored: &&Registration| stored.issuer == self.issuer && stored.client_id == *id;
        let stored = registrations.iter().find(is_same);
        let secret = match configured {
            Some(client) => client.secret.as_ref(),
            None => stored.and_then(|stored| stored.client_secret.as_ref()),
        };
        let authentication = match ClientAuthentication::of_secret(self.method, id, secret)? {
            ClientAuthentication::SecretBasic(secret) if self.id_in_body => {
                ClientAuthentication::SecretBasicWithId(secret)
            }
            authentication => authentication,
        };
        Ok(Some(OAuthClient::new(&self.issuer, id, authentication)))
    }

    /// The record after a refresh. A server that sends no new refresh token, or no scopes, leaves the old ones valid.
    pub(crate) fn renewed(&self, tokens: IssuedTokens) -> Self {
        Self {
            access_token: tokens.access_token,
            refresh_token: tokens.refresh_token.or_else(|| self.refresh_token.clone()),
            expires_at: tokens.expires_at.map(unix_seconds),
            granted_scopes: tokens.scopes.unwrap_or_else(|| self.granted_scopes.clone()),
            ..self.clone()
        }
    }
}
