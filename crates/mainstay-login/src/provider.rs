//! The credential provider of one server.
//!
//! A request gets the token that is in memory, without a lock and without waiting. A timer renews the token before it
//! expires. Requests wait only if the token has expired already, and never for a person: without a usable login they go
//! out without a token, the server refuses them, and its state becomes `auth_required` until some process logs in.

mod current;
mod in_flight;
mod login;
mod refused;
mod renewal;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use http::HeaderValue;
use mainstay::transport::http::{
    Authorizing, BeginningLogin, Challenge, Changing, CredentialRefusal, Credentials, Refusing,
};
use mainstay_oauth::{AuthChallenge, StepUp, StepUpError};
use tokio::sync::watch;

use self::current::CurrentLogin;
pub use self::in_flight::finish_renewals;
pub use self::login::{LoginRequest, StartedLogin};
use self::renewal::RenewalSlot;
use crate::blocking::on_store;
use crate::error::RenewalFailure;
use crate::settings::LoginSettings;
use crate::store::{LoginKey, LoginStore, LoginStoreError, ReadLogin};

/// Gives the requests to one server the token of its login. Clones share everything.
#[derive(Clone)]
pub struct LoginProvider(Arc<ProviderState>);

pub(crate) struct ProviderState {
    settings: LoginSettings,
    key: LoginKey,
    store: Arc<dyn LoginStore>,
    current: ArcSwap<CurrentLogin>,
    /// Counts the logins that were adopted.
    adopted: watch::Sender<u64>,
    /// The value that the last request was given.
    given: Mutex<Option<HeaderValue>>,
    renewal: Mutex<RenewalSlot>,
    notes: Mutex<Notes>,
}

/// Logins that are longer ago do not count against the limit of authorizations for one operation.
const OPERATION_SPAN: Duration = Duration::from_secs(10 * 60);

/// New tokens in a row that the server may refuse before only a person can help.
const NEW_REFUSED_LIMIT: u32 = 3;

/// What was learnt from refusals.
#[derive(Default)]
struct Notes {
    /// What the server asked for last.
    challenge: Option<Challenge>,
    /// Whether the server answered a request without a token.
    answers_without_login: bool,
    step_up: StepUp,
    /// When the last login was completed.
    last_login: Option<Instant>,
    /// How many new values in a row the server refused, and the last of them.
    new_refused: u32,
    last_new_refused: Option<HeaderValue>,
    /// The value that the server refused like others before it, although all were new. Only another login helps.
    hopeless: Option<HeaderValue>,
}

impl LoginProvider {
    /// A provider for the logins of one server. It reads the store when it is first needed.
    pub fn new(settings: LoginSettings, store: Arc<dyn LoginStore>) -> Self {
        let key = settings.key();
        Self(Arc::new(ProviderState {
            settings,
            key,
            store,
            current: ArcSwap::from_pointee(CurrentLogin::unread()),
            adopted: watch::Sender::new(0),
            given: Mutex::default(),
            renewal: Mutex::default(),
            notes: Mutex::default(),
        }))
    }

    /// The settings of its logins.
    pub fn settings(&self) -> &LoginSettings {
        &self.0.settings
    }

    /// Where its logins are kept.
    pub fn store(&self) -> &Arc<dyn LoginStore> {
        &self.0.store
    }

    /// What the server asked for when it last refused a request of this process.
    pub fn last_challenge(&self) -> Option<Challenge> {
        lock(&self.0.notes).challenge.clone()
    }
}

