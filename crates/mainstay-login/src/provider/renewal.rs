//! Renews the token: one renewal at a time in a process, one lock for each login across processes.
//!
//! Under the lock: read the store again, and adopt what another process renewed; otherwise refresh, save, and only then use
//! the new token. The renewal runs in a task of its own, so that it is completed if its caller is gone.

use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use http::HeaderValue;
use mainstay_oauth::{Renewal, RenewalError, TokenError};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::current::CurrentLogin;
use super::in_flight::RenewalInFlight;
use super::{ProviderState, lock};
use crate::blocking::on_store;
use crate::context::context;
use crate::error::RenewalFailure;
use crate::send::send;
use crate::store::{LoginStore, LoginStoreError, ReadLogin, StoredLogin};

/// How long a renewal waits for another process. Longer than one request to an authorization server may take.
const LOCK_TIMEOUT: Duration = Duration::from_secs(12);

/// The pauses after failed renewals.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Attempts to save a renewed login, and the pause between them: a full disk may have room again.
const SAVE_ATTEMPTS: u32 = 3;
const SAVE_PAUSE: Duration = Duration::from_millis(300);

type Renewed = Result<(), RenewalFailure>;

/// The renewal of one provider.
#[derive(Default)]
pub(super) struct RenewalSlot {
    running: Option<watch::Receiver<Option<Renewed>>>,
    timer: Option<AbortHandle>,
    failures: u32,
    /// Until when no attempt is made, and why the last one failed.
    pause: Option<(Instant, String)>,
}

impl RenewalSlot {
    pub(super) fn clear_pause(&mut self) {
        self.failures = 0;
        self.pause = None;
    }
}

impl Drop for RenewalSlot {
    fn drop(&mut self) {
        if let Some(timer) = &self.timer {
            timer.abort();
        }
    }
}

impl ProviderState {
    /// Renews the token, or joins the renewal that runs. `refused` is the value that the server refused.
    ///
    /// Cancel safety: the renewal goes on.
    pub(super) async fn renew(self: &Arc<Self>, refused: Option<HeaderValue>) -> Renewed {
        let mut done = self.start_renewal(refused);
        match done.wait_for(Option::is_some).await {
            Ok(renewed) => renewed.clone().unwrap_or(Ok(())),
            Err(_panicked) => Err(RenewalFailure::Unavailable("the renewal ended early".to_owned())),
        }
    }

    fn start_renewal(self: &Arc<Self>, refused: Option<HeaderValue>) -> watch::Receiver<Option<Renewed>> {
        let mut slot = lock(&self.renewal);
        if let Some(running) = &slot.running
            && running.borrow().is_none()
            && running.has_changed().is_ok()
        {
            return running.clone();
        }
        let (sender, receiver) = watch::channel(None);
        slot.running = Some(receiver.clone());
        let state = self.clone();
        let in_flight = RenewalInFlight::begin();
        tokio::spawn(async move {
            let _in_flight = in_flight;
            let renewed = state.renew_now(refused).await;
            state.note_result(&renewed);
            sender.send_replace(Some(renewed));
        });
        receiver
    }

    /// Starts a renewal that the timer missed, unless one runs or waits.
    pub(super) fn renew_overdue(self: &Arc<Self>) {
        if self.check_pause().is_ok() && !self.is_hopeless(self.current.load().value()) {
            let _running = self.start_renewal(None);
        }
    }

    /// Arms the timer that renews this token before it expires.
    pub(super) fn renew_before_expiry(self: &Arc<Self>, current: &CurrentLogin) {
        let can_renew = current.is_renewable() || self.settings.grant.is_automatic();
        let at = current
            .renews_at()
            .filter(|_| can_renew && current.value().is_some());
        let wait = at.map(|at| at.duration_since(SystemTime::now()).unwrap_or_default());
        self.arm(wait);
    }

