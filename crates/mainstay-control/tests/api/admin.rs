//! The API at the HTTP door, behind the checks of host, origin and a token of its own.

use std::net::SocketAddr;

use mainstay_control::{API_ROOT, ControlClient};
use mainstay_gateway::HttpDoor;
use mainstay_testkit::fleet::LONG;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};

use crate::support::{World, raw};

const TOKEN: &str = "control-token";

/// The world's gateway at a port, which asks MCP clients for another token.
async fn serve(world: &World) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let service = std::sync::Arc::new(world.service.clone());
    let door = HttpDoor::new()
        .token("mcp-token")
        .allowed_origin("https://allowed.example");
    let door = door.mount(&[API_ROOT], Some(TOKEN.into()), service);
    let gateway = world.gateway.clone();
    tokio::spawn(async move { gateway.serve_http(listener, door, std::future::pending()).await });
    address
}

async fn get(address: SocketAddr, path: &str, headers: &str) -> (u16, Value) {
    let stream = TcpStream::connect(address).await.expect("a connection");
    let request = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n");
    raw(stream, &request).await
}

#[tokio::test]
async fn a_request_needs_the_token_of_the_api_an_own_host_and_no_foreign_origin() {
    let world = World::one().await;
    let address = serve(&world).await;
    let host = format!("Host: {address}\r\n");
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    let servers = "/api/v1/servers";
    for (headers, status) in [
        (format!("{host}{token}"), 200),
        (format!("{host}{token}Origin: http://{address}\r\n"), 200),
        (format!("{host}{token}Origin: https://allowed.example\r\n"), 200),
        (host.clone(), 401),
        (format!("{host}Authorization: Bearer wrong\r\n"), 401),
        (format!("{host}Authorization: Bearer mcp-token\r\n"), 401),
        (format!("{host}Authorization: Basic {TOKEN}\r\n"), 401),
        (format!("Host: rebound.example\r\n{token}"), 421),
        (token.clone(), 400),
        (format!("{host}{token}Origin: https://evil.example\r\n"), 403),
        // A page of another port of this machine is another page.
        (format!("{host}{token}Origin: http://localhost:1\r\n"), 403),
        (format!("{host}{token}Origin: null\r\n"), 403),
        (
            format!("{host}{token}Origin: http://{address}\r\nOrigin: http://{address}\r\n"),
            403,
        ),
    ] {
        let (answered, body) = get(address, servers, &headers).await;
        assert_eq!(answered, status, "{headers}: {body}");
        if status != 200 {
            assert_eq!(body["status"], status);
            assert!(body["title"].is_string() && body["kind"].is_string(), "{body}");
        }
    }
    // The token of the API is none for MCP, and what is beside the API is not the API.
    let (answered, _) = get(address, "/mcp", &format!("{host}{token}")).await;
    assert_eq!(answered, 401);
    let (answered, _) = get(
        address,
        "/api/v10",
        &format!("{host}Authorization: Bearer mcp-token\r\n"),
    )
    .await;
    assert_eq!(answered, 404);
}

#[tokio::test]
async fn a_client_over_tcp_reads_commands_and_follows_events() {
    let world = World::one().await;
    let address = serve(&world).await;
    let client = ControlClient::tcp(address, TOKEN).timeout(LONG);
    assert_eq!(client.servers(true).await.expect("a list").servers.len(), 1);
    let mut events = client.events(None, 0).await.expect("a stream");
    client.restart("one").await.expect("restarted");
    crate::support::record(&mut events).await;
    let refused = ControlClient::tcp(address, "wrong").timeout(LONG);
    let refused = refused.program().await.expect_err("a wrong token");
    assert_eq!(refused.problem().map(|problem| problem.status), Some(401));
}
