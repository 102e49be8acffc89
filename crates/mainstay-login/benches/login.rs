//! What an OAuth login costs: a call with one over the same call with a fixed token, calls that a renewal delays, and the way
//! from a refusal to the listed tools.
//!
//! `cargo bench -p mainstay-login`. It needs the authorization server of `cargo xtask partners`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mainstay::server::Reason;
use mainstay::transport::http::{
    Authorizing, BearerToken, Changing, CredentialRefusal, Credentials, Refusing,
};
use mainstay::{Fleet, Server, ServerConfig};
use mainstay_login::{FileStore, LoginProvider, LoginRequest, LoginSettings, LoginStore, StoreProtection};
use mainstay_partner::ProtectedServer;
use serde_json::json;

const SOON: Duration = Duration::from_secs(30);

/// Rounds of each way to call, one after the other, so that both see the same machine.
const ROUNDS: usize = 20;
const CALLS_PER_ROUND: usize = 200;

/// How long calls run while tokens of two seconds are renewed.
const RENEWING: Duration = Duration::from_secs(20);

/// A credential that is in memory takes less. One that takes longer was waited for.
const WAITED: Duration = Duration::from_millis(1);

#[tokio::main]
async fn main() {
    let Some(protected) = ProtectedServer::start(3600) else {
        return;
    };
    let directory = private_directory();
    first_listing(&protected, directory.path()).await;
    ratio(&protected, directory.path()).await;
    drop(protected);
    let protected = ProtectedServer::start(2).expect("it was there before");
    renewals(&protected).await;
}

/// From the refusal of a request to the listed tools, without the person.
async fn first_listing(protected: &ProtectedServer, directory: &Path) {
    let provider = provider(protected, directory);
    let (fleet, server) = keep(protected, Arc::new(provider));
    let asks = server.wait_until(SOON, |status| status.reason == Some(Reason::AuthRequired));
    asks.await.expect("a login is asked for");
    let before = protected.stats().requests;
    let began = Instant::now();
    let mut login = server.login().await.expect("a login begins");
    let to_page = began.elapsed();
    let page = login.address().expect("a person is needed").to_owned();
    let redirect = protected.browse(&page, Some("--stop-at=/callback"));
    let began = Instant::now();
    login.paste(&redirect).await.expect("taken");
    login.finished().await.expect("logged in");
    let listed = server.wait_until(SOON, |status| status.listed_at.is_some());
    listed.await.expect("the tools are listed");
    let to_tools = began.elapsed();
    let requests = protected.stats().requests - before;
    println!("from 401 to the page of the login:       {to_page:?}");
    println!("from the person's answer to the tools:   {to_tools:?}");
    println!("requests from 401 to the tools:          {requests}");
    fleet.close(SOON).await;
}

/// A call with a login over the same call with a fixed token.
async fn ratio(protected: &ProtectedServer, directory: &Path) {
    let provider = provider(protected, directory);
    let stored = provider.store().all_logins().expect("the store").remove(0).login;
    let fixed = BearerToken::new(stored.record.access_token.expose());
    let (login_fleet, with_login) = keep(protected, Arc::new(provider));
    let (fixed_fleet, with_token) = keep(protected, Arc::new(fixed));
    for server in [&with_login, &with_token] {
        server.wait_connected(SOON).await.expect("connected");
        round(server).await;
    }
    let (mut login, mut token) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        login.push(round(&with_login).await);
        token.push(round(&with_token).await);
    }
    let (login, token) = (median(login), median(token));
    println!("a call with a fixed token:               {token:?}");
    println!("a call with a login:                     {login:?}");
    println!(
        "a call with a login over a fixed token:  {:.3}",
        login.as_secs_f64() / token.as_secs_f64()
    );
    login_fleet.close(SOON).await;
    fixed_fleet.close(SOON).await;
}

/// The time of a call, on average over a round.
async fn round(server: &Server) -> Duration {
    let began = Instant::now();
    for _ in 0..CALLS_PER_ROUND {
        server.call("echo", &json!({})).await.expect("answered");
    }
    began.elapsed() / u32::try_from(CALLS_PER_ROUND).expect("a small number")
}

/// Calls that waited for a credential while tokens were renewed.
async fn renewals(protected: &ProtectedServer) {
    let directory = private_directory();
    let provider = provider(protected, directory.path());
    let mut login = LoginProvider::login(&provider, LoginRequest::default())
        .await
        .expect("a login begins");
    let page = mainstay::transport::http::PendingLogin::address(&login)
        .expect("a person")
        .to_owned();
    let _ended_at = protected.browse(&page, None);
    login.finished().await.expect("logged in");
    let timed = Arc::new(TimedCredentials {
        provider,
        waited: AtomicU64::new(0),
    });
    let (fleet, server) = keep(protected, timed.clone());
    server.wait_connected(SOON).await.expect("connected");
    // What the connection itself waited for is no call.
    timed.waited.store(0, Ordering::Relaxed);
    let before = protected.stats().refreshes;
    let until = Instant::now() + RENEWING;
    let mut calls = 0_u64;
    while Instant::now() < until {
        server.call("echo", &json!({})).await.expect("answered");
        calls += 1;
    }
    let refreshes = protected.stats().refreshes - before;
    let delayed = timed.waited.load(Ordering::Relaxed);
    println!("calls that a renewal delayed:            {delayed} of {calls}, with {refreshes} renewals");
    fleet.close(SOON).await;
}

/// A provider that counts the requests which waited for their credential.
struct TimedCredentials {
    provider: LoginProvider,
    waited: AtomicU64,
}

impl Credentials for TimedCredentials {
    fn authorization(&self) -> Authorizing<'_> {
        Box::pin(async {
            let began = Instant::now();
            let value = self.provider.authorization().await;
            if began.elapsed() > WAITED {
                self.waited.fetch_add(1, Ordering::Relaxed);
            }
            value
        })
    }

    fn refused<'a>(&'a self, refusal: &'a CredentialRefusal) -> Refusing<'a> {
        self.provider.refused(refusal)
    }

    fn owner(&self) -> Option<String> {
        self.provider.owner()
    }

    fn changed(&self) -> Changing<'_> {
        self.provider.changed()
    }
}

fn provider(protected: &ProtectedServer, directory: &Path) -> LoginProvider {
    let store: Arc<dyn LoginStore> =
        Arc::new(FileStore::open(directory, StoreProtection::Plain).expect("a store"));
    let address = protected.resource.parse().expect("an address");
    LoginProvider::new(LoginSettings::new(address), store)
}

fn keep(protected: &ProtectedServer, credentials: Arc<dyn Credentials>) -> (Fleet, Server) {
    let config = ServerConfig::http("protected", &*protected.resource).credentials(credentials);
    let fleet = Fleet::builder().start([config.build().expect("valid")]);
    let server = fleet.server("protected").expect("just configured");
    (fleet, server)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn private_directory() -> tempfile::TempDir {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    tempfile::Builder::new()
        .permissions(mode)
        .tempdir()
        .expect("a directory")
}