    fn arm(self: &Arc<Self>, wait: Option<Duration>) {
        let mut slot = lock(&self.renewal);
        if let Some(timer) = slot.timer.take() {
            timer.abort();
        }
        // Without a runtime, the next request renews.
        let (Some(wait), Ok(runtime)) = (wait, tokio::runtime::Handle::try_current()) else {
            return;
        };
        let state = Arc::downgrade(self);
        let timer = runtime.spawn(async move {
            tokio::time::sleep(wait).await;
            if let Some(state) = Weak::upgrade(&state)
                && !state.is_hopeless(state.current.load().value())
            {
                let _running = state.start_renewal(None);
            }
        });
        slot.timer = Some(timer.abort_handle());
    }

    /// After a failure the next attempt waits, longer each time.
    fn note_result(self: &Arc<Self>, renewed: &Renewed) {
        let retry = {
            let mut slot = lock(&self.renewal);
            match renewed {
                Ok(()) => {
                    slot.clear_pause();
                    None
                }
                Err(RenewalFailure::NeedsLogin) => None,
                Err(RenewalFailure::Paused { wait, .. }) => Some(*wait),
                Err(failure @ (RenewalFailure::Unavailable(_) | RenewalFailure::Store(_))) => {
                    let pause = FIRST_PAUSE
                        .saturating_mul(1 << slot.failures.min(6))
                        .min(LONGEST_PAUSE);
                    slot.failures = slot.failures.saturating_add(1);
                    let until = slot.pause.take().map_or(Instant::now(), |(until, _)| until);
                    let until = until.max(Instant::now() + pause);
                    slot.pause = Some((until, failure.to_string()));
                    tracing::warn!(%failure, retry_in = ?pause, "a login could not be renewed");
                    Some(until.saturating_duration_since(Instant::now()))
                }
            }
        };
        if retry.is_some() {
            self.arm(retry);
        }
    }

    fn check_pause(&self) -> Result<(), RenewalFailure> {
        let slot = lock(&self.renewal);
        match &slot.pause {
            Some((until, last)) if *until > Instant::now() => Err(RenewalFailure::Paused {
                wait: until.saturating_duration_since(Instant::now()),
                last: last.clone(),
            }),
            Some(_) | None => Ok(()),
        }
    }

    async fn renew_now(self: &Arc<Self>, refused: Option<HeaderValue>) -> Renewed {
        let key = self.key.clone();
        let _lock = on_store(&self.store, move |store| store.lock(&key, LOCK_TIMEOUT)).await?;
        self.read_again().await?;
        let current = self.current.load_full();
        let now = SystemTime::now();
        let is_due = current.renews_at().is_some_and(|at| at <= now);
        let is_refused = refused.is_some() && current.value() == refused.as_ref();
        if current.usable(now).is_some() && !is_due && !is_refused {
            return Ok(());
        }
        self.check_pause()?;
        if self.settings.grant.is_automatic() {
            return self.log_in_without_person().await;
        }
        match current.login() {
            Some(read) if current.is_renewable() => self.refresh(read).await,
            Some(_) | None => Err(RenewalFailure::NeedsLogin),
        }
    }

    async fn refresh(self: &Arc<Self>, read: &ReadLogin) -> Renewed {
        let record = read.login.record.clone();
        let registrations = on_store(&self.store, LoginStore::registrations).await?;
        let client = record.client(&self.settings.client, &registrations);
        let client = client.map_err(RenewalError::from)?;
        let requested_at = SystemTime::now();
        let (renewal, request) = Renewal::start(record, client.as_ref(), &context())?;
        let response = match send(&request, &self.settings).await {
            Ok(response) => response,
            Err(failure) => {
                self.save_last_error(read, &failure.to_string()).await;
                return Err(RenewalFailure::Unavailable(failure.to_string()));
            }
        };
        let renewed = renewal.handle_response(&response, &context());
        match renewed {
            Ok(record) => {
                let login = read.login.renewed(record, requested_at);
                self.save_renewed(read, login).await;
                Ok(())
            }
            Err(RenewalError::Token(error @ TokenError::InvalidGrant { .. })) => {
                self.end_login(read, &error.to_string()).await?;
                Err(RenewalFailure::NeedsLogin)
            }
            Err(RenewalError::Token(error @ TokenError::InvalidClient { .. })) => {
                tracing::warn!(%error, "the client of a login is not accepted any more");
                self.forget_registration(read).await?;
                lock(&self.notes).hopeless = self.current.load().value().cloned();
                Err(RenewalFailure::NeedsLogin)
            }
            Err(error) => {
                self.save_last_error(read, &error.to_string()).await;
                if let RenewalError::Token(TokenError::Temporary {
                    retry_after: Some(pause),
                    ..
                }) = &error
                {
                    let until = Instant::now() + (*pause).min(LONGEST_PAUSE);
                    lock(&self.renewal).pause = Some((until, error.to_string()));
                }
                Err(error.into())
            }
        }
    }

