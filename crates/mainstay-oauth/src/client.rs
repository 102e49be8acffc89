//! The client towards one authorization server: its ID and how it authenticates.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::metadata::AuthorizationServerMetadata;
use crate::secret::SecretText;
use crate::signing::{KeyError, SigningAlgorithm, SigningKey};

/// How a client authenticates at the token endpoint, as metadata and registrations name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthMethod {
    /// A public client: the ID alone.
    None,
    /// ID and secret in the `Authorization` header.
    ClientSecretBasic,
    /// ID and secret in the body.
    ClientSecretPost,
    /// An assertion signed with the client's key.
    PrivateKeyJwt,
}

impl AuthMethod {
    /// The registered name of the method.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ClientSecretBasic => "client_secret_basic",
            Self::ClientSecretPost => "client_secret_post",
            Self::PrivateKeyJwt => "private_key_jwt",
        }
    }

    /// The method of a registered name.
    pub fn of_name(name: &str) -> Option<Self> {
        let all = [
            Self::None,
            Self::ClientSecretBasic,
            Self::ClientSecretPost,
            Self::PrivateKeyJwt,
        ];
        all.into_iter().find(|method| method.as_str() == name)
    }
}

/// A client as one authorization server knows it. It is never used at another one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OAuthClient {
    /// The issuer that knows the client.
    pub issuer: String,
    /// The client ID.
    pub id: String,
    /// How the client authenticates.
    pub authentication: ClientAuthentication,
}

/// How a client authenticates, with what it needs for that.
#[derive(Clone, Debug)]
pub enum ClientAuthentication {
    /// The ID alone.
    None,
    /// ID and secret in the `Authorization` header.
    SecretBasic(SecretText),
    /// ID and secret in the `Authorization` header, and the ID in the body too.
    SecretBasicWithId(SecretText),
    /// ID and secret in the body.
    SecretPost(SecretText),
    /// An assertion whose audience is the issuer that knows the client.
    PrivateKeyJwt {
        /// The key that signs.
        key: Arc<SigningKey>,
        /// The algorithm that the server accepts.
        algorithm: SigningAlgorithm,
    },
}

impl OAuthClient {
    /// A client with its authentication.
    pub fn new(
        issuer: impl Into<String>,
        id: impl Into<String>,
        authentication: ClientAuthentication,
    ) -> Self {
        Self {
            issuer: issuer.into(),
            id: id.into(),
            authentication,
        }
    }
}

impl ClientAuthentication {
    /// The authentication of a method that was chosen before.
    pub(crate) fn of_secret(
        method: AuthMethod,
        client_id: &str,
        secret: Option<&SecretText>,
    ) -> Result<Self, ClientError> {
        let missing = || ClientError::NoSecret {
            client_id: client_id.to_owned(),
            method: method.as_str(),
        };
        match method {
            AuthMethod::None => Ok(Self::None),
            AuthMethod::ClientSecretBasic => secret.cloned().map(Self::SecretBasic).ok_or_else(missing),
            AuthMethod::ClientSecretPost => secret.cloned().map(Self::SecretPost).ok_or_else(missing),
            AuthMethod::PrivateKeyJwt => Err(missing()),
        }
    }

    /// The name of the method.
    pub fn method(&self) -> AuthMethod {
        match self {
            Self::None => AuthMethod::None,
            Self::SecretBasic(_) | Self::SecretBasicWithId(_) => AuthMethod::ClientSecretBasic,
            Self::SecretPost(_) => AuthMethod::ClientSecretPost,
            Self::PrivateKeyJwt { .. } => AuthMethod::PrivateKeyJwt,
        }
    }

    /// The other ways to send the same secret that the server accepts.
    pub(crate) fn others(&self, metadata: &AuthorizationServerMetadata) -> Vec<Self> {
        let others = match self {
            Self::None | Self::PrivateKeyJwt { .. } => Vec::new(),
            Self::SecretBasic(secret) => {
                vec![
                    Self::SecretBasicWithId(secret.clone()),
                    Self::SecretPost(secret.clone()),
                ]
            }
            Self::SecretBasicWithId(secret) => {
                vec![
                    Self::SecretBasic(secret.clone()),
                    Self::SecretPost(secret.clone()),
                ]
            }
            Self::SecretPost(secret) => {
                vec![
                    Self::SecretBasic(secret.clone()),
                    Self::SecretBasicWithId(secret.clone()),
                ]
            }
        };
        let is_accepted = |other: &Self| metadata.accepts(other.method()) != Some(false);
        others.into_iter().filter(is_accepted).collect()
    }
}

/// The client cannot authenticate at the authorization server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server accepts none of the methods the client is configured for.
    #[error(
        "the authorization server accepts only the client authentication methods {accepted:?}, and the client is configured for none of them"
    )]
    NoCommonMethod {
        /// What the server accepts.
        accepted: Vec<String>,
    },
    /// The method needs a secret that is not there.
    #[error("the client {client_id} authenticates with {method}, but its secret or key is not configured")]
    NoSecret {
        /// The client ID.
        client_id: String,
        /// The method.
        method: &'static str,
    },
    /// The key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// Chooses how a configured client authenticates: with its key, else with its secret, else not at all.
///
/// A server without a list accepts `client_secret_basic` (RFC 8414 section 2). Of the two methods with a secret that a server lists,
/// `client_secret_post` comes first: the servers on the Python SDK list both and take only that one as it is specified. A client
/// with neither secret nor key is a public client, whatever the server lists.
pub(crate) fn choose_authentication(
    secret: Option<&SecretText>,
    key: Option<&Arc<SigningKey>>,
    metadata: &AuthorizationServerMetadata,
) -> Result<ClientAuthentication, ClientError> {
    let lists = |method: AuthMethod| metadata.accepts(method) == Some(true);
    let accepts = |method: AuthMethod| metadata.accepts(method) != Some(false);
    match (key, secret) {
        (Some(key), _) if accepts(AuthMethod::PrivateKeyJwt) => with_key(key, metadata),
        (_, Some(secret)) if lists(AuthMethod::ClientSecretPost) => {
            Ok(ClientAuthentication::SecretPost(secret.clone()))
        }
        (_, Some(secret)) if accepts(AuthMethod::ClientSecretBasic) => {
            Ok(ClientAuthentication::SecretBasic(secret.clone()))
        }
        (None, None) => Ok(ClientAuthentication::None),
        (_, _) if accepts(AuthMethod::None) => Ok(ClientAuthentication::None),
        (_, _) => {
            let listed = metadata.token_endpoint_auth_methods_supported.as_ref();
            Err(ClientError::NoCommonMethod {
                accepted: listed.cloned().unwrap_or_default(),
            })
        }
    }
}

fn with_key(
    key: &Arc<SigningKey>,
    metadata: &AuthorizationServerMetadata,
) -> Result<ClientAuthentication, ClientError> {
    let accepted = metadata
        .token_endpoint_auth_signing_alg_values_supported
        .as_deref();
    Ok(ClientAuthentication::PrivateKeyJwt {
        key: Arc::clone(key),
        algorithm: key.choose_algorithm(accepted)?,
    })
}
