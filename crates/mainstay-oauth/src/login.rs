//! A whole login, as a machine that a driver runs in a loop.
//!
//! Each method takes the result of the last [`LoginStep`] and returns the next one. An error ends the login, except for
//! a refused callback that leaves it waiting and for input out of turn, which changes nothing.

mod authenticating;
mod begin;
mod choice;
mod error;
mod requests;
mod step;

use std::time::SystemTime;

use url::Url;

use self::authenticating::AuthenticatingClient;
use self::choice::ClientChoice;
pub use self::error::LoginError;
pub use self::step::{AuthorizationAddress, CompletedLogin, LoginStep};
use crate::address::{AddressRules, check_redirect};
use crate::callback::{CallbackError, Expected};
use crate::client::OAuthClient;
use crate::context::Context;
use crate::device::{DeviceCode, DeviceError};
use crate::discovery::{Discovered, Discovery, DiscoveryOptions, DiscoveryStep};
use crate::dynamic::DynamicRegistration;
use crate::form::Form;
use crate::grant::{LoginGrant, RequestedAccess};
use crate::http::HttpResponse;
use crate::pkce::Verifier;
use crate::registration::Registration;
use crate::settings::{LoginOptions, ResourceSetting};
use crate::token::{self, Expect};

type Next = Result<LoginStep, LoginError>;

/// A login that is under way.
#[derive(Debug)]
pub struct Login {
    options: LoginOptions,
    rules: AddressRules,
    /// The registration that this login made. It is worth keeping even if the person never agrees.
    registration: Option<Registration>,
    /// Whether the client is one that registered itself before this login.
    reuses_registration: bool,
    /// When the last request to the token endpoint was made.
    requested_at: Option<SystemTime>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Discovering(Discovery),
    Listening(LoginTarget, ClientChoice),
    Registering {
        target: LoginTarget,
        pending: DynamicRegistration,
        redirect_uri: Option<Url>,
    },
    Browsing {
        target: LoginTarget,
        client: OAuthClient,
        expected: Expected,
        verifier: Verifier,
        redirect_uri: Url,
    },
    StartingDevice(LoginTarget, AuthenticatingClient),
    Polling(LoginTarget, AuthenticatingClient, DeviceCode),
    /// Requests an ID-JAG from the identity provider.
    AskingIdentityProvider(LoginTarget, OAuthClient),
    /// The last request; its response holds the tokens.
    Requesting(LoginTarget, Option<AuthenticatingClient>, Form),
    Ended,
}

/// The authorization server, and what to ask it for.
#[derive(Debug)]
struct LoginTarget {
    found: Discovered,
    access: RequestedAccess,
}

impl Login {
    /// Begins a login with the search for its authorization server.
    pub fn start(options: LoginOptions) -> Result<(Self, LoginStep), LoginError> {
        let rules = AddressRules::for_server(&options.server, options.allow_private);
        let (discovery, request) = Discovery::start(DiscoveryOptions {
            server: options.server.clone(),
            revision: options.revision,
            challenge: options.challenge.clone(),
            pinned_issuer: options.issuer.clone(),
            known_issuers: options
                .registrations
                .iter()
                .map(|stored| stored.issuer.clone())
                .collect(),
            resource_is_configured: matches!(options.resource, ResourceSetting::Text(_)),
            rules,
        })?;
        let login = Self {
            options,
            rules,
            registration: None,
            reuses_registration: false,
            requested_at: None,
            stage: Stage::Discovering(discovery),
        };
        Ok((login, LoginStep::Send(request)))
    }

    /// The rules for the addresses this login connects to.
    pub fn rules(&self) -> &AddressRules {
        &self.rules
    }

    /// The registration that this login made so far.
    pub fn registration(&self) -> Option<&Registration> {
        self.registration.as_ref()
    }

    /// Whether the client registered itself before this login. An authorization server that has forgotten it says so in the browser
    /// and redirects nowhere, so that the login waits in vain.
    pub fn reuses_registration(&self) -> bool {
        self.reuses_registration
    }

