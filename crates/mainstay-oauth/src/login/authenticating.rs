//! The client of a token request, and the other ways to authenticate it if the server refuses the first.
//!
//! Servers differ in what they take, whatever their metadata lists: those on the Python SDK want `client_id` in the body beside
//! `client_secret_basic`, and strict ones refuse that. A server authenticates the client before it looks at the grant, so a
//! refused client costs neither a code nor a device code.

use crate::client::{ClientAuthentication, OAuthClient};
use crate::metadata::AuthorizationServerMetadata;
use crate::token::TokenError;

/// A client that tries each way to authenticate once.
#[derive(Clone, Debug)]
pub(super) struct AuthenticatingClient {
    client: OAuthClient,
    untried: Vec<ClientAuthentication>,
    /// Why the first way was refused.
    refusal: Option<TokenError>,
}

impl AuthenticatingClient {
    /// A client that may use every way to send its secret that the server accepts.
    pub(super) fn new(client: OAuthClient, metadata: &AuthorizationServerMetadata) -> Self {
        let untried = client.authentication.others(metadata);
        Self {
            client,
            untried,
            refusal: None,
        }
    }

    /// A client that authenticates in its own way alone.
    pub(super) fn fixed(client: OAuthClient) -> Self {
        Self {
            client,
            untried: Vec::new(),
            refusal: None,
        }
    }

    pub(super) fn client(&self) -> &OAuthClient {
        &self.client
    }

    /// Takes the next way to authenticate if the server refused the client. Otherwise it returns the error to report: if the client is
    /// refused in every way, that of the first.
    pub(super) fn fall_back(&mut self, error: TokenError) -> Result<(), TokenError> {
        if !error.may_refuse_client() {
            return Err(error);
        }
        if self.untried.is_empty() {
            return Err(self.refusal.take().unwrap_or(error));
        }
        self.client.authentication = self.untried.remove(0);
        self.refusal.get_or_insert(error);
        Ok(())
    }
}
