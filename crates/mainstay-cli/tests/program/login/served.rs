//! A login through the control API of a program that serves.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mainstay_control::ControlClient;
use mainstay_control::api::{LoginState, ServerStatus, StateName};
use mainstay_testkit::poll;

use super::start;
use crate::sandbox::Sandbox;

const LONG: Duration = Duration::from_secs(60);

/// `mainstay serve --admin`, with every log that there is.
pub(crate) struct Serving {
    child: Child,
    log: Option<JoinHandle<String>>,
    pub(crate) client: ControlClient,
}

impl Serving {
    pub(crate) fn start(sandbox: &Sandbox) -> Self {
        let token_file = sandbox.path("control-token");
        let mut child = sandbox
            .command(&[
                "serve",
                "--admin",
                "--listen",
                "127.0.0.1:0",
                "--admin-token-file",
            ])
            .arg(&token_file)
            .env("MAINSTAY_LOG", "trace")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, found) = mpsc::channel();
        let log = thread::spawn(move || {
            let mut log = String::new();
            for line in stderr.lines().map_while(Result::ok) {
                if let Some(rest) = line.split("control API is at http://").nth(1) {
                    let address = rest.split('/').next().unwrap_or_default();
                    let _ = sender.send(address.to_owned());
                }
                log += &line;
                log += "\n";
            }
            log
        });
        let address = found.recv_timeout(LONG).expect("it says where the API is");
        let token = std::fs::read_to_string(&token_file).unwrap();
        let client = ControlClient::tcp(address.parse().unwrap(), token.trim()).timeout(LONG);
        Self {
            child,
            log: Some(log),
            client,
        }
    }

    /// Waits until the server `search` is as it should be.
    pub(crate) async fn reaches(&self, wanted: impl Fn(&ServerStatus) -> bool) {
        let reached = poll::ask_for(LONG, async || {
            wanted(&self.client.server("search").await.expect("a status")).then_some(())
        });
        reached.await.expect("the state in time");
    }

    /// Ends it, and returns its log.
    pub(crate) fn end(mut self) -> String {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap();
        self.log.take().expect("read once").join().unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn asks_for_login(status: &ServerStatus) -> bool {
    status.reason.as_deref() == Some("auth_required")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_through_the_control_api_brings_the_server_up() {
    let Some((protected, sandbox)) = start(600) else {
        return;
    };
    let serving = Serving::start(&sandbox);
    serving.reaches(asks_for_login).await;
    let client = &serving.client;
    let begun = client.begin_login("search").await.unwrap();
    assert_eq!(begun.state, LoginState::Waiting);
    let again = client.begin_login("search").await.unwrap();
    assert_eq!(begun, again, "one login for both");
    let _ended_at = protected.browse(&begun.address.unwrap(), None);
    // Nothing else has to be said.
    serving
        .reaches(|status| status.state == StateName::Connected)
        .await;
    assert_eq!(
        client.login_progress("search").await.unwrap().state,
        LoginState::LoggedIn
    );

    // A browser on another machine: the address is pasted.
    sandbox.run(&["logout", "search"]).exits(0);
    let begun = client.begin_login("search").await.unwrap();
    let redirect = protected.browse(&begun.address.unwrap(), Some("--stop-at=/callback"));
    let wrong = client
        .paste_login_address("search", "http://127.0.0.1:1/callback?code=x&state=y")
        .await;
    assert!(wrong.is_err());
    let done = client.paste_login_address("search", &redirect).await.unwrap();
    assert_eq!(done.state, LoginState::LoggedIn, "{done:?}");
    let log = serving.end();
    assert!(!log.contains(&redirect));
}
