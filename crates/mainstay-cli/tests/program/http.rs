//! Servers over HTTP, in every command.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use mainstay_testkit::http::{FaultyHttpProcess, FaultyHttpServer, HttpFault, HttpScript, HttpStep};
use mainstay_testkit::{Script, Speaks};
use serde_json::json;

use crate::sandbox::{Sandbox, finish};
use crate::serving::{Serving, Visitor};

/// Where nothing listens: a port that was free a moment ago may be another test's by now, and this one is nobody's.
fn dead_address() -> String {
    "http://127.0.0.1:1/mcp".to_owned()
}

fn locked() -> HttpScript {
    let fault = HttpFault::unauthorized("https://login.example/meta", "files:read files:write");
    HttpScript::new().at(HttpStep::Post, fault)
}

#[test]
fn a_server_over_http_is_shown_with_its_address_and_how_it_is_spoken_to() {
    let modern = FaultyHttpProcess::start(0, &Script::new().speaks(Speaks::Modern), &HttpScript::new());
    let old = FaultyHttpProcess::start(0, &Script::new(), &HttpScript::new());
    let sandbox = Sandbox::with(&json!({
        "modern": { "url": modern.url("/mcp") },
        "old": { "type": "sse", "url": old.url("/sse") }
    }));
    let ran = sandbox.run(&["check"]);
    ran.exits(0)
        .prints(&format!("address    {}", modern.url("/mcp")))
        .prints("transport  Streamable HTTP, modern era")
        .prints(&format!("address    {}", old.url("/sse")))
        .prints("transport  HTTP+SSE, legacy era");
    let document = sandbox.run(&["check", "--json"]).exits(0).json();
    let (modern_seen, old_seen) = (&document["servers"][0], &document["servers"][1]);
    assert_eq!(modern_seen["address"], modern.url("/mcp"));
    assert_eq!(
        (&modern_seen["transport"], &old_seen["transport"]),
        (&json!("http"), &json!("sse"))
    );
    assert_eq!(modern_seen["protocol_version"], "2026-07-28");
}

#[test]
fn tools_of_a_server_over_http_are_listed_and_called() {
    let remote = FaultyHttpProcess::start(0, &Script::new(), &HttpScript::new());
    let sandbox = Sandbox::with(&json!({ "web": { "url": remote.url("/mcp") } }));
    sandbox.run(&["tools"]).exits(0).prints("web__echo");
    let ran = sandbox.run(&["call", "web", "echo", "text=over the wire"]);
    ran.exits(0).prints("over the wire");
}

#[test]
fn a_server_that_asks_for_a_login_says_where_and_what_to_do() {
    let remote = FaultyHttpProcess::start(0, &Script::new(), &locked());
    let sandbox = Sandbox::with(&json!({
        "bare": { "url": remote.url("/mcp") },
        "refused": { "url": remote.url("/mcp"), "headers": { "Authorization": "Bearer hush-hush" } }
    }));
    let ran = sandbox.run(&["check"]);
    ran.exits(1)
        .prints("✖  bare     disconnected (auth_required)")
        .prints("login      https://login.example/meta")
        .prints("scopes     files:read files:write")
        .prints("\"bearer_token_env\"")
        .prints("mainstay login bare")
        .prints("its token is refused");
    assert!(!format!("{}{}", ran.stdout, ran.stderr).contains("hush-hush"));
    let document = sandbox.run(&["check", "--json"]).exits(1).json();
    let bare = &document["servers"][0];
    assert_eq!(bare["reason"], "auth_required");
    assert_eq!(
        bare["error"]["login"]["resource_metadata"],
        "https://login.example/meta"
    );
    assert_eq!(
        bare["error"]["login"]["scopes"],
        json!(["files:read", "files:write"])
    );
    sandbox
        .run(&["call", "bare", "echo", "text=x"])
        .exits(3)
        .says("asks for a login");
}

