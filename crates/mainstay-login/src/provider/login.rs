//! Logs in: with a person, who opens an address or enters a code, or without one.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::HeaderValue;
use http::header::{ACCEPT, CONTENT_TYPE};
use mainstay::transport::HttpOptions;
use mainstay::transport::http::{
    Challenge, FetchRequest, FinishingLogin, LoginSummary, PastingAddress, PendingLogin, ServerLoginError,
    fetch,
};
use mainstay_oauth::{CompletedLogin, LoginOptions, LoginRecord, pasted_query};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::{LoginProvider, ProviderState, lock, protocol_challenge};
use crate::blocking::on_store;
use crate::error::{LoginFailure, RenewalFailure};
use crate::flow::{LoginPrompt, PERSON_TIMEOUT, PersonSide, run};
use crate::listener::{Callback, Verdict};
use crate::store::{LoginStore, StoredLogin};

/// How long a completed login waits for the lock of its server's logins.
const SAVE_LOCK_TIMEOUT: Duration = Duration::from_secs(20);

/// The request that shows what the server asks for. Servers answer it with 401 before they look at it.
const PROBE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"mainstay","version":"0"}}}"#;

/// What a login is asked to do beyond the settings of its server.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LoginRequest {
    /// The challenge of a refused request. Without one the login asks the server.
    pub challenge: Option<Challenge>,
    /// The scopes to ask for, in place of those that the server names.
    pub scopes: Option<Vec<String>>,
    /// Whether the person enters a code on another device.
    pub device: bool,
    /// Whether the client registers itself again: the authorization server has forgotten its registration.
    pub register_again: bool,
    /// How long the person may take, in place of [`PERSON_TIMEOUT`].
    pub timeout: Option<Duration>,
}

/// A login that waits for a person. Dropping it gives the login up.
#[derive(Debug)]
pub struct StartedLogin {
    prompt: LoginPrompt,
    reuses_registration: bool,
    callbacks: mpsc::Sender<Callback>,
    task: JoinHandle<Result<LoginSummary, LoginFailure>>,
}

impl LoginProvider {
    /// Begins a login, up to where a person is needed.
    ///
    /// Cancel safety: dropping it gives the login up.
    pub async fn login(&self, request: LoginRequest) -> Result<StartedLogin, LoginFailure> {
        let timeout = request.timeout.unwrap_or(PERSON_TIMEOUT);
        let options = self.0.login_options(request).await?;
        let (prompt, prompted) = oneshot::channel();
        let mut person = PersonSide::new(Some(prompt), timeout);
        let callbacks = person.callbacks();
        let state = self.0.clone();
        let task = tokio::spawn(async move {
            let finished = state.run_login(options, &mut person).await;
            let result = finished.as_ref().map(|_summary| ());
            person.show_result(result.map_err(ToString::to_string)).await;
            finished
        });
        let mut started = StartedLogin {
            prompt: LoginPrompt::Nothing,
            reuses_registration: false,
            callbacks,
            task,
        };
        match prompted.await {
            Ok(prompted) => {
                started.prompt = prompted.prompt;
                started.reuses_registration = prompted.reuses_registration;
            }
            // The login ended without a person.
            Err(_dropped) => {
                let ended = started.join().await;
                let summary = ended.map_err(|failure| self.0.explain(failure))?;
                started.task = tokio::spawn(std::future::ready(Ok(summary)));
            }
        }
        Ok(started)
    }
}

impl StartedLogin {
    /// What the person has to do.
    pub fn prompt(&self) -> &LoginPrompt {
        &self.prompt
    }

    /// Whether the client registered itself before this login. If the authorization server has forgotten it, the browser says so, the
    /// login waits in vain, and one with [`LoginRequest::register_again`] helps.
    pub fn reuses_registration(&self) -> bool {
        self.reuses_registration
    }

