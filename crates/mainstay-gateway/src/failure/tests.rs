use std::sync::Arc;
use std::time::SystemTime;

use mainstay::config::ServerConfig;
use mainstay::server::BadAnswer;
use mainstay::{Fleet, Generation};

use super::*;

/// A server that is not connected, of which everything can be changed.
async fn not_connected() -> NotConnected {
    not_connected_to("/no/such/program").await
}

async fn not_connected_to(program: &str) -> NotConnected {
    let config = ServerConfig::stdio("files", program).build().unwrap();
    let fleet = Fleet::builder().start([config]);
    let server = fleet.server("files").unwrap();
    let failed = server
        .wait_until(Duration::from_secs(60), |status| status.last_error.is_some())
        .await;
    let mut now = NotConnected::from(&failed.expect("a program that does not run"));
    let mut failure = (*now.last_error.unwrap()).clone();
    "exited with status 3".clone_into(&mut failure.message);
    now.last_error = Some(failure.into());
    now
}

fn in_state(now: &NotConnected, state: StateKind, reason: Option<Reason>, attempt: u32) -> NotConnected {
    let mut now = now.clone();
    now.state = state;
    now.reason = reason;
    now.attempt = attempt;
    now.next_retry = None;
    now
}

fn described(error: &CallError) -> (String, Value) {
    let result: Value = tool_result(error, &Advice::default()).unwrap().parse().unwrap();
    assert_eq!(result["isError"], true);
    let text = result["content"][0]["text"].as_str().unwrap().to_owned();
    assert_eq!(
        answer(error, &Advice::default()).message(),
        text,
        "an error says the same"
    );
    (text, result["_meta"]["mainstay"].clone())
}

#[tokio::test]
async fn the_failure_of_a_server_that_is_not_connected_says_its_state_and_what_to_do() {
    let now = not_connected().await;
    let with_login = {
        let mut asked = in_state(&now, StateKind::Disconnected, Some(Reason::AuthRequired), 1);
        let mut failure = (*asked.last_error.unwrap()).clone();
        let mut challenge = Challenge::default();
        challenge.scopes = vec!["read".to_owned(), "write".to_owned()];
        challenge.resource_metadata = Some("https://example.com/meta".to_owned());
        failure.challenge = Some(challenge);
        asked.last_error = Some(failure.into());
        asked
    };
    let state = |state, reason, attempt| in_state(&now, state, reason, attempt);
    for (mut now, retry, text, word) in [
        (
            state(StateKind::Connecting, None, 0),
            None,
            "Server files is starting (connecting). The call did not run. Call it again in a moment.",
            "connecting",
        ),
        (
            state(StateKind::Connecting, None, 2),
            Some(3),
            "Server files is starting (connecting, 2 failures in a row): exited with status 3. The call did not run. \
             The server is tried again in 3.0 s: call it again then.",
            "connecting",
        ),
        (
            state(StateKind::Reconnecting, None, 1),
            Some(5),
            "Server files is being restarted (reconnecting, 1 failure): exited with status 3. The call did not run. \
             The server is tried again in 5.0 s: call it again then.",
            "reconnecting",
        ),
        (
            state(StateKind::Disabled, None, 0),
            None,
            "Server files is disabled. The call did not run. A person must enable the server; until then it cannot be \
             called.",
            "disabled",
        ),
        (
            state(StateKind::Disconnected, Some(Reason::Idle), 0),
            None,
            "Server files was stopped because it was idle (disconnected). The call did not run. Call it again in a \
             moment.",
            "disconnected",
        ),
        (
            state(StateKind::Disconnected, Some(Reason::BudgetSpent), 10),
            Some(280),
            "Server files is down (disconnected, 10 failures in a row): exited with status 3. The call did not run. \
             The server is tried again in 280.0 s, or when a person restarts it.",
            "disconnected",
        ),
        (
            with_login,
            None,
            "Server files asks for a login with the scopes read write (disconnected). The call did not run. A person \
             must log in to the server; until then it cannot be called.",
            "disconnected",
        ),
        (
            state(StateKind::PermanentlyFailed, None, 1),
            None,
            "Server files has failed and is not tried again (permanently_failed): exited with status 3. The call did \
             not run. A person must fix and restart the server; until then it cannot be called.",
            "permanently_failed",
        ),
    ] {
        // A little more than the text says, since time goes on.
        now.next_retry = retry.map(|s| SystemTime::now() + Duration::from_millis(s * 1000 + 49));
        let wants_login = now.reason == Some(Reason::AuthRequired);
        let (said, facts) = described(&CallError::from(now));
        assert_eq!(said, text);
        assert_eq!(
            (&facts["server"], &facts["outcome"]),
            (&json!("files"), &json!("not_sent"))
        );
        assert_eq!(facts["state"], word);
        assert_eq!(facts["retryAfterMs"].is_u64(), retry.is_some(), "{facts}");
        let login = json!({ "scopes": ["read", "write"], "resourceMetadata": "https://example.com/meta", "error": null });
        assert_eq!(facts.get("login"), wants_login.then_some(&login), "{facts}");
    }
    let not_sent = |kind| CallError::new(Arc::from("files"), None, Outcome::NotSent, kind);
    let waited = not_sent(CallErrorKind::WaitTimedOut {
        waited: Duration::from_secs(30),
        now: Box::new(state(StateKind::Connecting, None, 0)),
    });
    assert_eq!(
        described(&waited).0,
        "Server files is starting (connecting). The call waited 30.0 s for it and did not run. Call it again in a moment."
    );
    let many = not_sent(CallErrorKind::TooManyWaiting {
        limit: 1000,
        now: Box::new(state(StateKind::Connecting, None, 0)),
    });
    assert_eq!(
        described(&many).0,
        "Server files is starting (connecting). 1000 calls wait for it already, and this one did not run. Call it again in \
         a moment."
    );
}

