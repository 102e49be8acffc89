//! Bad requests are refused with the right status and error, and affect no other client.

use mainstay::gateway::message::MAX_MEMBERS;
use mainstay_gateway::HttpDoor;
use mainstay_testkit::Script;
use mainstay_testkit::client::{Ask, LONG, Reply};
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::time::timeout;

use crate::http::support::{World, initialize, modern, request, text};

#[tokio::test(start_paused = true)]
async fn a_request_with_too_many_members_is_refused_in_both_eras_and_reaches_no_server() {
    let world = World::open(HttpDoor::new()).await;
    let session = world.session("/mcp/one").await;
    let padded = |members: usize| {
        let mut params = json!({ "name": "echo", "arguments": {} });
        for n in 2..members {
            params[n.to_string()] = json!(0);
        }
        params
    };
    let call = |members| Ask::post("/mcp/one", &request(1, "tools/call", padded(members)));
    let fits = world.send(session.sign(call(MAX_MEMBERS))).await;
    assert_eq!(fits.status, 200);
    for (what, ask) in [
        ("in a session", session.sign(call(MAX_MEMBERS + 1))),
        (
            "modern",
            modern("/mcp/one", 1, "tools/call", padded(MAX_MEMBERS + 1)),
        ),
        (
            "without a session",
            Ask::post("/mcp/one", &request(1, "initialize", padded(MAX_MEMBERS + 1))),
        ),
    ] {
        assert_eq!(world.send(ask).await.refusal().await, (400, -32602), "{what}");
    }
    assert_eq!(world.server.side().count("tools/call"), 1);
}

