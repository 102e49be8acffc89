//! What the bridge knows of MCP's methods.

/// Whether requests of this method change nothing, so that one which may have run can be sent again. The library decides the same; this
/// crate does not depend on it, and a test of the daemon compares the two.
pub fn only_reads(method: &str) -> bool {
    matches!(
        method,
        "tools/list"
            | "prompts/list"
            | "resources/list"
            | "resources/templates/list"
            | "prompts/get"
            | "resources/read"
            | "completion/complete"
            | "tasks/get"
            | "tasks/list"
            | "ping"
    )
}