    /// Takes the address that the browser was redirected to, as a person pasted it. An error says why it is refused;
    /// the login waits on.
    ///
    /// Cancel safety: dropped, the address is either taken or not.
    pub async fn paste(&self, text: &str) -> Result<(), String> {
        let query = pasted_query(text);
        let (verdict, answer) = oneshot::channel();
        let callback = Callback {
            query: query.to_owned(),
            verdict,
        };
        let ended = "the login has ended";
        self.callbacks.send(callback).await.map_err(|_closed| ended)?;
        match answer.await {
            Ok(Verdict::Accepted(_result)) => Ok(()),
            Ok(Verdict::Refused(reason)) => Err(reason),
            Err(_closed) => Err(ended.to_owned()),
        }
    }

    /// Waits until the login is complete and saved.
    ///
    /// Cancel safety: dropping it between two polls changes nothing; the login goes on.
    pub async fn finished(&mut self) -> Result<LoginSummary, LoginFailure> {
        self.join().await
    }

    async fn join(&mut self) -> Result<LoginSummary, LoginFailure> {
        (&mut self.task).await.unwrap_or(Err(LoginFailure::Cancelled))
    }
}

impl LoginProvider {
    pub(super) async fn begin(
        &self,
        request: LoginRequest,
    ) -> Result<Box<dyn PendingLogin>, ServerLoginError> {
        let begun = self.login(request).await;
        let login = begun.map_err(|failure| ServerLoginError::Failed(failure.into()))?;
        Ok(Box::new(login))
    }
}

impl PendingLogin for StartedLogin {
    fn address(&self) -> Option<&str> {
        match &self.prompt {
            LoginPrompt::Browse(address) => Some(address.url().as_str()),
            LoginPrompt::EnterCode(prompt) => Some(prompt.verification_uri.as_str()),
            LoginPrompt::Nothing => None,
        }
    }

    fn reuses_registration(&self) -> bool {
        self.reuses_registration
    }

    fn paste<'a>(&'a self, address: &'a str) -> PastingAddress<'a> {
        Box::pin(Self::paste(self, address))
    }

    fn finished(&mut self) -> FinishingLogin<'_> {
        Box::pin(async {
            let finished = self.join().await;
            finished.map_err(|failure| ServerLoginError::Failed(failure.into()))
        })
    }
}

impl Drop for StartedLogin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ProviderState {
    async fn login_options(self: &Arc<Self>, request: LoginRequest) -> Result<LoginOptions, LoginFailure> {
        if let Some(configured) = &self.settings.client.configured
            && request.register_again
        {
            let client = configured.id.clone();
            return Err(LoginFailure::ConfiguredClient { client });
        }
        if !self.current.load().is_read {
            self.read_again().await?;
        }
        let known = lock(&self.notes).challenge.clone();
        let challenge = match request.challenge.or(known) {
            Some(challenge) => challenge,
            None => self.probe().await,
        };
        if challenge.error.as_deref() == Some("insufficient_scope") {
            lock(&self.notes).check_step_up(&challenge)?;
        }
        let registrations = on_store(&self.store, LoginStore::registrations).await?;
        let settings = &self.settings;
        let mut options = LoginOptions::new(settings.server.clone());
        options.user.clone_from(&settings.user);
        options.revision = settings.revision;
        options.challenge = protocol_challenge(&challenge);
        options.grant = settings.grant.grant(request.device)?;
        options.client = settings.client.clone();
        options.registrations = registrations;
        options.register_again = request.register_again;
        options.scopes = request.scopes.or_else(|| settings.scopes.clone());
        options.resource = settings.resource.clone();
        options.issuer.clone_from(&settings.issuer);
        options.redirect_port = settings.redirect_port;
        options.allow_private = settings.allow_private;
        let current = self.current.load();
        let last = current.login().map(|read| &read.login.record);
        if let Some(last) = last {
            options.asked_before.clone_from(&last.requested_scopes);
        }
        if let Some(client) = &mut options.client.configured
            && client.issuer.is_none()
        {
            let of_client = last.filter(|last| last.client_id.as_deref() == Some(client.id.as_str()));
            let known = settings.issuer.clone();
            client.issuer = known.or_else(|| of_client.map(|last| last.issuer.clone()));
        }
        Ok(options)
    }