#[tokio::test]
async fn a_call_that_is_cut_because_its_server_wants_a_login_promises_no_restart() {
    let mut failure = (*not_connected().await.last_error.unwrap()).clone();
    "the server asks for a login".clone_into(&mut failure.message);
    failure.challenge = Some(Challenge::default());
    let kind = CallErrorKind::Lost {
        reason: String::new(),
        failure: Some(failure.into()),
    };
    let error = CallError::new(Arc::from("files"), Some(Generation(7)), Outcome::Unknown, kind);
    let said = words(&error, &Advice::default());
    assert!(
        said.contains("was lost (the server asks for a login). The call may have run: check its effects. "),
        "{said}"
    );
    assert!(!said.contains("restarted"), "{said}");
}

#[test]
fn the_failure_of_a_call_says_whether_it_may_have_run() {
    let failed = |outcome, kind| CallError::new(Arc::from("files"), Some(Generation(7)), outcome, kind);
    let lost = |outcome| {
        let reason = "the stream ended".to_owned();
        failed(
            outcome,
            CallErrorKind::Lost {
                reason,
                failure: None,
            },
        )
    };
    let mut challenge = Challenge::default();
    challenge.scopes = vec!["admin".to_owned()];
    for (error, text, outcome) in [
        (
            lost(Outcome::Unknown),
            "The connection to server files was lost (the stream ended). The call may have run: check its effects before \
             you call it again.",
            "unknown",
        ),
        (
            lost(Outcome::NotSent),
            "The connection to server files was lost (the stream ended). The call did not run. Call it again in a moment.",
            "not_sent",
        ),
        (
            failed(
                Outcome::Unknown,
                CallErrorKind::TimedOut {
                    timeout: TimeoutKind::Idle,
                    noise: None,
                },
            ),
            "Server files did not answer in time (neither an answer nor progress). The call may have run: check its effects \
             before you call it again.",
            "unknown",
        ),
        (
            failed(
                Outcome::Unknown,
                CallErrorKind::TimedOut {
                    timeout: TimeoutKind::Idle,
                    noise: Some("loading".into()),
                },
            ),
            "Server files did not answer in time (neither an answer nor progress). The call may have run: check its effects \
             before you call it again. Meanwhile the server wrote text to stdout that is no JSON-RPC message (\"loading\"); \
             it must write it to stderr.",
            "unknown",
        ),
        (
            failed(
                Outcome::Refused,
                CallErrorKind::NotCarried {
                    reason: "status 413".to_owned(),
                },
            ),
            "Server files refused the request (status 413). The call did not run.",
            "refused",
        ),
        (
            failed(
                Outcome::Refused,
                CallErrorKind::AuthRequired {
                    challenge: Box::new(challenge),
                },
            ),
            "Server files asks for a login with the scopes admin. The call did not run. A person must log in to the \
             server; until then it cannot be called.",
            "refused",
        ),
        (
            failed(
                Outcome::Refused,
                CallErrorKind::Throttled {
                    retry_after: Some(Duration::from_secs(12)),
                },
            ),
            "Server files has too much to do. The call did not run. Call it again in 12.0 s.",
            "refused",
        ),
        (
            failed(
                Outcome::Unknown,
                CallErrorKind::Throttled {
                    retry_after: Some(Duration::from_secs(12)),
                },
            ),
            "Server files has too much to do. The call may have run: check its effects before you call it again in 12.0 s.",
            "unknown",
        ),
        (
            failed(Outcome::Answered, CallErrorKind::BadAnswer(BadAnswer::Malformed)),
            "Server files answered with something that cannot be used (not a valid message). The call has run: check \
             its effects before you call it again.",
            "answered",
        ),
        (
            failed(Outcome::Unknown, CallErrorKind::Disabled),
            "Server files was disabled while the call was pending. The call may have run: check its effects. A person must \
             enable the server.",
            "unknown",
        ),
        (
            failed(Outcome::NotSent, CallErrorKind::Disabled),
            "Server files was disabled while the call was pending. The call did not run. A person must enable the server.",
            "not_sent",
        ),
        (
            failed(Outcome::Unknown, CallErrorKind::Gone),
            "Server files was removed. The call may have run: check its effects. It cannot be called until a person adds \
             the server again.",
            "unknown",
        ),
        (
            failed(Outcome::NotSent, CallErrorKind::Gone),
            "Server files was removed. The call did not run. It cannot be called until a person adds the server again.",
            "not_sent",
        ),
        (
            failed(Outcome::NotSent, CallErrorKind::KeeperFailed),
            "Server files is being restarted. The call did not run. Call it again in a moment.",
            "not_sent",
        ),
    ] {
        let (said, facts) = described(&error);
        assert_eq!(said, text);
        assert_eq!(
            (&facts["server"], &facts["outcome"]),
            (&json!("files"), &json!(outcome))
        );
    }
}

