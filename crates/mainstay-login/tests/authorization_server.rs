//! Logins at a real authorization server (`oidc-provider`) that rotates refresh tokens and revokes a login whose refresh token
//! is used twice.

mod support;

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mainstay::server::Reason;
use mainstay::{Fleet, Server, ServerConfig};
use mainstay_login::{LoginProvider, log_out};
use serde::Deserialize;
use serde_json::json;

use support::{ProtectedServer, log_in, private_directory, provider, store, worker};

const SOON: Duration = Duration::from_secs(20);

#[derive(Debug, Deserialize)]
struct Worked {
    good: u32,
    failed: u32,
    errors: Vec<String>,
    slowest_ms: u64,
}

fn keep(protected: &ProtectedServer, provider: &LoginProvider) -> (Fleet, Server) {
    let config = ServerConfig::http("protected", protected.resource.as_str());
    let config = config.credentials(Arc::new(provider.clone())).build().unwrap();
    let fleet = Fleet::builder().start([config]);
    let server = fleet.server("protected").unwrap();
    (fleet, server)
}

async fn asks_for_login(server: &Server) {
    let asks = server.wait_until(SOON, |status| status.reason == Some(Reason::AuthRequired));
    asks.await.expect("a login is asked for");
}

async fn echo(server: &Server) -> Result<(), mainstay::CallError> {
    server.call("echo", &json!({})).timeout(SOON).await.map(|_| ())
}

#[tokio::test(flavor = "multi_thread")]
async fn several_processes_share_one_login_without_losing_it() {
    let Some(protected) = ProtectedServer::start(2) else {
        return;
    };
    let directory = private_directory();
    let seconds: u64 = std::env::var("MAINSTAY_LOGIN_SECONDS").map_or(10, |seconds| seconds.parse().unwrap());
    let logins = store(directory.path());
    log_in(&provider(&protected, &logins)).await;
    let began = Instant::now();
    let start = |_| {
        let mut command = Command::new(worker());
        command.arg(protected.resource.as_str()).arg(directory.path());
        command.args(["8".to_owned(), seconds.to_string()]);
        command.stdout(Stdio::piped()).spawn().expect("the worker starts")
    };
    let workers: Vec<_> = (0..4).map(start).collect();
    let wait =
        |worker: std::process::Child| tokio::task::spawn_blocking(|| worker.wait_with_output().unwrap());
    for waiting in workers.into_iter().map(wait) {
        let output = waiting.await.unwrap();
        let worked: Worked = serde_json::from_slice(&output.stdout).expect("the worker reports");
        assert_eq!(worked.failed, 0, "{worked:?}");
        assert!(worked.good > 0, "{worked:?}");
        assert!(
            worked.slowest_ms < 15_000 && worked.errors.is_empty(),
            "{worked:?}"
        );
    }
    let lived = began.elapsed();
    let stats = protected.stats().await;
    println!("{stats:?} in {lived:?}");
    assert_eq!((stats.invalid_grants, stats.token_errors), (0, 0), "{stats:?}");
    // A token lives for 2 s, stored as whole seconds: between 1 and 2 s, renewed after three quarters.
    let most = lived.as_millis() / 700 + 2;
    let least = u128::from(seconds * 1000 / 2000).saturating_sub(1);
    assert!(
        (least..=most).contains(&u128::from(stats.refreshes)),
        "between {least} and {most}: {stats:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_by_another_process_brings_a_server_back_within_a_second() {
    let Some(protected) = ProtectedServer::start(600) else {
        return;
    };
    let directory = private_directory();
    let (fleet, server) = keep(&protected, &provider(&protected, &store(directory.path())));
    asks_for_login(&server).await;
    // Another store object is what another process has.
    let elsewhere = provider(&protected, &store(directory.path()));
    log_in(&elsewhere).await;
    let back = server.wait_until(Duration::from_secs(1), |status| {
        status.reason != Some(Reason::AuthRequired)
    });
    back.await.expect("tried again within a second");
    server.wait_connected(SOON).await.unwrap();
    echo(&server).await.unwrap();

    // A logout is noticed by the next request, and another login brings the server back again.
    let reports = log_out(&elsewhere).await.unwrap();
    assert_eq!(reports.len(), 1);
    assert_eq!(
        (reports[0].revoked, reports[0].error.as_deref()),
        (Some(true), None)
    );
    echo(&server).await.expect_err("logged out");
    asks_for_login(&server).await;
    log_in(&elsewhere).await;
    server
        .wait_until(SOON, |status| status.reason != Some(Reason::AuthRequired))
        .await
        .unwrap();
    server.wait_connected(SOON).await.unwrap();
    echo(&server).await.unwrap();
    fleet.close(SOON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_the_authorization_server_costs_no_login() {
    let Some(protected) = ProtectedServer::start(3) else {
        return;
    };
    let directory = private_directory();
    let logins = provider(&protected, &store(directory.path()));
    log_in(&logins).await;
    let (fleet, server) = keep(&protected, &logins);
    server.wait_connected(SOON).await.unwrap();
    for status in [503, 429, 500] {
        protected.set_fault(status).await;
        tokio::time::sleep(Duration::from_secs(4)).await;
        let error = echo(&server).await.expect_err("no token can be had");
        assert!(
            !error.to_string().contains("login"),
            "no person is asked: {error}"
        );
        protected.set_fault(0).await;
        let deadline = Instant::now() + SOON;
        while echo(&server).await.is_err() {
            assert!(Instant::now() < deadline, "the login works again after {status}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    let stats = protected.stats().await;
    assert_eq!(stats.invalid_grants, 0, "{stats:?}");
    fleet.close(SOON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_in_a_status_an_event_or_an_error() {
    let Some(protected) = ProtectedServer::start(2) else {
        return;
    };
    let directory = private_directory();
    let logins = provider(&protected, &store(directory.path()));
    let mut seen = String::new();
    let summary = log_in(&logins).await;
    seen += &format!("{summary:?} {logins:?}");
    let (fleet, server) = keep(&protected, &logins);
    server.wait_connected(SOON).await.unwrap();
    let mut events = fleet.events();
    tokio::time::sleep(Duration::from_secs(3)).await;
    echo(&server).await.unwrap();
    let read = logins.store().all_logins().unwrap();
    seen += &format!("{read:?}");
    log_out(&logins).await.unwrap();
    let error = echo(&server).await.expect_err("logged out");
    seen += &format!("{error} {error:?}");
    asks_for_login(&server).await;
    seen += &format!("{:?}", server.status());
    while let Ok(Some(event)) = tokio::time::timeout(Duration::from_millis(300), events.next()).await {
        seen += &format!("{event:?}");
    }
    let secrets = protected.secrets().await;
    assert!(secrets.len() >= 4, "tokens were issued");
    for secret in secrets {
        assert!(!seen.contains(&secret), "a secret is shown");
    }
    fleet.close(SOON).await;
}
