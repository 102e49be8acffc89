//! An authorization server that has forgotten the registration of this program.

use std::process::Stdio;

use mainstay_control::api::{LoginProgress, LoginState, ProblemKind, StateName};
use mainstay_partner::{PythonFramework, PythonProtectedServer, free_port};
use mainstay_testkit::poll;
use serde_json::json;

use super::served::{Serving, asks_for_login};
use crate::sandbox::{Ran, Sandbox, finish};

fn log_in(sandbox: &Sandbox, server: &PythonProtectedServer, arguments: &[&str]) -> Ran {
    let mut command = sandbox.command(arguments);
    command.env("BROWSER", server.browser()).stdin(Stdio::null());
    finish(command.spawn().unwrap())
}

#[test]
fn a_login_that_nobody_finishes_names_the_command_that_registers_again_and_it_helps() {
    let port = free_port();
    let Some(running) = PythonProtectedServer::start(PythonFramework::Sdk, port) else {
        return;
    };
    let sandbox = Sandbox::with(&json!({ "search": { "url": running.resource } }));
    log_in(&sandbox, &running, &["login", "search"]).exits(0);
    drop(running);
    let (running, in_vain) = loop {
        let running = PythonProtectedServer::start(PythonFramework::Sdk, port).expect("it was there before");
        let ran = log_in(&sandbox, &running, &["login", "search", "--timeout", "500ms"]);
        // If another process has the port of the registration, the client registers itself anew, and logs in. The next server forgets that one.
        if !ran.stdout.contains("logged in to search") {
            break (running, ran);
        }
    };
    in_vain
        .exits(1)
        .says("if the browser says that the client is unknown")
        .says("the login was not finished within 500ms")
        .says("`mainstay login search --register-again`");
    let again = log_in(&sandbox, &running, &["login", "search", "--register-again"]);
    again.exits(0);
    assert!(!again.stderr.contains("--register-again"), "{}", again.stderr);
    sandbox.run(&["call", "search", "echo"]).exits(0).prints("ok");
    let out = sandbox.run(&["logout", "search"]);
    out.exits(0).prints("the registration of the client is forgotten");

    sandbox.configure(&json!({ "search": { "url": running.resource, "oauth": { "client_id": "mine" } } }));
    let configured = sandbox.run(&["login", "search", "--register-again"]);
    configured.exits(2).says("names its client (mine)");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_over_the_api_registers_again_at_an_authorization_server_that_has_forgotten_the_client() {
    let port = free_port();
    let Some(running) = PythonProtectedServer::start(PythonFramework::Sdk, port) else {
        return;
    };
    let sandbox = Sandbox::with(&json!({ "search": { "url": running.resource } }));
    let serving = Serving::start(&sandbox);
    serving.reaches(asks_for_login).await;
    let client = &serving.client;
    let first = client.begin_login("search").await.unwrap();
    assert!(!first.reuses_registration, "{first:?}");
    let _ended_at = running.browse(&first.address.unwrap());
    serving
        .reaches(|status| status.state == StateName::Connected)
        .await;
    sandbox
        .run(&["auth", "status"])
        .exits(0)
        .prints("search: logged in");
    drop(running);

    let (running, in_vain) = loop {
        let running = PythonProtectedServer::start(PythonFramework::Sdk, port).expect("it was there before");
        let begun = client.begin_login("search").await.unwrap();
        if begun.reuses_registration {
            break (running, begun);
        }
        // Another process has the port of the registration, so the client registered itself anew. The next server forgets that one.
        let _ended_at = running.browse(&begun.address.unwrap());
        let is_over = |progress: &LoginProgress| progress.state != LoginState::Waiting;
        poll::ask_for(poll::LIMIT, async || {
            client.login_progress("search").await.ok().filter(is_over)
        })
        .await;
    };
    let ended_at = running.browse(&in_vain.address.unwrap());
    assert!(ended_at.starts_with(&running.issuer), "{ended_at}");
    let again = client.begin_login_as_new_client("search").await.unwrap();
    assert_eq!(again.state, LoginState::Waiting);
    assert!(!again.reuses_registration, "{again:?}");
    let _ended_at = running.browse(&again.address.unwrap());
    serving
        .reaches(|status| status.state == StateName::Connected)
        .await;
    let done = client.login_progress("search").await.unwrap();
    assert_eq!(done.state, LoginState::LoggedIn, "{done:?}");

    sandbox.configure(&json!({ "search": { "url": running.resource, "oauth": { "client_id": "mine" } } }));
    client.reload().await.unwrap();
    let refused = client.begin_login_as_new_client("search").await.unwrap_err();
    let problem = refused.problem().expect("a problem");
    assert_eq!(problem.kind, ProblemKind::Conflict);
    assert!(
        problem.title.contains("names the client (mine)"),
        "{}",
        problem.title
    );
}
