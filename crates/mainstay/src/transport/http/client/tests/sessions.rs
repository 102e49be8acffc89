use super::remote_server::INITIALIZED;
use super::*;
use crate::transport::End;

#[tokio::test]
async fn a_session_is_named_on_all_that_follows_and_deleted_at_the_end() {
    let (remote, mut owner) = Owner::start(HttpOptions::new()).await;
    let mut standing = Owner::session(&remote, &mut owner).await;
    assert_eq!(standing.header("mcp-session-id"), Some("s1"));
    assert_eq!(standing.header("accept"), Some("text/event-stream"));
    standing.events("").await;
    standing.event("data: {\"method\":\"notifications/a\"}\n\n").await;
    assert_eq!(owner.message().await, r#"{"method":"notifications/a"}"#);

    owner.ask(2, "tools/list");
    let asked = remote.next().await;
    assert_eq!(asked.header("mcp-session-id"), Some("s1"));
    assert_eq!(asked.header("mcp-protocol-version"), Some("2025-06-18"));
    asked.json(200, &json(2)).await;
    owner.message().await;

    owner.outbound.close();
    let delete_session = remote.next().await;
    assert_eq!(
        (
            delete_session.method.as_str(),
            delete_session.header("mcp-session-id")
        ),
        ("DELETE", Some("s1"))
    );
    assert_eq!(owner.end().await, End::Closed);
}

#[tokio::test]
async fn a_request_that_is_redirected_keeps_all_its_headers_and_its_own_take_the_place_of_shared_ones() {
    let options = HttpOptions::new()
        .header("x-team", "search")
        .header("accept", "text/plain");
    let (remote, mut owner) = Owner::start(options).await;
    Owner::session(&remote, &mut owner)
        .await
        .answer(405, "", "")
        .await;
    owner.ask(2, "tools/list");
    remote
        .next()
        .await
        .answer(307, "location: /elsewhere\r\n", "")
        .await;
    let again = remote.next().await;
    assert_eq!(again.path, "/elsewhere");
    for (name, value) in [
        ("x-team", "search"),
        ("mcp-session-id", "s1"),
        ("mcp-protocol-version", "2025-06-18"),
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
    ] {
        assert_eq!(again.header(name), Some(value), "{name}");
    }
    again.json(200, &json(2)).await;
    assert_eq!(owner.message().await, json(2));
}

#[tokio::test]
async fn no_request_overtakes_the_end_of_the_handshake() {
    let (remote, mut owner) = Owner::start(HttpOptions::new()).await;
    owner.ask(1, "initialize");
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}"#;
    remote.next().await.json(200, answer).await;
    owner.message().await;
    owner.send(INITIALIZED.into(), Purpose::Notification);
    owner.ask(2, "tools/list");
    let told = remote.next().await;
    assert_eq!(told.body, INITIALIZED);
    tokio::task::yield_now().await;
    remote.asked_nothing().await;
    told.answer(202, "", "").await;
    let mut next = [remote.next().await, remote.next().await];
    next.sort_by(|a, b| a.method.cmp(&b.method));
    assert_eq!([&next[0].method, &next[1].method], ["GET", "POST"]);
    assert_eq!(next[1].body, request(2, "tools/list"));
}

#[tokio::test]
async fn a_legacy_request_is_cancelled_by_a_notification() {
    let (remote, owner) = Owner::start_session().await;
    owner.ask(2, "slow");
    let asked = remote.next().await;
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#;
    owner.cancel(2, cancel);
    assert_eq!(remote.next().await.body, cancel);
    assert!(asked.goes_away().await, "its place is free again");
}

