//! Who may come in.

use std::time::{Duration, Instant};

use mainstay_gateway::{DoorError, HttpDoor};
use mainstay_testkit::clock;
use serde_json::json;

use crate::support::{World, initialize, modern};
use crate::wire::Ask;

fn discover() -> Ask {
    modern("/mcp", 1, "server/discover", json!({}))
}

#[tokio::test]
async fn only_names_of_this_machine_are_answered() {
    let world = World::open(HttpDoor::new().allowed_host("gateway.test")).await;
    for host in [
        "localhost",
        "localhost:7332",
        "127.0.0.1",
        "127.9.9.9:1",
        "[::1]:80",
        "gateway.test:80",
    ] {
        assert_eq!(
            world.send(discover().header("host", host)).await.status,
            200,
            "{host}"
        );
    }
    for host in [
        "evil.example",
        "localhost.evil.example",
        "192.168.0.7",
        "127.0.0.1.evil.example",
        "",
    ] {
        let reply = world.send(discover().header("host", host)).await;
        assert_eq!(reply.refusal().await, (421, -32600), "{host}");
    }
}

#[tokio::test]
async fn only_pages_of_this_machine_and_of_allowed_origins_are_answered() {
    let world = World::open(HttpDoor::new().allowed_origin("https://inspector.test")).await;
    for origin in [
        "http://localhost:6274",
        "http://127.0.0.1",
        "http://[::1]:3000",
        "https://inspector.test",
    ] {
        let reply = world.send(discover().header("origin", origin)).await;
        assert_eq!(reply.status, 200, "{origin}");
        assert_eq!(reply.header("access-control-allow-origin"), Some(origin));
    }
    for origin in [
        "http://evil.example",
        "null",
        "http://localhost.evil.example",
        "https://inspector.test.evil",
    ] {
        let reply = world.send(discover().header("origin", origin)).await;
        assert_eq!(reply.header("access-control-allow-origin"), None);
        assert_eq!(reply.refusal().await, (403, -32600), "{origin}");
    }
    let asks = |origin: &str| {
        Ask::new("OPTIONS", "/mcp")
            .header("origin", origin)
            .header("access-control-request-headers", "mcp-session-id")
    };
    let reply = world.send(asks("http://localhost:6274")).await;
    assert_eq!(reply.status, 204);
    assert_eq!(
        reply.header("access-control-allow-headers"),
        Some("mcp-session-id")
    );
    assert_eq!(reply.header("access-control-max-age"), Some("7200"));
    assert_eq!(world.send(asks("http://evil.example")).await.status, 403);
}

/// What comes back for a head that is written by hand, with these lines beside the path.
async fn status_of(world: &World, path: &str, lines: &str) -> u16 {
    world
        .send_text(&format!("GET {path} HTTP/1.1\r\n{lines}\r\n\r\n"))
        .await
        .status
}

#[tokio::test]
async fn a_name_in_disguise_or_a_second_name_is_refused_on_the_wire() {
    let world = World::open(HttpDoor::new()).await;
    for (lines, status) in [
        ("host: localhost", 200),
        ("Host: [::1]:7332\r\nOrigin: http://localhost:80", 200),
        ("host: [::1].evil.example", 421),
        ("host: [::1]:80.evil.example", 421),
        ("host: localhost:80@evil.example", 421),
        ("host: localhost\r\nhost: localhost", 400),
        ("host: localhost\r\nHost: evil.example", 400),
        ("host: evil.example\r\nHOST: localhost", 400),
        ("host: localhost\r\norigin: ://localhost", 403),
        ("host: localhost\r\norigin: http://[::1].evil.example", 403),
        (
            "host: localhost\r\norigin: http://localhost\r\norigin: http://evil.example",
            403,
        ),
    ] {
        assert_eq!(status_of(&world, "/healthz", lines).await, status, "{lines:?}");
        let expected = if status == 200 { 400 } else { status };
        assert_eq!(status_of(&world, "/mcp", lines).await, expected, "{lines:?}");
    }
    let absolute = "http://localhost@evil.example/mcp";
    assert_eq!(status_of(&world, absolute, "host: localhost").await, 421);
}

#[tokio::test]
async fn a_token_is_needed_where_one_is_set_and_a_session_belongs_to_its_token() {
    let world = World::open(HttpDoor::new().token("alpha").token("beta")).await;
    let bearing = |ask: Ask, token: &str| ask.header("authorization", &format!("Bearer {token}"));
    for ask in [
        discover(),
        bearing(discover(), "gamma"),
        bearing(discover(), "alph"),
        bearing(discover(), ""),
    ] {
        let reply = world.send(ask).await;
        assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
        assert_eq!(reply.refusal().await, (401, -32600));
    }
    assert_eq!(
        world
            .send(discover().header("authorization", "bearer alpha"))
            .await
            .status,
        200
    );
    let opened = world
        .send(bearing(Ask::post("/mcp", &initialize(json!({}))), "alpha"))
        .await;
    let id = opened.header("mcp-session-id").unwrap().to_owned();
    let ping =
        || Ask::post("/mcp", &crate::support::request(1, "ping", json!({}))).header("mcp-session-id", &id);
    assert_eq!(
        world.send(bearing(ping(), "beta")).await.refusal().await,
        (404, -32001)
    );
    assert_eq!(world.send(bearing(ping(), "alpha")).await.status, 200);
}

#[tokio::test]
async fn wrong_tokens_are_slowed_down_and_a_right_one_never_is() {
    let world = World::open(HttpDoor::new().token("alpha")).await;
    let bearing = |token: &str| discover().header("authorization", &format!("Bearer {token}"));
    let guessing = async {
        for n in 0..4 {
            let began = Instant::now();
            let reply = world.send(bearing("guessed")).await;
            assert_eq!(reply.refusal().await, (401, -32600));
            assert!(began.elapsed() >= Duration::from_millis(100 << n), "{n}");
        }
    };
    let mut answered = 0;
    let working = async {
        loop {
            assert_eq!(world.send(bearing("alpha")).await.status, 200);
            answered += 1;
        }
    };
    tokio::select! {
        () = guessing => {}
        () = working => {}
    }
    assert!(
        answered > 15,
        "as many as it likes, and not one for each pause: {answered}"
    );
    // Who shows no token at all guesses nothing: no answer waits for even the shortest pause.
    let unpaused = async {
        for _ in 0..20 {
            assert_eq!(world.send(discover()).await.status, 401);
        }
    };
    clock::within(Duration::from_millis(90), unpaused).await;
}

#[tokio::test]
async fn listening_where_others_can_reach_it_takes_a_token() {
    let world = World::open(HttpDoor::new()).await;
    let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
    let open = world
        .gateway
        .serve_http(listener, HttpDoor::new(), std::future::ready(()));
    assert!(matches!(open.await, Err(DoorError::TokenRequired(_))));
    let public = "192.0.2.1:80".parse().unwrap();
    assert!(HttpDoor::new().check(public).is_err());
    assert!(HttpDoor::new().token("t").check(public).is_ok());
    assert!(HttpDoor::new().check("[::1]:80".parse().unwrap()).is_ok());
}

#[tokio::test]
async fn ids_of_sessions_differ_and_are_long() {
    let world = World::open(HttpDoor::new()).await;
    let (one, other) = (world.session("/mcp").await, world.session("/mcp").await);
    assert_ne!(one.id, other.id);
    assert!(one.id.len() >= 32 && one.id.chars().all(|c| c.is_ascii_graphic()));
}