#[test]
fn a_token_in_a_variable_lets_in_and_is_shown_nowhere() {
    let remote = FaultyHttpProcess::start(0, &Script::new(), &HttpScript::new().bearer("hush-hush"));
    let sandbox = Sandbox::with(&json!({ "web": { "url": remote.url("/mcp"), "bearer_token_env": "KEY" } }));
    for command in [&["check"][..], &["check", "--json"], &["ping", "web"]] {
        let child = sandbox.command(command).env("KEY", "hush-hush").spawn().unwrap();
        let ran = finish(child);
        ran.exits(0);
        assert!(!format!("{}{}", ran.stdout, ran.stderr).contains("hush-hush"));
    }
    sandbox
        .run(&["check"])
        .exits(2)
        .says("mcpServers.web.bearer_token_env: the variable KEY is not set, or empty; set it to the token");
}

#[test]
fn each_failure_over_http_has_its_own_way_out() {
    let remote = FaultyHttpProcess::start(0, &Script::new(), &HttpScript::new());
    let failing = FaultyHttpProcess::start(
        0,
        &Script::new(),
        &HttpScript::new().at(HttpStep::Post, HttpFault::status(500)),
    );
    let plain = remote.url("/mcp").replace("http://", "https://");
    let sandbox = Sandbox::new();
    for (url, way_out) in [
        (
            dead_address(),
            "is the server running? nothing listens at this address",
        ),
        (remote.url("/nowhere"), "is the path right?"),
        (failing.url("/mcp"), "its own log says why"),
        (plain, "if it speaks no TLS, write http://"),
    ] {
        let ran = sandbox.run(&["ping", &url]);
        // Words may stand on two lines.
        let said = ran
            .exits(1)
            .stdout
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        assert!(said.contains(way_out), "{url}: {said}");
    }
}

/// A proxy that notes the first line of each request, and refuses them all.
fn refusing_proxy() -> (String, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked = thread::spawn(move || {
        let (stream, _): (TcpStream, _) = listener.accept().unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        let refusal =
            b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        (&stream).write_all(refusal).unwrap();
        line
    });
    (address, asked)
}

#[test]
fn a_proxy_of_the_environment_stands_before_other_machines_and_never_before_this_one() {
    let sandbox = Sandbox::new();
    let (proxy, asked) = refusing_proxy();
    let arguments = ["ping", "http://mcp.invalid/mcp", "--timeout", "20s"];
    let child = sandbox
        .command(&arguments)
        .env("HTTP_PROXY", &proxy)
        .env("http_proxy", &proxy)
        .spawn();
    finish(child.unwrap()).exits(1);
    assert_eq!(asked.join().unwrap(), "POST http://mcp.invalid/mcp HTTP/1.1\r\n");

    let remote = FaultyHttpProcess::start(0, &Script::new(), &HttpScript::new());
    let dead = dead_address();
    let url = remote.url("/mcp");
    let mut command = sandbox.command(&["ping", &url]);
    let child = command.env("HTTP_PROXY", &dead).env("http_proxy", &dead).spawn();
    finish(child.unwrap()).exits(0);
}

#[tokio::test]
async fn a_server_that_keeps_losing_its_sessions_is_named_with_the_setting_that_keeps_them() {
    let script = Script::new().speaks(Speaks::Both);
    let remote = FaultyHttpServer::start(script, HttpScript::new())
        .await
        .expect("a free port");
    let sandbox = Sandbox::with(&json!({ "web": { "url": remote.url("/mcp") } }));
    let serving = Serving::start(&sandbox, &[]);
    let visitor = Visitor::legacy(serving.address, "/mcp/web").await;
    for _loss in 0..3 {
        visitor.call("echo", json!({ "text": "x" })).await;
        remote.forget_sessions();
    }
    visitor.call("echo", json!({ "text": "x" })).await;
    let said = serving.hears("without a session for an hour");
    assert!(said.contains("warning: web: "), "{said}");
    assert!(said.contains(r#""era": "legacy""#), "{said}");
}