#[tokio::test]
async fn all_requests_that_are_dropped_at_once_free_their_places_and_are_cancelled_at_the_server() {
    // As many as can be under way at once.
    const REQUESTS: u64 = 256;
    let (remote, mut owner) = Owner::start_session().await;
    let mut under_way = Vec::new();
    for id in 2..2 + REQUESTS {
        owner.ask(id, "slow");
        under_way.push(remote.next().await);
    }
    for id in 2..2 + REQUESTS {
        owner.cancel(id, &format!("cancel {id}"));
    }
    for asked in under_way {
        assert!(asked.goes_away().await);
    }
    let mut expected: Vec<_> = (2..2 + REQUESTS).map(|id| format!("cancel {id}")).collect();
    let mut cancelled = Vec::new();
    for _ in 0..REQUESTS {
        let cancel = remote.next().await;
        cancelled.push(cancel.body.clone());
        cancel.answer(202, "", "").await;
    }
    expected.sort();
    cancelled.sort();
    assert_eq!(cancelled, expected);
    for id in 1000..1000 + REQUESTS {
        owner.ask(id, "again");
        remote.next().await.json(200, &json(id)).await;
        assert_eq!(owner.message().await, json(id));
    }
}

#[tokio::test]
async fn a_lost_session_retires_the_transport_and_leaves_each_request_under_way_to_its_own_answer() {
    let nameless = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"no session"},"id":null}"#;
    for (status, body) in [(404, ""), (400, nameless), (404, nameless)] {
        let (remote, mut owner) = Owner::start_session().await;
        owner.ask(2, "a");
        let first = remote.next().await;
        owner.ask(3, "b");
        let second = remote.next().await;
        owner.ask(4, "c");
        let third = remote.next().await;
        let lost = (Outcome::Refused, HttpFailure::SessionLost { status });
        first.json(status, body).await;
        if status == 400 {
            let ping = remote.next().await;
            assert!(ping.body.contains(r#""method":"ping""#), "{}", ping.body);
            ping.json(status, body).await;
        }
        assert_eq!(owner.failure(2).await, lost);
        assert_eq!(owner.retirement().await, End::SessionLost);
        second.json(status, body).await;
        assert_eq!(owner.failure(3).await, lost, "it was refused, not lost");
        third.json(200, &json(4)).await;
        assert_eq!(owner.message().await, json(4), "it was accepted before");
        owner.ask(5, "d");
        assert_eq!(owner.failure(5).await.0, Outcome::NotSent);
        remote.asked_nothing().await;
    }
}

#[tokio::test]
async fn a_400_in_a_session_that_the_server_still_knows_is_the_failure_of_that_request_alone() {
    let nameless = r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"no"},"id":null}"#;
    for (body, ping_status) in [
        ("bad call", 200),
        (nameless, 200),
        ("bad call", 500),
        ("bad call", 429),
    ] {
        let (remote, mut owner) = Owner::start_session().await;
        owner.ask(2, "innocent");
        let innocent = remote.next().await;
        owner.ask(3, "bad");
        remote.next().await.json(400, body).await;
        let ping = remote.next().await;
        assert_eq!(ping.header("mcp-session-id"), Some("s1"));
        let asked: serde_json::Value = serde_json::from_str(&ping.body).unwrap();
        assert_eq!(asked["method"], "ping");
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, asked["id"]);
        ping.json(ping_status, &answer).await;
        if body == nameless {
            let named = r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32600,"message":"no"}}"#;
            assert_eq!(owner.message().await, named, "it belongs to that request");
        } else {
            let (status, body) = (400, body.to_owned());
            let own = (Outcome::Refused, HttpFailure::Status { status, body });
            assert_eq!(owner.failure(3).await, own);
        }
        innocent.json(200, &json(2)).await;
        assert_eq!(owner.message().await, json(2), "the session lives on");
        remote.asked_nothing().await;
    }
}

#[tokio::test]
async fn requests_that_are_refused_together_share_a_ping_that_was_sent_after_their_refusal() {
    let (remote, mut owner) = Owner::start_session().await;
    let mut asked = Vec::new();
    for id in 2..8 {
        owner.ask(id, "a");
        asked.push(remote.next().await);
    }
    let mut asked = asked.into_iter();
    asked.next().unwrap().answer(400, "", "").await;
    let first = remote.next().await;
    for refused in asked {
        refused.answer(400, "", "").await;
    }
    // Their refusals must have come before the first ping ends; a request that is answered after them shows it.
    owner.ask(8, "after");
    remote.next().await.json(200, &json(8)).await;
    assert_eq!(owner.message().await, json(8));
    first.json(200, &json(0)).await;
    assert_eq!(owner.failure(2).await.0, Outcome::Refused);
    remote.next().await.json(200, &json(0)).await;
    for _ in 3..8 {
        assert!(matches!(owner.received().await, Received::Failed(3..8, _)));
    }
    remote.asked_nothing().await;
}

