//! Registrations as a store keeps them: one for each issuer.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::client::{AuthMethod, ClientAuthentication, ClientError, OAuthClient};
use crate::context::unix_seconds;
use crate::secret::SecretText;

/// The version of the stored form of [`Registration`] and [`LoginRecord`](crate::LoginRecord).
pub const STORED_VERSION: u32 = 1;

/// A client that registered itself at an authorization server. It is kept under its issuer and used nowhere else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Registration {
    /// The version of this form, [`STORED_VERSION`].
    pub version: u32,
    /// The issuer that registered the client.
    pub issuer: String,
    /// The client ID.
    pub client_id: String,
    /// The client secret, for methods that need one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<SecretText>,
    /// When the secret expires, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_expires_at: Option<u64>,
    /// How the client authenticates.
    pub method: AuthMethod,
    /// The port of the registered redirect URI. Many servers compare it exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect_port: Option<u16>,
    /// The registered redirect URI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect_uri: Option<String>,
}

impl Registration {
    /// Whether the registration can be used: of this version, for this issuer, with a secret that has not expired.
    pub fn is_usable(&self, issuer: &str, now: SystemTime) -> bool {
        let expired = self.secret_expires_at.is_some_and(|at| at <= unix_seconds(now));
        self.version == STORED_VERSION && self.issuer == issuer && !expired
    }

    /// The client of this registration.
    pub fn client(&self) -> Result<OAuthClient, ClientError> {
        let secret = self.client_secret.as_ref();
        let authentication = ClientAuthentication::of_secret(self.method, &self.client_id, secret)?;
        Ok(OAuthClient::new(&self.issuer, &self.client_id, authentication))
    }
}