#[tokio::test(start_paused = true)]
async fn every_bad_request_gets_its_status_and_its_error_and_others_go_on() {
    let world = World::open(HttpDoor::new().max_body(2000)).await;
    let session = world.session("/mcp/one").await;
    let good = request(1, "ping", json!({}));
    let signed = |ask: Ask| session.sign(ask);
    let batch = json!([good, good]).to_string();
    let cases = [
        (
            "malformed",
            signed(Ask::post_text("/mcp/one", r#"{"jsonrpc":"#)),
            400,
            -32700,
        ),
        (
            "no UTF-8 text",
            signed(Ask::post_text("/mcp/one", "\u{0}")),
            400,
            -32700,
        ),
        ("empty", signed(Ask::post_text("/mcp/one", "")), 400, -32700),
        (
            "no message",
            signed(Ask::post_text("/mcp/one", r#"{"a":1}"#)),
            400,
            -32600,
        ),
        ("a number", signed(Ask::post_text("/mcp/one", "7")), 400, -32600),
        (
            "a request with no id",
            signed(Ask::post_text(
                "/mcp/one",
                r#"{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"echo"}}"#,
            )),
            400,
            -32600,
        ),
        ("a batch", signed(Ask::post_text("/mcp/one", &batch)), 400, -32600),
        (
            "too long",
            signed(Ask::post_text("/mcp/one", &" ".repeat(2001))),
            413,
            -32600,
        ),
        ("no session", Ask::post("/mcp/one", &good), 400, -32600),
        (
            "unknown session",
            signed(Ask::post("/mcp/one", &good)).header("mcp-session-id", "guessed"),
            404,
            -32001,
        ),
        (
            "unknown version",
            signed(Ask::post("/mcp/one", &good)).header("mcp-protocol-version", "1999-01-01"),
            400,
            -32022,
        ),
        (
            "no JSON",
            signed(Ask::post("/mcp/one", &good)).header("content-type", "text/plain"),
            415,
            -32600,
        ),
        (
            "no type",
            signed(Ask::post("/mcp/one", &good)).without("content-type"),
            415,
            -32600,
        ),
        (
            "wants HTML",
            signed(Ask::post("/mcp/one", &good)).header("accept", "text/html"),
            406,
            -32600,
        ),
        ("no such server", Ask::post("/mcp/two", &good), 404, -32600),
        ("no such place", Ask::new("GET", "/"), 404, -32600),
        ("wrong method", Ask::new("PUT", "/mcp"), 405, -32600),
        ("wrong method for SSE", Ask::new("POST", "/sse"), 405, -32600),
        ("stream without session", Ask::new("GET", "/mcp"), 400, -32600),
        ("end without session", Ask::new("DELETE", "/mcp"), 400, -32600),
        (
            "unknown event",
            signed(Ask::new("GET", "/mcp/one")).header("last-event-id", "99-1"),
            400,
            -32600,
        ),
        (
            "event of another kind",
            signed(Ask::new("GET", "/mcp/one")).header("last-event-id", "x"),
            400,
            -32600,
        ),
    ];
    for (what, ask, status, code) in cases {
        assert_eq!(world.send(ask).await.refusal().await, (status, code), "{what}");
    }
    let called = session.call(2, "echo", json!({ "a": 1 })).await.json().await;
    assert_eq!(text(&called), r#"{"a":1}"#);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_says_which_request_it_is_for_and_what_there_is() {
    let world = World::open(HttpDoor::new()).await;
    let session = world.session("/mcp").await;
    let ask = session.sign(Ask::post("/mcp", &request(41, "ping", json!({}))));
    let refused = world
        .send(ask.header("mcp-session-id", "guessed"))
        .await
        .json()
        .await;
    assert_eq!(refused["id"], 41);
    let nowhere = world.send(Ask::new("GET", "/mcp/two")).await.json().await;
    let words = nowhere["error"]["message"].as_str().unwrap();
    assert!(words.contains("two") && words.contains("one"), "{words}");
    let wrong = world.send(Ask::new("PUT", "/mcp")).await;
    assert_eq!(wrong.header("allow"), Some("GET, POST, DELETE"));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_without_a_known_request_has_no_id_unless_the_version_of_its_client_wants_one() {
    let world = World::open(HttpDoor::new()).await;
    let broken = || Ask::post_text("/mcp", "{");
    let old = in_version(&world, "2025-03-26").await;
    for (what, ask, has_id) in [
        ("no version", broken(), false),
        (
            "a modern one",
            broken().header("mcp-protocol-version", "2026-07-28"),
            false,
        ),
        (
            "2025-11-25",
            broken().header("mcp-protocol-version", "2025-11-25"),
            false,
        ),
        (
            "an unknown one",
            broken().header("mcp-protocol-version", "1999-01-01"),
            false,
        ),
        (
            "2025-06-18",
            broken().header("mcp-protocol-version", "2025-06-18"),
            true,
        ),
        (
            "a session of 2025-03-26",
            broken().header("mcp-session-id", &old),
            true,
        ),
        ("HTTP+SSE", Ask::post_text("/messages?session=x", "{"), true),
    ] {
        let refused = world.send(ask).await.json().await;
        assert_eq!(
            refused.get("id"),
            has_id.then_some(&Value::Null),
            "{what}: {refused}"
        );
        assert!(refused["error"]["code"].is_i64());
    }
}

/// The id of a session of this version.
async fn in_version(world: &World, version: &str) -> String {
    let mut hello = initialize(json!({}));
    hello["params"]["protocolVersion"] = json!(version);
    let opened = world.send(Ask::post("/mcp", &hello)).await;
    opened.header("mcp-session-id").unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_the_door_itself_does_not_write_has_no_date() {
    let world = World::open(HttpDoor::new()).await;
    // hyper refuses it, and takes the date of its answers from a clock that panics after the year 9999.
    let refused = world.send_text("no request of HTTP\r\n\r\n").await;
    assert_eq!((refused.status, refused.header("date")), (400, None));
    let answered = world.send(Ask::new("GET", "/healthz")).await;
    assert!(answered.header("date").is_some(), "the door writes it");
}

#[tokio::test(start_paused = true)]
async fn a_body_whose_length_is_not_announced_is_bounded_too() {
    let world = World::open(HttpDoor::new().max_body(100)).await;
    let ask = Ask::new("POST", "/mcp")
        .header("content-type", "application/json")
        .header("transfer-encoding", "chunked");
    let text = format!("{}c8\r\n{}\r\n0\r\n\r\n", ask.text(&world.door), " ".repeat(200));
    assert_eq!(world.send_text(&text).await.status, 413);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_all_of_a_body_that_is_too_long_still_reads_why_it_was_refused() {
    // Far more than the buffers of a connection hold.
    const LENGTH: usize = 20 * 1024 * 1024;
    let world = World::open(HttpDoor::new()).await;
    let ask = || Ask::new("POST", "/mcp").header("content-type", "application/json");
    let announced = ask().header("content-length", &LENGTH.to_string());
    let in_pieces = ask().header("transfer-encoding", "chunked");
    let body = " ".repeat(LENGTH);
    for text in [
        format!("{}{body}", announced.text(&world.door)),
        format!("{}{LENGTH:x}\r\n{body}\r\n0\r\n\r\n", in_pieces.text(&world.door)),
    ] {
        let mut stream = world.connect().await;
        stream
            .write_all(text.as_bytes())
            .await
            .expect("all of it is read");
        let reply = Reply::read(BufReader::new(stream)).await;
        assert_eq!(reply.status, 413);
        let (_, stream) = reply.body().await;
        let next = modern("/mcp/one", 1, "tools/list", json!({})).send_on(stream, &world.door);
        assert_eq!(next.await.status, 200, "the connection is sound");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_a_body_without_end_is_cut() {
    let world = World::open(HttpDoor::new()).await;
    let ask = Ask::new("POST", "/mcp")
        .header("content-type", "application/json")
        .header("content-length", &(1u64 << 40).to_string());
    let mut stream = world.connect().await;
    stream.write_all(ask.text(&world.door).as_bytes()).await.unwrap();
    let piece = vec![b' '; 1024 * 1024];
    let mut pieces = 0;
    let endless = async {
        while stream.write_all(&piece).await.is_ok() {
            pieces += 1;
        }
    };
    timeout(LONG, endless).await.expect("the gateway stops reading");
    // What it drops, and what the buffers of the system hold.
    assert!(pieces < 128, "{pieces} MiB");
}

#[tokio::test(start_paused = true)]
async fn a_body_in_pieces_is_read_whole_and_bounded_as_a_whole() {
    const PIECE: usize = 7;
    let initialize = request(
        1,
        "initialize",
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } }),
    )
    .to_string();
    for (most, status) in [(initialize.len(), 200), (initialize.len() - 1, 413)] {
        let world = World::open(HttpDoor::new().max_body(most)).await;
        let ask = Ask::new("POST", "/mcp")
            .header("content-type", "application/json")
            .header("transfer-encoding", "chunked");
        let mut text = ask.text(&world.door);
        for piece in initialize.as_bytes().chunks(PIECE) {
            let piece = std::str::from_utf8(piece).unwrap();
            text += &format!("{:x}\r\n{piece}\r\n", piece.len());
        }
        text += "0\r\n\r\n";
        assert_eq!(world.send_text(&text).await.status, status);
    }
}

#[tokio::test(start_paused = true)]
async fn an_id_in_use_is_refused_and_its_first_request_goes_on() {
    let world = World::open(HttpDoor::new()).await;
    let session = world.session("/mcp/one").await;
    let first = session.call(5, "ask", json!({ "kind": "elicitation" }));
    let mut first = first.await;
    let asked = first.message().await;
    let second = session.call(5, "echo", json!({})).await;
    assert_eq!(second.refusal().await, (400, -32600));
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "decline" } });
    assert_eq!(session.post(&answer).await.status, 202);
    assert_eq!(first.message().await["id"], 5);
}

#[tokio::test(start_paused = true)]
async fn what_clients_accept_decides_how_they_are_answered() {
    let world = World::open(HttpDoor::new()).await;
    let session = world.session("/mcp/one").await;
    let ping = || session.sign(Ask::post("/mcp/one", &request(1, "ping", json!({}))));
    for accept in ["*/*", "application/json", "application/*;q=0.8, text/html"] {
        assert!(
            !world.send(ping().header("accept", accept)).await.is_events(),
            "{accept}"
        );
    }
    assert!(!world.send(ping().without("accept")).await.is_events());
    let mut events = world.send(ping().header("accept", "text/event-stream")).await;
    assert_eq!(events.message().await["id"], 1);
    let params = json!({ "name": "progress", "arguments": {}, "_meta": { "progressToken": 1 } });
    let call = session.sign(Ask::post("/mcp/one", &request(2, "tools/call", params)));
    let whole = world.send(call.header("accept", "application/json")).await;
    assert_eq!(
        whole.json().await["id"],
        2,
        "without the progress that it cannot take"
    );
}

/// A modern request, changed.
fn changed(change: impl FnOnce(&mut Value)) -> Ask {
    let mut params = json!({
        "name": "echo",
        "arguments": {},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    });
    change(&mut params);
    Ask::post("/mcp/one", &request(8, "tools/call", params))
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", "echo")
}

#[tokio::test(start_paused = true)]
async fn modern_requests_say_the_same_in_their_headers_and_bodies() {
    let world = World::open(HttpDoor::new()).await;
    let as_it_is = || changed(|_| ());
    let version = "io.modelcontextprotocol/protocolVersion";
    let without = |key: &'static str| {
        changed(move |params| {
            params["_meta"].as_object_mut().unwrap().remove(key);
        })
    };
    let other_version = || changed(|params| params["_meta"][version] = json!("2099-01-01"));
    let cases = [
        ("no _meta", changed(|params| params["_meta"] = json!({})), -32602),
        ("no version in _meta", without(version), -32602),
        (
            "no capabilities",
            without("io.modelcontextprotocol/clientCapabilities"),
            -32602,
        ),
        (
            "no version header",
            as_it_is().without("mcp-protocol-version"),
            -32020,
        ),
        ("another version", other_version(), -32020),
        (
            "legacy header",
            as_it_is().header("mcp-protocol-version", "2025-11-25"),
            -32020,
        ),
        (
            "unknown version",
            other_version().header("mcp-protocol-version", "2099-01-01"),
            -32022,
        ),
        ("no method header", as_it_is().without("mcp-method"), -32020),
        (
            "another method",
            as_it_is().header("mcp-method", "tools/list"),
            -32020,
        ),
        (
            "method in capitals",
            as_it_is().header("mcp-method", "TOOLS/CALL"),
            -32020,
        ),
        ("no name header", as_it_is().without("mcp-name"), -32020),
        ("another name", as_it_is().header("mcp-name", "pid"), -32020),
        (
            "bad base64",
            as_it_is().header("mcp-name", "=?base64?!!?="),
            -32020,
        ),
    ];
    for (what, ask, code) in cases {
        let reply = world.send(ask).await;
        assert_eq!(reply.status, 400, "{what}");
        let body = reply.json().await;
        assert_eq!(
            (&body["error"]["code"], &body["id"]),
            (&json!(code), &json!(8)),
            "{what}"
        );
    }
    for name in ["echo", "  echo  ", "=?base64?ZWNobw==?="] {
        let reply = world.send(as_it_is().header("mcp-name", name)).await;
        assert_eq!(reply.status, 200, "{name}");
    }
    let unsupported = world
        .send(other_version().header("mcp-protocol-version", "2099-01-01"))
        .await;
    let data = unsupported.json().await["error"]["data"].clone();
    assert_eq!(
        (&data["requested"], &data["supported"][0]),
        (&json!("2099-01-01"), &json!("2026-07-28"))
    );
    let read = world
        .send(modern(
            "/mcp/one",
            9,
            "resources/read",
            json!({ "uri": "mem://one" }),
        ))
        .await;
    assert_eq!(read.status, 200, "its name is its uri");
}

#[tokio::test(start_paused = true)]
async fn arguments_that_a_tool_wants_to_be_seen_are_in_headers() {
    let properties = json!({
        "region": { "type": "string", "x-mcp-header": "Region" },
        "limit": { "type": "integer", "x-mcp-header": "Limit" },
    });
    let tool = json!({ "name": "route", "inputSchema": { "type": "object", "properties": properties } });
    let world = World::with(HttpDoor::new(), Script::new().tool_json(tool)).await;
    for (path, name) in [("/mcp/one", "route"), ("/mcp", "one__route")] {
        let call = |arguments| {
            modern(
                path,
                1,
                "tools/call",
                json!({ "name": name, "arguments": arguments }),
            )
        };
        let both = || call(json!({ "region": "Zürich", "limit": 42 }));
        let right = || {
            both()
                .header("mcp-param-region", "=?base64?WsO8cmljaA==?=")
                .header("mcp-param-limit", "42")
        };
        let good = [
            right(),
            right().header("mcp-param-limit", "42.0"),
            right().header("mcp-param-other", "unknown"),
            call(json!({ "region": null })),
            call(json!({ "region": "a" })).header("mcp-param-region", "a"),
        ];
        for ask in good {
            assert_eq!(world.send(ask).await.status, 200);
        }
        let bad = [
            both(),
            right().header("mcp-param-limit", "43"),
            right().header("mcp-param-region", "Bern"),
            right().header("mcp-param-region", "=?base64?WsO8cmljaA?="),
            call(json!({ "region": "1e1" })).header("mcp-param-region", "10"),
        ];
        for ask in bad {
            assert_eq!(world.send(ask).await.refusal().await, (400, -32020));
        }
    }
}
