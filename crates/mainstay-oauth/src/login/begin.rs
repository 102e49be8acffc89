//! What follows the discovery: the grant, its client, and what to ask for.

use super::choice::{ClientChoice, choose_client};
use super::{Login, LoginError, LoginStep, LoginTarget, Next, Stage};
use crate::client::OAuthClient;
use crate::context::Context;
use crate::device::DeviceError;
use crate::discovery::Discovered;
use crate::grant::{LoginGrant, RequestedAccess};
use crate::scope::{ScopeSources, choose_scopes};
use crate::settings::ResourceSetting;

impl Login {
    pub(super) fn begin_grant(&mut self, found: Discovered, context: &Context<'_>) -> Next {
        let choice = choose_client(&self.options, &found, context.now);
        let access = self.requested_access(&found);
        let target = LoginTarget { found, access };
        match &self.options.grant {
            LoginGrant::AuthorizationCode => {
                check_code_grant(&target.found)?;
                let choice = choice?;
                let port = match &choice {
                    ClientChoice::Stored(_, stored) => stored.redirect_port.or(self.options.redirect_port),
                    ClientChoice::Ready(_) | ClientChoice::Register(_) => self.options.redirect_port,
                };
                self.stage = Stage::Listening(target, choice);
                Ok(LoginStep::Listen { port })
            }
            LoginGrant::Device => {
                if target.found.metadata.device_authorization_endpoint.is_none() {
                    let issuer = target.found.issuer;
                    return Err(DeviceError::NotOffered { issuer }.into());
                }
                match choice? {
                    ClientChoice::Ready(client) => self.start_device(target, client, context),
                    ClientChoice::Stored(client, _) => {
                        self.reuses_registration = true;
                        self.start_device(target, client, context)
                    }
                    ClientChoice::Register(endpoint) => self.register(target, &endpoint, None),
                }
            }
            LoginGrant::ClientCredentials => {
                let client = known(choice?, &target)?;
                let form = target.access.client_credentials();
                self.request(target, Some(client), form, context)
            }
            LoginGrant::TokenExchange { subject } => {
                let form = target.access.token_exchange(subject);
                let client = known(choice?, &target)?;
                self.request(target, Some(client), form, context)
            }
            LoginGrant::Workload { assertion } => {
                let form = target.access.jwt_bearer(assertion);
                // The workload's token names it; a client is used only if one is configured.
                let client = match choice {
                    Ok(choice) if self.options.client.configured.is_some() => Some(known(choice, &target)?),
                    Err(error) if self.options.client.configured.is_some() => return Err(error),
                    Ok(_) | Err(_) => None,
                };
                self.request(target, client, form, context)
            }
            LoginGrant::Enterprise(provider) => {
                let endpoint = provider.token_endpoint.clone();
                self.rules
                    .check_url("token endpoint of the identity provider", &endpoint)?;
                let form = target.access.id_jag(&provider.subject, &target.found.issuer);
                let request = form.into_request(endpoint, Some(&provider.client), context)?;
                let client = known(choice?, &target)?;
                self.stage = Stage::AskingIdentityProvider(target, client);
                Ok(LoginStep::Send(request))
            }
        }
    }

    fn requested_access(&self, found: &Discovered) -> RequestedAccess {
        let options = &self.options;
        RequestedAccess {
            resource: match &options.resource {
                ResourceSetting::Published => found.resource.clone(),
                ResourceSetting::Text(text) => Some(text.clone()),
                ResourceSetting::Omitted => None,
            },
            scopes: choose_scopes(&ScopeSources {
                revision: found.revision,
                configured: options.scopes.as_deref(),
                challenge: &options.challenge,
                published: found.scopes.as_deref(),
                asked_before: &options.asked_before,
                listed: found.metadata.scopes_supported.as_deref(),
                wants_refresh: options.grant.has_person(),
            }),
        }
    }
}

/// The client of a grant without a person: it does not register itself.
fn known(choice: ClientChoice, target: &LoginTarget) -> Result<OAuthClient, LoginError> {
    match choice {
        ClientChoice::Ready(client) | ClientChoice::Stored(client, _) => Ok(client),
        ClientChoice::Register(_) => Err(LoginError::NoClient {
            issuer: target.found.issuer.clone(),
        }),
    }
}

/// S256 and an authorization endpoint. Without a list, revisions before 2025-11-25 send S256 all the same: a server that
/// does not know it ignores it.
fn check_code_grant(found: &Discovered) -> Result<(), LoginError> {
    let issuer = || found.issuer.clone();
    let has_s256 = match &found.metadata.code_challenge_methods_supported {
        Some(methods) => methods.iter().any(|method| method == "S256"),
        None => !found.revision.requires_advertised_pkce(),
    };
    if !has_s256 {
        return Err(LoginError::NoPkce { issuer: issuer() });
    }
    if found.metadata.authorization_endpoint.is_none() {
        return Err(LoginError::NoAuthorizationEndpoint { issuer: issuer() });
    }
    Ok(())
}
