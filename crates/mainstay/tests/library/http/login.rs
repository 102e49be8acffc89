//! Servers that want a login: no attempt is wasted on them, and whatever may have been the login brings them back.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mainstay::config::{HttpTarget, ServerBuilder};
use mainstay::lifecycle::{Cause, WhenSpent};
use mainstay::server::Reason;
use mainstay::transport::http::{Authorizing, BearerToken, Challenge, Changing, Credentials};
use mainstay::{CallError, CallErrorKind, Failure, Fleet, Outcome, Policy, Server, StateKind, Status};
use mainstay_testkit::http::{FaultyHttpServer, HttpFault, HttpRule, HttpScript, HttpStep};
use mainstay_testkit::{Occurrence, Script, Speaks};
use reqwest::header::HeaderValue;
use serde_json::json;
use tokio::sync::{Notify, watch};

use crate::http::support::{
    ERAS, SOON, call, connected, echo, fleet, generation_of, keep, next_event, probing, quick,
    running_append, seen, sent, serve, web_at,
};

const METADATA: &str = "http://127.0.0.1/.well-known/oauth-protected-resource/mcp";

fn unauthorized() -> HttpFault {
    HttpFault::unauthorized(METADATA, "files:read files:write")
}

/// Waits until the server waits for a login.
async fn asks_for_login(server: &Server) -> Status {
    let status = is_refused(server).await;
    assert_eq!(status.next_retry, None, "only a login can help");
    status
}

/// Waits until the server has refused what it was shown.
async fn is_refused(server: &Server) -> Status {
    let asks = |status: &Status| status.reason == Some(Reason::AuthRequired);
    let status = server.wait_until(SOON, asks).await;
    let status = status.unwrap_or_else(|| panic!("no login wanted: {:?}", server.status()));
    assert_eq!(status.state, StateKind::Disconnected);
    assert_eq!(status.attempt, 0, "no attempt is spent");
    status
}

fn challenge(failure: Option<&Arc<Failure>>) -> &Challenge {
    let failure = failure.expect("it says why");
    failure.challenge.as_ref().expect("it says what for")
}

fn assert_names_the_login(challenge: &Challenge) {
    assert_eq!(challenge.resource_metadata.as_deref(), Some(METADATA));
    assert_eq!(challenge.scopes, ["files:read", "files:write"]);
}

/// A call to a server that waits for a login fails, and at once.
async fn assert_calls_fail_at_once(server: &Server, remote: &FaultyHttpServer) {
    let before = remote.traffic(|traffic| traffic.requests("POST"));
    let error = echo(server).await.expect_err("not logged in");
    let CallErrorKind::NotConnected(now) = &error.kind else {
        panic!("{error:?}")
    };
    assert_eq!(now.reason, Some(Reason::AuthRequired));
    challenge(now.last_error.as_ref());
    assert_eq!(error.outcome(), Outcome::NotSent);
    assert_eq!(remote.traffic(|traffic| traffic.requests("POST")), before);
}

#[tokio::test]
async fn a_login_that_is_asked_for_at_any_request_is_waited_for_and_told_of() {
    for speaks in ERAS {
        let (probe, from) = match speaks {
            Speaks::Legacy => ("ping", Occurrence::Always),
            Speaks::Modern | Speaks::Both => ("server/discover", Occurrence::From(2)),
        };
        for (method, occurrence) in [
            ("server/discover", Occurrence::Always),
            ("initialize", Occurrence::Always),
            ("tools/list", Occurrence::Always),
            ("tools/call", Occurrence::Always),
            (probe, from),
        ] {
            // It is never asked so.
            if speaks == Speaks::Legacy && method == "server/discover" {
                continue;
            }
            let rule = HttpRule::on(method, unauthorized()).occurrence(occurrence);
            let remote = serve(Script::new().speaks(speaks), HttpScript::new().rule(rule)).await;
            let (fleet, server) = keep(web_at(&remote).policy(probing(300, 5000, 2)));
            let mut events = fleet.events();
            if method == "tools/call" {
                connected(&server).await;
                let error = echo(&server).await.expect_err("not let in");
                let CallErrorKind::AuthRequired { challenge, .. } = &error.kind else {
                    panic!("{error:?}")
                };
                assert_names_the_login(challenge);
                assert_eq!(error.outcome(), Outcome::Refused);
            }
            let status = asks_for_login(&server).await;
            assert_names_the_login(challenge(status.last_error.as_ref()));
            let event = next_event(&mut events, |event| event.cause == Cause::LoginRequired).await;
            assert_eq!((event.to, event.attempt), (StateKind::Disconnected, 0));
            assert_names_the_login(challenge(event.error.as_ref()));
            assert_calls_fail_at_once(&server, &remote).await;

            remote.edit_http(|http| http.rules.clear());
            server.logged_in();
            connected(&server).await;
            assert!(echo(&server).await.is_ok(), "{speaks:?}, {method}");
        }
    }
}

