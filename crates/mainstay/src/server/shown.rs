//! What a server is, to show a person.

use super::Server;
use crate::config::Target;

impl Server {
    /// What is started or reached: the program without its arguments, or the address without its query. Arguments and queries
    /// may hold secrets. `None` for a transport of the embedder's own.
    pub fn shown_target(&self) -> Option<String> {
        let settings = self.0.settings.load();
        match settings.config().target() {
            Target::Stdio(program) => Some(program.command().shown().to_owned()),
            Target::Http(target) => Some(without_secrets(target.url().shown())),
            Target::Custom(_) => None,
        }
    }
}

/// The address without the user, the query and the fragment.
fn without_secrets(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::without_secrets;

    #[test]
    fn an_address_is_shown_without_user_query_and_fragment() {
        for (url, shown) in [
            ("https://a.example/mcp", "https://a.example/mcp"),
            (
                "https://user:pw@a.example:8/mcp?key=1#x",
                "https://a.example:8/mcp",
            ),
            ("http://a.example?key=1", "http://a.example"),
            ("http://a.example/a@b", "http://a.example/a@b"),
        ] {
            assert_eq!(without_secrets(url), shown);
        }
    }
}
