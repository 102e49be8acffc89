//! The logins that people begin through the API: at most one for each server.
//!
//! A login runs in a task of its own until the person is done, or until its provider gives it up. A second request to log in
//! gets the address of the login that waits, unless it asks for a new registration of the client.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mainstay::Server;
use mainstay::transport::http::{PendingLogin, ServerLoginError};
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::api::{ApiProblem, LoginBeginning, LoginProgress, LoginState, ProblemKind};

/// How long it may take to ask the server and its authorization server: a few requests of 10 s at most.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Pasted addresses that wait for their check.
const PASTED_LIMIT: usize = 4;

/// The logins of a hub.
#[derive(Default)]
pub(crate) struct PersonLogins {
    by_server: Mutex<HashMap<String, Arc<LoginPlace>>>,
}

/// The last login of one server.
#[derive(Default)]
struct LoginPlace {
    /// Held while a login is begun.
    beginning: AsyncMutex<()>,
    running: Mutex<Option<RunningLogin>>,
}

#[derive(Clone)]
struct RunningLogin {
    progress: watch::Receiver<LoginProgress>,
    pasted: mpsc::Sender<PastedAddress>,
    task: AbortHandle,
}

/// A login that was begun, or found.
pub(crate) struct BegunLogin {
    progress: watch::Receiver<LoginProgress>,
    needs_person: bool,
    /// Whether it was begun just now.
    pub(crate) is_new: bool,
}

struct PastedAddress {
    address: String,
    verdict: oneshot::Sender<Result<(), String>>,
}

impl PersonLogins {
    /// Begins a login, or finds the one that waits for its person. One that registers the client again takes the place of the one that
    /// waits.
    pub(crate) async fn begin(
        &self,
        name: &str,
        server: &Server,
        beginning: &LoginBeginning,
    ) -> Result<BegunLogin, ApiProblem> {
        let place = lock(&self.by_server).entry(name.to_owned()).or_default().clone();
        let _beginning = place.beginning.lock().await;
        if let Some(running) = place.running()
            && running.progress.borrow().state == LoginState::Waiting
        {
            if !beginning.register_again {
                return Ok(BegunLogin {
                    progress: running.progress,
                    needs_person: true,
                    is_new: false,
                });
            }
            *lock(&place.running) = None;
            running.give_up().await;
        }
        let begun = timeout(BEGIN_TIMEOUT, async {
            match beginning.register_again {
                true => server.login_as_new_client().await,
                false => server.login().await,
            }
        });
        let begun = begun.await.map_err(|_elapsed| {
            let title = "the server or its authorization server did not answer in time";
            ApiProblem::new(ProblemKind::TimedOut, title).at(name)
        })?;
        let login = begun.map_err(|error| not_begun(name, &error))?;
        let needs_person = login.address().is_some();
        let waiting = LoginProgress {
            state: LoginState::Waiting,
            address: login.address().map(str::to_owned),
            error: None,
            reuses_registration: login.reuses_registration(),
        };
        let (sender, progress) = watch::channel(waiting);
        let (pasted, addresses) = mpsc::channel(PASTED_LIMIT);
        let task = tokio::spawn(run(login, addresses, sender)).abort_handle();
        *lock(&place.running) = Some(RunningLogin {
            progress: progress.clone(),
            pasted,
            task,
        });
        Ok(BegunLogin {
            progress,
            needs_person,
            is_new: true,
        })
    }

    /// How far the last login of a server has come.
    pub(crate) fn progress(&self, name: &str) -> LoginProgress {
        let place = lock(&self.by_server).get(name).cloned();
        let state = |state| LoginProgress {
            state,
            address: None,
            error: None,
            reuses_registration: false,
        };
        let Some(place) = place else {
            return state(LoginState::None);
        };
        if place.beginning.try_lock().is_err() {
            return state(LoginState::Starting);
        }
        match place.running() {
            Some(running) => running.progress.borrow().clone(),
            None => state(LoginState::None),
        }
    }

