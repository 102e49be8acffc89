use std::time::Duration;

use super::*;
use crate::transport::{End, Limits};

#[tokio::test]
async fn a_status_says_whether_the_request_may_have_run() {
    let status = |status, body: &str| HttpFailure::Status {
        status,
        body: body.to_owned(),
    };
    let throttled = |status, seconds: Option<u64>| HttpFailure::Throttled {
        status,
        retry_after: seconds.map(Duration::from_secs),
    };
    let redirect = |status| HttpFailure::Redirect {
        status,
        location: "http://other.example/mcp".to_owned(),
    };
    let location = "location: http://other.example/mcp\r\n";
    let cases = [
        (400, "", Outcome::Refused, status(400, "oh\u{20}no")),
        (403, "", Outcome::Refused, status(403, "oh\u{20}no")),
        (404, "", Outcome::Refused, status(404, "oh\u{20}no")),
        (408, "", Outcome::Unknown, status(408, "oh\u{20}no")),
        (413, "", Outcome::Refused, status(413, "oh\u{20}no")),
        (429, "", Outcome::Refused, throttled(429, None)),
        (
            429,
            "retry-after: 7\r\n",
            Outcome::Refused,
            throttled(429, Some(7)),
        ),
        (
            503,
            "retry-after: 7\r\n",
            Outcome::Unknown,
            throttled(503, Some(7)),
        ),
        (503, "", Outcome::Unknown, status(503, "oh\u{20}no")),
        (500, "", Outcome::Unknown, status(500, "oh\u{20}no")),
        (301, location, Outcome::Refused, redirect(301)),
        (302, location, Outcome::Unknown, redirect(302)),
        (303, location, Outcome::Unknown, redirect(303)),
        (308, location, Outcome::Refused, redirect(308)),
    ];
    let (remote, mut owner) = Owner::start(HttpOptions::new()).await;
    for (id, (status, headers, outcome, failure)) in (1..).zip(cases) {
        owner.ask(id, "a");
        remote.next().await.answer(status, headers, "oh\nno").await;
        assert_eq!(owner.failure(id).await, (outcome, failure));
    }
    remote.asked_nothing().await;
}

#[tokio::test]
async fn a_gateway_that_passed_nothing_on_says_so_in_its_error() {
    let (remote, mut owner) = Owner::start(HttpOptions::new()).await;
    let cases = [
        ("not_sent", Outcome::Refused),
        ("refused", Outcome::Refused),
        ("unknown", Outcome::Unknown),
        ("answered", Outcome::Unknown),
    ];
    for (id, (said, outcome)) in (1..).zip(cases) {
        for (id, headers) in [(2 * id, ""), (2 * id + 1, "retry-after: 7\r\n")] {
            owner.ask(id, "a");
            let error = format!(r#"{{"error":{{"data":{{"mainstay":{{"outcome":"{said}"}}}}}}}}"#);
            remote.next().await.answer(503, headers, &error).await;
            assert_eq!(owner.failure(id).await.0, outcome, "{said}");
        }
    }
}

#[tokio::test]
async fn a_login_is_asked_for_with_its_challenge() {
    let (remote, mut owner) = Owner::start(HttpOptions::new()).await;
    owner.ask(1, "a");
    let header = r#"Bearer resource_metadata="https://x.example/meta", scope="a b""#;
    remote
        .next()
        .await
        .answer(401, &format!("www-authenticate: {header}\r\n"), "")
        .await;
    let (outcome, failure) = owner.failure(1).await;
    let HttpFailure::AuthRequired { status, challenge } = failure else {
        panic!("{failure:?}");
    };
    assert_eq!((outcome, status), (Outcome::Refused, 401));
    assert_eq!(
        challenge.resource_metadata.as_deref(),
        Some("https://x.example/meta")
    );
    assert_eq!(challenge.scopes, ["a", "b"]);
}

#[tokio::test]
async fn a_redirect_within_the_origin_is_followed_with_its_body() {
    let (remote, mut owner) = Owner::start(HttpOptions::new()).await;
    owner.ask(1, "a");
    remote
        .next()
        .await
        .answer(307, "location: /elsewhere\r\n", "")
        .await;
    let asked = remote.next().await;
    assert_eq!(
        (asked.path.as_str(), asked.body.as_str()),
        ("/elsewhere", request(1, "a").as_str())
    );
    asked.json(200, &json(1)).await;
    assert_eq!(owner.message().await, json(1));

    owner.ask(2, "a");
    remote
        .next()
        .await
        .answer(302, "location: /elsewhere\r\n", "")
        .await;
    assert!(matches!(
        owner.failure(2).await,
        (Outcome::Unknown, HttpFailure::Redirect { .. })
    ));
}

#[tokio::test]
async fn a_body_beyond_the_limit_fails_its_request() {
    let limit = 1000;
    let (remote, mut owner) = Owner::start(HttpOptions::new().limits(Limits::message(limit))).await;
    owner.ask(1, "a");
    remote.next().await.json(200, &"x".repeat(limit + 1)).await;
    assert_eq!(
        owner.failure(1).await,
        (Outcome::Answered, HttpFailure::BodyTooLarge { limit })
    );

    owner.ask(2, "a");
    let mut asked = remote.next().await;
    asked
        .write("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
        .await;
    asked.event(&"x".repeat(limit + 1)).await;
    assert_eq!(
        owner.failure(2).await,
        (Outcome::Answered, HttpFailure::BodyTooLarge { limit })
    );
}

#[tokio::test]
async fn an_answer_that_is_no_answer_fails_its_request() {
    let (remote, mut owner) = Owner::start(HttpOptions::new()).await;
    owner.ask(1, "a");
    remote
        .next()
        .await
        .answer(200, "content-type: text/html\r\n", "<html>")
        .await;
    let content_type = "text/html".to_owned();
    assert_eq!(
        owner.failure(1).await,
        (Outcome::Unknown, HttpFailure::WrongContentType { content_type })
    );

    owner.ask(2, "a");
    remote.next().await.json(200, &json(99)).await;
    assert_eq!(owner.message().await, json(99));
    assert_eq!(
        owner.failure(2).await,
        (Outcome::Unknown, HttpFailure::StreamEnded)
    );
}

#[tokio::test]
async fn a_byte_order_mark_before_an_answer_is_skipped() {
    let (remote, mut owner) = Owner::start(HttpOptions::new()).await;
    for (id, status) in [(1, 200), (2, 400)] {
        owner.ask(id, "a");
        let answer = json(id);
        remote
            .next()
            .await
            .json(status, &format!("\u{feff}{answer}"))
            .await;
        assert_eq!(owner.message().await, answer);
    }
    owner.ask(3, "a");
    let mut asked = remote.next().await;
    asked.events("").await;
    asked.event(&format!("\u{feff}data: {}\n\n", json(3))).await;
    assert_eq!(owner.message().await, json(3));
}

#[tokio::test]
async fn an_error_without_an_id_belongs_to_the_request_that_it_came_for() {
    let (remote, mut owner) = Owner::start_session().await;
    owner.ask(2, "innocent");
    let innocent = remote.next().await;
    for (id, status) in [(3, 200), (4, 413), (5, 500)] {
        owner.ask(id, "bad");
        let error = r#"{"jsonrpc":"2.0","error":{"code":-32603,"message":"no"}}"#;
        remote.next().await.json(status, error).await;
        let named = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,"message":"no"}}}}"#);
        assert_eq!(owner.message().await, named, "{status}");
    }
    innocent.json(200, &json(2)).await;
    assert_eq!(owner.message().await, json(2));
}

