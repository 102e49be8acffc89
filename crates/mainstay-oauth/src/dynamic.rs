//! Dynamic client registration (RFC 7591).

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

use crate::address::is_loopback;
use crate::client::AuthMethod;
use crate::document::{self, DocumentError, ErrorMembers, TEXT_LIMIT, bounded, explanation};
use crate::http::{HttpRequest, HttpResponse};
use crate::metadata::AuthorizationServerMetadata;
use crate::registration::{Registration, STORED_VERSION};
use crate::secret::SecretText;

const DOCUMENT: &str = "registration response";

/// A registration that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistrationError {
    /// The server refused the client.
    #[error("the authorization server refused to register a client (status {status}{}); register one by hand and set `client_id`", code.as_ref().map(|c| format!(": {c}")).unwrap_or_default())]
    Refused {
        /// The status.
        status: u16,
        /// The error code and its description, if the server sent any.
        code: Option<String>,
    },
    /// The server could not answer.
    #[error("the registration endpoint answered with status {status}; try again later")]
    Unavailable {
        /// The status.
        status: u16,
        /// The pause the server asks for.
        retry_after: Option<Duration>,
    },
    /// The response cannot be used.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// The server registered something else than it was asked for.
    #[error(
        "the authorization server registered an unusable client: {problem}; register one by hand and set `client_id`"
    )]
    Unusable {
        /// What cannot be used.
        problem: &'static str,
    },
    /// The server accepts no authentication method that a registered client could use.
    #[error(
        "the authorization server accepts only the client authentication methods {accepted:?}; register a client by hand and set `client_id`"
    )]
    NoCommonMethod {
        /// What the server accepts.
        accepted: Vec<String>,
    },
}

/// A registration that is being asked for.
#[derive(Clone, Debug)]
pub(crate) struct DynamicRegistration {
    issuer: String,
    redirect_uri: Option<Url>,
    method: AuthMethod,
}

#[derive(Serialize)]
struct Wanted<'a> {
    client_name: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    redirect_uris: &'a [&'a str],
    grant_types: &'a [&'a str],
    response_types: &'a [&'a str],
    token_endpoint_auth_method: &'a str,
    application_type: &'a str,
}

#[derive(Deserialize)]
struct Members {
    client_id: Option<String>,
    client_secret: Option<String>,
    client_secret_expires_at: Option<Value>,
    token_endpoint_auth_method: Option<String>,
    redirect_uris: Option<Vec<String>>,
}

impl DynamicRegistration {
    /// Asks for a client. Without a redirect URI it is a client for the device grant.
    pub(crate) fn start(
        endpoint: &Url,
        issuer: &str,
        metadata: &AuthorizationServerMetadata,
        client_name: &str,
        redirect_uri: Option<Url>,
    ) -> Result<(Self, HttpRequest), RegistrationError> {
        let method = choose_method(metadata)?;
        let native = redirect_uri.as_ref().is_none_or(is_loopback);
        let uris: Vec<&str> = redirect_uri.iter().map(Url::as_str).collect();
        let (grants, responses): (&[_], &[_]) = match redirect_uri {
            Some(_) => (&["authorization_code", "refresh_token"], &["code"]),
            None => (
                &["urn:ietf:params:oauth:grant-type:device_code", "refresh_token"],
                &[],
            ),
        };
        let wanted = Wanted {
            client_name,
            redirect_uris: &uris,
            grant_types: grants,
            response_types: responses,
            token_endpoint_auth_method: method.as_str(),
            // Without it OpenID providers assume `web` and refuse loopback redirects.
            application_type: if native { "native" } else { "web" },
        };
        let problem = "its name cannot be written as JSON";
        let body =
            serde_json::to_string(&wanted).map_err(|_error| RegistrationError::Unusable { problem })?;
        let request = HttpRequest::post(endpoint.clone(), "application/json", body);
        let registration = Self {
            issuer: issuer.to_owned(),
            redirect_uri,
            method,
        };
        Ok((registration, request))
    }

    /// Checks what the server registered.
    pub(crate) fn handle_response(self, response: &HttpResponse) -> Result<Registration, RegistrationError> {
        let status = response.status;
        if response.is_temporary() {
            let retry_after = response.retry_after;
            return Err(RegistrationError::Unavailable { status, retry_after });
        }
        if !response.is_success() {
            let code = document::parse(DOCUMENT, response).ok().and_then(shown);
            return Err(RegistrationError::Refused { status, code });
        }
        let members: Members = document::parse(DOCUMENT, response)?;
        let unusable = |problem| Err(RegistrationError::Unusable { problem });
        let Some(client_id) = bounded(DOCUMENT, "client_id", members.client_id, TEXT_LIMIT)? else {
            let (document, member) = (DOCUMENT, "client_id");
            return Err(DocumentError::Missing { document, member }.into());
        };
        let secret = bounded(DOCUMENT, "client_secret", members.client_secret, TEXT_LIMIT)?;
        let has_control = |text: &str| text.chars().any(char::is_control);
        if has_control(&client_id) || secret.as_deref().is_some_and(has_control) {
            return unusable("its ID or secret holds control characters");
        }
        let method = match members.token_endpoint_auth_method.as_deref() {
            // A server that names none registered what it was asked for.
            None => self.method,
            Some(name) => match AuthMethod::of_name(name) {
                Some(AuthMethod::PrivateKeyJwt) | None => {
                    return unusable("it has another authentication method than was asked for");
                }
                Some(method) => method,
            },
        };
        let needs_secret = method != AuthMethod::None;
        if needs_secret && secret.is_none() {
            return unusable("its authentication method needs a secret, and there is none");
        }
        let registered = members.redirect_uris.unwrap_or_default();
        if let Some(uri) = &self.redirect_uri
            && !registered.is_empty()
            && !registered.iter().any(|text| text == uri.as_str())
        {
            return unusable("its redirect URIs are not the ones that were asked for");
        }
        let redirect_port = self.redirect_uri.as_ref().and_then(Url::port);
        Ok(Registration {
            version: STORED_VERSION,
            issuer: self.issuer,
            client_id,
            client_secret: secret.filter(|_| needs_secret).map(SecretText::new),
            // 0 means never; anything that is no number means nothing.
            secret_expires_at: members
                .client_secret_expires_at
                .and_then(|at| at.as_u64())
                .filter(|at| *at > 0 && needs_secret),
            method,
            redirect_port,
            redirect_uri: self.redirect_uri.map(String::from),
        })
    }
}

/// A public client needs no secret to keep, so it comes first. `client_secret_post` comes before `client_secret_basic`, which servers
/// on the Python SDK list and take only with `client_id` in the body too. A server without a list accepts `client_secret_basic`.
fn choose_method(metadata: &AuthorizationServerMetadata) -> Result<AuthMethod, RegistrationError> {
    let Some(accepted) = &metadata.token_endpoint_auth_methods_supported else {
        return Ok(AuthMethod::ClientSecretBasic);
    };
    let own = [
        AuthMethod::None,
        AuthMethod::ClientSecretPost,
        AuthMethod::ClientSecretBasic,
    ];
    let found = own.into_iter().find(|own| metadata.accepts(*own) == Some(true));
    found.ok_or_else(|| RegistrationError::NoCommonMethod {
        accepted: accepted.clone(),
    })
}

fn shown(members: ErrorMembers) -> Option<String> {
    let code = explanation(&members.error?);
    match members.error_description {
        Some(description) => Some(format!("{code}, {}", explanation(&description))),
        None => Some(code),
    }
}