#[tokio::test]
async fn a_call_that_runs_while_another_one_is_refused_for_its_credential_is_answered() {
    for speaks in ERAS {
        let slow = HttpRule::on("tools/call", HttpFault::Delay { ms: 3_000 }).named("append");
        let refused = HttpRule::on("tools/call", unauthorized()).named("put");
        let http = HttpScript::new().rule(slow).rule(refused);
        let remote = serve(Script::new().speaks(speaks), http).await;
        let (_fleet, server) = keep(web_at(&remote));
        let first = connected(&server).await;
        let running = running_append(&server, &remote).await;
        let error = call(&server, "put", json!({})).await.expect_err("not let in");
        assert_eq!(error.outcome(), Outcome::Refused, "{error}");
        asks_for_login(&server).await;
        let reply = running.await.unwrap().expect("it was let in before");
        assert_eq!(reply.generation.0, first, "{speaks:?}");
    }
}

#[tokio::test]
async fn another_token_brings_a_server_back_that_refused_the_old_one() {
    for speaks in ERAS {
        let http = HttpScript::new().bearer("good");
        let remote = serve(Script::new().speaks(speaks), http).await;
        let token = Arc::new(BearerToken::new("expired"));
        let (_fleet, server) = keep(web_at(&remote).credentials(token.clone()));
        asks_for_login(&server).await;
        token.set("wrong");
        let again = server.wait_until(SOON, |status| {
            status.starts == 2 && status.reason == Some(Reason::AuthRequired)
        });
        again.await.expect("tried once, and refused");
        token.set("good");
        let generation = connected(&server).await;
        assert!(echo(&server).await.is_ok());

        // It expires again, and is renewed before anybody is refused.
        remote.edit_http(|http| http.bearer = Some("better".to_owned()));
        token.set("better");
        assert_eq!(echo(&server).await.unwrap().generation.0, generation);
    }
}

#[tokio::test]
async fn another_configuration_brings_a_server_back_that_refused_the_old_one() {
    for speaks in ERAS {
        let http = HttpScript::new().bearer("good");
        let remote = serve(Script::new().speaks(speaks), http).await;
        let refused = || web_at(&remote).bearer_token("expired");
        let good = [
            web_at(&remote).header("Authorization", "Bearer good"),
            web_at(&remote).bearer_token("good"),
            refused().credentials(Arc::new(BearerToken::new("good"))),
        ];
        for config in good {
            let (fleet, server) = keep(refused());
            is_refused(&server).await;
            fleet.apply([config.build().unwrap()]).await;
            connected(&server).await;
            assert!(echo(&server).await.is_ok());
            fleet.close(SOON).await;
        }
    }
}

/// A credential that never says that it has changed.
struct Fixed(&'static str);

impl Credentials for Fixed {
    fn authorization(&self) -> Authorizing<'_> {
        Box::pin(async { Ok(Some(HeaderValue::from_static(self.0))) })
    }
}

/// A credential that is refused, and that is given out only when the test says so.
#[derive(Default)]
struct Refused {
    asked: Notify,
    given: Notify,
}

impl Credentials for Refused {
    fn authorization(&self) -> Authorizing<'_> {
        Box::pin(async {
            self.asked.notify_one();
            self.given.notified().await;
            self.given.notify_one();
            Ok(Some(HeaderValue::from_static("Bearer expired")))
        })
    }
}

/// A credential that is refused, and whose watch panics.
struct Faulty;

impl Credentials for Faulty {
    fn authorization(&self) -> Authorizing<'_> {
        Box::pin(async { Ok(Some(HeaderValue::from_static("Bearer expired"))) })
    }

    fn changed(&self) -> Changing<'_> {
        Box::pin(async { panic!("asked to") })
    }
}

#[tokio::test]
async fn a_credential_whose_watch_panics_is_reported_and_a_login_still_brings_the_server_back() {
    let remote = serve(Script::new(), HttpScript::new().bearer("good")).await;
    let (_fleet, server) = keep(web_at(&remote).credentials(Arc::new(Faulty)));
    asks_for_login(&server).await;
    let said = |status: &Status| {
        let error = status.last_error.as_ref();
        error.is_some_and(|error| error.message.contains("panicked: asked to"))
    };
    let status = server.wait_until(SOON, said).await.expect("reported");
    challenge(status.last_error.as_ref());
    remote.edit_http(|http| http.bearer = Some("expired".to_owned()));
    server.logged_in();
    connected(&server).await;
}

