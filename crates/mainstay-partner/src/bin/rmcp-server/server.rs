//! What the server does: just enough to watch a connection from the other side.
//!
//! Tools: `echo` (what arrived), `pid` (which process answered), `sleep` (a call that takes time, reports progress and can
//! be cancelled), `level` (the log level in force), `touch` (the resource changes, and subscribers are notified) and `toggle`
//! (the catalog changes and says so); one prompt and one resource.

#![expect(
    deprecated,
    reason = "log levels belong to the legacy era, which is served too"
)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, GetPromptRequestParams,
    GetPromptResponse, GetPromptResult, Implementation, JsonObject, ListPromptsResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, Prompt, PromptArgument,
    PromptMessage, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    Resource, ResourceContents, ResourceUpdatedNotificationParam, Role, ServerCapabilities, ServerConfig,
    SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio::sync::watch;

use crate::tools::{DEFAULT_STEPS, number_argument, text_argument, tools};

const NOTE_URI: &str = "note://rmcp-server/hello";

/// The server as one client sees it.
#[derive(Default)]
pub(crate) struct RmcpServer {
    news: News,
    /// What a legacy client has set.
    level: Mutex<Option<String>>,
    /// Whether a legacy client has subscribed to the resource.
    subscribed: AtomicBool,
}

/// What changes for all clients alike. Watches, so that every open subscription is notified.
#[derive(Clone)]
struct News {
    /// Whether the tool `extra` is offered.
    extra: watch::Sender<bool>,
    /// How often the resource has changed.
    touched: watch::Sender<u64>,
    /// Have seen no change. A subscription starts from clones of them, and so misses none that comes after the client
    /// heard that it is subscribed, which is before rmcp calls [`ServerHandler::listen`].
    never_toggled: watch::Receiver<bool>,
    never_touched: watch::Receiver<u64>,
}

impl Default for News {
    fn default() -> Self {
        let (extra, never_toggled) = watch::channel(false);
        let (touched, never_touched) = watch::channel(0);
        Self {
            extra,
            touched,
            never_toggled,
            never_touched,
        }
    }
}

impl ServerHandler for RmcpServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_logging()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("rmcp-server", env!("CARGO_PKG_VERSION")))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools(*self.news.extra.borrow())))
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
            "level" => self.level(&context),
            "touch" => self.touch(&context).await,
            "toggle" => self.toggle(&context).await,
            "extra" if *self.news.extra.borrow() => "extra".to_owned(),
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
        let mut toggled = self.news.never_toggled.clone();
        let mut touched = self.news.never_touched.clone();
        loop {
            // What the client did not ask for, the sink refuses; that is no reason to stop.
            let _ = tokio::select! {
                () = context.cancelled() => return Ok(()),
                Ok(()) = toggled.changed() => context.sink().notify_tool_list_changed().await,
                Ok(()) = touched.changed() => context.sink().notify_resource_updated(NOTE_URI).await,
                else => return Ok(()),
            };
        }
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscribed
            .fetch_or(request.uri == NOTE_URI, Ordering::Relaxed);
        Ok(())
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let level = format!("{:?}", request.level).to_lowercase();
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = Some(level);
        Ok(())
    }
}

impl RmcpServer {
    /// The same server, as another client sees it.
    pub(crate) fn for_another_client(&self) -> Self {
        Self {
            news: self.news.clone(),
            ..Self::default()
        }
    }

    /// The level in force: a modern client says it with each request, a legacy one once.
    fn level(&self, context: &RequestContext<RoleServer>) -> String {
        let said = context.meta.log_level();
        said.map(|level| format!("{level:?}").to_lowercase())
            .or_else(|| {
                let set = self.level.lock().unwrap_or_else(PoisonError::into_inner);
                set.clone()
            })
            .unwrap_or_else(|| "none".to_owned())
    }

    /// Changes the resource. Modern subscriptions get it through the watch; a legacy client gets a notification directly.
    async fn touch(&self, context: &RequestContext<RoleServer>) -> String {
        self.news.touched.send_modify(|touched| *touched += 1);
        if is_legacy(context) && self.subscribed.load(Ordering::Relaxed) {
            // A client that is gone has no use for the news, nor for the answer.
            let news = ResourceUpdatedNotificationParam::new(NOTE_URI);
            let _ = context.peer.notify_resource_updated(news).await;
        }
        "touched".to_owned()
    }

    /// Offers or withdraws the tool `extra`. Modern subscriptions get it through the watch; a legacy client is notified
    /// directly.
    async fn toggle(&self, context: &RequestContext<RoleServer>) -> String {
        self.news.extra.send_modify(|extra| *extra = !*extra);
        if is_legacy(context) {
            // As above.
            let _ = context.peer.notify_tool_list_changed().await;
        }
        if *self.news.extra.borrow() {
            "extra is offered"
        } else {
            "extra is withdrawn"
        }
        .to_owned()
    }
}

fn is_legacy(context: &RequestContext<RoleServer>) -> bool {
    context
        .protocol_version()
        .is_none_or(|version| version < ProtocolVersion::V_2026_07_28)
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
