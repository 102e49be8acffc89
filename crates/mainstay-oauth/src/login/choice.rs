//! Which client a login uses: the configured one, a metadata document, a stored registration, or a new one.

use std::time::SystemTime;

use url::Url;

use super::error::LoginError;
use crate::client::{ClientAuthentication, OAuthClient, choose_authentication};
use crate::discovery::Discovered;
use crate::grant::LoginGrant;
use crate::registration::Registration;
use crate::settings::LoginOptions;

/// The client of a login.
#[derive(Clone, Debug)]
pub(super) enum ClientChoice {
    /// A client that any redirect URI suits.
    Ready(OAuthClient),
    /// A client that registered itself before, with one redirect URI.
    Stored(OAuthClient, Box<Registration>),
    /// The client registers itself at this endpoint.
    Register(Url),
}

/// Chooses in the order of the specification. Registrations of other issuers do not exist here.
pub(super) fn choose_client(
    options: &LoginOptions,
    found: &Discovered,
    now: SystemTime,
) -> Result<ClientChoice, LoginError> {
    let settings = &options.client;
    let key = settings.signing_key.as_ref();
    if let Some(client) = &settings.configured {
        if let Some(registered_at) = &client.issuer
            && *registered_at != found.issuer
        {
            return Err(LoginError::ClientOfOtherIssuer {
                client_id: client.id.clone(),
                registered_at: registered_at.clone(),
                issuer: found.issuer.clone(),
            });
        }
        let authentication = choose_authentication(client.secret.as_ref(), key, &found.metadata)?;
        return Ok(ClientChoice::Ready(OAuthClient::new(
            &found.issuer,
            &client.id,
            authentication,
        )));
    }
    if let Some(url) = &settings.metadata_url
        && found.metadata.client_id_metadata_document_supported
    {
        check_metadata_url(url)?;
        let authentication = match choose_authentication(None, key, &found.metadata) {
            Ok(authentication) => authentication,
            // The key is optional for such a client.
            Err(_no_common_method) => ClientAuthentication::None,
        };
        return Ok(ClientChoice::Ready(OAuthClient::new(
            &found.issuer,
            url,
            authentication,
        )));
    }
    let suits =
        |stored: &&Registration| is_for_grant(stored, &options.grant) && stored.is_usable(&found.issuer, now);
    let stored = options.registrations.iter().find(suits);
    if let Some(stored) = stored.filter(|_| !options.register_again) {
        return Ok(ClientChoice::Stored(stored.client()?, Box::new(stored.clone())));
    }
    match &found.metadata.registration_endpoint {
        Some(endpoint) => Ok(ClientChoice::Register(endpoint.clone())),
        None => Err(LoginError::NoClient {
            issuer: found.issuer.clone(),
        }),
    }
}

/// A client is registered for the code grant with a redirect URI, or for the device grant without one.
fn is_for_grant(stored: &Registration, grant: &LoginGrant) -> bool {
    match grant {
        LoginGrant::AuthorizationCode => stored.redirect_uri.is_some(),
        LoginGrant::Device => stored.redirect_uri.is_none(),
        LoginGrant::ClientCredentials
        | LoginGrant::Workload { .. }
        | LoginGrant::TokenExchange { .. }
        | LoginGrant::Enterprise(_) => true,
    }
}

fn check_metadata_url(text: &str) -> Result<(), LoginError> {
    let url = Url::parse(text).map_err(|_error| LoginError::MetadataUrl)?;
    let has_path = url.path().len() > 1;
    if url.scheme() == "https" && has_path && url.fragment().is_none() && url.username().is_empty() {
        return Ok(());
    }
    Err(LoginError::MetadataUrl)
}
