//! Authorization server metadata (RFC 8414 and OpenID discovery).

use serde::Deserialize;
use url::Url;

use crate::address::{AddressError, AddressRules};
use crate::client::AuthMethod;
use crate::document::{self, DocumentError, TEXT_LIMIT, bounded, bounded_list};
use crate::http::HttpResponse;
use crate::well_known;

const DOCUMENT: &str = "authorization server metadata";

/// What an authorization server says of itself. Every address in it has passed the [`AddressRules`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthorizationServerMetadata {
    /// The issuer as the document names it. Before 2026-07-28 it may differ from the issuer that was asked, and it is
    /// then a mere claim: nothing is addressed to it.
    pub issuer: String,
    /// Where the browser goes.
    pub authorization_endpoint: Option<Url>,
    /// Where tokens come from.
    pub token_endpoint: Url,
    /// Where clients register themselves (RFC 7591).
    pub registration_endpoint: Option<Url>,
    /// Where the device grant begins (RFC 8628).
    pub device_authorization_endpoint: Option<Url>,
    /// Where tokens are revoked (RFC 7009).
    pub revocation_endpoint: Option<Url>,
    /// The scopes the server lists.
    pub scopes_supported: Option<Vec<String>>,
    /// How clients authenticate at the token endpoint.
    pub token_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// Which algorithms client assertions are signed with.
    pub token_endpoint_auth_signing_alg_values_supported: Option<Vec<String>>,
    /// The PKCE methods.
    pub code_challenge_methods_supported: Option<Vec<String>>,
    /// The grant profiles, such as `urn:ietf:params:oauth:grant-profile:id-jag`.
    pub authorization_grant_profiles_supported: Vec<String>,
    /// Whether a client ID may be the address of a metadata document.
    pub client_id_metadata_document_supported: bool,
    /// Whether authorization responses carry `iss` (RFC 9207).
    pub authorization_response_iss_parameter_supported: bool,
}

/// Metadata that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// The document has not the specified form.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// An address in the document is refused.
    #[error(transparent)]
    Address(#[from] AddressError),
}

#[derive(Deserialize)]
struct Members {
    issuer: Option<String>,
    authorization_endpoint: Option<String>,
    token_endpoint: Option<String>,
    registration_endpoint: Option<String>,
    device_authorization_endpoint: Option<String>,
    revocation_endpoint: Option<String>,
    scopes_supported: Option<Vec<String>>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    token_endpoint_auth_signing_alg_values_supported: Option<Vec<String>>,
    code_challenge_methods_supported: Option<Vec<String>>,
    authorization_grant_profiles_supported: Option<Vec<String>>,
    client_id_metadata_document_supported: Option<bool>,
    authorization_response_iss_parameter_supported: Option<bool>,
}

impl AuthorizationServerMetadata {
    /// Parses the body of a response and checks every address in it.
    pub fn parse(response: &HttpResponse, rules: &AddressRules) -> Result<Self, MetadataError> {
        let members: Members = document::parse(DOCUMENT, response)?;
        let missing = |member| DocumentError::Missing {
            document: DOCUMENT,
            member,
        };
        let list = |member, list| bounded_list(DOCUMENT, member, list);
        let address = |role, text: Option<String>| text.map(|text| rules.check(role, &text)).transpose();
        let issuer = bounded(DOCUMENT, "issuer", members.issuer, TEXT_LIMIT)?;
        let token_endpoint = address("token endpoint", members.token_endpoint)?;
        Ok(Self {
            issuer: issuer.ok_or_else(|| missing("issuer"))?,
            authorization_endpoint: address("authorization endpoint", members.authorization_endpoint)?,
            token_endpoint: token_endpoint.ok_or_else(|| missing("token_endpoint"))?,
            registration_endpoint: address("registration endpoint", members.registration_endpoint)?,
            device_authorization_endpoint: address(
                "device authorization endpoint",
                members.device_authorization_endpoint,
            )?,
            revocation_endpoint: address("revocation endpoint", members.revocation_endpoint)?,
            scopes_supported: list("scopes_supported", members.scopes_supported)?,
            token_endpoint_auth_methods_supported: list(
                "token_endpoint_auth_methods_supported",
                members.token_endpoint_auth_methods_supported,
            )?,
            token_endpoint_auth_signing_alg_values_supported: list(
                "token_endpoint_auth_signing_alg_values_supported",
                members.token_endpoint_auth_signing_alg_values_supported,
            )?,
            code_challenge_methods_supported: list(
                "code_challenge_methods_supported",
                members.code_challenge_methods_supported,
            )?,
            authorization_grant_profiles_supported: list(
                "authorization_grant_profiles_supported",
                members.authorization_grant_profiles_supported,
            )?
            .unwrap_or_default(),
            client_id_metadata_document_supported: members.client_id_metadata_document_supported
                == Some(true),
            authorization_response_iss_parameter_supported: members
                .authorization_response_iss_parameter_supported
                == Some(true),
        })
    }

    /// The endpoints of revision 2025-03-26 for a server that publishes no metadata at all.
    pub(crate) fn defaults(server: &Url) -> Self {
        Self {
            issuer: server.origin().ascii_serialization(),
            authorization_endpoint: Some(well_known::at(server, "/authorize")),
            token_endpoint: well_known::at(server, "/token"),
            registration_endpoint: Some(well_known::at(server, "/register")),
            device_authorization_endpoint: None,
            revocation_endpoint: None,
            scopes_supported: None,
            token_endpoint_auth_methods_supported: None,
            token_endpoint_auth_signing_alg_values_supported: None,
            code_challenge_methods_supported: None,
            authorization_grant_profiles_supported: Vec::new(),
            client_id_metadata_document_supported: false,
            authorization_response_iss_parameter_supported: false,
        }
    }

    /// Whether the token endpoint accepts a method; `None` if the server lists none, which means `client_secret_basic` (RFC 8414
    /// section 2), and which many servers leave out although they accept others.
    pub(crate) fn accepts(&self, method: AuthMethod) -> Option<bool> {
        let listed = self.token_endpoint_auth_methods_supported.as_ref()?;
        Some(listed.iter().any(|name| name == method.as_str()))
    }

    /// Whether the server accepts ID-JAGs, the assertions of enterprise-managed authorization.
    pub fn supports_id_jag(&self) -> bool {
        let profiles = &self.authorization_grant_profiles_supported;
        profiles
            .iter()
            .any(|profile| profile == "urn:ietf:params:oauth:grant-profile:id-jag")
    }
}
