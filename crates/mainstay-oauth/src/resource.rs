//! Protected resource metadata (RFC 9728): which authorization servers an MCP server trusts.

use serde::Deserialize;
use url::Url;

use crate::document::{self, DocumentError, TEXT_LIMIT, bounded, bounded_list};
use crate::http::HttpResponse;

const DOCUMENT: &str = "protected resource metadata";

/// What an MCP server publishes about its authorization.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceMetadata {
    /// The identifier of the server, as the text that was published. Requests repeat it without changes.
    pub resource: String,
    /// The issuers of the authorization servers.
    pub authorization_servers: Vec<String>,
    /// The scopes that basic use needs.
    pub scopes_supported: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Members {
    resource: Option<String>,
    authorization_servers: Option<Vec<String>>,
    scopes_supported: Option<Vec<String>>,
}

impl ResourceMetadata {
    /// Parses the body of a response.
    pub fn parse(response: &HttpResponse) -> Result<Self, DocumentError> {
        let members: Members = document::parse(DOCUMENT, response)?;
        let resource = bounded(DOCUMENT, "resource", members.resource, TEXT_LIMIT)?;
        let servers = bounded_list(DOCUMENT, "authorization_servers", members.authorization_servers)?;
        let missing = |member| DocumentError::Missing {
            document: DOCUMENT,
            member,
        };
        Ok(Self {
            resource: resource.ok_or_else(|| missing("resource"))?,
            authorization_servers: servers.unwrap_or_default(),
            scopes_supported: bounded_list(DOCUMENT, "scopes_supported", members.scopes_supported)?,
        })
    }

    /// Whether the document speaks of this server: `resource` is its address or a parent of it on the same origin.
    pub fn is_for(&self, server: &Url) -> bool {
        is_parent(&self.resource, server)
    }
}

fn is_parent(resource: &str, server: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else {
        return false;
    };
    let plain =
        resource.username().is_empty() && resource.password().is_none() && resource.fragment().is_none();
    let same_origin = resource.origin().is_tuple() && resource.origin() == server.origin();
    let same_query = resource.query().is_none() || resource.query() == server.query();
    let parent = resource.path().trim_end_matches('/');
    let below = server.path().strip_prefix(parent);
    let contains = below.is_some_and(|below| below.is_empty() || below.starts_with('/'));
    plain && same_origin && same_query && contains
}

/// The canonical identifier of a server that publishes none: its address without query, fragment or final slash.
pub(crate) fn canonical(server: &Url) -> String {
    let mut url = server.clone();
    url.set_query(None);
    url.set_fragment(None);
    let text = String::from(url);
    if server.path() == "/" {
        text.trim_end_matches('/').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_the_server_or_a_parent_on_the_same_origin() {
        let server = "https://x.example/public/mcp";
        let cases = [
            ("https://x.example/public/mcp", true),
            ("https://x.example/public/mcp/", true),
            ("https://x.example/public", true),
            ("https://x.example", true),
            ("https://x.example/", true),
            ("HTTPS://X.example:443/public", true),
            ("https://x.example/public/other/../mcp", true),
            ("https://x.example/pub", false),
            ("https://x.example/public/mcp2", false),
            ("https://x.example/public/mcp/child", false),
            ("https://x.example/PUBLIC/mcp", false),
            ("https://x.example:8443/public/mcp", false),
            ("http://x.example/public/mcp", false),
            ("https://evil.example/public/mcp", false),
            ("https://x.example.evil.example/public/mcp", false),
            ("https://x.example@evil.example/public/mcp", false),
            ("https://user@x.example/public/mcp", false),
            ("https://x.example/public/mcp#f", false),
            ("https://x.example/public/mcp?tenant=2", false),
            ("x.example/public/mcp", false),
            ("urn:x", false),
            ("", false),
        ];
        for (resource, expected) in cases {
            assert_eq!(
                is_parent(resource, &Url::parse(server).unwrap()),
                expected,
                "{resource}"
            );
        }
        let tenant = Url::parse("https://x.example/mcp?tenant=1").unwrap();
        assert!(is_parent("https://x.example/mcp?tenant=1", &tenant));
        assert!(is_parent("https://x.example/mcp", &tenant));
        assert!(!is_parent("https://x.example/mcp?tenant=2", &tenant));
    }

    #[test]
    fn the_canonical_identifier_has_no_query_and_no_final_slash_at_the_root() {
        let cases = [
            ("https://x.example", "https://x.example"),
            ("https://x.example/mcp?key=1#f", "https://x.example/mcp"),
            ("https://x.example/mcp/", "https://x.example/mcp/"),
        ];
        for (server, expected) in cases {
            assert_eq!(canonical(&Url::parse(server).unwrap()), expected);
        }
    }

    #[test]
    fn a_document_without_a_resource_is_refused() {
        for body in ["{}", r#"{"resource":""}"#, r#"{"resource":null}"#] {
            let error = ResourceMetadata::parse(&HttpResponse::json(200, body)).unwrap_err();
            assert!(
                matches!(
                    error,
                    DocumentError::Missing {
                        member: "resource",
                        ..
                    }
                ),
                "{error}"
            );
        }
    }
}
