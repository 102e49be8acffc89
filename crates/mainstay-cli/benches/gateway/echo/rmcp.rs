//! A server on rmcp: it reads and writes every message in full, as real servers do.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, JsonObject, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::json;

use crate::{Fallible, runtime};

/// Runs the server on standard input and output.
pub(super) fn stdio(result: usize) -> Fallible {
    runtime()?.block_on(async {
        let server = EchoServer::new(result);
        server.serve(rmcp::transport::stdio()).await?.waiting().await?;
        Ok(())
    })
}

/// Runs the server over HTTP until it is killed.
pub(super) fn http(result: usize) -> Fallible {
    runtime()?.block_on(async { Ok(mainstay_partner::serve_http(0, move || EchoServer::new(result)).await?) })
}

struct EchoServer {
    text: String,
}

impl EchoServer {
    fn new(result: usize) -> Self {
        Self {
            text: "x".repeat(result),
        }
    }
}

impl ServerHandler for EchoServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut schema = JsonObject::new();
        schema.insert("type".to_owned(), json!("object"));
        let tools = ["echo", "pid"].map(|name| {
            Tool::new(name, name, schema.clone()).with_annotations(ToolAnnotations::new().read_only(true))
        });
        Ok(ListToolsResult::with_all_items(tools.into()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = match request.name.as_ref() {
            "pid" => std::process::id().to_string(),
            _echo => self.text.clone(),
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}