    /// Gives a login the address that the browser ended at, and waits for what becomes of it.
    pub(crate) async fn paste(&self, name: &str, address: String) -> Result<LoginProgress, ApiProblem> {
        let place = lock(&self.by_server).get(name).cloned();
        let running = place.and_then(|place| place.running());
        let waits = |running: &RunningLogin| running.progress.borrow().state == LoginState::Waiting;
        let Some(mut running) = running.filter(waits) else {
            let problem = ApiProblem::new(
                ProblemKind::Conflict,
                "no login of this server waits for a person",
            );
            return Err(problem.at(name).remedy("begin a login first"));
        };
        let (verdict, checked) = oneshot::channel();
        let sent = running.pasted.send(PastedAddress { address, verdict }).await;
        let checked = match sent {
            Ok(()) => checked.await.ok(),
            Err(_ended) => None,
        };
        if let Some(Err(reason)) = checked {
            let problem = ApiProblem::new(ProblemKind::BadRequest, reason).at("address");
            return Err(problem.remedy("paste the whole address that the browser ended at"));
        }
        Ok(ended(&mut running.progress).await)
    }
}

impl LoginPlace {
    fn running(&self) -> Option<RunningLogin> {
        lock(&self.running).clone()
    }
}

impl RunningLogin {
    /// Gives the login up, and waits until it is gone: the next one may need its port.
    async fn give_up(mut self) {
        self.task.abort();
        let gone = self.progress.wait_for(|now| now.state != LoginState::Waiting);
        // An error says that its task is gone. What it returns otherwise locks the value.
        drop(gone.await);
    }
}

impl BegunLogin {
    /// How far the login is: if it needs no person, the provider has the token already, or is about to fail.
    pub(crate) async fn progress(&self) -> LoginProgress {
        let mut progress = self.progress.clone();
        match self.needs_person {
            true => progress.borrow().clone(),
            false => ended(&mut progress).await,
        }
    }

    /// How the login ends; `None` if it is given up.
    pub(crate) fn end(&self) -> impl Future<Output = Option<LoginProgress>> + Send + use<> {
        let mut progress = self.progress.clone();
        async move {
            let ended = progress.wait_for(|now| now.state != LoginState::Waiting).await;
            ended.ok().map(|ended| ended.clone())
        }
    }
}

/// How a login ended. One that takes longer than expected is still waiting.
async fn ended(progress: &mut watch::Receiver<LoginProgress>) -> LoginProgress {
    let waited = timeout(
        BEGIN_TIMEOUT,
        progress.wait_for(|now| now.state != LoginState::Waiting),
    );
    // What it returns locks the value.
    drop(waited.await);
    progress.borrow().clone()
}

/// Runs a login to its end.
async fn run(
    mut login: Box<dyn PendingLogin>,
    mut pasted: mpsc::Receiver<PastedAddress>,
    progress: watch::Sender<LoginProgress>,
) {
    let finished = loop {
        let given = tokio::select! {
            finished = login.finished() => break finished,
            Some(given) = pasted.recv() => given,
        };
        let verdict = login.paste(&given.address).await;
        // The client may be gone.
        let _ = given.verdict.send(verdict);
    };
    let (state, error) = match finished {
        Ok(_summary) => (LoginState::LoggedIn, None),
        Err(error) => (LoginState::Failed, Some(error.to_string())),
    };
    progress.send_modify(|now| {
        *now = LoginProgress {
            state,
            address: None,
            error,
            reuses_registration: now.reuses_registration,
        };
    });
}

fn not_begun(name: &str, error: &ServerLoginError) -> ApiProblem {
    let problem = match error {
        ServerLoginError::NotOffered => ApiProblem::new(ProblemKind::Conflict, error.to_string())
            .remedy("remove its token or `oauth: false` from the configuration, if it needs a login"),
        _ => ApiProblem::new(
            ProblemKind::Conflict,
            format!("the login could not be begun: {error}"),
        ),
    };
    problem.at(name)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