#[test]
fn errors_of_a_request_and_of_a_server_pass_as_they_are() {
    let hidden = CallErrorKind::Hidden {
        tool: "rm".to_owned(),
    };
    let hidden = CallError::new(Arc::from("files"), None, Outcome::NotSent, hidden);
    let refused = tool_result(&hidden, &Advice::default()).unwrap_err();
    assert_eq!(refused.code(), RpcError::INVALID_PARAMS);
    assert_eq!(
        refused.message(),
        "server files has no tool rm that the configuration shows"
    );
    let said = RpcError::new(SERVER_UNAVAILABLE, "my own words");
    let passed = CallErrorKind::Rpc(Box::new(said.clone()));
    let passed = CallError::new(Arc::from("files"), Some(Generation(1)), Outcome::Answered, passed);
    assert_eq!(tool_result(&passed, &Advice::default()).unwrap_err(), said);
}

#[test]
fn no_login_is_advised_where_the_configuration_has_a_token_or_turns_logins_off() {
    let with = |kind| Advice {
        login_command: Some(Arc::new(|name| Some(format!("log in {name}")))),
        credential: Some(Arc::new(move |_name| Some(kind))),
        ..Advice::default()
    };
    let refused = |error: Option<&str>, kind| {
        let mut challenge = Challenge::default();
        challenge.refuses_credential = kind != CredentialKind::None;
        challenge.error = error.map(str::to_owned);
        if challenge.wants_more_rights() {
            challenge.scopes.push("files:write".to_owned());
        }
        let challenge = Box::new(challenge);
        let asks = CallErrorKind::AuthRequired { challenge };
        let error = CallError::new(Arc::from("files"), Some(Generation(1)), Outcome::Refused, asks);
        answer(&error, &with(kind)).message().to_owned()
    };
    let replace = "The call did not run. A person must replace the token of the server's configuration; until then it cannot be called.";
    assert_eq!(
        refused(None, CredentialKind::Configured),
        format!("Server files refused the token of its configuration. {replace}")
    );
    assert_eq!(
        refused(Some("invalid_token"), CredentialKind::Configured),
        format!("Server files refused the token of its configuration (invalid_token). {replace}")
    );
    assert_eq!(
        refused(Some("insufficient_scope"), CredentialKind::Configured),
        "Server files accepted the token of its configuration, but needs more rights: the scopes files:write. The call did not run. A \
         person must replace the token of the server's configuration by one with these scopes; until then it refuses this call."
    );
    assert_eq!(
        refused(None, CredentialKind::None),
        "Server files asks for a login. The call did not run. A person must add a token to the server's configuration, which \
         turns logins off; until then it cannot be called."
    );
    assert_eq!(
        refused(Some("invalid_token"), CredentialKind::Login),
        "Server files refused the token that it was shown (invalid_token) and asks for a login. The call did not run. A person \
         must log in to the server (`log in files`); until then it cannot be called."
    );
}

