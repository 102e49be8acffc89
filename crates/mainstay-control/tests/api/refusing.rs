//! Requests that are refused: each says what is wrong and what helps.

use mainstay_control::api::ProblemKind;
use mainstay_control::{ControlClient, ControlError};
use mainstay_testkit::fleet::Memory;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::World;

fn request(method: &str, path: &str, headers: &str, body: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn an_unknown_server_is_refused_with_the_nearest_name() {
    let memory = Memory::new(mainstay_testkit::Script::new());
    let world = World::of(&[("files", &memory)]).await;
    let refused = world.client.restart("fils").await.expect_err("no such server");
    let problem = refused.problem().expect("a problem");
    assert_eq!(problem.kind, ProblemKind::UnknownServer);
    assert_eq!(problem.nearest, ["files"]);
    assert_eq!(
        problem.to_string(),
        "there is no server fils: did you mean files?"
    );
    let refused = world
        .client
        .server("a\u{1b}[2Jb\nc")
        .await
        .expect_err("no such server");
    let title = &refused.problem().expect("a problem").title;
    assert!(!title.contains(['\u{1b}', '\n']), "{title:?}");
}

#[tokio::test]
async fn no_answer_has_a_date_since_hyper_s_clock_panics_after_the_year_9999() {
    let world = World::one().await;
    for text in [
        request("GET", "/api/v1/status", "", ""),
        "no request of HTTP\r\n\r\n".to_owned(),
    ] {
        let (mut near, remote) = tokio::io::duplex(1 << 20);
        let service = world.service.clone();
        tokio::spawn(async move { service.serve_connection(remote).await });
        near.write_all(text.as_bytes()).await.expect("written");
        let mut answer = String::new();
        near.read_to_string(&mut answer).await.expect("an answer");
        let (head, _body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(!head.to_lowercase().contains("\r\ndate:"), "{head}");
    }
}

#[tokio::test]
async fn bad_requests_are_refused_each_with_its_reason() {
    let world = World::one().await;
    let json = "Content-Type: application/json\r\n";
    let large = "x".repeat(300 * 1024);
    for (request, status, kind) in [
        (request("GET", "/", "", ""), 404, "not_found"),
        (request("GET", "/api/v2/servers", "", ""), 404, "not_found"),
        (
            request("PUT", "/api/v1/servers", "", ""),
            405,
            "method_not_allowed",
        ),
        (request("POST", "/api/v1/servers", "", "{}"), 400, "bad_request"),
        (request("POST", "/api/v1/servers", json, "{"), 400, "bad_request"),
        (
            request("POST", "/api/v1/servers", json, "[1]"),
            400,
            "bad_request",
        ),
        (request("POST", "/api/v1/servers", json, &large), 413, "too_large"),
        (
            request("POST", "/api/v1/servers/one/restart", "", &large),
            413,
            "too_large",
        ),
        (
            request("GET", "/api/v1/events?after=x", "", ""),
            400,
            "bad_request",
        ),
        (
            request("GET", "/api/v1/events?server=nobody", "", ""),
            404,
            "unknown_server",
        ),
        (
            request("GET", "/api/v1/servers/one/stderr?lines=-1", "", ""),
            400,
            "bad_request",
        ),
        (
            request("GET", "/api/v1/servers?processes=maybe", "", ""),
            400,
            "bad_request",
        ),
        (request("GET", "/api/v1/servers/%FF", "", ""), 400, "bad_request"),
    ] {
        let (answered, problem) = world.raw(&request).await;
        let head = request.lines().next().expect("a line");
        assert_eq!(
            (answered, &problem["kind"]),
            (status, &json!(kind)),
            "{head}: {problem}"
        );
        assert!(problem["title"].as_str().is_some_and(|title| !title.is_empty()));
    }
    // An announced length is refused before the body comes, and chunks are counted.
    let announced = "POST /api/v1/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999999\r\n\r\n";
    assert_eq!(world.raw(announced).await.0, 413);
    let chunk = format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len());
    let chunked = format!(
        "POST /api/v1/reload HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}"
    );
    assert_eq!(world.raw(&chunked).await.0, 413);
    world.client.program().await.expect("the service goes on");
}

#[tokio::test]
async fn more_streams_than_the_limit_are_refused_and_a_closed_one_makes_room() {
    let world = World::one().await;
    let mut streams = Vec::new();
    let refused = loop {
        match world.client.events(None, 0).await {
            Ok(stream) => streams.push(stream),
            Err(error) => break error,
        }
        assert!(streams.len() <= 256);
    };
    assert_eq!(
        refused.problem().map(|problem| problem.kind),
        Some(ProblemKind::TooMany)
    );
    streams.pop();
    let again = async {
        while world.client.events(None, 0).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(mainstay_testkit::fleet::LONG, again)
        .await
        .expect("there is room again");
}

#[tokio::test]
async fn a_client_says_that_nothing_listens_and_that_a_program_does_not_answer() {
    let directory = tempfile::tempdir().expect("a directory");
    let missing = ControlClient::unix(directory.path().join("none"));
    assert!(matches!(
        missing.program().await,
        Err(ControlError::Unreachable(_))
    ));
    let socket = directory.path().join("silent");
    let _listener = tokio::net::UnixListener::bind(&socket).expect("a socket");
    let silent = ControlClient::unix(&socket).timeout(std::time::Duration::from_millis(50));
    assert!(matches!(silent.program().await, Err(ControlError::TimedOut(_))));
    let boundless = missing.timeout(std::time::Duration::MAX);
    let refused = (
        boundless.program().await.err(),
        boundless.events(None, 0).await.err(),
    );
    assert!(
        matches!(
            refused,
            (
                Some(ControlError::Unreachable(_)),
                Some(ControlError::Unreachable(_))
            )
        ),
        "no limit is a limit too: {refused:?}"
    );
}
