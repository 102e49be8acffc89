//! Logins at a real authorization server (`oidc-provider`) that rotates refresh tokens and revokes a login whose refresh token
//! is used twice.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use mainstay::catalog::Kind;
use mainstay::server::Reason;
use mainstay::transport::http::Credentials as _;
use mainstay::{Fleet, Server, ServerConfig};
use mainstay_login::{
    LoginKey, LoginPrompt, LoginProvider, LoginRequest, LoginStore, LoginStoreError, ReadLogin,
    StoreDescription, StoreLock, StoreVersion, StoreWatch, StoredLogin, finish_renewals, log_out,
};
use mainstay_oauth::{Registration, SecretText};
use mainstay_partner::{ProtectedServer, TokenFault};
use mainstay_testkit::{clock, poll};
use serde_json::json;

use crate::support::{log_in, private_directory, provider, store};

const SOON: Duration = poll::LIMIT;

fn keep(protected: &ProtectedServer, provider: &LoginProvider) -> (Fleet, Server) {
    let config = ServerConfig::http("protected", &*protected.resource);
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

/// Logs in on a runtime of its own, as another process does.
fn log_in_elsewhere(protected: &ProtectedServer, logins: &LoginProvider) {
    let log_in = || {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(log_in(protected, logins));
    };
    std::thread::scope(|scope| scope.spawn(log_in).join()).expect("logged in");
}

#[tokio::test]
async fn a_login_by_another_process_brings_a_server_back_within_a_second() {
    let Some(protected) = ProtectedServer::start(600) else {
        return;
    };
    let directory = private_directory();
    let (fleet, server) = keep(&protected, &provider(&protected, &store(directory.path())));
    asks_for_login(&server).await;
    // Another store object is what another process has.
    let elsewhere = provider(&protected, &store(directory.path()));
    log_in_elsewhere(&protected, &elsewhere);
    let back = server.wait_until(SOON, |status| status.reason != Some(Reason::AuthRequired));
    let back = clock::within(Duration::from_secs(1), back).await;
    back.expect("tried again");
    server.wait_connected(SOON).await.unwrap();
    echo(&server).await.unwrap();

    // A logout is noticed without a request, and another login brings the server back again.
    let reports = log_out(&elsewhere).await.unwrap();
    assert_eq!(reports.len(), 1);
    assert_eq!(
        (reports[0].revoked, reports[0].error.as_deref()),
        (Some(true), None)
    );
    asks_for_login(&server).await;
    echo(&server).await.expect_err("logged out");
    log_in_elsewhere(&protected, &elsewhere);
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
    log_in(&protected, &logins).await;
    let (fleet, server) = keep(&protected, &logins);
    server.wait_connected(SOON).await.unwrap();
    for fault in [
        TokenFault::Status(503),
        TokenFault::Status(429),
        TokenFault::Status(500),
        TokenFault::Down,
    ] {
        protected.set_fault(fault);
        // Calls that are under way when the token expires are refused by the server; the others fail before they leave.
        let mut failures = 0;
        let deadline = Instant::now() + SOON;
        while failures < 5 {
            assert!(Instant::now() < deadline, "no token can be had");
            // One that finds no connection waits for it as long as it may.
            let hurried = server
                .call("echo", &json!({}))
                .timeout(Duration::from_millis(500));
            if let Err(error) = hurried.await {
                failures += 1;
                assert!(
                    !error.to_string().contains("login"),
                    "no person is asked: {error}"
                );
            }
            let status = server.status();
            assert_ne!(status.reason, Some(Reason::AuthRequired), "no person is asked");
        }
        let stored = logins.store().all_logins().unwrap().remove(0).login;
        assert!(stored.last_error.is_some() && stored.ended.is_none(), "{fault:?}");
        protected.set_fault(TokenFault::Healthy);
        let answered = poll::ask_for(SOON, async || echo(&server).await.ok()).await;
        answered.unwrap_or_else(|| panic!("the login does not work again after {fault:?}"));
    }
    let stored = logins.store().all_logins().unwrap().remove(0).login;
    assert_eq!(stored.last_error, None, "the last refresh succeeded");
    let stats = protected.stats();
    assert_eq!(stats.invalid_grants, 0, "{stats:?}");
    fleet.close(SOON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_whose_caller_is_gone_is_completed_and_saved() {
    let Some(protected) = ProtectedServer::start(600) else {
        return;
    };
    let directory = private_directory();
    let logins = store(directory.path());
    log_in(&protected, &provider(&protected, &logins)).await;
    let mut read = logins.all_logins().unwrap().remove(0);
    read.login.record.access_token = SecretText::new("refused");
    logins.replace(&read.login, Some(&read.version)).unwrap();
    // The server refuses the token, and the refresh takes two seconds. Its caller, the connection, ends meanwhile.
    protected.set_fault(TokenFault::Slow);
    let before = protected.stats().token_requests;
    let (fleet, server) = keep(&protected, &provider(&protected, &logins));
    let is_renewed = poll::comes_true_async(SOON, || protected.stats().token_requests > before);
    assert!(is_renewed.await, "the token is renewed");
    fleet.close(Duration::from_millis(100)).await;
    drop((fleet, server));
    assert!(finish_renewals(SOON).await);
    let stats = protected.stats();
    assert_eq!((stats.refreshes, stats.invalid_grants), (1, 0), "{stats:?}");
    let stored = logins.all_logins().unwrap().remove(0).login.record;
    let token = stored.refresh_token.map(|token| token.expose().to_owned());
    assert_eq!(token, protected.latest_refresh_token(), "saved");
}

/// A store whose writes wait until the test lets them go on.
struct HeldStore {
    inner: Arc<dyn LoginStore>,
    reached: mpsc::Sender<()>,
    released: Mutex<mpsc::Receiver<()>>,
}

impl LoginStore for HeldStore {
    fn replace(&self, login: &StoredLogin, expected: Option<&StoreVersion>) -> Result<(), LoginStoreError> {
        let _ = self.reached.send(());
        let _ = self.released.lock().unwrap().recv_timeout(SOON);
        self.inner.replace(login, expected)
    }

    fn logins(&self, key: &LoginKey) -> Result<Vec<ReadLogin>, LoginStoreError> {
        self.inner.logins(key)
    }

    fn all_logins(&self) -> Result<Vec<ReadLogin>, LoginStoreError> {
        self.inner.all_logins()
    }

    fn remove(&self, login: &StoredLogin) -> Result<(), LoginStoreError> {
        self.inner.remove(login)
    }

    fn remove_all(&self, key: &LoginKey) -> Result<(), LoginStoreError> {
        self.inner.remove_all(key)
    }

    fn lock(&self, key: &LoginKey, within: Duration) -> Result<Box<dyn StoreLock>, LoginStoreError> {
        self.inner.lock(key, within)
    }

    fn registrations(&self) -> Result<Vec<Registration>, LoginStoreError> {
        self.inner.registrations()
    }

    fn save_registration(&self, registration: &Registration) -> Result<(), LoginStoreError> {
        self.inner.save_registration(registration)
    }

    fn forget_registration(&self, issuer: &str, client_id: &str) -> Result<(), LoginStoreError> {
        self.inner.forget_registration(issuer, client_id)
    }

    fn watch(&self) -> StoreWatch {
        self.inner.watch()
    }

    fn describe(&self) -> StoreDescription {
        self.inner.describe()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_token_is_saved_before_it_is_used() {
    let Some(protected) = ProtectedServer::start(600) else {
        return;
    };
    let directory = private_directory();
    let inner = store(directory.path());
    log_in(&protected, &provider(&protected, &inner)).await;
    let mut read = inner.all_logins().unwrap().remove(0);
    read.login.record.access_token = SecretText::new("refused");
    inner.replace(&read.login, Some(&read.version)).unwrap();
    let ((reached, at_write), (release, released)) = (mpsc::channel(), mpsc::channel());
    let held: Arc<dyn LoginStore> = Arc::new(HeldStore {
        inner,
        reached,
        released: Mutex::new(released),
    });
    let logins = provider(&protected, &held);
    let (fleet, server) = keep(&protected, &logins);
    let written = tokio::task::spawn_blocking(move || at_write.recv_timeout(SOON)).await;
    written.unwrap().expect("the renewed login is saved");
    let value = logins.authorization().await.unwrap().expect("a token");
    assert_eq!(value, "Bearer refused", "the new token is not saved yet");
    release.send(()).unwrap();
    server.wait_connected(SOON).await.unwrap();
    echo(&server).await.unwrap();
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
    let summary = log_in(&protected, &logins).await;
    seen += &format!("{summary:?} {logins:?}");
    let (fleet, server) = keep(&protected, &logins);
    server.wait_connected(SOON).await.unwrap();
    let mut events = fleet.events();
    let is_renewed = poll::comes_true_async(SOON, || protected.stats().refreshes > 0).await;
    assert!(is_renewed, "the token is renewed");
    echo(&server).await.unwrap();
    let read = logins.store().all_logins().unwrap();
    seen += &format!("{read:?}");
    log_out(&logins).await.unwrap();
    let error = echo(&server).await.expect_err("logged out");
    seen += &format!("{error} {error:?}");
    asks_for_login(&server).await;
    seen += &format!("{:?}", server.status());
    fleet.close(SOON).await;
    drop((fleet, server));
    let rest = async {
        while let Some(event) = events.next().await {
            seen += &format!("{event:?}");
        }
    };
    tokio::time::timeout(SOON, rest)
        .await
        .expect("the events end with the fleet");
    let secrets = protected.secrets();
    assert!(secrets.len() >= 4, "tokens were issued");
    for secret in secrets {
        assert!(!seen.contains(&secret), "a secret is shown");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stolen_copy_of_a_login_is_worth_nothing_after_the_logout() {
    let Some(protected) = ProtectedServer::start(600) else {
        return;
    };
    let (directory, stolen) = (private_directory(), private_directory());
    let logins = provider(&protected, &store(directory.path()));
    log_in(&protected, &logins).await;
    let thief = store(stolen.path());
    for read in logins.store().all_logins().unwrap() {
        thief.replace(&read.login, None).unwrap();
    }
    for registration in logins.store().registrations().unwrap() {
        thief.save_registration(&registration).unwrap();
    }
    // The copy works as long as the login does.
    let (fleet, server) = keep(&protected, &provider(&protected, &thief));
    server.wait_connected(SOON).await.unwrap();
    echo(&server).await.unwrap();

    let reports = log_out(&logins).await.unwrap();
    assert_eq!(
        (reports.len(), reports[0].revoked),
        (1, Some(true)),
        "{reports:?}"
    );
    assert!(logins.store().all_logins().unwrap().is_empty());
    echo(&server).await.expect_err("the access token is revoked");
    asks_for_login(&server).await;
    let stats = protected.stats();
    assert_eq!(
        (stats.refreshes, stats.invalid_grants),
        (0, 1),
        "the refresh token is refused: {stats:?}"
    );
    let copy = thief.all_logins().unwrap().remove(0).login;
    assert!(copy.ended.is_some(), "the login has ended for the copy too");
    fleet.close(SOON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_person_never_sees_the_catalog_of_the_first() {
    let Some(protected) = ProtectedServer::start(600) else {
        return;
    };
    let (directory, catalogs) = (private_directory(), private_directory());
    let logins = store(directory.path());
    let start = |protected: &str, provider: LoginProvider| {
        let config = ServerConfig::http("protected", protected).credentials(Arc::new(provider));
        let fleet = Fleet::builder().store(catalogs.path());
        let fleet = fleet.start([config.build().unwrap()]);
        let server = fleet.server("protected").unwrap();
        (fleet, server)
    };
    let tools = |server: &Server| -> Vec<String> {
        let catalog = server.catalog();
        catalog.map_or(Vec::new(), |catalog| {
            catalog
                .items(Kind::Tool)
                .iter()
                .map(|tool| tool.key().to_owned())
                .collect()
        })
    };
    log_in(&protected, &provider(&protected, &logins)).await;
    let (fleet, server) = start(&protected.resource, provider(&protected, &logins));
    server.wait_connected(SOON).await.unwrap();
    server
        .wait_until(SOON, |status| status.listed_at.is_some())
        .await
        .unwrap();
    assert_eq!(tools(&server), ["echo", "of-ann"]);
    fleet.close(SOON).await;

    // The first person's next start shows the stored catalog before anything is asked.
    let (fleet, server) = start(&protected.resource, provider(&protected, &logins));
    assert_eq!(tools(&server), ["echo", "of-ann"], "stored");
    fleet.close(SOON).await;

    // The second person logs in while nothing runs. Not even an unreachable server shows the first one's tools.
    protected.set_person("bob", true);
    log_in(&protected, &provider(&protected, &logins)).await;
    let (fleet, server) = start(&protected.resource, provider(&protected, &logins));
    assert_eq!(tools(&server), [""; 0], "nothing is stored for this login");
    server.wait_connected(SOON).await.unwrap();
    server
        .wait_until(SOON, |status| status.listed_at.is_some())
        .await
        .unwrap();
    assert_eq!(tools(&server), ["echo", "of-bob"]);

    // The second person logs in again as the first while the server runs.
    protected.set_person("ann", true);
    log_out(&provider(&protected, &logins)).await.unwrap();
    echo(&server).await.expect_err("logged out");
    asks_for_login(&server).await;
    log_in(&protected, &provider(&protected, &logins)).await;
    let listed = server.wait_until(SOON, |_| tools(&server) == ["echo", "of-ann"]);
    listed.await.expect("listed again for the new login");
    fleet.close(SOON).await;
}

/// The page that the browser of the person is shown at the end.
fn last_page(redirect: &str) -> String {
    let rest = redirect.strip_prefix("http://").expect("on this machine");
    let (authority, path) = rest.split_once('/').expect("a path");
    let mut stream = TcpStream::connect(authority).expect("the login listens");
    stream.set_read_timeout(Some(SOON)).expect("a timeout");
    write!(stream, "GET /{path} HTTP/1.1\r\nhost: {authority}\r\n\r\n").expect("written");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("a page");
    page
}

#[tokio::test(flavor = "multi_thread")]
async fn the_browser_shows_whether_the_code_was_exchanged() {
    let Some(protected) = ProtectedServer::start(600) else {
        return;
    };
    let directory = private_directory();
    let logins = provider(&protected, &store(directory.path()));
    let browse = || async {
        let login = logins
            .login(LoginRequest::default())
            .await
            .expect("a login begins");
        let LoginPrompt::Browse(address) = login.prompt() else {
            panic!("a browser is needed: {:?}", login.prompt());
        };
        let redirect = protected.browse(address.url().as_str(), Some("--stop-at=/callback"));
        let page = tokio::task::spawn_blocking(move || last_page(&redirect))
            .await
            .expect("a page");
        (login, page)
    };
    protected.set_fault(TokenFault::Status(503));
    let (mut login, page) = browse().await;
    assert!(
        page.contains("<h1>Not logged in</h1>") && page.contains("status 503"),
        "{page}"
    );
    login.finished().await.expect_err("no token");
    protected.set_fault(TokenFault::Healthy);
    let (mut login, page) = browse().await;
    assert!(page.contains("<h1>Logged in</h1>"), "{page}");
    assert_eq!(
        logins.store().all_logins().unwrap().len(),
        1,
        "saved before it is told"
    );
    login.finished().await.expect("logged in");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_logs_in_to_its_server() {
    let Some(protected) = ProtectedServer::start(600) else {
        return;
    };
    let directory = private_directory();
    let (fleet, server) = keep(&protected, &provider(&protected, &store(directory.path())));
    asks_for_login(&server).await;
    let mut login = server.login().await.unwrap();
    let _ended_at = protected.browse(login.address().expect("a person is needed"), None);
    let summary = login.finished().await.unwrap();
    assert_eq!(
        (summary.issuer.as_str(), summary.renewable),
        (&*protected.issuer, true)
    );
    server
        .wait_until(SOON, |status| status.reason != Some(Reason::AuthRequired))
        .await
        .unwrap();
    server.wait_connected(SOON).await.unwrap();
    echo(&server).await.unwrap();

    // A person who refuses ends the login, and the error says so.
    protected.set_person("ann", false);
    let mut login = server.login().await.unwrap();
    let _ended_at = protected.browse(login.address().expect("a person is needed"), None);
    let refused = login.finished().await.unwrap_err().to_string();
    assert!(
        refused.contains("access_denied") || refused.contains("the person said no"),
        "{refused}"
    );
    echo(&server).await.expect("the login before is still good");
    fleet.close(SOON).await;
}
