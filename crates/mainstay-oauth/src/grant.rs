//! The grants: how the client gets its first access token.

use url::Url;

use crate::client::OAuthClient;
use crate::form::Form;
use crate::secret::SecretText;

pub(crate) const DEVICE_CODE: &str = "urn:ietf:params:oauth:grant-type:device_code";
pub(crate) const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";

/// How a login gets its token.
#[derive(Clone, Debug, Default)]
pub enum LoginGrant {
    /// A person agrees in a browser.
    #[default]
    AuthorizationCode,
    /// A person agrees in a browser on another device (RFC 8628).
    Device,
    /// The client acts for itself.
    ClientCredentials,
    /// A workload presents the JWT of its platform (RFC 7523). It is sent once and never again.
    Workload {
        /// The workload's JWT.
        assertion: SecretText,
    },
    /// The client exchanges a token it has (RFC 8693).
    TokenExchange {
        /// The token.
        subject: SubjectToken,
    },
    /// The identity provider of an enterprise decides (ID-JAG).
    Enterprise(Box<IdentityProvider>),
}

impl LoginGrant {
    /// Whether a person takes part, so that the server may issue a refresh token.
    pub(crate) fn has_person(&self) -> bool {
        match self {
            Self::AuthorizationCode | Self::Device => true,
            Self::ClientCredentials
            | Self::Workload { .. }
            | Self::TokenExchange { .. }
            | Self::Enterprise(_) => false,
        }
    }
}

/// A token that stands for a person or a workload in a token exchange.
#[derive(Clone, Debug)]
pub struct SubjectToken {
    /// The token.
    pub token: SecretText,
    /// What it is.
    pub kind: SubjectKind,
}

/// The kind of a [`SubjectToken`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectKind {
    /// An access token.
    AccessToken,
    /// An OpenID Connect ID token.
    IdToken,
    /// A refresh token.
    RefreshToken,
    /// Any other JWT.
    Jwt,
}

impl SubjectKind {
    /// The registered name of the kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AccessToken => "urn:ietf:params:oauth:token-type:access_token",
            Self::IdToken => "urn:ietf:params:oauth:token-type:id_token",
            Self::RefreshToken => "urn:ietf:params:oauth:token-type:refresh_token",
            Self::Jwt => "urn:ietf:params:oauth:token-type:jwt",
        }
    }
}

/// The identity provider of an enterprise.
#[derive(Clone, Debug)]
pub struct IdentityProvider {
    /// Its token endpoint.
    pub token_endpoint: Url,
    /// The client as the identity provider knows it.
    pub client: OAuthClient,
    /// What proves that the person signed in.
    pub subject: SubjectToken,
}

/// The access that a login asks for.
#[derive(Clone, Debug)]
pub(crate) struct RequestedAccess {
    pub(crate) resource: Option<String>,
    pub(crate) scopes: Vec<String>,
}

impl RequestedAccess {
    fn added_to(&self, form: Form) -> Form {
        form.with_some("resource", self.resource.as_deref())
            .with_scopes(&self.scopes)
    }

    pub(crate) fn client_credentials(&self) -> Form {
        self.added_to(Form::grant("client_credentials"))
    }

    pub(crate) fn jwt_bearer(&self, assertion: &SecretText) -> Form {
        self.added_to(Form::grant(JWT_BEARER).with("assertion", assertion.expose()))
    }

    pub(crate) fn token_exchange(&self, subject: &SubjectToken) -> Form {
        let form = Form::grant(TOKEN_EXCHANGE)
            .with("subject_token", subject.token.expose())
            .with("subject_token_type", subject.kind.as_str());
        self.added_to(form)
    }

    /// The request to an identity provider. The audience is the issuer of the authorization server.
    pub(crate) fn id_jag(&self, subject: &SubjectToken, audience: &str) -> Form {
        let form = self.token_exchange(subject);
        form.with("requested_token_type", ID_JAG)
            .with("audience", audience)
    }

    /// The exchange of a code. The scopes belong to the code.
    pub(crate) fn code(&self, code: &SecretText, verifier: &str, redirect_uri: &Url) -> Form {
        Form::grant("authorization_code")
            .with("code", code.expose())
            .with("redirect_uri", redirect_uri.as_str())
            .with("code_verifier", verifier)
            .with_some("resource", self.resource.as_deref())
    }

    /// The poll of a device code.
    pub(crate) fn device_code(&self, code: &SecretText) -> Form {
        Form::grant(DEVICE_CODE)
            .with("device_code", code.expose())
            .with_some("resource", self.resource.as_deref())
    }

    /// The start of the device grant.
    pub(crate) fn device_start(&self) -> Form {
        self.added_to(Form::default())
    }
}
