//! What a server asks of an unauthorized client: the `WWW-Authenticate` header.

/// The challenge of a 401 or 403, as much of it as a login needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Challenge {
    /// The header as it came; `None` when the server sent none.
    pub www_authenticate: Option<String>,
    /// The address of the metadata of the protected resource.
    pub resource_metadata: Option<String>,
    /// The scopes that are asked for.
    pub scopes: Vec<String>,
    /// The error it names, such as `invalid_token` or `insufficient_scope`.
    pub error: Option<String>,
}

impl Challenge {
    /// Reads the headers of an answer; of several challenges the `Bearer` one counts.
    pub(super) fn read<'a>(headers: impl IntoIterator<Item = &'a str>) -> Self {
        let headers: Vec<&str> = headers.into_iter().collect();
        let bearer = headers.iter().find(|header| is_bearer(header));
        let Some(header) = bearer.or(headers.first()) else {
            return Self::default();
        };
        let mut challenge = Self {
            www_authenticate: Some((*header).to_owned()),
            ..Self::default()
        };
        for (name, value) in parameters(header) {
            match name.to_ascii_lowercase().as_str() {
                "resource_metadata" => challenge.resource_metadata = Some(value),
                "scope" => challenge.scopes = value.split_ascii_whitespace().map(str::to_owned).collect(),
                "error" => challenge.error = Some(value),
                _other => {}
            }
        }
        challenge
    }
}

fn is_bearer(header: &str) -> bool {
    let scheme = header.trim_start().get(.."bearer".len());
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"))
}

/// The `name=value` pairs of a challenge; a value may be a quoted string with escapes.
fn parameters(header: &str) -> Vec<(&str, String)> {
    let mut found = Vec::new();
    let mut rest = header;
    while let Some((before, after)) = rest.split_once('=') {
        let name = before.rsplit([' ', ',', '\t']).next().unwrap_or(before);
        let (value, behind) = match after.strip_prefix('"') {
            Some(quoted) => unquote(quoted),
            None => {
                let end = after.find([',', ' ']).unwrap_or(after.len());
                (after[..end].to_owned(), &after[end..])
            }
        };
        found.push((name, value));
        rest = behind;
    }
    found
}

fn unquote(quoted: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            plain => value.push(plain),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_learns_where_to_go_and_what_to_ask_for() {
        let header = r#"Bearer realm="a, b=c", error="invalid_token", resource_metadata="https://x.example/.well-known/oauth-protected-resource", scope="files:read  files:write""#;
        let challenge = Challenge::read(["Basic realm=\"x\"", header]);
        assert_eq!(challenge.www_authenticate.as_deref(), Some(header));
        assert_eq!(
            challenge.resource_metadata.as_deref(),
            Some("https://x.example/.well-known/oauth-protected-resource")
        );
        assert_eq!(challenge.scopes, ["files:read", "files:write"]);
        assert_eq!(challenge.error.as_deref(), Some("invalid_token"));
    }

    #[test]
    fn a_broken_challenge_is_read_as_far_as_it_goes() {
        for header in [
            "",
            "Bearer",
            "Bearer =",
            "Bearer scope=\"a b",
            "Bearer scope=\"a\\",
            "é=é\"",
            "Béarer",
        ] {
            let challenge = Challenge::read([header]);
            assert_eq!(challenge.www_authenticate.as_deref(), Some(header));
        }
        assert_eq!(Challenge::read(["Bearer scope=\"a b"]).scopes, ["a", "b"]);
        assert_eq!(Challenge::read([]), Challenge::default());
    }
}