#[tokio::test]
async fn another_credential_that_comes_while_a_dial_is_under_way_is_used_when_the_dial_is_refused() {
    for speaks in ERAS {
        let remote = serve(Script::new().speaks(speaks), HttpScript::new().bearer("good")).await;
        let refused = Arc::new(Refused::default());
        let (fleet, server) = keep(web_at(&remote).credentials(refused.clone()));
        refused.asked.notified().await;
        let good = web_at(&remote).credentials(Arc::new(Fixed("Bearer good")));
        fleet.apply([good.build().unwrap()]).await;
        refused.given.notify_one();
        connected(&server).await;
        assert_eq!(server.status().starts, 2);
    }
}

#[tokio::test]
async fn a_refused_token_of_the_configuration_is_tried_again_slowly() {
    let remote = serve(Script::new(), HttpScript::new().bearer("good")).await;
    let (_fleet, server) = keep(web_at(&remote).bearer_token("other"));
    let status = is_refused(&server).await;
    assert!(status.next_retry.is_some(), "no login can help, so time must");
}

#[tokio::test]
async fn a_credential_of_the_configuration_that_is_refused_once_lets_the_server_come_back() {
    let with_token = |server: ServerBuilder<HttpTarget>| server.bearer_token("good");
    let with_key = |server: ServerBuilder<HttpTarget>| server.header("X-Api-Key", "good");
    let with_key_and_logins = |server: ServerBuilder<HttpTarget>| {
        let none = Arc::new(BearerToken::new("none"));
        server.header("X-Api-Key", "good").credentials(none)
    };
    let configured: [fn(_) -> _; 3] = [with_token, with_key, with_key_and_logins];
    for configured in configured {
        let once = HttpRule::on("initialize", unauthorized()).occurrence(Occurrence::Nth(1));
        let remote = serve(Script::new(), HttpScript::new().rule(once)).await;
        let policy = Policy {
            when_spent: WhenSpent::ProbeEvery(Duration::from_millis(50)),
            ..quick()
        };
        let fleet = fleet([]);
        let mut events = fleet.events();
        fleet
            .apply([configured(web_at(&remote)).policy(policy).build().unwrap()])
            .await;
        let refused = next_event(&mut events, |event| event.to == StateKind::Disconnected).await;
        assert_eq!(refused.cause, Cause::LoginRequired);
        connected(&fleet.server("web").unwrap()).await;
    }
}

#[tokio::test]
async fn a_call_that_may_not_do_so_much_is_its_own_failure() {
    for speaks in ERAS {
        let rule = HttpRule::on("tools/call", HttpFault::insufficient_scope("admin")).named("append");
        let remote = serve(Script::new().speaks(speaks), HttpScript::new().rule(rule)).await;
        let (_fleet, server) = keep(web_at(&remote));
        let generation = connected(&server).await;
        for _ in 0..5 {
            let error = server.call("append", &json!({})).await;
            let error = error.expect_err("not allowed");
            let CallErrorKind::AuthRequired { challenge, .. } = &error.kind else {
                panic!("{error:?}")
            };
            assert_eq!(challenge.scopes, ["admin"]);
            assert_eq!(challenge.error.as_deref(), Some("insufficient_scope"));
        }
        assert_eq!(sent(&remote, "tools/call"), 5);
        assert_eq!(echo(&server).await.unwrap().generation.0, generation);
        assert_eq!(server.status().state, StateKind::Connected);
    }
}

#[tokio::test]
async fn a_dial_that_is_forbidden_waits_for_a_login() {
    for method in ["server/discover", "tools/list"] {
        let http = HttpScript::new().on(method, HttpFault::insufficient_scope("mcp"));
        let remote = serve(Script::new().speaks(Speaks::Modern), http).await;
        let (_fleet, server) = keep(web_at(&remote));
        let status = asks_for_login(&server).await;
        assert_eq!(challenge(status.last_error.as_ref()).scopes, ["mcp"]);
    }
}

