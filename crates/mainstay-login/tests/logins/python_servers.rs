//! Logins at real servers on the Python SDK and on FastMCP, which are their own authorization servers.

use std::sync::Arc;
use std::time::Duration;

use mainstay::{Fleet, Server, ServerConfig};
use mainstay_login::{LoginPrompt, LoginProvider, LoginRequest, LoginSettings, LoginSummary, log_out};
use mainstay_oauth::{AuthMethod, ConfiguredClient, SecretText};
use mainstay_partner::{PythonFramework, PythonProtectedServer, free_port};
use serde_json::{Value, json};

use crate::support::{private_directory, store};

const SOON: Duration = mainstay_testkit::poll::LIMIT;
const FRAMEWORKS: [PythonFramework; 2] = [PythonFramework::Sdk, PythonFramework::FastMcp];

fn settings(server: &PythonProtectedServer) -> LoginSettings {
    LoginSettings::new(server.resource.parse().expect("an address"))
}

async fn log_in(server: &PythonProtectedServer, provider: &LoginProvider) -> LoginSummary {
    let mut login = provider
        .login(LoginRequest::default())
        .await
        .expect("a login begins");
    let LoginPrompt::Browse(address) = login.prompt() else {
        panic!("a browser is needed: {:?}", login.prompt());
    };
    let _ended_at = server.browse(address.url().as_str());
    login.finished().await.expect("logged in")
}

async fn echo(server: &Server) {
    server
        .call("echo", &json!({}))
        .timeout(SOON)
        .await
        .expect("called");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_at_a_python_server_works_from_registration_to_revocation() {
    for framework in FRAMEWORKS {
        let Some(running) = PythonProtectedServer::start(framework, free_port()) else {
            return;
        };
        let directory = private_directory();
        let logins = LoginProvider::new(settings(&running), store(directory.path()));
        assert!(log_in(&running, &logins).await.renewable, "{framework:?}");
        let mut read = logins.store().all_logins().unwrap().remove(0);
        assert_eq!(
            read.login.record.method,
            AuthMethod::ClientSecretPost,
            "{framework:?}"
        );

        // The server refuses this token, so the first request of the next process renews it.
        read.login.record.access_token = SecretText::new("refused");
        logins.store().replace(&read.login, Some(&read.version)).unwrap();
        let again = LoginProvider::new(settings(&running), logins.store().clone());
        let config = ServerConfig::http("python", &*running.resource);
        let config = config.credentials(Arc::new(again)).build().unwrap();
        let fleet = Fleet::builder().start([config]);
        let server = fleet.server("python").unwrap();
        server.wait_connected(SOON).await.unwrap();
        echo(&server).await;
        let renewed = logins.store().all_logins().unwrap().remove(0).login.record;
        assert_ne!(renewed.access_token.expose(), "refused", "{framework:?}");
        fleet.close(SOON).await;

        let reports = log_out(&logins).await.unwrap();
        assert_eq!(
            (reports[0].revoked, reports[0].error.as_deref()),
            (Some(true), None)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_a_person_registered_with_a_header_logs_in_although_the_server_wants_its_id_in_the_body()
 {
    for framework in FRAMEWORKS {
        let Some(running) = PythonProtectedServer::start(framework, free_port()) else {
            return;
        };
        let port = free_port();
        let client = register(&running, port).await;
        let mut settings = settings(&running);
        settings.redirect_port = Some(port);
        settings.client.configured = Some(ConfiguredClient {
            id: client["client_id"].as_str().unwrap().to_owned(),
            secret: client["client_secret"].as_str().map(SecretText::new),
            issuer: None,
        });
        let directory = private_directory();
        let logins = LoginProvider::new(settings, store(directory.path()));
        log_in(&running, &logins).await;
        let record = logins.store().all_logins().unwrap().remove(0).login.record;
        assert_eq!(
            (record.method, record.id_in_body),
            (AuthMethod::ClientSecretBasic, true),
            "{framework:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_the_server_has_forgotten_can_register_again() {
    for framework in FRAMEWORKS {
        let port = free_port();
        let Some(running) = PythonProtectedServer::start(framework, port) else {
            return;
        };
        let directory = private_directory();
        let logins = LoginProvider::new(settings(&running), store(directory.path()));
        log_in(&running, &logins).await;
        drop(running);
        let running = PythonProtectedServer::start(framework, port).expect("it was there before");

        // The browser shows that the client is unknown, and nothing comes back.
        let mut request = LoginRequest::default();
        request.timeout = Some(Duration::from_millis(500));
        let mut login = logins.login(request).await.expect("a login begins");
        let LoginPrompt::Browse(address) = login.prompt() else {
            panic!("a browser is needed: {:?}", login.prompt());
        };
        let ended_at = running.browse(address.url().as_str());
        assert!(ended_at.starts_with(&running.issuer), "{framework:?}: {ended_at}");
        assert!(login.reuses_registration());
        let failure = login.finished().await.expect_err("nothing comes back");
        assert!(failure.may_be_unknown_client(), "{failure}");
        let said = failure.to_string();
        assert!(
            said.contains("not finished within 500ms") && said.contains("register the client again"),
            "{said}"
        );

        let mut request = LoginRequest::default();
        request.register_again = true;
        let mut login = logins.login(request).await.expect("a login begins");
        let LoginPrompt::Browse(address) = login.prompt() else {
            panic!("a browser is needed: {:?}", login.prompt());
        };
        assert!(!login.reuses_registration());
        let _ended_at = running.browse(address.url().as_str());
        login.finished().await.expect("logged in");
        assert_eq!(
            logins.store().registrations().unwrap().len(),
            1,
            "in place of the old one"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_logout_forgets_the_registration_that_no_other_login_uses() {
    let Some(running) = PythonProtectedServer::start(PythonFramework::Sdk, free_port()) else {
        return;
    };
    let directory = private_directory();
    let of = |user: &str| {
        let mut settings = settings(&running);
        settings.user = Some(user.to_owned());
        LoginProvider::new(settings, store(directory.path()))
    };
    let (ann, bob) = (of("ann"), of("bob"));
    log_in(&running, &ann).await;
    log_in(&running, &bob).await;
    assert_eq!(ann.store().registrations().unwrap().len(), 1, "shared");
    for (person, is_last) in [(ann, false), (bob, true)] {
        let reports = log_out(&person).await.unwrap();
        assert_eq!(reports[0].forgot_registration, is_last);
        assert_eq!(person.store().registrations().unwrap().is_empty(), is_last);
    }
}

/// Registers a client by hand, for a redirect to this port.
async fn register(server: &PythonProtectedServer, port: u16) -> Value {
    use mainstay::transport::HttpOptions;
    use mainstay::transport::http::{FetchRequest, fetch};
    let wanted = json!({
        "redirect_uris": [format!("http://127.0.0.1:{port}/callback")],
        "token_endpoint_auth_method": "client_secret_basic",
        "grant_types": ["authorization_code", "refresh_token"],
    });
    let request = FetchRequest {
        url: format!("{}/register", server.issuer),
        headers: vec![(
            http::header::CONTENT_TYPE,
            http::HeaderValue::from_static("application/json"),
        )],
        body: Some(wanted.to_string().into()),
    };
    let fetched = fetch(request, HttpOptions::new()).await.expect("registered");
    serde_json::from_slice(&fetched.body).expect("JSON")
}
