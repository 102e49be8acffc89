//! The requests of a login, and the record at its end.

use url::Url;

use super::authenticating::AuthenticatingClient;
use super::{AuthorizationAddress, CompletedLogin, Login, LoginError, LoginStep, LoginTarget, Next, Stage};
use crate::callback::Expected;
use crate::client::{AuthMethod, ClientAuthentication, OAuthClient};
use crate::context::{Context, unix_seconds};
use crate::device::DeviceError;
use crate::discovery::Discovered;
use crate::dynamic::DynamicRegistration;
use crate::form::Form;
use crate::grant::LoginGrant;
use crate::pkce::Verifier;
use crate::record::LoginRecord;
use crate::registration::STORED_VERSION;
use crate::revision::Revision;
use crate::scope::OFFLINE_ACCESS;
use crate::secret::SecretText;
use crate::token::{IssuedTokens, TokenTimes};

impl Login {
    pub(super) fn register(
        &mut self,
        target: LoginTarget,
        endpoint: &Url,
        redirect_uri: Option<Url>,
    ) -> Next {
        let found = &target.found;
        let name = &self.options.client.name;
        let started = DynamicRegistration::start(
            endpoint,
            &found.issuer,
            &found.metadata,
            name,
            redirect_uri.clone(),
        );
        let (pending, request) = started?;
        self.stage = Stage::Registering {
            target,
            pending,
            redirect_uri,
        };
        Ok(LoginStep::Send(request))
    }

    /// Builds the authorization request, and records what its callback is checked against.
    pub(super) fn browse(
        &mut self,
        target: LoginTarget,
        client: OAuthClient,
        redirect_uri: Url,
        context: &Context<'_>,
    ) -> Next {
        let Some(endpoint) = target.found.metadata.authorization_endpoint.clone() else {
            let issuer = target.found.issuer;
            return Err(LoginError::NoAuthorizationEndpoint { issuer });
        };
        let verifier = Verifier::draw(context)?;
        let state = context.random_text::<32>()?;
        let wants_refresh = target.access.scopes.iter().any(|scope| scope == OFFLINE_ACCESS);
        let address = Form::default()
            .with("response_type", "code")
            .with("client_id", &client.id)
            .with("redirect_uri", redirect_uri.as_str())
            .with("code_challenge", &verifier.challenge())
            .with("code_challenge_method", "S256")
            .with("state", &state)
            .with_some("resource", target.access.resource.as_deref())
            .with_scopes(&target.access.scopes)
            // OpenID providers ignore `offline_access` without it.
            .with_some("prompt", wants_refresh.then_some("consent"))
            .into_query(endpoint);
        let found = &target.found;
        let expected = Expected {
            state: SecretText::new(state),
            issuer: found.issuer.clone(),
            promises_iss: promises_iss(found),
            compares_iss: found.revision.checks_unadvertised_iss(),
        };
        self.stage = Stage::Browsing {
            target,
            client,
            expected,
            verifier,
            redirect_uri,
        };
        Ok(LoginStep::Browse(AuthorizationAddress(address)))
    }

    pub(super) fn start_device(
        &mut self,
        target: LoginTarget,
        client: OAuthClient,
        context: &Context<'_>,
    ) -> Next {
        let client = AuthenticatingClient::new(client, &target.found.metadata);
        self.ask_for_device_code(target, client, context)
    }

    pub(super) fn ask_for_device_code(
        &mut self,
        target: LoginTarget,
        client: AuthenticatingClient,
        context: &Context<'_>,
    ) -> Next {
        let Some(endpoint) = target.found.metadata.device_authorization_endpoint.clone() else {
            let issuer = target.found.issuer;
            return Err(DeviceError::NotOffered { issuer }.into());
        };
        let form = target.access.device_start();
        let request = form.into_request(endpoint, Some(client.client()), context)?;
        self.stage = Stage::StartingDevice(target, client);
        Ok(LoginStep::Send(request))
    }

    pub(super) fn request(
        &mut self,
        target: LoginTarget,
        client: Option<OAuthClient>,
        form: Form,
        context: &Context<'_>,
    ) -> Next {
        let with_others = |client| match self.options.grant {
            // A workload's token is sent once.
            LoginGrant::Workload { .. } => AuthenticatingClient::fixed(client),
            LoginGrant::AuthorizationCode
            | LoginGrant::Device
            | LoginGrant::ClientCredentials
            | LoginGrant::TokenExchange { .. }
            | LoginGrant::Enterprise(_) => AuthenticatingClient::new(client, &target.found.metadata),
        };
        let client = client.map(with_others);
        self.send_token_request(target, client, form, context)
    }

    pub(super) fn send_token_request(
        &mut self,
        target: LoginTarget,
        client: Option<AuthenticatingClient>,
        form: Form,
        context: &Context<'_>,
    ) -> Next {
        let endpoint = target.found.metadata.token_endpoint.clone();
        let authenticating = client.as_ref().map(AuthenticatingClient::client);
        let request = form.clone().into_request(endpoint, authenticating, context)?;
        self.stage = Stage::Requesting(target, client, form);
        self.requested_at = Some(context.now);
        Ok(LoginStep::Send(request))
    }

    pub(super) fn token_times(&self, context: &Context<'_>) -> TokenTimes {
        TokenTimes {
            requested_at: self.requested_at.unwrap_or(context.now),
            now: context.now,
        }
    }

    pub(super) fn finish(
        &self,
        target: &LoginTarget,
        client: Option<&OAuthClient>,
        tokens: IssuedTokens,
    ) -> LoginStep {
        let Discovered { issuer, metadata, .. } = &target.found;
        let requested_scopes = target.access.scopes.clone();
        let algorithm = match client.map(|client| &client.authentication) {
            Some(ClientAuthentication::PrivateKeyJwt { algorithm, .. }) => {
                Some(algorithm.as_str().to_owned())
            }
            Some(_) | None => None,
        };
        let record = LoginRecord {
            version: STORED_VERSION,
            server: self.options.server.clone(),
            issuer: issuer.clone(),
            user: self.options.user.clone(),
            client_id: client.map(|client| client.id.clone()),
            method: client.map_or(AuthMethod::None, |client| client.authentication.method()),
            id_in_body: client.is_some_and(|client| {
                matches!(client.authentication, ClientAuthentication::SecretBasicWithId(_))
            }),
            assertion_algorithm: algorithm,
            token_endpoint: metadata.token_endpoint.clone(),
            revocation_endpoint: metadata.revocation_endpoint.clone(),
            access_token: tokens.access_token,
            refresh_token: tokens.refresh_token,
            expires_at: tokens.expires_at.map(unix_seconds),
            granted_scopes: tokens.scopes.unwrap_or_else(|| requested_scopes.clone()),
            requested_scopes,
            resource: target.access.resource.clone(),
        };
        LoginStep::Done(Box::new(CompletedLogin {
            record,
            registration: self.registration.clone(),
        }))
    }
}

/// Whether the callback must carry the issuer that was asked. Servers of 2025-03-26 repeat the metadata of another
/// authorization server under their own origin, which would never match.
fn promises_iss(found: &Discovered) -> bool {
    let repeated = found.revision == Revision::V2025_03_26 && found.metadata.issuer != found.issuer;
    found.metadata.authorization_response_iss_parameter_supported && !repeated
}
