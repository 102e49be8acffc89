//! What a person configures for the logins of a server. Most servers need nothing of it.

use std::path::PathBuf;

use super::target::Secret;

/// Whether a server's requests use an OAuth login.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OAuthSetting {
    /// If the server asks for one, with the defaults.
    #[default]
    Automatic,
    /// Never.
    Off,
    /// If the server asks for one, with these settings.
    Configured(Box<OAuthConfig>),
}

/// The settings of a server's logins. All are optional.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OAuthConfig {
    /// The client that a person registered at the authorization server.
    pub client_id: Option<String>,
    /// Its secret.
    pub client_secret: Option<Secret>,
    /// The address of a client ID metadata document.
    pub client_metadata_url: Option<String>,
    /// The scopes to ask for, in place of those that the server names.
    pub scopes: Option<Vec<String>>,
    /// What is sent as `resource`.
    pub resource: OAuthResource,
    /// The issuer that is accepted, and no other.
    pub issuer: Option<String>,
    /// The port of the redirect URI.
    pub redirect_port: Option<u16>,
    /// How the token is obtained.
    pub grant: OAuthGrant,
    /// The PEM file of the key for `private_key_jwt`.
    pub private_key: Option<PathBuf>,
    /// The file with the JWT of a workload.
    pub assertion_file: Option<PathBuf>,
    /// Whether the authorization server may be on a private address and without TLS.
    pub allow_private: bool,
    /// The user, if several people log in to the same server on this machine.
    pub user: Option<String>,
}

/// What is sent as `resource`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OAuthResource {
    /// What the server publishes.
    #[default]
    Published,
    /// This text.
    Text(String),
    /// Nothing.
    Omitted,
}

/// How a token is obtained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OAuthGrant {
    /// A person logs in.
    #[default]
    Person,
    /// The client logs in for itself.
    ClientCredentials,
    /// The workload presents the JWT in `assertion_file`.
    JwtBearer,
}

impl OAuthGrant {
    /// The names in configuration files.
    pub const NAMES: [&'static str; 3] = ["authorization_code", "client_credentials", "jwt_bearer"];

    /// The grant of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        match name {
            "authorization_code" => Some(Self::Person),
            "client_credentials" => Some(Self::ClientCredentials),
            "jwt_bearer" => Some(Self::JwtBearer),
            _other => None,
        }
    }
}

impl OAuthConfig {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }
}