#[tokio::test]
async fn what_a_server_does_not_want_to_be_told_is_no_lost_session() {
    const TOLD: &str = r#"{"jsonrpc":"2.0","method":"x-vendor/thing","params":{"a":[ ]}}"#;
    let (remote, mut owner) = Owner::start_session().await;
    for status in [400, 405, 500] {
        owner.send(TOLD.into(), Purpose::Notification);
        let told = remote.next().await;
        assert_eq!(
            (told.body.as_str(), told.header("mcp-session-id")),
            (TOLD, Some("s1"))
        );
        told.answer(status, "", "").await;
    }
    owner.ask(2, "a");
    remote.next().await.json(200, &json(2)).await;
    assert_eq!(owner.message().await, json(2));
    owner.send(TOLD.into(), Purpose::Notification);
    remote.next().await.answer(404, "", "").await;
    assert_eq!(
        owner.retirement().await,
        End::SessionLost,
        "404 is the protocol's word for it"
    );
}

#[tokio::test]
async fn what_is_told_outside_of_a_session_shows_its_version_and_method() {
    const TOLD: &str = r#"{"jsonrpc":"2.0","method":"x-vendor/thing","params":{"name":"n"}}"#;
    let (remote, owner) = Owner::start(HttpOptions::new()).await;
    owner.send(TOLD.into(), Purpose::Notification);
    let told = remote.next().await;
    assert_eq!(told.body, TOLD);
    let shown = ["mcp-protocol-version", "mcp-method", "mcp-name"].map(|name| told.header(name));
    assert_eq!(shown, [Some("2026-07-28"), Some("x-vendor/thing"), None]);
}

#[tokio::test]
async fn an_error_that_names_its_request_is_its_answer_and_no_lost_session() {
    let (remote, mut owner) = Owner::start_session().await;
    let error = r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"no"}}"#;
    owner.ask(2, "a");
    remote.next().await.json(400, error).await;
    assert_eq!(owner.message().await, error);
}

#[tokio::test]
async fn an_error_without_an_id_outside_of_a_session_answers_the_request_it_came_for() {
    let (remote, mut owner) = Owner::start(HttpOptions::new()).await;
    owner.ask(7, "server/discover");
    remote
        .next()
        .await
        .json(400, r#"{"jsonrpc":"2.0","error":{"code":-32000},"id":null}"#)
        .await;
    assert_eq!(
        owner.message().await,
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32000}}"#
    );
}