impl Credentials for LoginProvider {
    fn authorization(&self) -> Authorizing<'_> {
        let current = self.0.current.load();
        let now = SystemTime::now();
        if let Some(value) = current.usable(now) {
            if current.is_overdue(now) {
                self.0.renew_overdue();
            }
            let value = self.0.give(Some(value.clone()));
            return Box::pin(std::future::ready(Ok(value)));
        }
        Box::pin(async {
            let value = self.0.obtain().await;
            let value = value.map_err(|failure| io::Error::other(failure.to_string()))?;
            Ok(self.0.give(value))
        })
    }

    fn refused<'a>(&'a self, refusal: &'a CredentialRefusal) -> Refusing<'a> {
        Box::pin(self.0.handle_refusal(refusal))
    }

    fn owner(&self) -> Option<String> {
        if !self.0.current.load().is_read {
            // The start of a fleet asks before any request.
            match self.0.store.logins(&self.0.key) {
                Ok(found) => self.0.adopt_newest(found),
                Err(error) => tracing::warn!(%error, "the stored logins could not be read"),
            }
        }
        self.0.current.load().owner()
    }

    fn changed(&self) -> Changing<'_> {
        Box::pin(self.0.wait_for_change())
    }

    fn withdrawn(&self) -> Changing<'_> {
        Box::pin(self.0.wait_for_end())
    }

    fn login(&self) -> Option<BeginningLogin<'_>> {
        Some(Box::pin(self.begin(LoginRequest::default())))
    }

    fn login_as_new_client(&self) -> Option<BeginningLogin<'_>> {
        let request = LoginRequest {
            register_again: true,
            ..LoginRequest::default()
        };
        Some(Box::pin(self.begin(request)))
    }
}

impl Notes {
    /// Counts tokens in a row that were refused although they were new. A slow network may let one expire on its way.
    fn is_hopeless_after(&mut self, refused: Option<&HeaderValue>, is_new: bool) -> bool {
        if !is_new {
            self.new_refused = 0;
            return false;
        }
        if self.last_new_refused.as_ref() != refused {
            self.last_new_refused = refused.cloned();
            self.new_refused += 1;
        }
        if self.new_refused < NEW_REFUSED_LIMIT {
            return false;
        }
        self.hopeless = refused.cloned();
        true
    }

    /// Whether another authorization may be asked for.
    fn check_step_up(&mut self, challenge: &Challenge) -> Result<(), StepUpError> {
        if self.last_login.is_none_or(|at| at.elapsed() > OPERATION_SPAN) {
            self.step_up.note_success();
        }
        self.step_up.check(&protocol_challenge(challenge))
    }

    /// A login was completed.
    fn note_login(&mut self, keeps_challenge: bool) {
        if self.last_login.is_none_or(|at| at.elapsed() > OPERATION_SPAN) {
            self.step_up.note_success();
        }
        self.step_up.note_authorization();
        self.last_login = Some(Instant::now());
        self.hopeless = None;
        self.new_refused = 0;
        if !keeps_challenge {
            self.challenge = None;
        }
    }
}

impl ProviderState {
    fn give(&self, value: Option<HeaderValue>) -> Option<HeaderValue> {
        lock(&self.given).clone_from(&value);
        value
    }