#[test]
fn a_call_that_needs_more_rights_is_told_apart_from_a_server_that_lets_nothing_in() {
    let advice = Advice {
        login_command: Some(Arc::new(|name| Some(format!("log in {name}")))),
        ..Advice::default()
    };
    for (error, is_forbidden, is_more) in [
        (Some("insufficient_scope"), true, true),
        (None, true, true),
        (Some("invalid_token"), true, false),
        (None, false, false),
    ] {
        let mut challenge = Challenge::default();
        challenge.refuses_credential = true;
        challenge.is_forbidden = is_forbidden;
        challenge.error = error.map(str::to_owned);
        challenge.scopes = vec!["files:write".to_owned(), "$(reboot)".to_owned()];
        let challenge = Box::new(challenge);
        let asks = CallErrorKind::AuthRequired { challenge };
        let error = CallError::new(Arc::from("files"), Some(Generation(1)), Outcome::Refused, asks);
        let said = answer(&error, &advice).message().to_owned();
        assert_eq!(
            said.starts_with(
                "Server files accepted the token that it was shown, but needs more rights: the scopes files:write $(reboot). The call"
            ),
            is_more,
            "{said}"
        );
        assert_eq!(
            said.contains("`log in files --scope files:write`); until then it refuses this call."),
            is_more,
            "{said}"
        );
        assert_eq!(
            said.contains("`log in files`); until then it cannot be called."),
            !is_more,
            "{said}"
        );
        assert_eq!(error.to_string().contains("does not suffice"), is_more, "{error}");
    }
}

#[tokio::test]
async fn a_failure_says_what_the_program_around_the_gateway_knows_to_do() {
    let advice = Advice {
        login_command: Some(Arc::new(|name| Some(format!("log in {name}")))),
        start_hint: Some(Arc::from("It gets no variables.")),
        ..Advice::default()
    };
    let now = not_connected().await;
    let said = |now: NotConnected| {
        let error = CallError::from(now);
        let call = answer(&error, &advice).message().to_owned();
        (call, not_up(&error, &advice).message().to_owned())
    };
    let (call, list) = said(in_state(
        &now,
        StateKind::Disconnected,
        Some(Reason::AuthRequired),
        0,
    ));
    assert!(
        call.ends_with(
            "A person must log in to the server (`log in files`); until then it cannot be called."
        )
    );
    assert!(list.ends_with("A person must log in to the server (`log in files`)."));

    // The hint is about processes that ended, and about those that were of no use yet.
    let exited = not_connected_to("false").await;
    for (now, is_hinted) in [(&exited, true), (&now, false)] {
        let (call, list) = said(in_state(now, StateKind::Reconnecting, None, 1));
        assert_eq!(call.ends_with(" It gets no variables."), is_hinted, "{call}");
        assert_eq!(list.ends_with(" It gets no variables."), is_hinted, "{list}");
    }
    let (call, _list) = said(in_state(&exited, StateKind::Reconnecting, None, 0));
    assert!(!call.contains("variables"), "{call}");
}

#[tokio::test]
async fn a_server_that_refused_a_token_is_told_apart_from_one_that_was_shown_none() {
    let mut now = in_state(
        &not_connected().await,
        StateKind::Disconnected,
        Some(Reason::AuthRequired),
        0,
    );
    for (error, said) in [
        (
            Some("invalid_token"),
            "refused the token that it was shown (invalid_token) and asks for a login",
        ),
        (None, "refused the token that it was shown and asks for a login"),
        // What has no form of a name may be anything, the token included.
        (
            Some("sk-123 is bad"),
            "refused the token that it was shown and asks for a login",
        ),
        (
            Some("insufficient_scope"),
            "accepted the token that it was shown, but needs more rights",
        ),
    ] {
        let mut challenge = Challenge::default();
        challenge.error = error.map(str::to_owned);
        challenge.refuses_credential = true;
        let mut failure = (**now.last_error.as_ref().unwrap()).clone();
        failure.challenge = Some(challenge);
        now.last_error = Some(failure.into());
        let answered = answer(&CallError::from(now.clone()), &Advice::default());
        let message = answered.message();
        assert!(
            message.starts_with(&format!("Server files {said} (disconnected).")),
            "{message}"
        );
    }
}
