//! What a person configured for the logins of one MCP server.

use std::sync::Arc;

use url::Url;

use crate::challenge::AuthChallenge;
use crate::grant::LoginGrant;
use crate::registration::Registration;
use crate::revision::Revision;
use crate::secret::SecretText;
use crate::signing::SigningKey;

/// The clients that can be used.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientSettings {
    /// The client that a person registered by hand.
    pub configured: Option<ConfiguredClient>,
    /// The address of a client ID metadata document.
    pub metadata_url: Option<String>,
    /// The key for `private_key_jwt`.
    pub signing_key: Option<Arc<SigningKey>>,
    /// The name under which the client registers itself.
    pub name: String,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            configured: None,
            metadata_url: None,
            signing_key: None,
            name: "Mainstay".to_owned(),
        }
    }
}

/// A client that a person registered at an authorization server.
#[derive(Clone, Debug)]
pub struct ConfiguredClient {
    /// The client ID.
    pub id: String,
    /// The client secret.
    pub secret: Option<SecretText>,
    /// The issuer that registered the client: the pinned one, or the one of the last login. `None` before the first.
    pub issuer: Option<String>,
}

impl ConfiguredClient {
    /// Whether this is the client of an ID at an issuer.
    pub(crate) fn is(&self, id: &str, issuer: &str) -> bool {
        self.id == id && self.issuer.as_deref().is_none_or(|own| own == issuer)
    }
}

/// What the client sends as `resource` (RFC 8707).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ResourceSetting {
    /// What the server publishes, unchanged.
    #[default]
    Published,
    /// Another text.
    Text(String),
    /// Nothing: some servers, such as Entra, refuse the parameter.
    Omitted,
}

/// What a login starts from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoginOptions {
    /// The address of the MCP server.
    pub server: Url,
    /// The user the login is for, if there is more than one.
    pub user: Option<String>,
    /// The revision that the client speaks with the server.
    pub revision: Revision,
    /// The challenge of the refused request.
    pub challenge: AuthChallenge,
    /// How the login gets its token.
    pub grant: LoginGrant,
    /// The clients that can be used.
    pub client: ClientSettings,
    /// The registrations in the store. Those of other issuers are ignored.
    pub registrations: Vec<Registration>,
    /// Whether the client registers itself although it has a registration, which the authorization server has forgotten.
    pub register_again: bool,
    /// The configured scopes.
    pub scopes: Option<Vec<String>>,
    /// The scopes of earlier authorizations for this server.
    pub asked_before: Vec<String>,
    /// What to send as `resource`.
    pub resource: ResourceSetting,
    /// The pinned issuer.
    pub issuer: Option<String>,
    /// The configured port for the redirect.
    pub redirect_port: Option<u16>,
    /// Whether authorization servers may be on private addresses and without TLS.
    pub allow_private: bool,
}

impl LoginOptions {
    /// A login in a browser with nothing configured.
    pub fn new(server: Url) -> Self {
        Self {
            server,
            user: None,
            revision: Revision::default(),
            challenge: AuthChallenge::default(),
            grant: LoginGrant::default(),
            client: ClientSettings::default(),
            registrations: Vec::new(),
            register_again: false,
            scopes: None,
            asked_before: Vec::new(),
            resource: ResourceSetting::default(),
            issuer: None,
            redirect_port: None,
            allow_private: false,
        }
    }
}
