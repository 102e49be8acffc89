//! The arguments of a call that are repeated in headers.

/// Says which arguments of a call are repeated in `Mcp-Param-` headers; tools ask for it with `x-mcp-header`.
pub trait ParamHeaders: Send + Sync + 'static {
    /// The names after `Mcp-Param-` and their values, unencoded, for one call of a tool with these arguments (JSON).
    fn of_call(&self, tool: &str, arguments: &str) -> Vec<(String, String)>;
}