    /// The value for a request, if there is none in memory that can be used. `None` if a person must log in.
    async fn obtain(self: &Arc<Self>) -> Result<Option<HeaderValue>, RenewalFailure> {
        if !self.current.load().is_read {
            self.read_again().await?;
        }
        let now = SystemTime::now();
        let current = self.current.load_full();
        if let Some(value) = current.usable(now) {
            return Ok(Some(value.clone()));
        }
        if !current.is_renewable() && !self.settings.grant.is_automatic() {
            // The server decides whether it still accepts an old token that cannot be renewed.
            return Ok(current.value().cloned());
        }
        if self.is_hopeless(current.value()) {
            return Ok(None);
        }
        match self.renew(None).await {
            Ok(()) => Ok(self.current.load().value().cloned()),
            Err(RenewalFailure::NeedsLogin) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    async fn handle_refusal(self: &Arc<Self>, refusal: &CredentialRefusal) {
        lock(&self.notes).challenge = Some(refusal.challenge.clone());
        if refusal.status == 403 {
            self.step_up(&refusal.challenge).await;
            return;
        }
        let current = self.current.load_full();
        if current.value() != refusal.authorization.as_ref() {
            return;
        }
        let now = SystemTime::now();
        let is_new = current.value().is_some() && current.is_new(now);
        if lock(&self.notes).is_hopeless_after(refusal.authorization.as_ref(), is_new) {
            tracing::info!("the server refuses tokens that were just issued; a login is needed");
            return;
        }
        let can_renew = current.is_renewable() || self.settings.grant.is_automatic();
        let renewed = if can_renew {
            self.renew(refusal.authorization.clone()).await
        } else {
            // Another process may have logged in.
            self.read_again().await.map_err(RenewalFailure::from)
        };
        if let Err(failure) = renewed {
            tracing::info!(%failure, "the refused token could not be renewed");
        }
    }

    /// A login without a person asks for the missing scopes by itself.
    async fn step_up(self: &Arc<Self>, challenge: &Challenge) {
        if !self.settings.grant.is_automatic() {
            return;
        }
        let checked = lock(&self.notes).check_step_up(challenge);
        if let Err(error) = checked {
            tracing::info!(%error, "no further authorization");
            return;
        }
        let value = self.current.load().value().cloned();
        if let Err(failure) = self.renew(value).await {
            tracing::info!(%failure, "the missing scopes could not be obtained");
        }
    }

    /// Returns when there is a login whose token was not given out yet.
    async fn wait_for_change(self: &Arc<Self>) {
        let mut adopted = self.adopted.subscribe();
        let mut stored = self.store.watch();
        let mut is_noted = false;
        loop {
            adopted.borrow_and_update();
            if let Err(error) = self.read_again().await {
                tracing::debug!(%error, "the stored logins could not be read");
            }
            if !is_noted {
                // The server asks for a login although it was shown the token of one.
                self.note_refused_token();
                is_noted = true;
            }
            let current = self.current.load_full();
            let is_other = current.value() != lock(&self.given).as_ref();
            if is_other && current.value().is_some() && !self.is_hopeless(current.value()) {
                return;
            }
            tokio::select! {
                _ = adopted.changed() => {}
                () = stored.changed() => {}
            }
        }
    }

    /// Returns when requests had a token and have none any more: a person logged out, or the authorization server ended the
    /// login.
    async fn wait_for_end(self: &Arc<Self>) {
        let mut adopted = self.adopted.subscribe();
        let mut stored = self.store.watch();
        let mut had_token = lock(&self.given).is_some();
        self.note_accepted_token();
        loop {
            adopted.borrow_and_update();
            had_token |= self.current.load().value().is_some();
            if had_token {
                if let Err(error) = self.read_again().await {
                    tracing::debug!(%error, "the stored logins could not be read");
                }
                if self.current.load().value().is_none() {
                    return;
                }
            }
            // A server that needs no login is not worth reading the store for.
            tokio::select! {
                _ = adopted.changed() => {}
                () = stored.changed(), if had_token => {}
            }
        }
    }

    fn is_hopeless(&self, value: Option<&HeaderValue>) -> bool {
        let notes = lock(&self.notes);
        notes.hopeless.is_some() && notes.hopeless.as_ref() == value
    }

    /// Adopts what the store has now.
    async fn read_again(self: &Arc<Self>) -> Result<(), LoginStoreError> {
        let key = self.key.clone();
        let found = on_store(&self.store, move |store| store.logins(&key)).await?;
        self.adopt_newest(found);
        Ok(())
    }

    /// Adopts the newest login of those in the store. One that has ended counts: it is why there is none.
    fn adopt_newest(self: &Arc<Self>, found: Vec<ReadLogin>) {
        let pinned = self.settings.issuer.as_ref();
        let suits = |read: &ReadLogin| pinned.is_none_or(|issuer| read.login.record.issuer == *issuer);
        let newest = found
            .into_iter()
            .filter(suits)
            .max_by_key(|read| (read.login.ended.is_none(), read.login.logged_in_at));
        self.adopt(newest);
    }

    fn adopt(self: &Arc<Self>, read: Option<ReadLogin>) {
        let current = CurrentLogin::read(read);
        let before = self.current.load();
        if before.is_read && before.is_same(&current) {
            return;
        }
        let current = Arc::new(current);
        self.current.store(current.clone());
        self.adopted.send_modify(|count| *count += 1);
        self.renew_before_expiry(&current);
    }
}

impl std::fmt::Debug for LoginProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoginProvider")
            .field("server", &self.0.settings.server.origin().ascii_serialization())
            .finish_non_exhaustive()
    }
}

/// The challenge as the protocol crate has it.
pub(crate) fn protocol_challenge(challenge: &Challenge) -> AuthChallenge {
    AuthChallenge {
        resource_metadata: challenge.resource_metadata.clone(),
        scopes: challenge.scopes.clone(),
        error: challenge.error.clone(),
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
