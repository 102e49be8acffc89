//! An MCP server on stdio, built on rmcp as its users build one: a peer that Mainstay did not write.
//!
//! It offers just enough to watch a connection from the other side: `echo` (what arrived), `pid` (which process
//! answered), `sleep` (a call that takes time, reports progress and can be cancelled) and `toggle` (a catalog that
//! changes and says so), one prompt and one resource. It speaks both eras of the protocol, as rmcp does.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, GetPromptRequestParams,
    GetPromptResponse, GetPromptResult, Implementation, JsonObject, ListPromptsResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, Prompt, PromptArgument,
    PromptMessage, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    Resource, ResourceContents, Role, ServerCapabilities, ServerConfig, SubscriptionFilter, Tool,
    ToolAnnotations,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::{Value, json};
use tokio::sync::watch;

const NOTE_URI: &str = "note://rmcp-server/hello";
const DEFAULT_STEPS: u64 = 4;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let (extra, never_toggled) = watch::channel(false);
    let server = RmcpServer { extra, never_toggled };
    server.serve(rmcp::transport::stdio()).await?.waiting().await?;
    Ok(())
}

struct RmcpServer {
    /// Whether the tool `extra` is offered. A watch, so that every open subscription hears of a change.
    extra: watch::Sender<bool>,
    /// Has seen no change. A subscription starts from a clone of it, and so misses none that comes after the client
    /// heard that it is subscribed, which is before rmcp calls [`ServerHandler::listen`].
    never_toggled: watch::Receiver<bool>,
}

impl ServerHandler for RmcpServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_resources()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("rmcp-server", env!("CARGO_PKG_VERSION")))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools(*self.extra.borrow())))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let text = match request.name.as_ref() {
            "echo" => text_argument(&arguments, "text")?.to_owned(),
            "pid" => std::process::id().to_string(),
            "sleep" => sleep(&arguments, &context).await?,
            "toggle" => self.toggle(&context).await,
            "extra" if *self.extra.borrow() => "extra".to_owned(),
            unknown => {
                return Err(ErrorData::invalid_params(
                    format!("no tool named {unknown}"),
                    None,
                ));
            }
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let name = PromptArgument::new("name")
            .with_description("who is greeted")
            .with_required(true);
        Ok(ListPromptsResult::with_all_items(vec![Prompt::new(
            "greet",
            Some("Greets someone"),
            Some(vec![name]),
        )]))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if request.name != "greet" {
            return Err(ErrorData::invalid_params(
                format!("no prompt named {}", request.name),
                None,
            ));
        }
        let arguments = request.arguments.unwrap_or_default();
        let greeting = format!("Hello, {}!", text_argument(&arguments, "name")?);
        Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, greeting)]).into())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(vec![Resource::new(
            NOTE_URI, "hello",
        )]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if request.uri != NOTE_URI {
            return Err(ErrorData::resource_not_found(
                format!("no resource at {}", request.uri),
                None,
            ));
        }
        Ok(ReadResourceResult::new(vec![ResourceContents::text("hello", NOTE_URI)]).into())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut extra = self.never_toggled.clone();
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                changed = extra.changed() => {
                    if changed.is_err() || context.sink().notify_tool_list_changed().await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }
}

impl RmcpServer {
    /// Offers or withdraws the tool `extra`. Subscriptions hear of it through the watch; a legacy client has none and
    /// is told directly.
    async fn toggle(&self, context: &RequestContext<RoleServer>) -> String {
        self.extra.send_modify(|extra| *extra = !*extra);
        let legacy = context
            .protocol_version()
            .is_none_or(|version| version < ProtocolVersion::V_2026_07_28);
        if legacy {
            // A client that is gone has no use for the news, nor for the answer.
            let _ = context.peer.notify_tool_list_changed().await;
        }
        if *self.extra.borrow() {
            "extra is offered"
        } else {
            "extra is withdrawn"
        }
        .to_owned()
    }
}

/// Sleeps in equal steps, reporting progress after each where the caller asked for it, until it is cancelled.
async fn sleep(arguments: &JsonObject, context: &RequestContext<RoleServer>) -> Result<String, ErrorData> {
    let millis = number_argument(arguments, "millis")?
        .ok_or_else(|| ErrorData::invalid_params("the argument millis is missing", None))?;
    let steps = number_argument(arguments, "steps")?
        .unwrap_or(DEFAULT_STEPS)
        .max(1);
    let progress_token = context.meta.get_progress_token();
    for step in 1..=steps {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(millis / steps)) => {}
            () = context.ct.cancelled() => return Ok("cancelled".to_owned()),
        }
        if let Some(token) = progress_token.clone() {
            let progress = ProgressNotificationParam::new(token, step as f64).with_total(steps as f64);
            // A client that is gone ends this call through the cancellation above.
            let _ = context.peer.notify_progress(progress).await;
        }
    }
    Ok(format!("slept {millis} ms"))
}

fn tools(extra: bool) -> Vec<Tool> {
    let read_only = || ToolAnnotations::new().read_only(true);
    let text = json!({ "text": { "type": "string" } });
    let pause = json!({
        "millis": { "type": "integer", "minimum": 0 },
        "steps": { "type": "integer", "minimum": 1, "default": DEFAULT_STEPS },
    });
    let mut tools = vec![
        Tool::new("echo", "Answers with its text", schema(&text, &["text"])).with_annotations(read_only()),
        Tool::new("pid", "Answers with its process id", schema(&json!({}), &[]))
            .with_annotations(read_only()),
        Tool::new("sleep", "Sleeps, reporting progress", schema(&pause, &["millis"])),
        Tool::new(
            "toggle",
            "Offers or withdraws the tool extra",
            schema(&json!({}), &[]),
        ),
    ];
    if extra {
        tools.push(Tool::new(
            "extra",
            "Is only there after toggle",
            schema(&json!({}), &[]),
        ));
    }
    tools
}

fn schema(properties: &Value, required: &[&str]) -> Arc<JsonObject> {
    let mut schema = JsonObject::new();
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), properties.clone());
    schema.insert("required".to_owned(), json!(required));
    Arc::new(schema)
}

fn text_argument<'a>(arguments: &'a JsonObject, name: &str) -> Result<&'a str, ErrorData> {
    arguments
        .get(name)
        .and_then(Value::as_str)
        .ok_or_else(|| ErrorData::invalid_params(format!("the argument {name} must be a string"), None))
}

fn number_argument(arguments: &JsonObject, name: &str) -> Result<Option<u64>, ErrorData> {
    arguments
        .get(name)
        .map(|value| {
            value.as_u64().ok_or_else(|| {
                ErrorData::invalid_params(format!("the argument {name} must be a whole number"), None)
            })
        })
        .transpose()
}
