//! Where metadata documents are, in the order in which they are asked for.

use url::Url;

/// The addresses of the protected resource metadata: for the path of the server, then for its origin.
pub(crate) fn of_resource(server: &Url) -> (Url, Option<Url>) {
    let path = path_of(server);
    let by_path = at(server, &format!("/.well-known/oauth-protected-resource{path}"));
    let root = at(server, "/.well-known/oauth-protected-resource");
    (by_path, (!path.is_empty()).then_some(root))
}

/// The addresses of the metadata of an authorization server. An issuer with a path is never looked up at the root:
/// that document belongs to another tenant.
pub(crate) fn of_issuer(issuer: &Url) -> (Url, Vec<Url>) {
    let path = path_of(issuer);
    let first = at(issuer, &format!("/.well-known/oauth-authorization-server{path}"));
    let mut others = vec![at(issuer, &format!("/.well-known/openid-configuration{path}"))];
    if !path.is_empty() {
        others.push(at(issuer, &format!("{path}/.well-known/openid-configuration")));
    }
    (first, others)
}

/// The one address of revision 2025-03-26.
pub(crate) fn of_origin(server: &Url) -> Url {
    at(server, "/.well-known/oauth-authorization-server")
}

/// An address on the origin of another, without its query.
pub(crate) fn at(origin: &Url, path: &str) -> Url {
    let mut url = origin.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// The path without a slash at its end; empty for the root.
fn path_of(url: &Url) -> &str {
    url.path().trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts((first, others): (Url, impl IntoIterator<Item = Url>)) -> Vec<String> {
        [first].into_iter().chain(others).map(String::from).collect()
    }

    #[test]
    fn resource_metadata_is_at_the_path_of_the_server_then_at_the_root() {
        for server in [
            "https://x.example/public/mcp",
            "https://x.example/public/mcp/?key=1",
        ] {
            assert_eq!(
                texts(of_resource(&Url::parse(server).unwrap())),
                [
                    "https://x.example/.well-known/oauth-protected-resource/public/mcp",
                    "https://x.example/.well-known/oauth-protected-resource",
                ]
            );
        }
        assert_eq!(
            texts(of_resource(&Url::parse("https://x.example:8443").unwrap())),
            ["https://x.example:8443/.well-known/oauth-protected-resource"]
        );
    }

    #[test]
    fn an_issuer_with_a_path_has_three_addresses_and_none_at_the_root() {
        for issuer in ["https://a.example/tenant1", "https://a.example/tenant1/"] {
            assert_eq!(
                texts(of_issuer(&Url::parse(issuer).unwrap())),
                [
                    "https://a.example/.well-known/oauth-authorization-server/tenant1",
                    "https://a.example/.well-known/openid-configuration/tenant1",
                    "https://a.example/tenant1/.well-known/openid-configuration",
                ]
            );
        }
    }

    #[test]
    fn an_issuer_without_a_path_has_the_two_root_addresses() {
        for issuer in ["https://a.example", "https://a.example/"] {
            assert_eq!(
                texts(of_issuer(&Url::parse(issuer).unwrap())),
                [
                    "https://a.example/.well-known/oauth-authorization-server",
                    "https://a.example/.well-known/openid-configuration",
                ]
            );
        }
    }
}