    /// Takes the response to the last request.
    pub fn handle_response(&mut self, response: &HttpResponse, context: &Context<'_>) -> Next {
        match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Discovering(mut discovery) => match discovery.handle_response(response)? {
                DiscoveryStep::Send(request) => {
                    self.stage = Stage::Discovering(discovery);
                    Ok(LoginStep::Send(request))
                }
                DiscoveryStep::Found(found) => self.begin_grant(*found, context),
            },
            Stage::Registering {
                target,
                pending,
                redirect_uri,
            } => {
                let registration = pending.handle_response(response)?;
                let client = registration.client()?;
                self.registration = Some(registration);
                match redirect_uri {
                    Some(uri) => self.browse(target, client, uri, context),
                    None => self.start_device(target, client, context),
                }
            }
            Stage::StartingDevice(target, mut client) => {
                match DeviceCode::read(response, &self.rules, context.now) {
                    Ok((device, prompt)) => {
                        let until = device.next_poll(context.now);
                        self.stage = Stage::Polling(target, client, device);
                        Ok(LoginStep::ShowCode { prompt, until })
                    }
                    Err(DeviceError::Token(error)) => {
                        client.fall_back(error).map_err(DeviceError::Token)?;
                        self.ask_for_device_code(target, client, context)
                    }
                    Err(error) => Err(error.into()),
                }
            }
            Stage::Polling(target, mut client, mut device) => {
                match device.handle_poll(response, self.token_times(context)) {
                    Ok(Some(tokens)) => Ok(self.finish(&target, Some(client.client()), tokens)),
                    Ok(None) => {
                        let until = device.next_poll(context.now);
                        self.stage = Stage::Polling(target, client, device);
                        Ok(LoginStep::Wait { until })
                    }
                    Err(DeviceError::Token(error)) => {
                        client.fall_back(error).map_err(DeviceError::Token)?;
                        self.stage = Stage::Polling(target, client, device);
                        self.resume(context)
                    }
                    Err(error) => Err(error.into()),
                }
            }
            Stage::AskingIdentityProvider(target, client) => {
                let id_jag = token::read(response, Expect::IdJag, context.now);
                let id_jag = id_jag.map_err(LoginError::IdentityProvider)?.access_token;
                let form = target.access.jwt_bearer(&id_jag);
                self.request(target, Some(client), form, context)
            }
            Stage::Requesting(target, mut client, form) => {
                let tokens = token::read(response, Expect::Bearer, self.token_times(context));
                let error = match tokens {
                    Ok(tokens) => {
                        let client = client.as_ref().map(AuthenticatingClient::client);
                        return Ok(self.finish(&target, client, tokens));
                    }
                    Err(error) => error,
                };
                let again = match &mut client {
                    Some(client) => client.fall_back(error),
                    None => Err(error),
                };
                again.map_err(|error| match self.options.grant {
                    LoginGrant::Workload { .. } => LoginError::Workload(error),
                    LoginGrant::AuthorizationCode
                    | LoginGrant::Device
                    | LoginGrant::ClientCredentials
                    | LoginGrant::TokenExchange { .. }
                    | LoginGrant::Enterprise(_) => LoginError::Token(error),
                })?;
                self.send_token_request(target, client, form, context)
            }
            stage @ (Stage::Listening(..) | Stage::Browsing { .. } | Stage::Ended) => {
                self.stage = stage;
                Err(LoginError::OutOfTurn)
            }
        }
    }

    /// Takes the redirect URI of the listener: on 127.0.0.1, or an `https` address that leads to the caller.
    pub fn handle_listening(&mut self, redirect_uri: Url, context: &Context<'_>) -> Next {
        check_redirect(&redirect_uri)?;
        let (target, choice) = match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Listening(target, choice) => (target, choice),
            stage => {
                self.stage = stage;
                return Err(LoginError::OutOfTurn);
            }
        };
        let endpoint = match choice {
            ClientChoice::Ready(client) => return self.browse(target, client, redirect_uri, context),
            ClientChoice::Stored(client, stored) => {
                if stored.redirect_uri.as_deref() == Some(redirect_uri.as_str()) {
                    self.reuses_registration = true;
                    return self.browse(target, client, redirect_uri, context);
                }
                let endpoint = target.found.metadata.registration_endpoint.clone();
                let port = stored.redirect_port;
                endpoint.ok_or(LoginError::RedirectTaken { port })?
            }
            ClientChoice::Register(endpoint) => endpoint,
        };
        self.register(target, &endpoint, Some(redirect_uri))
    }

    /// Takes the query of a request to the path of the redirect URI. A refused callback leaves the login waiting, unless
    /// [`CallbackError::ends_login`]: the listener answers it with 400 and goes on.
    pub fn handle_callback(&mut self, query: &str, context: &Context<'_>) -> Next {
        let code = match &self.stage {
            Stage::Browsing { expected, .. } => expected.code_of(query),
            _other => Err(CallbackError::NotExpected),
        };
        let code = match code {
            Ok(code) => code,
            Err(error) => {
                if error.ends_login() {
                    self.stage = Stage::Ended;
                }
                return Err(error.into());
            }
        };
        let Stage::Browsing {
            target,
            client,
            verifier,
            redirect_uri,
            ..
        } = std::mem::replace(&mut self.stage, Stage::Ended)
        else {
            return Err(LoginError::OutOfTurn);
        };
        let form = target.access.code(&code, verifier.expose(), &redirect_uri);
        self.request(target, Some(client), form, context)
    }

    /// Goes on after a wait of the device grant.
    pub fn resume(&mut self, context: &Context<'_>) -> Next {
        let Stage::Polling(target, client, device) = &self.stage else {
            return Err(LoginError::OutOfTurn);
        };
        if let Err(expired) = device.check_expiry(context.now) {
            self.stage = Stage::Ended;
            return Err(expired.into());
        }
        let form = target.access.device_code(&device.code);
        let endpoint = target.found.metadata.token_endpoint.clone();
        let request = form.into_request(endpoint, Some(client.client()), context)?;
        self.requested_at = Some(context.now);
        Ok(LoginStep::Send(request))
    }
}
