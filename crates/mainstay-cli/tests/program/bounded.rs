//! What `mainstay serve` bounds and logs because it was told to.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use mainstay_testkit::client::{Ask, LONG, Peer, Session, initialize, modern};
use rustix::process::Signal;
use serde_json::json;
use tokio::io::{AsyncReadExt, BufReader};
use tokio::time::timeout;

use crate::host::Host;
use crate::sandbox::{Sandbox, good};
use crate::serving::Serving;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_asks_too_often_is_told_when_to_come_back() {
    let sandbox = Sandbox::with(&json!({}));
    let serving = Serving::start(&sandbox, &["--rate", "1"]);
    let hello = || Ask::post("/mcp", &initialize(json!({})));
    let first = hello().send(serving.address).await;
    assert_eq!(first.status, 200);
    // Far faster than one a second, however busy the machine is: one of them comes too soon.
    let mut refused = None;
    for _ in 0..100 {
        let next = hello().send(serving.address).await;
        if next.status != 200 {
            refused = Some(next);
            break;
        }
    }
    let refused = refused.expect("a bound");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(refused.refusal().await, (429, -32000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_line_of_the_token_file_is_a_token_with_a_share_of_its_own() {
    let sandbox = Sandbox::with(&json!({}));
    let file = sandbox.write(
        "tokens",
        "# the team\n\nalice-0123456789ab\n  bob-456789abcdef0\n",
    );
    let file = file.to_str().expect("text");
    let serving = Serving::start(
        &sandbox,
        &[
            "--token-file",
            file,
            "--max-sessions",
            "4",
            "--max-sessions-per-client",
            "1",
        ],
    );
    let hello = |token: &str| {
        let hello = Ask::post("/mcp", &initialize(json!({})));
        hello.header("authorization", &format!("Bearer {token}"))
    };
    for token in ["alice-0123456789ab", "bob-456789abcdef0"] {
        let opened = hello(token).send(serving.address).await;
        assert_eq!(opened.status, 200, "{token}");
    }
    for token in ["# the team", "alice-0123456789ab\nbob-456789abcdef0", "carol", ""] {
        let token = token.replace('\n', " ");
        assert_eq!(hello(&token).send(serving.address).await.status, 401, "{token}");
    }
    let wrong = sandbox.write("wrong", "alice-0123456789ab\nbob 4567\n");
    sandbox
        .run(&["serve", "--token-file", wrong.to_str().expect("text")])
        .exits(2)
        .says("line 2 of ")
        .says("one token on each line");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_is_removed_from_its_file_is_refused_after_a_hangup_and_the_others_keep_their_sessions()
{
    let sandbox = Sandbox::with(&json!({}));
    let file = sandbox.write("tokens", "alice-old-0123456\nbob-456789abcdef0\n");
    let serving = Serving::start(&sandbox, &["--token-file", file.to_str().expect("text")]);
    let bearer = |token: &str, ask: Ask| ask.header("authorization", &format!("Bearer {token}"));
    let hello = async |token: &str| {
        let hello = bearer(token, Ask::post("/mcp", &initialize(json!({}))));
        hello.send(serving.address).await
    };
    let in_session = |token: &str, id: &str, ask: Ask| {
        let ask = bearer(token, ask).header("mcp-session-id", id);
        ask.header("mcp-protocol-version", "2025-11-25")
    };
    let alice = hello("alice-old-0123456").await;
    let alice = alice.header("mcp-session-id").expect("a session").to_owned();
    let bob = hello("bob-456789abcdef0").await;
    let bob = bob.header("mcp-session-id").expect("a session").to_owned();
    let listen = Ask::new("GET", "/mcp").header("accept", "text/event-stream");
    let mut stream = in_session("alice-old-0123456", &alice, listen)
        .send(serving.address)
        .await;
    assert_eq!(stream.status, 200);
    let listen = modern("/mcp", 1, "subscriptions/listen", json!({ "notifications": {} }));
    let mut modern_stream = bearer("alice-old-0123456", listen).send(serving.address).await;
    assert_eq!(modern_stream.status, 200);

    sandbox.write("tokens", "alice-new-0123456\nbob-456789abcdef0\n");
    serving.signal(Signal::HUP);
    serving.hears("token file applied: 1 added, 1 removed");
    let ended = async { while stream.event().await.is_some() {} };
    timeout(LONG, ended)
        .await
        .expect("the stream of the session ends");
    let ended = async { while modern_stream.event().await.is_some() {} };
    timeout(LONG, ended).await.expect("the modern stream ends");
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    for (token, id, status) in [
        ("alice-old-0123456", &alice, 401),
        ("alice-new-0123456", &alice, 404),
        ("bob-456789abcdef0", &bob, 200),
    ] {
        let answer = in_session(token, id, Ask::post("/mcp", &ping))
            .send(serving.address)
            .await;
        assert_eq!(answer.status, status, "{token}");
    }
    assert_eq!(hello("alice-new-0123456").await.status, 200);

    for (text, reason) in [("# nobody\n", "holds no token"), ("two words\n", "line 1 of ")] {
        sandbox.write("tokens", text);
        serving.signal(Signal::HUP);
        let line = serving.hears("the token file is not applied");
        assert!(line.contains(reason), "{line}");
        assert_eq!(hello("bob-456789abcdef0").await.status, 200, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_are_as_many_sessions_as_was_said_and_the_longest_idle_gives_way() {
    let sandbox = Sandbox::with(&json!({}));
    let serving = Serving::start(
        &sandbox,
        &["--max-sessions", "2", "--max-sessions-per-client", "2"],
    );
    let [first, second, third] = [
        Session::open(serving.address, "/mcp").await,
        Session::open(serving.address, "/mcp").await,
        Session::open(serving.address, "/mcp").await,
    ];
    let ping = async |session: &Session| session.ask(1, "ping", json!({})).await.status;
    assert_eq!(ping(&first).await, 404);
    assert_eq!((ping(&second).await, ping(&third).await), (200, 200));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_are_as_many_connections_as_was_said_and_the_longest_idle_gives_way() {
    let sandbox = Sandbox::with(&json!({}));
    for arguments in [
        &["--max-connections", "2", "--max-connections-per-address", "2"][..],
        &["--max-connections-per-address", "2"],
        &["--max-connections", "4"],
    ] {
        let serving = Serving::start(&sandbox, arguments);
        let door = Peer::from(serving.address);
        let mut first = door.connect().await.unwrap();
        let second = door.connect().await.unwrap();
        let third = Ask::new("GET", "/healthz").send(serving.address).await;
        assert_eq!(third.status, 200, "{arguments:?}");
        // The connection that has been idle longest was closed to make room; the other one still works.
        let closed = timeout(LONG, first.read(&mut [0; 1]))
            .await
            .expect("closed in time");
        assert!(matches!(closed, Ok(0) | Err(_)), "{arguments:?}");
        let answer = Ask::new("GET", "/healthz")
            .send_on(BufReader::new(second), &door)
            .await;
        assert_eq!(answer.status, 200, "{arguments:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_logged_where_that_was_asked_for_and_refused_ones_in_any_case() {
    let sandbox = Sandbox::with(&json!({}));
    let logging = [("MAINSTAY_LOG", "mainstay_gateway=info")];
    for (arguments, is_logged) in [(&["--access-log"][..], true), (&[], false)] {
        let serving = Serving::start_with(&sandbox, arguments, &logging);
        let ready = Ask::new("GET", "/readyz").send(serving.address).await;
        assert_eq!(ready.status, 200);
        assert_eq!(ready.body().await.0, "ready");
        let refused = Ask::new("GET", "/nowhere").send(serving.address).await;
        assert_eq!(refused.status, 404);
        if is_logged {
            let line = serving.hears("path=/readyz");
            assert!(line.contains("status=200") && line.contains("bytes=5"), "{line}");
            let line = serving.hears("path=/nowhere");
            assert!(line.contains("refused") && line.contains("status=404"), "{line}");
            serving.hears("duration_ms=");
        } else {
            let line = serving.hears("path=/");
            assert!(line.contains("refused") && line.contains("/nowhere"), "{line}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hangup_ends_nothing_even_without_a_configuration() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(&["serve", "--listen", "127.0.0.1:0"]);
    let serving = Serving::of(command.env_remove("HOME"));
    for _ in 0..2 {
        serving.signal(Signal::HUP);
        serving.hears("nothing to read again: no configuration file is used");
    }
    let alive = Ask::new("GET", "/healthz").send(serving.address).await;
    assert_eq!(alive.status, 200);
    serving.signal(Signal::TERM);
    serving.ended().exits(143);
}

#[test]
fn a_hangup_does_not_end_what_serves_on_stdin() {
    let sandbox = Sandbox::with(&json!({ "one": good() }));
    let mut host = Host::start(&sandbox, &["serve", "--stdio"]);
    let pid = rustix::process::Pid::from_child(&host.child);
    rustix::process::kill_process(pid, Signal::HUP).unwrap();
    assert_eq!(host.ask("ping", &json!({}))["result"], json!({}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_file_that_others_can_read_is_warned_of_and_one_that_others_can_write_is_refused() {
    let sandbox = Sandbox::with(&json!({}));
    let file = sandbox.write("tokens", "\u{feff}alice-0123456789ab\n");
    let path = file.to_str().expect("text");
    let set = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("set");
    set(0o620);
    let refused = sandbox.run(&["serve", "--token-file", path]);
    refused.exits(2).says("other users can write").says("chmod 600");
    set(0o644);
    let serving = Serving::start(&sandbox, &["--token-file", path]);
    // The byte order mark is no part of the token.
    let hello = Ask::post("/mcp", &initialize(json!({})));
    let hello = hello.header("authorization", "Bearer alice-0123456789ab");
    assert_eq!(hello.send(serving.address).await.status, 200);
    // What it said before it listened is not heard here; it says it again.
    serving.signal(Signal::HUP);
    let warning = serving.hears("other users can read the tokens in");
    assert!(warning.contains("chmod 600"), "{warning}");
    serving.hears("token file applied: nothing changed");
    set(0o666);
    serving.signal(Signal::HUP);
    let line = serving.hears("the token file is not applied");
    assert!(line.contains("other users can write"), "{line}");
    set(0o600);
    serving.signal(Signal::HUP);
    let next = serving.hears("token");
    assert!(next.contains("token file applied: nothing changed"), "{next}");
}
