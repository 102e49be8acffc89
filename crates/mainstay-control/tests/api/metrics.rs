//! Metrics: what a scrape shows, and who may read it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use mainstay::Fleet;
use mainstay_control::{API_ROOT, Control, ControlService, METRICS_PATH, MetricsAccess, Role, ServerGroup};
use mainstay_gateway::{Gateway, HttpDoor, Scope};
use mainstay_testkit::Script;
use mainstay_testkit::fleet::{LONG, Memory};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::time::timeout;

use crate::support::World;

/// The head and the body of an answer.
async fn get<S>(mut stream: S, headers: &str) -> (String, String)
where
    S: AsyncReadExt + AsyncWriteExt + Unpin,
{
    let request = format!("GET /metrics HTTP/1.1\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.expect("written");
    let mut answer = String::new();
    let read = timeout(LONG, stream.read_to_string(&mut answer)).await;
    read.expect("in time").expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

async fn scrape(world: &World, headers: &str) -> (String, String) {
    let stream = UnixStream::connect(&world.socket).await.expect("a connection");
    get(stream, &format!("Host: localhost\r\n{headers}")).await
}

#[track_caller]
fn has(scraped: &str, line: &str) {
    assert!(
        scraped.lines().any(|found| found == line),
        "{line}\nis not in\n{scraped}"
    );
}

/// Sends requests as one client on a stream, and reads an answer to each.
async fn client(gateway: &Gateway, requests: &[&str]) {
    let (near, remote) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(remote);
    let gateway = gateway.clone();
    let serving = tokio::spawn(async move { gateway.serve_stdio(Scope::Union, reader, writer).await });
    let (reader, mut writer) = tokio::io::split(near);
    let mut lines = BufReader::new(reader).lines();
    for request in requests {
        writer
            .write_all(format!("{request}\n").as_bytes())
            .await
            .expect("written");
        if request.contains(r#""id""#) {
            timeout(LONG, lines.next_line())
                .await
                .expect("in time")
                .expect("readable")
                .expect("an answer");
        }
    }
    drop((lines, writer));
    timeout(LONG, serving).await.expect("in time").expect("served");
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;

#[tokio::test]
async fn a_scrape_shows_calls_by_tool_states_catalogs_and_ended_sessions() {
    let world = World::one().await;
    client(
        &world.gateway,
        &[
            INITIALIZE,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"one__echo","arguments":{"text":"a"}}}"#,
            r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"one__echo","arguments":{"text":"b"}}}"#,
            r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"one__made_up"}}"#,
            r#"{"jsonrpc":"2.0","id":5,"method":"no/such"}"#,
        ],
    )
    .await;
    let (head, body) = scrape(&world, "").await;
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    let echo = r#"{mcp_method_name="tools/call",server="one",gen_ai_tool_name="echo"}"#;
    has(
        &body,
        &format!("mcp_server_operation_duration_seconds_count{echo} 2"),
    );
    has(
        &body,
        &format!("mcp_client_operation_duration_seconds_count{echo} 2"),
    );
    has(
        &body,
        r#"mcp_server_operation_duration_seconds_count{mcp_method_name="tools/list"} 1"#,
    );
    has(
        &body,
        r#"mcp_server_operation_duration_seconds_count{mcp_method_name="initialize"} 1"#,
    );
    has(
        &body,
        r#"mcp_server_operation_duration_seconds_count{mcp_method_name="other",error_type="-32601"} 1"#,
    );
    assert!(!body.contains("made_up"), "a client can make up names");
    has(&body, "mcp_server_session_duration_seconds_count 1");
    has(&body, r#"mainstay_server_up{server="one"} 1"#);
    has(
        &body,
        r#"mainstay_server_state{server="one",state="connected"} 1"#,
    );
    has(
        &body,
        r#"mainstay_server_state{server="one",state="reconnecting"} 0"#,
    );
    has(
        &body,
        r#"mainstay_server_transitions_total{server="one",to="connected",cause="listed"} 1"#,
    );
    has(&body, r#"mainstay_server_starts_total{server="one"} 1"#);
    has(&body, r#"mainstay_server_start_tokens{server="one"} 10"#);
    has(
        &body,
        r#"mainstay_server_calls_failed_total{server="one",outcome="unknown"} 0"#,
    );
    has(&body, r#"mainstay_server_catalog_changes_total{server="one"} 1"#);
    has(&body, r#"mainstay_sessions{door="stdio"} 0"#);
    assert!(body.contains(r#"mainstay_server_catalog_items{server="one",kind="tool"}"#));
    assert!(!body.contains("# EOF") && !body.contains("node="));
}

#[tokio::test]
async fn a_scrape_has_every_metric_of_the_document_and_no_other() {
    let document = include_str!("../../../../docs/metrics.md");
    let names = document
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let is_metric = |name: &&str| {
        ["mcp_", "mainstay_", "process_"]
            .iter()
            .any(|start| name.starts_with(start))
    };
    let documented: BTreeSet<&str> = names.filter(is_metric).collect();
    let world = World::one().await;
    let (_, body) = scrape(&world, "").await;
    let types = body
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let scraped: BTreeSet<&str> = types.collect();
    assert_eq!(scraped, documented);
}

#[tokio::test]
async fn a_server_that_is_lost_and_comes_back_counts_as_one_recovery_and_one_ended_connection() {
    let memory = Memory::new(Script::new());
    let world = World::of(&[("one", &memory)]).await;
    memory.side(1).await.cut();
    let server = world.gateway.fleet().server("one").expect("configured");
    server
        .wait_until(LONG, |status| status.starts == 2)
        .await
        .expect("started again");
    mainstay_testkit::fleet::connected(&server).await;
    let (_, body) = scrape(&world, "").await;
    has(
        &body,
        r#"mainstay_server_recovery_duration_seconds_count{server="one"} 1"#,
    );
    has(
        &body,
        r#"mcp_client_session_duration_seconds_count{server="one"} 1"#,
    );
    has(
        &body,
        r#"mainstay_server_transitions_total{server="one",to="reconnecting",cause="lost"} 1"#,
    );
}

#[tokio::test]
async fn openmetrics_ends_with_its_marker_and_a_hostile_name_stays_in_its_label() {
    let name = "a\"b\\c\nd{e}";
    let memory = Memory::new(Script::new());
    let gateway = Gateway::start(Fleet::builder(), [memory.config("one").build().expect("valid")]);
    let control = Control::builder(Role::Daemon).node("n\"1").build();
    let _attached = control.attach(ServerGroup::ad_hoc(name, gateway));
    let service = ControlService::new(&control);
    let (near, remote) = tokio::io::duplex(1 << 20);
    tokio::spawn(async move { service.serve_connection(remote).await });
    let headers = "Host: localhost\r\nAccept: application/openmetrics-text; version=1.0.0\r\n";
    let (head, body) = get(near, headers).await;
    assert!(
        head.contains("application/openmetrics-text; version=1.0.0"),
        "{head}"
    );
    assert!(body.ends_with("# EOF\n"));
    let enabled = r#"mainstay_server_enabled{node="n\"1",server="a\"b\\c\nd{e}"} 1"#;
    has(&body, enabled);
    for line in body.lines().filter(|line| !line.starts_with('#')) {
        assert!(line.contains(r#"node="n\"1""#), "{line}");
    }
}

#[tokio::test]
async fn the_metrics_cannot_be_changed() {
    let world = World::one().await;
    let request =
        "POST /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let (status, problem) = world.raw(request).await;
    assert_eq!(
        (status, problem["kind"].as_str()),
        (405, Some("method_not_allowed"))
    );
}

async fn door(world: &World, access: MetricsAccess, is_admin: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let service = Arc::new(ControlService::with_metrics(&world.control, access));
    let door = match is_admin {
        true => HttpDoor::new().mount(&[API_ROOT, METRICS_PATH], Some("control-token".into()), service),
        false => HttpDoor::new().mount(&[METRICS_PATH], None, service),
    };
    let gateway = world.gateway.clone();
    tokio::spawn(async move { gateway.serve_http(listener, door, std::future::pending()).await });
    address
}

async fn status(address: SocketAddr, path: &str, headers: &str) -> u16 {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.expect("written");
    let mut answer = String::new();
    timeout(LONG, stream.read_to_string(&mut answer))
        .await
        .expect("in time")
        .expect("an answer");
    answer
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .expect("a status")
}

#[tokio::test]
async fn the_token_for_metrics_opens_the_metrics_and_nothing_else() {
    let world = World::one().await;
    let metrics_token = "Authorization: Bearer metrics-token\r\n";
    let control_token = "Authorization: Bearer control-token\r\n";
    let access = || MetricsAccess::token(&"metrics-token".into());
    let both = door(&world, access(), true).await;
    assert_eq!(status(both, "/metrics", metrics_token).await, 200);
    assert_eq!(status(both, "/metrics", control_token).await, 200);
    assert_eq!(status(both, "/api/v1", control_token).await, 200);
    assert_eq!(status(both, "/api/v1", metrics_token).await, 401);
    assert_eq!(status(both, "/metrics", "").await, 401);
    let alone = door(&world, access(), false).await;
    assert_eq!(status(alone, "/metrics", metrics_token).await, 200);
    assert_eq!(status(alone, "/metrics", control_token).await, 401);
    assert_eq!(status(alone, "/api/v1", metrics_token).await, 404);
    let open = door(&world, MetricsAccess::everyone(), false).await;
    assert_eq!(status(open, "/metrics", "").await, 200);
    // What is open to this machine's programs is not open to the pages in its browser.
    assert_eq!(
        status(open, "/metrics", "Origin: https://evil.example\r\n").await,
        403
    );
    let open_too = door(&world, MetricsAccess::everyone(), true).await;
    assert_eq!(status(open_too, "/metrics", "").await, 200);
    assert_eq!(status(open_too, "/api/v1", "").await, 401);
}