#[tokio::test]
async fn the_stream_of_the_server_is_taken_up_again_from_its_last_event() {
    let (remote, mut owner) = Owner::start(HttpOptions::new()).await;
    let mut standing = Owner::session(&remote, &mut owner).await;
    standing.events("").await;
    standing
        .event("id: e1\nretry: 1\ndata: {\"method\":\"a\"}\n\n")
        .await;
    owner.message().await;
    drop(standing);
    let mut standing = remote.next_of("GET").await;
    assert_eq!(standing.header("last-event-id"), Some("e1"));
    standing.events("").await;
    standing.event("id: e2\ndata: {\"method\":\"b\"}\n\n").await;
    assert_eq!(owner.message().await, r#"{"method":"b"}"#);
    standing.end().await;
    let standing = remote.next_of("GET").await;
    assert_eq!(standing.header("last-event-id"), Some("e2"));
    standing.answer(404, "", "").await;
    assert_eq!(owner.retirement().await, End::SessionLost);
}

#[tokio::test]
async fn a_stream_that_is_refused_because_the_last_one_seems_open_is_asked_for_again() {
    let (remote, mut owner) = Owner::start(HttpOptions::new()).await;
    let mut standing = Owner::session(&remote, &mut owner).await;
    standing.events("").await;
    standing.event("data: {\"method\":\"a\"}\n\n").await;
    owner.message().await;
    drop(standing);
    for _ in 0..3 {
        remote.next_of("GET").await.answer(409, "", "").await;
    }
    let mut standing = remote.next_of("GET").await;
    standing.events("").await;
    assert!(matches!(owner.received().await, Received::Missed));
    standing.event("data: {\"method\":\"b\"}\n\n").await;
    assert_eq!(owner.message().await, r#"{"method":"b"}"#);
}

#[tokio::test]
async fn a_stream_that_cannot_go_on_from_its_last_event_is_begun_again() {
    let (remote, mut owner) = Owner::start(HttpOptions::new()).await;
    let mut standing = Owner::session(&remote, &mut owner).await;
    standing.events("").await;
    standing.event("id: e1\ndata: {\"method\":\"a\"}\n\n").await;
    owner.message().await;
    drop(standing);
    let standing = remote.next_of("GET").await;
    assert_eq!(standing.header("last-event-id"), Some("e1"));
    standing.answer(400, "", "no such event").await;
    remote.next_of("POST").await.json(200, &json(0)).await;
    let mut standing = remote.next_of("GET").await;
    assert_eq!(standing.header("last-event-id"), None);
    standing.events("").await;
    assert!(matches!(owner.received().await, Received::Missed));
}

#[tokio::test]
async fn a_server_that_is_gone_is_noticed_without_any_request() {
    let (mut remote, mut owner) = Owner::start(HttpOptions::new()).await;
    let mut standing = Owner::session(&remote, &mut owner).await;
    standing.events("").await;
    standing.event(": here\n\n").await;
    remote.stop_listening().await;
    drop(standing);
    let std::io::ErrorKind::ConnectionRefused = refused(owner.retirement().await) else {
        panic!("refused");
    };
}

#[tokio::test]
async fn a_server_without_a_stream_of_its_own_is_not_asked_again() {
    for status in [404, 405] {
        let (remote, mut owner) = Owner::start(HttpOptions::new()).await;
        Owner::session(&remote, &mut owner)
            .await
            .answer(status, "", "")
            .await;
        owner.ask(2, "a");
        let asked = remote.next_of("POST").await;
        asked.json(200, &json(2)).await;
        assert_eq!(owner.message().await, json(2));
        remote.asked_nothing().await;
    }
}

fn refused(end: End) -> std::io::ErrorKind {
    match end {
        End::Io { kind, .. } => kind,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_404_within_a_session_is_its_loss_even_where_it_names_the_request() {
    let (remote, mut owner) = Owner::start_session().await;
    owner.ask(2, "tools/list");
    let unknown = r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32001,"message":"Session not found"}}"#;
    remote.next().await.json(404, unknown).await;
    let lost = HttpFailure::SessionLost { status: 404 };
    assert_eq!(owner.failure(2).await, (Outcome::Refused, lost));
    assert_eq!(owner.retirement().await, End::SessionLost);
}

#[tokio::test]
async fn a_404_of_a_server_that_lacks_the_method_is_its_answer() {
    let (remote, mut owner) = Owner::start_session().await;
    owner.ask(2, "prompts/list");
    let unknown = r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"Method not found"}}"#;
    remote.next().await.json(404, unknown).await;
    assert_eq!(owner.message().await, unknown);
    owner.ask(3, "tools/list");
    remote.next().await.json(200, &json(3)).await;
    assert_eq!(owner.message().await, json(3), "the session lives on");
}

#[tokio::test]
async fn a_stream_of_the_servers_own_that_cannot_go_on_where_it_ended_has_missed_something() {
    for numbered in [false, true] {
        let (remote, mut owner) = Owner::start(HttpOptions::new()).await;
        let mut standing = Owner::session(&remote, &mut owner).await;
        standing.events("").await;
        let id = if numbered { "id: 7\n" } else { "" };
        let event = format!("{id}data: {{\"method\":\"notifications/a\"}}\n\n");
        standing.event(&event).await;
        owner.message().await;
        standing.end().await;
        let mut again = remote.next().await;
        assert_eq!(again.header("last-event-id"), numbered.then_some("7"));
        again.events("").await;
        if !numbered {
            assert!(matches!(owner.received().await, Received::Missed));
        }
        again.event("data: {\"method\":\"notifications/b\"}\n\n").await;
        assert_eq!(owner.message().await, r#"{"method":"notifications/b"}"#);
    }
}
