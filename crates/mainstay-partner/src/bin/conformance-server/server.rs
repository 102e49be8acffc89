//! The handler: which fixture, question or run answers which request.

#![expect(deprecated, reason = "log levels are deprecated, and the suite sets one")]

use std::sync::{Mutex, PoisonError};

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult,
    CompletionInfo, GetPromptRequestParams, GetPromptResponse, Implementation, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, LoggingLevel, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ServerCapabilities, ServerConfig,
    SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::asking::{AskOutcome, Brought, ask};
use crate::fixtures::{self, text, typed};
use crate::questions::{Questions, conclusion};
use crate::running::{self, is_legacy};
use crate::toggle::Toggle;

/// How long what it offers may be taken to hold.
const TTL_MS: u64 = 1000;

/// The server as one client sees it.
pub(crate) struct ConformanceServer {
    /// Whether there is one more tool; the same for all clients.
    extra_tool: Toggle,
    /// Whether there is one more prompt; the same for all clients.
    extra_prompt: Toggle,
    /// What a legacy client has set.
    level: Mutex<LoggingLevel>,
}

impl Default for ConformanceServer {
    fn default() -> Self {
        Self {
            extra_tool: Toggle::default(),
            extra_prompt: Toggle::default(),
            level: Mutex::new(LoggingLevel::Debug),
        }
    }
}

impl ConformanceServer {
    pub(crate) fn for_another_client(&self) -> Self {
        Self {
            extra_tool: self.extra_tool.clone(),
            extra_prompt: self.extra_prompt.clone(),
            ..Self::default()
        }
    }

    fn level(&self) -> LoggingLevel {
        *self.level.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn change_tools(&self, context: &RequestContext<RoleServer>) -> String {
        self.extra_tool.flip();
        if is_legacy(context) {
            // The client may be gone.
            let _ = context.peer.notify_tool_list_changed().await;
        }
        "the tools have changed".to_owned()
    }

    async fn change_prompts(&self, context: &RequestContext<RoleServer>) -> String {
        self.extra_prompt.flip();
        if is_legacy(context) {
            let _ = context.peer.notify_prompt_list_changed().await;
        }
        "the prompts have changed".to_owned()
    }
}

/// A result that says what a modern one must say; rmcp takes it out again for a legacy client.
fn complete<T: DeserializeOwned>(mut result: Value) -> Result<T, ErrorData> {
    result["resultType"] = json!("complete");
    typed(result)
}

impl ServerHandler for ConformanceServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_completions()
            .enable_logging()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(
                "conformance-server",
                env!("CARGO_PKG_VERSION"),
            ))
            .with_instructions("Has what the conformance suite looks for.")
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = fixtures::tools(self.extra_tool.is_offered())?;
        let tools = ListToolsResult::with_all_items(tools);
        Ok(tools.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.as_ref();
        if let Some(result) = fixtures::plain_result(name) {
            return complete(result).map(CallToolResponse::Complete);
        }
        let said = match name {
            "test_tool_with_logging" | "test_logging_tool" => running::log(&context, self.level()).await,
            "test_tool_with_progress" => running::progress(&context).await,
            "test_trigger_tool_change" => self.change_tools(&context).await,
            "test_trigger_prompt_change" => self.change_prompts(&context).await,
            asking => {
                let questions = Questions::of(asking, &request.arguments.unwrap_or_default())?;
                let unknown = || ErrorData::invalid_params(format!("no tool named {asking}"), None);
                let brought = Brought {
                    responses: request.input_responses.unwrap_or_default(),
                    state: request.request_state,
                };
                match ask(questions.ok_or_else(unknown)?, brought, &context).await? {
                    AskOutcome::Wanted(wanted) => return Ok(wanted.into()),
                    AskOutcome::Answered(answers) => conclusion(asking, &answers),
                }
            }
        };
        complete(json!({ "content": [text(&said)] })).map(CallToolResponse::Complete)
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompts = fixtures::prompts(self.extra_prompt.is_offered())?;
        let prompts = ListPromptsResult::with_all_items(prompts);
        Ok(prompts.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let (name, arguments) = (&request.name, request.arguments.unwrap_or_default());
        let argument = |name: &str| {
            let argument = arguments.get(name).and_then(Value::as_str);
            argument.unwrap_or_default().to_owned()
        };
        let messages = match fixtures::messages(name, argument) {
            Some(messages) => messages,
            None => {
                let unknown = || ErrorData::invalid_params(format!("no prompt named {name}"), None);
                let questions = Questions::of(name, &arguments)?.ok_or_else(unknown)?;
                let brought = Brought {
                    responses: request.input_responses.unwrap_or_default(),
                    state: request.request_state,
                };
                match ask(questions, brought, &context).await? {
                    AskOutcome::Wanted(wanted) => return Ok(wanted.into()),
                    AskOutcome::Answered(answers) => {
                        vec![fixtures::said_by_user(&text(&conclusion(name, &answers)))]
                    }
                }
            }
        };
        complete(json!({ "messages": messages })).map(GetPromptResponse::Complete)
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resources = ListResourcesResult::with_all_items(fixtures::resources()?);
        Ok(resources.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let templates = ListResourceTemplatesResult::with_all_items(fixtures::templates()?);
        Ok(templates.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let Some(contents) = fixtures::contents(&request.uri) else {
            let (what, data) = ("there is no such resource", Some(json!({ "uri": request.uri })));
            return Err(if is_legacy(&context) {
                ErrorData::resource_not_found(what, data)
            } else {
                ErrorData::invalid_params(what, data)
            });
        };
        let result = ReadResourceResult::new(vec![typed(contents)?]);
        Ok(result
            .with_ttl_ms(TTL_MS)
            .with_cache_scope(CacheScope::Public)
            .into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let words = ["paris", "park", "party", "test"].map(str::to_owned);
        let values = words
            .into_iter()
            .filter(|word| word.starts_with(&request.argument.value));
        let completion = CompletionInfo::with_all_values(values.collect());
        let completion = completion.map_err(|error| ErrorData::internal_error(error, None))?;
        Ok(CompleteResult::new(completion))
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = request.level;
        Ok(())
    }

    /// Nothing that can be subscribed to ever changes.
    async fn subscribe(
        &self,
        _request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut tools = self.extra_tool.changes();
        let mut prompts = self.extra_prompt.changes();
        loop {
            // What the client did not ask for, the sink refuses; that is no reason to stop.
            let _ = tokio::select! {
                () = context.cancelled() => return Ok(()),
                Ok(()) = tools.changed() => context.sink().notify_tool_list_changed().await,
                Ok(()) = prompts.changed() => context.sink().notify_prompt_list_changed().await,
                else => return Ok(()),
            };
        }
    }
}
