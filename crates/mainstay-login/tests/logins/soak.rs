//! Several processes share one login at a real authorization server that rotates refresh tokens and revokes a login whose
//! refresh token is used twice. Access tokens live for two seconds; a test that found the machine slower than that expects less.
//!
//! `MAINSTAY_LOGIN_SOAK=8x64x60` runs 8 processes with 64 callers each for 60 s, in place of the short form.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mainstay_login::{LoginKey, LoginProvider, LoginStore};
use mainstay_partner::{ProtectedServer, TokenFault};
use mainstay_testkit::poll;
use serde::Deserialize;

use crate::support::{log_in, private_directory, provider, store, worker};

const TOKEN_SECONDS: u32 = 2;

/// The server counts in whole seconds, so a token of 2 s may live for 1 s. It is renewed after two thirds.
const SHORTEST_LIFE_MS: u64 = 1000;
const RENEWED_EARLY_MS: u64 = SHORTEST_LIFE_MS / 3;

/// How long a process may take beyond its time.
const WORKER_GRACE: Duration = Duration::from_secs(60);

#[derive(Debug, Deserialize)]
struct Worked {
    good: u32,
    failed: u32,
    errors: Vec<String>,
    slowest_ms: u64,
    asked: u32,
    /// When each token was last given to a request, in milliseconds since 1970.
    given: BTreeMap<String, u64>,
}

/// No call fails and no login is asked for. On a machine that takes longer for a call than a token lives, calls may fail.
fn assert_served(worked: &Worked) {
    assert_eq!(worked.asked, 0, "{worked:?}");
    if worked.slowest_ms < SHORTEST_LIFE_MS {
        assert_eq!(worked.failed, 0, "{worked:?}");
    }
}

/// How large a soak is.
#[derive(Clone, Copy, Debug)]
struct SoakSize {
    processes: usize,
    callers: u32,
    seconds: u64,
}

impl SoakSize {
    fn chosen() -> Self {
        let chosen = std::env::var("MAINSTAY_LOGIN_SOAK").unwrap_or_else(|_| "4x16x10".to_owned());
        let numbers: Vec<u32> = chosen
            .split('x')
            .map(|number| number.parse().expect("a number"))
            .collect();
        let [processes, callers, seconds] = numbers[..] else {
            panic!("PROCESSESxCALLERSxSECONDS, not {chosen}");
        };
        Self {
            processes: processes as usize,
            callers,
            seconds: seconds.into(),
        }
    }
}

/// A process that calls. It is killed with this.
struct Worker(Option<Child>);

impl Worker {
    fn start(protected: &ProtectedServer, directory: &Path, callers: u32, seconds: u64) -> Self {
        let child = Command::new(worker())
            .arg(&protected.resource)
            .arg(directory)
            .args([callers.to_string(), seconds.to_string()])
            .stdout(Stdio::piped())
            .spawn();
        Self(Some(child.expect("the worker starts")))
    }

