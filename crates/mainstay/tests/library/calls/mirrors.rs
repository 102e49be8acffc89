//! Calls over HTTP show in headers what their tool wants to be seen there.

use mainstay::{CallErrorKind, CallOptions, Fleet, Server, ServerConfig};
use mainstay_testkit::http::{FaultyHttpServer, HttpFault, HttpRule, HttpScript};
use mainstay_testkit::{Occurrence, Script, Speaks};
use serde_json::{Value, json};

use mainstay_testkit::fleet::{LONG, Memory, connected, fleet_with};

fn tool(name: &str, its_type: &str) -> Value {
    let property = json!({ "type": its_type, "x-mcp-header": "Region" });
    json!({ "name": name, "inputSchema": { "type": "object", "properties": { "region": property } } })
}

fn script(speaks: Speaks) -> Script {
    let script = Script::new().speaks(speaks).without_builtin_tools();
    script
        .tool_json(tool("sound", "string"))
        .tool_json(tool("broken", "number"))
}

async fn over_http(speaks: Speaks) -> (FaultyHttpServer, Fleet, Server) {
    let remote = FaultyHttpServer::start(script(speaks), HttpScript::new())
        .await
        .unwrap();
    let (fleet, server) = fleet_with(Fleet::builder(), ServerConfig::http("web", remote.url("/mcp")));
    connected(&server).await;
    (remote, fleet, server)
}

fn tools(fleet: &Fleet) -> Vec<String> {
    let catalog = fleet.catalog();
    let tools = catalog.tools().iter();
    tools.map(|tool| tool.original().to_owned()).collect()
}

/// What the last call showed in the header.
fn shown(remote: &FaultyHttpServer) -> Option<String> {
    remote.traffic(|traffic| {
        traffic
            .last_header("tools/call", "mcp-param-region")
            .map(str::to_owned)
    })
}

async fn call(server: &Server, arguments: Value) {
    let options = CallOptions::default().timeout(LONG);
    server
        .call("sound", &arguments)
        .options(options)
        .await
        .expect("answered");
}

#[tokio::test]
async fn a_modern_server_finds_the_arguments_it_names_in_the_headers_of_a_call() {
    let (remote, _fleet, server) = over_http(Speaks::Modern).await;
    call(&server, json!({ "region": "us-west1" })).await;
    assert_eq!(shown(&remote).as_deref(), Some("us-west1"));
    call(&server, json!({ "region": "世界" })).await;
    assert_eq!(shown(&remote).as_deref(), Some("=?base64?5LiW55WM?="));
    call(&server, json!({ "region": null })).await;
    assert_eq!(shown(&remote), None);
}

#[tokio::test]
async fn an_annotation_that_is_not_valid_costs_a_tool_its_place_only_where_headers_are_sent() {
    let (_remote, fleet, _server) = over_http(Speaks::Modern).await;
    assert_eq!(tools(&fleet), ["sound"]);
    let diagnostics = fleet.catalog().diagnostics().to_vec();
    assert!(
        matches!(&diagnostics[..], [one] if one.item.as_deref() == Some("broken")),
        "{diagnostics:?}"
    );

    let (remote, fleet, server) = over_http(Speaks::Legacy).await;
    assert_eq!(tools(&fleet), ["broken", "sound"]);
    call(&server, json!({ "region": "us-west1" })).await;
    assert_eq!(shown(&remote), None);

    let memory = Memory::new(script(Speaks::Modern));
    let (fleet, server) = fleet_with(Fleet::builder(), memory.config("s"));
    connected(&server).await;
    assert_eq!(tools(&fleet), ["broken", "sound"]);
}

#[tokio::test]
async fn a_call_that_shows_the_wrong_arguments_is_made_again_with_those_that_are_listed_now() {
    let (remote, _fleet, server) = over_http(Speaks::Modern).await;
    let mismatch =
        json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32020, "message": "mismatch" } });
    let refusal = HttpFault::Status {
        code: 400,
        headers: Vec::new(),
        body: mismatch.to_string(),
    };
    remote.edit_http(|http| {
        let once = HttpRule::on("tools/call", refusal.clone()).occurrence(Occurrence::Until(1));
        http.rules.push(once);
    });
    let listed = remote.traffic(|traffic| traffic.count("tools/list"));
    remote.edit(|script| {
        script.tools[0]["inputSchema"]["properties"]["region"]["x-mcp-header"] = json!("Zone");
    });

    call(&server, json!({ "region": "us-west1" })).await;
    let zone = remote.traffic(|traffic| {
        let shown = traffic.last_header("tools/call", "mcp-param-zone");
        shown.map(str::to_owned)
    });
    assert_eq!(zone.as_deref(), Some("us-west1"));
    assert_eq!(shown(&remote), None);
    assert_eq!(remote.traffic(|traffic| traffic.count("tools/list")), listed + 1);

    remote.edit_http(|http| http.rules.push(HttpRule::on("tools/call", refusal)));
    let options = CallOptions::default().timeout(LONG);
    let again = server.call("sound", &json!({})).options(options).await;
    assert!(
        matches!(&again, Err(error) if matches!(error.kind, CallErrorKind::Rpc(_))),
        "once is enough: {again:?}"
    );
}