#[tokio::test]
async fn an_expired_token_keeps_the_tools_in_sight() {
    let remote = serve(Script::new(), HttpScript::new().bearer("good")).await;
    let token = Arc::new(BearerToken::new("good"));
    let (fleet, server): (Fleet, Server) = keep(web_at(&remote).credentials(token.clone()));
    let first = connected(&server).await;
    let tools = fleet.catalog().tools().len();
    remote.edit_http(|http| http.bearer = Some("better".to_owned()));
    assert!(matches!(
        echo(&server).await,
        Err(CallError {
            kind: CallErrorKind::AuthRequired { .. },
            ..
        })
    ));
    asks_for_login(&server).await;
    assert_eq!(fleet.catalog().tools().len(), tools);
    assert!(fleet.catalog().freshness("web").unwrap().stale_since.is_some());
    token.set("better");
    let second = crate::http::support::beyond(&server, first).await;
    assert_eq!(generation_of(&server.status()), second);
    assert_eq!(fleet.catalog().freshness("web").unwrap().stale_since, None);
}

#[tokio::test]
async fn a_stream_that_is_refused_while_a_token_is_renewed_is_asked_for_again() {
    let ends = HttpRule::new(HttpStep::Get, HttpFault::EndAfterEvents(1)).occurrence(Occurrence::Nth(1));
    let refused = HttpRule::new(HttpStep::Get, unauthorized()).occurrence(Occurrence::Nth(2));
    let http = HttpScript::new().without_event_ids().rule(ends).rule(refused);
    let remote = serve(Script::new(), http).await;
    let (_fleet, server) = keep(web_at(&remote));
    let generation = connected(&server).await;
    seen(&remote, |traffic| traffic.live_streams() == 1).await;
    remote.notify(
        "notifications/message",
        &json!({ "level": "info", "data": "the last" }),
    );
    seen(&remote, |traffic| {
        traffic.requests("GET") == 3 && traffic.live_streams() == 1
    })
    .await;
    assert_eq!(connected(&server).await, generation);
}

/// A credential that is there until the test withdraws it.
struct Withdrawable(watch::Sender<bool>);

impl Credentials for Withdrawable {
    fn authorization(&self) -> Authorizing<'_> {
        let value = self.0.borrow().then(|| HeaderValue::from_static("Bearer good"));
        Box::pin(std::future::ready(Ok(value)))
    }

    fn withdrawn(&self) -> Changing<'_> {
        Box::pin(async {
            // It cannot be closed: its sender is here.
            let _ = self.0.subscribe().wait_for(|is_there| !is_there).await;
        })
    }
}

#[tokio::test]
async fn a_credential_that_is_withdrawn_ends_the_connection_without_a_request_and_lets_its_calls_end() {
    for speaks in ERAS {
        let remote = serve(Script::new().speaks(speaks), HttpScript::new().bearer("good")).await;
        let credentials = Arc::new(Withdrawable(watch::Sender::new(true)));
        let (_fleet, server) = keep(web_at(&remote).credentials(credentials.clone()));
        connected(&server).await;
        let calling = server.clone();
        let call = tokio::spawn(async move { calling.call("sleep_ms", &json!({ "ms": 1000 })).await });
        seen(&remote, |traffic| traffic.sent("tools/call") == 1).await;
        credentials.0.send_replace(false);
        let status = asks_for_login(&server).await;
        let asked = challenge(status.last_error.as_ref());
        assert!(!asked.refuses_credential, "nothing was shown");
        call.await.expect("no panic").expect("the call ends");
        assert_eq!(server.status().starts, 2, "one dial without the credential");
    }
}

/// The login of a person, after whom another may log in.
struct PersonalLogin(Mutex<&'static str>);

impl Credentials for PersonalLogin {
    fn authorization(&self) -> Authorizing<'_> {
        Box::pin(std::future::ready(Ok(Some(HeaderValue::from_static("Bearer b")))))
    }

    fn owner(&self) -> Option<String> {
        Some(self.0.lock().expect("not poisoned").to_string())
    }
}

#[tokio::test]
async fn what_a_server_showed_to_one_person_is_dropped_when_another_logs_in() {
    let remote = serve(Script::new(), HttpScript::new()).await;
    let login = Arc::new(PersonalLogin(Mutex::new("one")));
    let (fleet, server) = keep(web_at(&remote).credentials(login.clone()));
    connected(&server).await;
    remote.edit_http(|http| {
        let methods = ["server/discover", "initialize", "tools/call"];
        http.rules = methods.map(|method| HttpRule::on(method, unauthorized())).into();
    });
    echo(&server).await.expect_err("not let in");
    let mut starts = asks_for_login(&server).await.starts;
    for (person, is_shown) in [("one", true), ("two", false)] {
        *login.0.lock().expect("not poisoned") = person;
        server.logged_in();
        let refused = server.wait_until(SOON, |status| {
            status.starts > starts && status.reason == Some(Reason::AuthRequired)
        });
        starts = refused.await.expect("tried, and refused").starts;
        assert_eq!(!fleet.catalog().tools().is_empty(), is_shown, "{person}");
    }
}