    /// Keeps why a refresh failed, for `auth status`. The lock is held. Whether it could be saved changes nothing.
    async fn save_last_error(self: &Arc<Self>, read: &ReadLogin, error: &str) {
        if read.login.last_error.as_deref() == Some(error) {
            return;
        }
        let noted = StoredLogin {
            last_error: Some(error.to_owned()),
            ..read.login.clone()
        };
        let expected = read.version.clone();
        let saved = on_store(&self.store, move |store| store.replace(&noted, Some(&expected))).await;
        if let Err(error) = saved {
            tracing::debug!(%error, "why a refresh failed could not be saved");
        }
    }

    /// Saves a renewed login, then uses it. If it cannot be saved, this process uses it all the same: the old refresh token
    /// may be spent.
    async fn save_renewed(self: &Arc<Self>, read: &ReadLogin, login: StoredLogin) {
        for attempt in 1..=SAVE_ATTEMPTS {
            let (saved, expected) = (login.clone(), read.version.clone());
            let written = on_store(&self.store, move |store| store.replace(&saved, Some(&expected))).await;
            match written {
                Ok(()) => match self.read_again().await {
                    Ok(()) => return,
                    Err(error) => tracing::warn!(%error, "a renewed login could not be read back"),
                },
                // A person logged out meanwhile. The renewed token is not used.
                Err(LoginStoreError::Changed) => {
                    tracing::info!("the login was changed while it was renewed");
                    return;
                }
                Err(error) => tracing::error!(%error, attempt, "a renewed login could not be saved"),
            }
            tokio::time::sleep(SAVE_PAUSE).await;
        }
        let version = read.version.clone();
        self.adopt_unsaved(ReadLogin { login, version });
    }

    fn adopt_unsaved(self: &Arc<Self>, read: ReadLogin) {
        let current = Arc::new(CurrentLogin::read(Some(read)));
        self.current.store(current.clone());
        self.adopted.send_modify(|count| *count += 1);
        self.renew_before_expiry(&current);
    }

    /// Marks the stored login as ended. The lock is held, so the refused refresh token is the stored one.
    async fn end_login(self: &Arc<Self>, read: &ReadLogin, reason: &str) -> Result<(), LoginStoreError> {
        tracing::warn!(issuer = %read.login.record.issuer, "the login has ended; a person must log in again");
        let ended = StoredLogin {
            ended: Some(reason.to_owned()),
            ..read.login.clone()
        };
        let expected = read.version.clone();
        let written = on_store(&self.store, move |store| store.replace(&ended, Some(&expected))).await;
        if !matches!(written, Err(LoginStoreError::Changed)) {
            written?;
        }
        self.read_again().await
    }

    /// The next login registers again. A configured client stays as the person wrote it.
    async fn forget_registration(&self, read: &ReadLogin) -> Result<(), LoginStoreError> {
        let Some(client_id) = read.login.record.client_id.clone() else {
            return Ok(());
        };
        let issuer = read.login.record.issuer.clone();
        on_store(&self.store, move |store| {
            store.forget_registration(&issuer, &client_id)
        })
        .await
    }
}
