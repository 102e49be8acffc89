//! The client that the MCP conformance suite drives, on the public API alone. The suite starts it once for each scenario,
//! with the address of the scenario's server as last argument and the rest in the environment.
//!
//!     cargo xtask conformance
//!
//! It says `completed` when it did all that the scenario wants of a client, which the suite itself does not ask.

mod login;
mod person;
mod sample;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use mainstay::catalog::Kind;
use mainstay::server::Reason;
use mainstay::transport::http::Challenge;
use mainstay::{CallErrorKind, CallOptions, Era, Fleet, Server, ServerConfig};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use login::ScenarioLogins;
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
    CallAsInstructed,
    /// Send a tool's schema back as it came.
    SendSchemaBack,
    /// Refuse to log in, or to log in for ever.
    Refuse,
}

/// Where a client must not get in: the authorization server is not the one it claims to be, or always asks for more.
const MUST_REFUSE: [&str; 7] = [
    "auth/scope-retry-limit",
    "auth/resource-mismatch",
    "auth/metadata-issuer-mismatch",
    "auth/iss-supported-missing",
    "auth/iss-wrong-issuer",
    "auth/iss-unexpected",
    "auth/iss-normalized",
];

/// The version without sessions.
const MODERN: &str = "2026-07-28";

/// Logins for one scenario. The library itself gives up earlier.
const LOGINS_LIMIT: u32 = 10;

fn act(scenario: &str) -> Option<Act> {
    let act = match scenario {
        "initialize" | "request-metadata" | "json-schema-ref-no-deref" => Act::Connect,
        "tools_call"
        | "elicitation-sep1034-client-defaults"
        | "sse-retry"
        | "sep-2322-client-request-state"
        | "http-standard-headers"
        | "http-invalid-tool-headers" => Act::UseAll,
        "http-custom-headers" => Act::CallAsInstructed,
        "json-schema-2020-12-preservation" => Act::SendSchemaBack,
        refused if MUST_REFUSE.contains(&refused) => Act::Refuse,
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

    let logins = Arc::new(ScenarioLogins::of_scenario(&scenario, &url)?);
    let mut suite = ServerConfig::http("suite", url).credentials(Arc::new(logins.provider.clone()));
    // The suite's servers speak both eras, and Mainstay then opens a session. What is required of a stateless client is tried by saying so.
    let is_modern = std::env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").is_ok_and(|version| version == MODERN);
    if is_modern && !scenario.starts_with("auth/") {
        suite = suite.era(Era::Modern);
    }
    let fleet = Fleet::builder()
        .client("mainstay-conformance", env!("CARGO_PKG_VERSION"))
        .handler(Arc::new(Person))
        .start([suite.build()?]);
    let server = fleet.server("suite").ok_or("just configured")?;
    let done = perform(act, &server, &logins).await;
    fleet.close(CONNECT_WITHIN).await;
    done?;
    println!("completed");
    Ok(())
}

async fn perform(act: Act, server: &Server, logins: &Arc<ScenarioLogins>) -> Done {
    if let Act::Refuse = act {
        let used = match connect(server, logins).await {
            Ok(()) => use_all(server, logins).await,
            Err(error) => Err(error),
        };
        return match used {
            Ok(()) => Err("the client was let in where it must not log in".into()),
            Err(error) => {
                eprintln!("refused: {error}");
                Ok(())
            }
        };
    }
    connect(server, logins).await?;
    match act {
        Act::Connect | Act::Refuse => Ok(()),
        Act::UseAll => use_all(server, logins).await,
        Act::CallAsInstructed => call_as_instructed(server).await,
        Act::SendSchemaBack => send_schema_back(server).await,
    }
}

/// Waits until the server is connected, and logs in if it asks for that.
async fn connect(server: &Server, logins: &ScenarioLogins) -> Done {
    for _ in 0..LOGINS_LIMIT {
        match server.wait_connected(CONNECT_WITHIN).await {
            Ok(_) => return Ok(()),
            Err(_) if server.status().reason == Some(Reason::AuthRequired) => {
                logins.log_in_for(server).await?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err("the server asks for a login for ever".into())
}

async fn use_all(server: &Server, logins: &Arc<ScenarioLogins>) -> Done {
    let catalog = server.catalog().ok_or("a connected server is listed")?;
    let mut calls = JoinSet::new();
    // All at once, so that whatever one call leaves behind could be seen in another.
    for tool in catalog.items(Kind::Tool) {
        let (server, logins, name) = (server.clone(), logins.clone(), tool.key().to_owned());
        let schema = tool.raw().parse::<Value>()?["inputSchema"].take();
        calls.spawn(async move { call(&server, &logins, &name, &sample::object(&schema)).await });
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

/// Calls a tool, and logs in with more scopes if the call needs them.
async fn call(server: &Server, logins: &ScenarioLogins, name: &str, arguments: &Value) -> Done {
    for _ in 0..LOGINS_LIMIT {
        let Err(error) = server.call(name, arguments).options(options()).await else {
            return Ok(());
        };
        match &error.kind {
            CallErrorKind::AuthRequired { challenge } => {
                logins.log_in(Some(Challenge::clone(challenge))).await?;
                connect(server, logins).await?;
            }
            CallErrorKind::NotConnected(now) if now.reason == Some(Reason::AuthRequired) => {
                logins.log_in_for(server).await?;
                connect(server, logins).await?;
            }
            _other => return Err(error.into()),
        }
    }
    Err("the server asks for more for ever".into())
}

async fn call_as_instructed(server: &Server) -> Done {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ToolCalls {
        tool_calls: Vec<ToolCall>,
    }
    #[derive(Deserialize)]
    struct ToolCall {
        name: String,
        arguments: Value,
    }
    let context: ToolCalls = serde_json::from_str(&std::env::var("MCP_CONFORMANCE_CONTEXT")?)?;
    for call in context.tool_calls {
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