    /// What it did, at its own end.
    fn finish(mut self) -> Worked {
        let child = self.0.take().expect("it runs");
        let output = child.wait_with_output().expect("it ends");
        serde_json::from_slice(&output.stdout).expect("the worker reports")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn several_processes_share_one_login_without_losing_it() {
    let Some(protected) = ProtectedServer::start(TOKEN_SECONDS) else {
        return;
    };
    let size = SoakSize::chosen();
    let directory = private_directory();
    let logins = store(directory.path());
    log_in(&protected, &provider(&protected, &logins)).await;
    let began = Instant::now();
    let start = |_| Worker::start(&protected, directory.path(), size.callers, size.seconds);
    let workers: Vec<Worker> = (0..size.processes).map(start).collect();
    let mut workeds = Vec::new();
    for worker in workers {
        workeds.push(tokio::task::spawn_blocking(|| worker.finish()).await.unwrap());
    }
    let calls: u32 = workeds.iter().map(|worked| worked.good).sum();
    let slowest_ms = workeds.iter().map(|worked| worked.slowest_ms).max().unwrap();
    let lived = began.elapsed();
    assert!(lived < Duration::from_secs(size.seconds) + WORKER_GRACE);
    let stats = protected.stats();
    let failed: u32 = workeds.iter().map(|worked| worked.failed).sum();
    println!("{size:?}: {calls} calls, {failed} failed, slowest {slowest_ms} ms, in {lived:?}, {stats:?}");
    assert_eq!((stats.invalid_grants, stats.token_errors), (0, 0), "{stats:?}");
    // As many refreshes as expiries: no token was replaced while it was new, and none was given to a request after its time.
    assert_eq!(stats.early_refreshes, 0, "{stats:?}");
    let expiries = protected.expiries();
    for (token, given) in workeds.iter().flat_map(|worked| &worked.given) {
        let expires = expiries[token];
        assert!(*given <= expires, "used {} ms after its expiry", given - expires);
    }
    // A request that leaves in time may arrive too late if the machine is slower than the renewal is early. Such a request is
    // repeated. A call fails if its repetition is late as well, so if the machine takes longer than a token lives.
    if slowest_ms < RENEWED_EARLY_MS {
        assert_eq!(stats.refused, 0, "{stats:?}");
    }
    for worked in &workeds {
        assert!(worked.good > 0, "{worked:?}");
        assert_served(worked);
    }
    // The server counts a life in whole seconds.
    let least = u64::from(TOKEN_SECONDS).saturating_mul(1000);
    let least = (size.seconds * 1000 / least).saturating_sub(1);
    assert!(u64::from(stats.refreshes) >= least, "at least {least}: {stats:?}");
}

/// What a token endpoint does in an outage, in turn.
const FAULTS: [TokenFault; 6] = [
    TokenFault::Healthy,
    TokenFault::Down,
    TokenFault::Slow,
    TokenFault::Status(500),
    TokenFault::Healthy,
    TokenFault::Status(429),
];

/// The logins that were lost, and how.
#[derive(Debug, Default)]
struct Losses {
    /// A process died with the only copy of the last refresh token, and no process has noticed yet.
    spent: u32,
    /// A process has noticed.
    ended: u32,
}

impl Losses {
    /// Counts a loss that happened since the last look, and logs in again after it.
    async fn look(
        &mut self,
        protected: &ProtectedServer,
        logins: &Arc<dyn LoginStore>,
        person: &LoginProvider,
    ) {
        let key = LoginKey {
            server: protected.resource.parse().unwrap(),
            user: None,
        };
        let (store, of_lock) = (logins.clone(), key.clone());
        let lock = tokio::task::spawn_blocking(move || store.lock(&of_lock, Duration::from_secs(20)));
        let lock = lock.await.unwrap().expect("the lock of a dead process is free");
        // Under the lock nothing is being refreshed. If the last refresh token is not in the store, its process died before it
        // had saved it.
        let stored = logins.logins(&key).unwrap().remove(0).login;
        let token = stored
            .record
            .refresh_token
            .as_ref()
            .map(|token| token.expose().to_owned());
        let is_spent = token != protected.latest_refresh_token();
        if stored.ended.is_some() {
            self.ended += 1;
            assert!(
                is_spent,
                "the login ended although its refresh token was the last: {stored:?}"
            );
        }
        self.spent += u32::from(is_spent && stored.ended.is_none());
        drop(lock);
        if is_spent {
            // A person logs in again. The authorization server must be up for that.
            protected.set_fault(TokenFault::Healthy);
            log_in(protected, person).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_processes_and_outages_lose_a_login_only_between_the_answer_and_the_save() {
    let Some(protected) = ProtectedServer::start(TOKEN_SECONDS) else {
        return;
    };
    let size = SoakSize::chosen();
    let directory = private_directory();
    let logins = store(directory.path());
    let person = provider(&protected, &logins);
    log_in(&protected, &person).await;
    let start = || Worker::start(&protected, directory.path(), size.callers, 3600);
    let mut workers: Vec<Worker> = (0..size.processes).map(|_| start()).collect();
    // One process is never killed. Its server asks for a login only when the login is lost.
    let survivor = Worker::start(&protected, directory.path(), size.callers, size.seconds * 2);
    let until = Instant::now() + Duration::from_secs(size.seconds * 2);
    let mut losses = Losses::default();
    let mut kills = 0;
    let mut turn = 0_usize;
    while Instant::now() < until {
        protected.set_fault(FAULTS[turn % FAULTS.len()]);
        turn += 1;
        // Uneven pauses, so that kills fall into every phase of a renewal.
        tokio::time::sleep(Duration::from_millis(200 + (turn as u64 * 377) % 700)).await;
        let victim = turn % workers.len();
        workers[victim] = start();
        kills += 1;
        losses.look(&protected, &logins, &person).await;
    }
    protected.set_fault(TokenFault::Healthy);
    drop(workers);
    // These kills, too, may have fallen between an answer and its save.
    losses.look(&protected, &logins, &person).await;
    let survived = tokio::task::spawn_blocking(|| survivor.finish()).await.unwrap();
    let worked = Worker::start(&protected, directory.path(), 4, 5);
    let worked = tokio::task::spawn_blocking(|| worked.finish()).await.unwrap();
    let stats = protected.stats();
    let Losses { spent, ended } = losses;
    println!("{kills} kills, {spent} refresh tokens spent, {ended} logins ended, {survived:?}, {stats:?}");
    assert!(
        survived.asked <= spent + ended,
        "a login was asked for in an outage: {survived:?}"
    );
    assert_served(&worked);
    assert!(worked.good > 0 && stats.refreshes > 0, "{worked:?} {stats:?}");
    assert!(
        stats.invalid_grants <= spent + ended,
        "a refresh token was used twice: {spent} were spent, {stats:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_before_the_save_costs_the_login_and_every_process_says_so_once() {
    let Some(protected) = ProtectedServer::start(TOKEN_SECONDS) else {
        return;
    };
    let directory = private_directory();
    let logins = store(directory.path());
    let person = provider(&protected, &logins);
    log_in(&protected, &person).await;
    protected.set_fault(TokenFault::Stall);
    let victim = Worker::start(&protected, directory.path(), 1, 3600);
    let is_renewed = poll::comes_true_async(WORKER_GRACE, || protected.stats().stalled > 0);
    assert!(is_renewed.await, "the token is renewed");
    drop(victim);
    protected.set_fault(TokenFault::Healthy);
    let start = |_| Worker::start(&protected, directory.path(), 4, 6);
    let workers: Vec<Worker> = (0..3).map(start).collect();
    for worker in workers {
        let worked = tokio::task::spawn_blocking(|| worker.finish()).await.unwrap();
        // The access token may live a little longer than the login.
        assert!(worked.asked == 1 && worked.failed > 0, "asked once: {worked:?}");
        assert!(worked.errors[0].contains("login"), "{worked:?}");
    }
    let stats = protected.stats();
    assert_eq!(
        stats.invalid_grants, 1,
        "one process found out for all: {stats:?}"
    );
    let stored = logins.all_logins().unwrap().remove(0).login;
    assert!(stored.ended.is_some());
    log_in(&protected, &person).await;
    let worked = Worker::start(&protected, directory.path(), 4, 3);
    let worked = tokio::task::spawn_blocking(|| worked.finish()).await.unwrap();
    assert_served(&worked);
}
