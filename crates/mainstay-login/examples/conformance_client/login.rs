//! Logs in where a scenario asks for it. The person is a request that follows the redirect.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::header::LOCATION;
use mainstay::Server;
use mainstay::server::Reason;
use mainstay::transport::HttpOptions;
use mainstay::transport::http::{Challenge, FetchRequest, Fetched, fetch};
use mainstay_login::{
    FileStore, GrantSetting, LoginPrompt, LoginProvider, LoginRequest, LoginSettings, LoginStore,
    StoreProtection,
};
use mainstay_oauth::{
    ClientAuthentication, ConfiguredClient, IdentityProvider, OAuthClient, SecretText, SigningKey,
    SubjectKind, SubjectToken,
};
use serde::Deserialize;

type Failed = Box<dyn Error + Send + Sync>;

/// A server that waits for a login is tried again within this time.
const BACK_WITHIN: Duration = Duration::from_secs(1);

/// What the suite tells of a scenario's client.
#[derive(Default, Deserialize)]
#[serde(default)]
struct SuiteContext {
    client_id: Option<String>,
    client_secret: Option<String>,
    private_key_pem: Option<String>,
    valid_jwt: Option<String>,
    idp_client_id: Option<String>,
    idp_id_token: Option<String>,
    idp_issuer: Option<String>,
    idp_token_endpoint: Option<String>,
}

/// The logins of a scenario.
pub(crate) struct ScenarioLogins {
    pub(crate) provider: LoginProvider,
    directory: PathBuf,
}

impl ScenarioLogins {
    pub(crate) fn of_scenario(scenario: &str, url: &str) -> Result<Self, Failed> {
        let directory = std::env::temp_dir().join(format!("mainstay-conformance-{}", std::process::id()));
        let store: Arc<dyn LoginStore> = Arc::new(FileStore::open(&directory, StoreProtection::Plain)?);
        let mut settings = LoginSettings::new(url.parse()?);
        let context = std::env::var("MCP_CONFORMANCE_CONTEXT").ok();
        let context: SuiteContext = context.map_or(Ok(SuiteContext::default()), |context| {
            serde_json::from_str(&context)
        })?;
        if scenario == "auth/basic-cimd" {
            let document = "https://conformance-test.local/client-metadata.json";
            settings.client.metadata_url = Some(document.to_owned());
        }
        if let Some(id) = &context.client_id {
            settings.client.configured = Some(ConfiguredClient {
                id: id.clone(),
                secret: context.client_secret.clone().map(SecretText::from),
                issuer: None,
            });
        }
        if let Some(pem) = &context.private_key_pem {
            let random = ring::rand::SystemRandom::new();
            settings.client.signing_key = Some(Arc::new(SigningKey::from_pem(pem, None, &random)?));
        }
        if scenario.starts_with("auth/client-credentials") {
            settings.grant = GrantSetting::ClientCredentials;
        }
        if let Some(jwt) = &context.valid_jwt {
            let assertion_file = directory.join("assertion");
            std::fs::write(&assertion_file, jwt)?;
            settings.grant = GrantSetting::Workload { assertion_file };
            settings.client.configured = None;
        }
        if let (Some(id), Some(token), Some(issuer), Some(endpoint)) = (
            context.idp_client_id,
            context.idp_id_token,
            context.idp_issuer,
            context.idp_token_endpoint,
        ) {
            settings.grant = GrantSetting::Enterprise(Box::new(IdentityProvider {
                token_endpoint: endpoint.parse()?,
                client: OAuthClient::new(&issuer, &id, ClientAuthentication::None),
                subject: SubjectToken {
                    token: SecretText::from(token),
                    kind: SubjectKind::IdToken,
                },
            }));
        }
        let provider = LoginProvider::new(settings, store);
        Ok(Self { provider, directory })
    }

    /// Logs in for a server that asks for it, and waits until the server is tried again.
    pub(crate) async fn log_in_for(&self, server: &Server) -> Result<(), Failed> {
        let status = server.status();
        let asked = status
            .last_error
            .as_ref()
            .and_then(|failure| failure.challenge.clone());
        self.log_in(asked).await?;
        let back = server.wait_until(BACK_WITHIN, |status| status.reason != Some(Reason::AuthRequired));
        back.await
            .ok_or("the login did not bring the server back within a second")?;
        Ok(())
    }

    pub(crate) async fn log_in(&self, challenge: Option<Challenge>) -> Result<(), Failed> {
        let mut request = LoginRequest::default();
        request.challenge = challenge;
        let mut login = self.provider.login(request).await?;
        if let LoginPrompt::Browse(address) = login.prompt() {
            let answer = browse(address.url().as_str()).await?;
            if answer.status != 200 {
                return Err(format!("the callback was answered with {}", answer.status).into());
            }
        }
        login.finished().await?;
        Ok(())
    }
}

impl Drop for ScenarioLogins {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Opens an address as a browser would, and follows its redirect to the client.
async fn browse(address: &str) -> Result<Fetched, Failed> {
    let get = |url: &str| FetchRequest {
        url: url.to_owned(),
        headers: Vec::new(),
        body: None,
    };
    let page = fetch(get(address), HttpOptions::new()).await?;
    let location = page
        .headers
        .get(LOCATION)
        .ok_or("the address does not redirect")?;
    Ok(fetch(get(location.to_str()?), HttpOptions::new()).await?)
}
