//! Nothing that the program prints, logs, serves or leaves in files holds a secret of a login.

use std::fs;
use std::path::Path;

use mainstay_control::api::StateName;
use mainstay_partner::TokenFault;
use mainstay_testkit::poll;

use super::served::{Serving, asks_for_login};
use super::start;
use crate::sandbox::{Sandbox, finish};

/// Everything that was seen, by where it was seen.
#[derive(Default)]
struct Seen(Vec<(String, String)>);

impl Seen {
    fn note(&mut self, place: &str, text: String) {
        self.0.push((place.to_owned(), text));
    }

    /// Runs a command with every log that there is, and notes all it prints.
    fn run(&mut self, sandbox: &Sandbox, browser: &str, arguments: &[&str]) {
        let mut command = sandbox.command(arguments);
        command.env("MAINSTAY_LOG", "trace").env("BROWSER", browser);
        let ran = finish(command.spawn().unwrap());
        self.note(&format!("{arguments:?}"), ran.stdout + &ran.stderr);
    }

    /// Notes the files of a directory, but for the logins themselves.
    fn files(&mut self, directory: &Path) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.ends_with("mainstay/logins") {
                continue;
            }
            match path.is_dir() {
                true => self.files(&path),
                false => {
                    let bytes = fs::read(&path).unwrap_or_default();
                    self.note(
                        &path.display().to_string(),
                        String::from_utf8_lossy(&bytes).into_owned(),
                    );
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_of_a_whole_session_is_in_any_output_log_event_or_file() {
    let Some((protected, sandbox)) = start(2) else {
        return;
    };
    let browser = protected.browser();
    let mut seen = Seen::default();
    let serving = Serving::start(&sandbox);
    seen.run(&sandbox, &browser, &["call", "search", "echo", "--json"]);
    serving.reaches(asks_for_login).await;
    seen.run(&sandbox, &browser, &["login", "search", "--json"]);
    serving
        .reaches(|status| status.state == StateName::Connected)
        .await;
    let calls = |seen: &mut Seen| {
        seen.run(&sandbox, &browser, &["check", "--json"]);
        seen.run(&sandbox, &browser, &["call", "search", "echo", "--json"]);
        seen.run(&sandbox, &browser, &["auth", "status", "--json"]);
        seen.run(&sandbox, &browser, &["auth", "status"]);
    };
    calls(&mut seen);
    // The program that serves renews the token; then it cannot for a while.
    let refreshed = |count: u32| {
        let is_renewed = poll::comes_true(poll::LIMIT, || protected.stats().refreshes >= count);
        assert!(is_renewed, "the token is renewed");
    };
    refreshed(2);
    protected.set_fault(TokenFault::Status(500));
    let asked = protected.stats().token_requests;
    let is_refused = poll::comes_true(poll::LIMIT, || protected.stats().token_requests > asked);
    assert!(is_refused, "a refresh fails");
    calls(&mut seen);
    protected.set_fault(TokenFault::Healthy);
    refreshed(protected.stats().refreshes + 1);
    seen.run(&sandbox, &browser, &["logout", "search", "--json"]);
    seen.run(&sandbox, &browser, &["call", "search", "echo"]);
    // Another one through the control API, with the address pasted.
    let begun = serving.client.begin_login("search").await.unwrap();
    seen.note("the answer to a login", format!("{begun:?}"));
    let redirect = protected.browse(&begun.address.unwrap(), Some("--stop-at=/callback"));
    let done = serving.client.paste_login_address("search", &redirect).await;
    seen.note("the answer to a pasted address", format!("{done:?}"));
    let again = serving.client.paste_login_address("search", &redirect).await;
    seen.note("the answer to an old address", format!("{again:?}"));
    serving
        .reaches(|status| status.state == StateName::Connected)
        .await;
    seen.run(&sandbox, &browser, &["logout", "search"]);
    let events = serving.client.last_events(None, 10_000).await.unwrap();
    assert!(!events.events.is_empty());
    seen.note("the events", serde_json::to_string(&events).unwrap());
    let servers = serving.client.servers(false).await.unwrap();
    seen.note("the servers", serde_json::to_string(&servers).unwrap());
    let log = serving.end();
    assert!(log.lines().count() > 20, "everything is logged: {log}");
    seen.note("the log of serve", log);
    seen.files(&sandbox.path("home"));
    seen.files(&sandbox.path("work"));

    let secrets = protected.secrets();
    assert!(
        secrets.len() >= 8,
        "tokens, codes and verifiers were issued: {}",
        secrets.len()
    );
    for (place, text) in &seen.0 {
        for secret in &secrets {
            assert!(!text.contains(secret.as_str()), "a secret is shown in {place}");
        }
    }
}