#[tokio::test]
async fn a_connection_that_breaks_after_the_request_leaves_it_unknown() {
    let (remote, mut owner) = Owner::start(HttpOptions::new()).await;
    for (id, head) in [
        (1, ""),
        (
            2,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{",
        ),
    ] {
        owner.ask(id, "a");
        let mut asked = remote.next().await;
        asked.write(head).await;
        drop(asked);
        let (outcome, failure) = owner.failure(id).await;
        assert!(matches!(failure, HttpFailure::Broken { .. }), "{failure:?}");
        assert_eq!(outcome, Outcome::Unknown);
    }
}

#[tokio::test]
async fn a_head_that_does_not_come_fails_the_request_when_a_limit_is_set() {
    let limit = Duration::from_millis(20);
    let (remote, mut owner) = Owner::start(HttpOptions::new().first_byte_timeout(limit)).await;
    owner.ask(1, "a");
    let asked = remote.next().await;
    let step = HttpStage::FirstByte;
    assert_eq!(
        owner.failure(1).await,
        (Outcome::Unknown, HttpFailure::TimedOut { step, limit })
    );
    assert!(asked.goes_away().await);
}

#[tokio::test]
async fn a_server_that_was_never_there_fails_requests_and_one_that_was_met_retires_the_transport() {
    let (mut remote, mut owner) = Owner::start(HttpOptions::new()).await;
    let address = remote.address().to_owned();
    remote.stop_listening().await;
    for id in [1, 2] {
        owner.ask(id, "a");
        let (outcome, failure) = owner.failure(id).await;
        assert_eq!(outcome, Outcome::NotSent);
        assert!(matches!(
            failure,
            HttpFailure::ConnectFailed {
                kind: std::io::ErrorKind::ConnectionRefused,
                ..
            }
        ));
    }
    let mut remote = RemoteServer::start_at(&address).await;
    owner.ask(3, "a");
    remote
        .next()
        .await
        .answer(
            200,
            "connection: close\r\ncontent-type: application/json\r\n",
            &json(3),
        )
        .await;
    owner.message().await;
    owner.ask(5, "a");
    let running = remote.next().await;
    remote.stop_listening().await;
    owner.ask(4, "a");
    assert_eq!(owner.failure(4).await.0, Outcome::NotSent);
    assert!(matches!(
        owner.retirement().await,
        End::Io {
            kind: std::io::ErrorKind::ConnectionRefused,
            ..
        }
    ));
    running.json(200, &json(5)).await;
    assert_eq!(
        owner.message().await,
        json(5),
        "a server that shuts down finishes its work"
    );
}
