//! The client that the MCP conformance suite drives, on the public API alone. The suite starts it once for each scenario,
//! with the address of the scenario's server as last argument and the rest in the environment.
//!
//!     cargo xtask conformance
//!
//! It says `completed` when it did all that the scenario wants of a client, which the suite itself does not ask.

mod person;
mod sample;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use mainstay::catalog::Kind;
use mainstay::{CallOptions, Fleet, Server, ServerConfig};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use person::Person;

type Done = Result<(), Box<dyn Error + Send + Sync>>;

/// Every scenario's server is on this machine, and answers at once.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
const CALL_WITHIN: Duration = Duration::from_secs(15);

/// What a scenario wants of a connected client. Connecting lists everything.
enum Act {
    /// No more than that.
    Connect,
    /// Call, get and read whatever the server offers.
    UseAll,
    /// Make the calls that the suite names.
    CallAsTold,
    /// Send a tool's schema back as it came.
    SendSchemaBack,
}

fn act(scenario: &str) -> Option<Act> {
    let act = match scenario {
        "initialize" | "request-metadata" | "json-schema-ref-no-deref" => Act::Connect,
        "tools_call"
        | "elicitation-sep1034-client-defaults"
        | "sse-retry"
        | "sep-2322-client-request-state"
        | "http-standard-headers"
        | "http-invalid-tool-headers" => Act::UseAll,
        "http-custom-headers" => Act::CallAsTold,
        "json-schema-2020-12-preservation" => Act::SendSchemaBack,
        login if login.starts_with("auth/") => Act::UseAll,
        _unknown => return None,
    };
    Some(act)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Done {
    let url = std::env::args()
        .next_back()
        .ok_or("the last argument is an address")?;
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO")?;
    let act = act(&scenario).ok_or_else(|| format!("no scenario is known as {scenario}"))?;

    let fleet = Fleet::builder()
        .client("mainstay-conformance", env!("CARGO_PKG_VERSION"))
        .handler(Arc::new(Person))
        .start([ServerConfig::http("suite", url).build()?]);
    let server = fleet.server("suite").ok_or("just configured")?;
    let done = perform(act, &server).await;
    fleet.close(CONNECT_WITHIN).await;
    done?;
    println!("completed");
    Ok(())
}

async fn perform(act: Act, server: &Server) -> Done {
    server.wait_connected(CONNECT_WITHIN).await?;
    match act {
        Act::Connect => Ok(()),
        Act::UseAll => use_all(server).await,
        Act::CallAsTold => call_as_told(server).await,
        Act::SendSchemaBack => send_schema_back(server).await,
    }
}

async fn use_all(server: &Server) -> Done {
    let catalog = server.catalog().ok_or("a connected server is listed")?;
    let mut calls = JoinSet::new();
    // All at once, so that whatever one call leaves behind could be seen in another.
    for tool in catalog.items(Kind::Tool) {
        let (server, name) = (server.clone(), tool.key().to_owned());
        let schema = tool.raw().parse::<Value>()?["inputSchema"].take();
        calls.spawn(async move {
            server
                .call(&name, &sample::object(&schema))
                .options(options())
                .await
        });
    }
    while let Some(called) = calls.join_next().await {
        called??;
    }
    for prompt in catalog.items(Kind::Prompt) {
        server.prompt(prompt.key(), &json!({})).options(options()).await?;
    }
    for resource in catalog.items(Kind::Resource) {
        server.read_resource(resource.key()).options(options()).await?;
    }
    Ok(())
}

async fn call_as_told(server: &Server) -> Done {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Told {
        tool_calls: Vec<ToolCall>,
    }
    #[derive(Deserialize)]
    struct ToolCall {
        name: String,
        arguments: Value,
    }
    let told: Told = serde_json::from_str(&std::env::var("MCP_CONFORMANCE_CONTEXT")?)?;
    for call in told.tool_calls {
        server
            .call(&call.name, &call.arguments)
            .options(options())
            .await?;
    }
    Ok(())
}

async fn send_schema_back(server: &Server) -> Done {
    let catalog = server.catalog().ok_or("a connected server is listed")?;
    let tool = catalog.item(Kind::Tool, "json_schema_2020_12_tool");
    let schema = tool.ok_or("the tool is not offered")?.raw().parse::<Value>()?["inputSchema"].take();
    server
        .call("json_schema_echo", &json!({ "schema": schema }))
        .options(options())
        .await?;
    Ok(())
}

fn options() -> CallOptions {
    CallOptions::default().timeout(CALL_WITHIN)
}
