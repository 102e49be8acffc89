//! The logins that people begin through the API: at most one for each server.
//!
//! A login runs in a task of its own until the person is done, or until its provider gives it up. A second request to log in
//! gets the address of the login that waits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mainstay::Server;
use mainstay::transport::http::{PendingLogin, ServerLoginError};
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot, watch};
use tokio::time::timeout;

use crate::api::{ApiProblem, LoginProgress, LoginState, ProblemKind};

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
}

struct PastedAddress {
    address: String,
    verdict: oneshot::Sender<Result<(), String>>,
}

impl PersonLogins {
    /// Begins a login, or finds the one that waits for its person.
    pub(crate) async fn begin(&self, name: &str, server: &Server) -> Result<LoginProgress, ApiProblem> {
        let place = lock(&self.by_server).entry(name.to_owned()).or_default().clone();
        let _beginning = place.beginning.lock().await;
        if let Some(running) = place.running()
            && running.progress.borrow().state == LoginState::Waiting
        {
            return Ok(running.progress.borrow().clone());
        }
        let begun = timeout(BEGIN_TIMEOUT, server.login()).await;
        let begun = begun.map_err(|_elapsed| {
            let title = "the server or its authorization server did not answer in time";
            ApiProblem::new(ProblemKind::TimedOut, title).at(name)
        })?;
        let login = begun.map_err(|error| not_begun(name, &error))?;
        let waiting = LoginProgress {
            state: LoginState::Waiting,
            address: login.address().map(str::to_owned),
            error: None,
        };
        let (progress, seen) = watch::channel(waiting);
        let (pasted, addresses) = mpsc::channel(PASTED_LIMIT);
        *lock(&place.running) = Some(RunningLogin {
            progress: seen.clone(),
            pasted,
        });
        let needs_person = login.address().is_some();
        tokio::spawn(run(login, addresses, progress));
        let mut seen = seen;
        if needs_person {
            return Ok(seen.borrow().clone());
        }
        // The provider has the token already, or is about to fail.
        Ok(ended(&mut seen).await)
    }

    /// How far the last login of a server has come.
    pub(crate) fn progress(&self, name: &str) -> LoginProgress {
        let place = lock(&self.by_server).get(name).cloned();
        let state = |state| LoginProgress {
            state,
            address: None,
            error: None,
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
    progress.send_replace(LoginProgress {
        state,
        address: None,
        error,
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
