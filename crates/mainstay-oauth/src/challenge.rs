//! What an MCP server asks for when it refuses a request, as far as a login needs it. The HTTP client parses the header.

/// What the MCP server asks for when it refuses a request (RFC 6750 section 3, RFC 9728 section 5.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthChallenge {
    /// The address of the protected resource metadata.
    pub resource_metadata: Option<String>,
    /// The scopes the request needs.
    pub scopes: Vec<String>,
    /// The error, such as `invalid_token` or `insufficient_scope`.
    pub error: Option<String>,
}

impl AuthChallenge {
    /// Whether the token is valid but lacks a scope, so that the client should ask for more.
    pub fn is_insufficient_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }
}
