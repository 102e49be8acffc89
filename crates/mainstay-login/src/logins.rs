//! The logins of many servers, over one store.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use mainstay::ServerConfig;
use mainstay::config::{HttpTarget, OAuthConfig, OAuthGrant, OAuthResource, OAuthSetting, Target};
use mainstay::transport::http::{CredentialSource, Credentials};
use mainstay_oauth::{ConfiguredClient, KeyError, ResourceSetting, SecretText, SigningKey};
use ring::rand::SystemRandom;
use url::Url;

use crate::provider::{LoginProvider, lock};
use crate::settings::{GrantSetting, LoginSettings};
use crate::store::LoginStore;

/// The providers of all servers that share a store. Servers with the same address and settings share a provider, so that a
/// configuration that is read again changes nothing.
pub struct Logins {
    store: Arc<dyn LoginStore>,
    providers: Mutex<Vec<Known>>,
}

struct Known {
    server: Url,
    oauth: OAuthConfig,
    roots: Option<PathBuf>,
    provider: Arc<LoginProvider>,
}

/// Settings that no login can be made with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoginConfigError {
    /// The server is not reached over HTTP.
    #[error(
        "server {server} needs no login: it is a program that mainstay starts, and only servers over HTTP have logins"
    )]
    NotHttp {
        /// The server.
        server: String,
    },
    /// Logins are turned off for the server.
    #[error("the configuration turns logins off for server {server} (`oauth: false`)")]
    Off {
        /// The server.
        server: String,
    },
    /// The server has a credential of its own.
    #[error(
        "server {server} has a token or an Authorization header in its configuration, which wins over a login; remove it first"
    )]
    HasCredential {
        /// The server.
        server: String,
    },
    /// The address cannot be read.
    #[error("the address of server {server} cannot be used: {reason}")]
    Address {
        /// The server.
        server: String,
        /// Why not.
        reason: String,
    },
    /// The private key cannot be read.
    #[error("the private key {path} cannot be read: {source}")]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The private key cannot be used.
    #[error("the private key {path} cannot be used: {source}")]
    Key {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: KeyError,
    },
    /// The grant needs another setting.
    #[error("the grant jwt_bearer needs `assertion_file`")]
    NoAssertion,
}

impl Logins {
    /// Logins over this store.
    pub fn new(store: Arc<dyn LoginStore>) -> Self {
        Self {
            store,
            providers: Mutex::default(),
        }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn LoginStore> {
        &self.store
    }

    /// The provider of a configured server.
    pub fn provider(&self, server: &ServerConfig) -> Result<Arc<LoginProvider>, LoginConfigError> {
        let name = || server.name().to_owned();
        let Target::Http(target) = server.target() else {
            return Err(LoginConfigError::NotHttp { server: name() });
        };
        let oauth = match target.oauth() {
            OAuthSetting::Automatic => OAuthConfig::new(),
            OAuthSetting::Configured(config) => OAuthConfig::clone(config),
            OAuthSetting::Off => return Err(LoginConfigError::Off { server: name() }),
        };
        if target.has_credentials() {
            return Err(LoginConfigError::HasCredential { server: name() });
        }
        let url = Url::parse(target.url().value()).map_err(|error| LoginConfigError::Address {
            server: name(),
            reason: error.to_string(),
        })?;
        self.shared(url, oauth, target)
    }

    fn shared(
        &self,
        server: Url,
        oauth: OAuthConfig,
        target: &HttpTarget,
    ) -> Result<Arc<LoginProvider>, LoginConfigError> {
        let roots = target.root_certificates().map(Path::to_owned);
        let mut providers = lock(&self.providers);
        let is_same = |known: &&Known| known.server == server && known.oauth == oauth && known.roots == roots;
        if let Some(known) = providers.iter().find(is_same) {
            return Ok(known.provider.clone());
        }
        let mut settings = settings(server.clone(), &oauth)?;
        settings.root_certificates.clone_from(&roots);
        let provider = Arc::new(LoginProvider::new(settings, self.store.clone()));
        providers.push(Known {
            server,
            oauth,
            roots,
            provider: provider.clone(),
        });
        Ok(provider)
    }
}

/// A server whose login cannot be set up is used without one, and a warning says why.
impl CredentialSource for Logins {
    fn provider(&self, server: &ServerConfig) -> Option<Arc<dyn Credentials>> {
        match Self::provider(self, server) {
            Ok(provider) => Some(provider),
            Err(
                LoginConfigError::NotHttp { .. }
                | LoginConfigError::Off { .. }
                | LoginConfigError::HasCredential { .. }
                | LoginConfigError::Address { .. },
            ) => None,
            Err(
                error @ (LoginConfigError::KeyFile { .. }
                | LoginConfigError::Key { .. }
                | LoginConfigError::NoAssertion),
            ) => {
                tracing::warn!(server = server.name(), %error, "the server is used without a login");
                None
            }
        }
    }
}

fn settings(server: Url, oauth: &OAuthConfig) -> Result<LoginSettings, LoginConfigError> {
    let mut settings = LoginSettings::new(server);
    settings.client.configured = oauth.client_id.as_ref().map(|id| ConfiguredClient {
        id: id.clone(),
        secret: oauth
            .client_secret
            .as_ref()
            .map(|secret| SecretText::new(secret.expose())),
        issuer: oauth.issuer.clone(),
    });
    settings
        .client
        .metadata_url
        .clone_from(&oauth.client_metadata_url);
    if let Some(path) = &oauth.private_key {
        let pem = std::fs::read_to_string(path).map_err(|source| LoginConfigError::KeyFile {
            path: path.clone(),
            source,
        })?;
        let key = SigningKey::from_pem(&pem, None, &SystemRandom::new());
        let key = key.map_err(|source| LoginConfigError::Key {
            path: path.clone(),
            source,
        })?;
        settings.client.signing_key = Some(Arc::new(key));
    }
    settings.scopes.clone_from(&oauth.scopes);
    settings.resource = match &oauth.resource {
        OAuthResource::Published => ResourceSetting::Published,
        OAuthResource::Text(text) => ResourceSetting::Text(text.clone()),
        OAuthResource::Omitted => ResourceSetting::Omitted,
    };
    settings.issuer.clone_from(&oauth.issuer);
    settings.redirect_port = oauth.redirect_port;
    settings.allow_private = oauth.allow_private;
    settings.user.clone_from(&oauth.user);
    settings.grant = match oauth.grant {
        OAuthGrant::ClientCredentials => GrantSetting::ClientCredentials,
        OAuthGrant::JwtBearer => GrantSetting::Workload {
            assertion_file: oauth
                .assertion_file
                .clone()
                .ok_or(LoginConfigError::NoAssertion)?,
        },
        _person => GrantSetting::Person,
    };
    Ok(settings)
}

impl std::fmt::Debug for Logins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Logins").finish_non_exhaustive()
    }
}