    /// What the server asks an unknown client for. A server that cannot be asked asks for nothing in particular.
    async fn probe(&self) -> Challenge {
        let request = FetchRequest {
            url: self.settings.server.to_string(),
            headers: vec![
                (
                    ACCEPT,
                    HeaderValue::from_static("application/json, text/event-stream"),
                ),
                (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            ],
            body: Some(Bytes::from_static(PROBE.as_bytes())),
        };
        let mut options = HttpOptions::new();
        if let Some(path) = &self.settings.root_certificates {
            options = options.root_certificates(path);
        }
        match fetch(request, options).await {
            Ok(answer) => {
                lock(&self.notes).answers_without_login = (200..300).contains(&answer.status);
                answer.challenge
            }
            Err(failure) => {
                tracing::debug!(%failure, "the server could not be asked what it wants");
                Challenge::default()
            }
        }
    }

    /// A server that lets an unknown client in, and where no login can be begun, needs none.
    fn explain(&self, failure: LoginFailure) -> LoginFailure {
        match failure {
            LoginFailure::Protocol(reason) if lock(&self.notes).answers_without_login => {
                LoginFailure::NotNeeded {
                    server: self.settings.server.origin().ascii_serialization(),
                    reason,
                }
            }
            failure => failure,
        }
    }

    async fn run_login(
        self: &Arc<Self>,
        options: LoginOptions,
        person: &mut PersonSide,
    ) -> Result<LoginSummary, LoginFailure> {
        let completed = run(&self.settings, &self.store, options, person).await?;
        self.save_login(completed).await
    }

    /// Saves a completed login under the lock of its server's logins, then uses it.
    async fn save_login(self: &Arc<Self>, completed: CompletedLogin) -> Result<LoginSummary, LoginFailure> {
        let key = self.key.clone();
        let _lock = on_store(&self.store, move |store| store.lock(&key, SAVE_LOCK_TIMEOUT)).await?;
        self.save_under_lock(completed).await
    }

    async fn save_under_lock(
        self: &Arc<Self>,
        completed: CompletedLogin,
    ) -> Result<LoginSummary, LoginFailure> {
        let record = completed.record;
        let summary = summary_of(&record);
        let mut login =
            StoredLogin::new(record, SystemTime::now()).map_err(mainstay_oauth::LoginError::from)?;
        let key = self.key.clone();
        let is_automatic = self.settings.grant.is_automatic();
        let saved = on_store(&self.store, move |store| {
            let found = store.logins(&key)?;
            let last = found
                .into_iter()
                .find(|read| read.login.record.issuer == login.record.issuer);
            // Without a person, a new token belongs to the same login.
            if let (Some(last), true) = (&last, is_automatic) {
                login.id.clone_from(&last.login.id);
                login.logged_in_at = last.login.logged_in_at;
            }
            store.replace(&login, last.as_ref().map(|last| &last.version))
        });
        saved.await?;
        // Without a person, the next renewal needs what the server asked for.
        lock(&self.notes).note_login(is_automatic);
        lock(&self.renewal).clear_pause();
        self.read_again().await?;
        Ok(summary)
    }

    /// A login of a grant without a person. The lock is held.
    pub(super) async fn log_in_without_person(self: &Arc<Self>) -> Result<(), RenewalFailure> {
        let logged_in = async {
            let options = self.login_options(LoginRequest::default()).await?;
            let mut person = PersonSide::new(None, PERSON_TIMEOUT);
            let completed = run(&self.settings, &self.store, options, &mut person).await?;
            self.save_under_lock(completed).await
        };
        match logged_in.await {
            Ok(_summary) => Ok(()),
            Err(LoginFailure::Store(error)) => Err(RenewalFailure::from(error)),
            Err(failure @ LoginFailure::StepUp(_)) => {
                tracing::info!(%failure, "no further authorization");
                Err(RenewalFailure::NeedsLogin)
            }
            Err(failure) => Err(RenewalFailure::Unavailable(failure.to_string())),
        }
    }
}

fn summary_of(record: &LoginRecord) -> LoginSummary {
    let mut summary = LoginSummary::new(&record.issuer);
    summary.scopes.clone_from(&record.granted_scopes);
    summary.expires_at = record.expires_at();
    summary.renewable = record.refresh_token.is_some();
    summary
}
