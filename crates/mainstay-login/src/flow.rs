//! Runs a login of the protocol crate: sends its requests, opens the port, waits for the person.

use std::time::{Duration, SystemTime};

use mainstay_oauth::{
    AuthorizationAddress, CompletedLogin, DevicePrompt, Login, LoginError, LoginOptions, LoginStep,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout_at};

use crate::blocking::on_store;
use crate::context::context;
use crate::error::LoginFailure;
use crate::listener::{Callback, CallbackListener, Verdict};
use crate::send::send;
use crate::settings::LoginSettings;
use crate::store::LoginStore;

/// How long a person may take.
pub const PERSON_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// The most requests of one login, polls of a device code aside.
const REQUEST_LIMIT: usize = 24;

/// What a person has to do.
#[derive(Clone, Debug)]
pub enum LoginPrompt {
    /// Open this address in a browser.
    Browse(AuthorizationAddress),
    /// Enter this code on another device.
    EnterCode(DevicePrompt),
    /// Nothing: the login needs no person.
    Nothing,
}

/// The person's side of a login.
pub(crate) struct PersonSide {
    pub(crate) prompt: Option<oneshot::Sender<LoginPrompt>>,
    /// Callbacks of the browser and pasted addresses.
    pub(crate) callbacks: mpsc::Receiver<Callback>,
    pub(crate) sender: mpsc::Sender<Callback>,
}

/// Runs a login to its end. A registration is saved as soon as it is made.
///
/// Cancel safety: dropping it gives the login up. A code that was exchanged by then is lost.
pub(crate) async fn run(
    settings: &LoginSettings,
    store: &std::sync::Arc<dyn LoginStore>,
    options: LoginOptions,
    person: &mut PersonSide,
) -> Result<CompletedLogin, LoginFailure> {
    let deadline = Instant::now() + PERSON_TIMEOUT;
    let (mut login, mut step) = Login::start(options)?;
    let mut requests = 0;
    let mut listener: Option<CallbackListener> = None;
    let mut saved_registration = false;
    loop {
        step = match step {
            LoginStep::Send(request) => {
                requests += 1;
                if requests > REQUEST_LIMIT {
                    return Err(LoginFailure::TooManyRequests(REQUEST_LIMIT));
                }
                let response = send(&request, settings).await?;
                let next = login.handle_response(&response, &context());
                if let Some(registration) = login.registration().cloned()
                    && !saved_registration
                {
                    on_store(store, move |store| store.save_registration(&registration)).await?;
                    saved_registration = true;
                }
                next?
            }
            LoginStep::Listen { port } => {
                let bound = CallbackListener::bind(port, person.sender.clone()).await;
                let bound = bound.map_err(LoginFailure::Listener)?;
                let redirect_uri = bound.redirect_uri().clone();
                listener = Some(bound);
                login.handle_listening(redirect_uri, &context())?
            }
            LoginStep::Browse(address) => {
                show(person, LoginPrompt::Browse(address));
                let next = callback(&mut login, person, deadline).await;
                if let Some(listener) = listener.take() {
                    listener.finish().await;
                }
                next?
            }
            LoginStep::ShowCode { prompt, until } => {
                show(person, LoginPrompt::EnterCode(prompt));
                wait(until, deadline).await?;
                requests = requests.saturating_sub(1);
                login.resume(&context())?
            }
            LoginStep::Wait { until } => {
                wait(until, deadline).await?;
                requests = requests.saturating_sub(1);
                login.resume(&context())?
            }
            LoginStep::Done(completed) => return Ok(*completed),
        };
    }
}

fn show(person: &mut PersonSide, prompt: LoginPrompt) {
    if let Some(sender) = person.prompt.take() {
        // A caller that is gone drops the login itself.
        let _ = sender.send(prompt);
    }
}

/// Waits for a callback that the login accepts, or that ends it.
async fn callback(
    login: &mut Login,
    person: &mut PersonSide,
    deadline: Instant,
) -> Result<LoginStep, LoginFailure> {
    loop {
        let received = timeout_at(deadline, person.callbacks.recv()).await;
        let received = received.map_err(|_elapsed| LoginFailure::TimedOut(PERSON_TIMEOUT))?;
        let Some(Callback { query, verdict }) = received else {
            return Err(LoginFailure::Cancelled);
        };
        let handled = login.handle_callback(&query, &context());
        match handled {
            Ok(step) => {
                let _ = verdict.send(Verdict::Accepted);
                return Ok(step);
            }
            Err(error) => {
                let _ = verdict.send(Verdict::Refused(error.to_string()));
                match error {
                    LoginError::Callback(refused) if !refused.ends_login() => {
                        tracing::debug!(%refused, "a callback was refused");
                    }
                    ending => return Err(ending.into()),
                }
            }
        }
    }
}

async fn wait(until: SystemTime, deadline: Instant) -> Result<(), LoginFailure> {
    let pause = until.duration_since(SystemTime::now()).unwrap_or_default();
    if Instant::now() + pause > deadline {
        return Err(LoginFailure::TimedOut(PERSON_TIMEOUT));
    }
    sleep(pause).await;
    Ok(())
}
