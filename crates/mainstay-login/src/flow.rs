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
use crate::listener::{Callback, CallbackListener, LoginResult, Verdict};
use crate::send::send;
use crate::settings::LoginSettings;
use crate::store::LoginStore;

/// How long a person may take, unless the request of the login says otherwise.
pub const PERSON_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Callbacks that wait until the login handles them.
const CALLBACKS_LIMIT: usize = 8;

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

/// What a login tells its caller when it needs a person.
pub(crate) struct Prompted {
    pub(crate) prompt: LoginPrompt,
    /// Whether the client registered itself before this login.
    pub(crate) reuses_registration: bool,
}

/// The person's side of a login.
pub(crate) struct PersonSide {
    prompt: Option<oneshot::Sender<Prompted>>,
    /// Callbacks of the browser and pasted addresses.
    callbacks: mpsc::Receiver<Callback>,
    sender: mpsc::Sender<Callback>,
    /// How long the person may take.
    timeout: Duration,
    /// The browser that waits to be told how the login ends.
    page: Option<WaitingPage>,
}

struct WaitingPage {
    result: oneshot::Sender<LoginResult>,
    listener: Option<CallbackListener>,
}

impl PersonSide {
    pub(crate) fn new(prompt: Option<oneshot::Sender<Prompted>>, timeout: Duration) -> Self {
        let (sender, callbacks) = mpsc::channel(CALLBACKS_LIMIT);
        Self {
            prompt,
            callbacks,
            sender,
            timeout,
            page: None,
        }
    }

    /// Where callbacks and pasted addresses go.
    pub(crate) fn callbacks(&self) -> mpsc::Sender<Callback> {
        self.sender.clone()
    }

    fn show(&mut self, prompt: LoginPrompt, login: &Login) {
        if let Some(sender) = self.prompt.take() {
            // A caller that is gone drops the login itself.
            let _ = sender.send(Prompted {
                prompt,
                reuses_registration: login.reuses_registration(),
            });
        }
    }

    /// Shows the result in the browser, if the login got that far, and waits until the page is sent.
    pub(crate) async fn show_result(&mut self, result: LoginResult) {
        if let Some(page) = self.page.take() {
            let _ = page.result.send(result);
            if let Some(listener) = page.listener {
                listener.finish().await;
            }
        }
    }
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
    let deadline = Instant::now() + person.timeout;
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
                person.show(LoginPrompt::Browse(address), &login);
                callback(&mut login, person, listener.take(), deadline).await?
            }
            LoginStep::ShowCode { prompt, until } => {
                person.show(LoginPrompt::EnterCode(prompt), &login);
                wait(until, deadline, &login, person).await?;
                requests = requests.saturating_sub(1);
                login.resume(&context())?
            }
            LoginStep::Wait { until } => {
                wait(until, deadline, &login, person).await?;
                requests = requests.saturating_sub(1);
                login.resume(&context())?
            }
            LoginStep::Done(completed) => return Ok(*completed),
        };
    }
}

/// Waits for a callback that the login accepts, or that ends it.
async fn callback(
    login: &mut Login,
    person: &mut PersonSide,
    listener: Option<CallbackListener>,
    deadline: Instant,
) -> Result<LoginStep, LoginFailure> {
    loop {
        let received = timeout_at(deadline, person.callbacks.recv()).await;
        let received = received.map_err(|_elapsed| timed_out(login, person))?;
        let Some(Callback { query, verdict }) = received else {
            return Err(LoginFailure::Cancelled);
        };
        let handled = login.handle_callback(&query, &context());
        match handled {
            Ok(step) => {
                let (result, told) = oneshot::channel();
                let _ = verdict.send(Verdict::Accepted(told));
                if let Some(listener) = &listener {
                    listener.stop();
                }
                person.page = Some(WaitingPage { result, listener });
                return Ok(step);
            }
            Err(error) => {
                let _ = verdict.send(Verdict::Refused(error.to_string()));
                match error {
                    LoginError::Callback(refused) if !refused.ends_login() => {
                        tracing::debug!(%refused, "a callback was refused");
                    }
                    ending => {
                        if let Some(listener) = listener {
                            listener.finish().await;
                        }
                        return Err(ending.into());
                    }
                }
            }
        }
    }
}

async fn wait(
    until: SystemTime,
    deadline: Instant,
    login: &Login,
    person: &PersonSide,
) -> Result<(), LoginFailure> {
    let pause = until.duration_since(SystemTime::now()).unwrap_or_default();
    if Instant::now() + pause > deadline {
        return Err(timed_out(login, person));
    }
    sleep(pause).await;
    Ok(())
}

fn timed_out(login: &Login, person: &PersonSide) -> LoginFailure {
    LoginFailure::TimedOut {
        within: person.timeout,
        reuses_registration: login.reuses_registration(),
    }
}
