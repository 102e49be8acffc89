//! What a login of one server starts from.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use mainstay::transport::HttpOptions;
use mainstay_oauth::{
    AddressRules, ClientSettings, IdentityProvider, LoginGrant, ResourceSetting, Revision, SecretText,
    SubjectToken,
};
use url::Url;

use crate::error::LoginFailure;
use crate::store::LoginKey;

/// The settings of one server's logins. The defaults suit most servers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoginSettings {
    /// The address of the MCP server.
    pub server: Url,
    /// The user, if there is more than one.
    pub user: Option<String>,
    /// The clients that can be used.
    pub client: ClientSettings,
    /// The scopes to ask for, in place of those that the server names.
    pub scopes: Option<Vec<String>>,
    /// What to send as `resource`.
    pub resource: ResourceSetting,
    /// The pinned issuer.
    pub issuer: Option<String>,
    /// The port of the redirect URI.
    pub redirect_port: Option<u16>,
    /// How the token is obtained.
    pub grant: GrantSetting,
    /// Whether the authorization server may be on a private address and without TLS.
    pub allow_private: bool,
    /// A PEM file of certificates to trust beside those of the system.
    pub root_certificates: Option<PathBuf>,
    /// The newest revision of the specification that the login follows.
    pub revision: Revision,
}

/// How a login gets its token.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum GrantSetting {
    /// A person agrees in a browser, or with a code on another device.
    #[default]
    Person,
    /// The client acts for itself.
    ClientCredentials,
    /// A workload presents the JWT in this file, which its platform renews.
    Workload {
        /// The file.
        assertion_file: PathBuf,
    },
    /// The client exchanges a token it has.
    TokenExchange {
        /// The token.
        subject: SubjectToken,
    },
    /// The identity provider of an enterprise decides.
    Enterprise(Box<IdentityProvider>),
}

impl LoginSettings {
    /// The defaults for a server.
    pub fn new(server: Url) -> Self {
        Self {
            server,
            user: None,
            client: ClientSettings::default(),
            scopes: None,
            resource: ResourceSetting::default(),
            issuer: None,
            redirect_port: None,
            grant: GrantSetting::default(),
            allow_private: false,
            root_certificates: None,
            revision: Revision::default(),
        }
    }

    /// Whose logins these are.
    pub fn key(&self) -> LoginKey {
        LoginKey {
            server: self.server.clone(),
            user: self.user.clone(),
        }
    }

    pub(crate) fn rules(&self) -> AddressRules {
        AddressRules::for_server(&self.server, self.allow_private)
    }

    /// How requests to authorization servers are sent.
    pub(crate) fn http(&self) -> HttpOptions {
        let rules = self.rules();
        let options = HttpOptions::new().address_check(Arc::new(move |address| rules.permits(address)));
        match &self.root_certificates {
            Some(path) => options.root_certificates(path),
            None => options,
        }
    }
}

impl GrantSetting {
    /// Whether no person takes part.
    pub fn is_automatic(&self) -> bool {
        match self {
            Self::Person => false,
            Self::ClientCredentials
            | Self::Workload { .. }
            | Self::TokenExchange { .. }
            | Self::Enterprise(_) => true,
        }
    }

    /// The grant of one login. It may read a small file.
    pub(crate) fn grant(&self, device: bool) -> Result<LoginGrant, LoginFailure> {
        Ok(match self {
            Self::Person if device => LoginGrant::Device,
            Self::Person => LoginGrant::AuthorizationCode,
            Self::ClientCredentials => LoginGrant::ClientCredentials,
            Self::Workload { assertion_file } => LoginGrant::Workload {
                assertion: read_assertion(assertion_file)?,
            },
            Self::TokenExchange { subject } => LoginGrant::TokenExchange {
                subject: subject.clone(),
            },
            Self::Enterprise(provider) => LoginGrant::Enterprise(provider.clone()),
        })
    }
}

impl fmt::Display for GrantSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Person => "authorization_code",
            Self::ClientCredentials => "client_credentials",
            Self::Workload { .. } => "jwt_bearer",
            Self::TokenExchange { .. } => "token_exchange",
            Self::Enterprise(_) => "enterprise",
        })
    }
}

/// A longer assertion is no JWT.
const ASSERTION_LIMIT: u64 = 64 * 1024;

fn read_assertion(path: &PathBuf) -> Result<SecretText, LoginFailure> {
    use std::io::Read;
    let unreadable = |source| LoginFailure::Assertion {
        path: path.clone(),
        source,
    };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut text = String::new();
    let read = file.take(ASSERTION_LIMIT).read_to_string(&mut text);
    read.map_err(unreadable)?;
    Ok(SecretText::new(text.trim()))
}
