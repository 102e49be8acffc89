//! What a server asks of an unauthorized client: the `WWW-Authenticate` header (RFC 6750 section 3, RFC 9728 section 5.1).

/// The longest header that is read. HTTP servers refuse longer ones.
const HEADER_LIMIT: usize = 16 * 1024;

/// The longest name of an error that is shown. The registered ones have fewer than 30 characters.
const ERROR_NAME_LIMIT: usize = 40;

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
    /// Whether the refused request showed a credential, so that the server did not accept it.
    pub refuses_credential: bool,
    /// Whether the request was refused with 403 and not with 401.
    pub is_forbidden: bool,
}

impl Challenge {
    /// Parses the values of all `WWW-Authenticate` headers of a response. The first `Bearer` challenge counts; a response
    /// without one gives the first header and nothing else.
    pub fn parse<'a>(headers: impl IntoIterator<Item = &'a str>) -> Self {
        let headers: Vec<&str> = headers.into_iter().collect();
        let bearer = headers.iter().find_map(|header| Self::bearer_of(header));
        bearer.unwrap_or_else(|| Self {
            www_authenticate: headers.first().map(|&header| header.to_owned()),
            ..Self::default()
        })
    }

    /// The error, where it has the form of a registered name (RFC 6750 section 3.1). Any other text is not fit to be shown: a
    /// server may repeat the token in it.
    pub fn error_name(&self) -> Option<&str> {
        let is_name = |error: &&str| {
            (1..=ERROR_NAME_LIMIT).contains(&error.len())
                && error.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'_'))
        };
        self.error.as_deref().filter(is_name)
    }

    /// Whether the server accepted the credential of the request, and wants one that may do more.
    pub fn wants_more_rights(&self) -> bool {
        self.refuses_credential
            && match self.error_name() {
                Some("insufficient_scope") => true,
                Some("invalid_token") => false,
                Some(_) | None => self.is_forbidden,
            }
    }

    fn bearer_of(header: &str) -> Option<Self> {
        if header.len() > HEADER_LIMIT {
            return None;
        }
        let mut found: Option<Self> = None;
        let mut in_bearer = false;
        for item in ChallengeItems(header) {
            match item {
                ChallengeItem::Scheme(_) if found.is_some() => break,
                ChallengeItem::Scheme(scheme) => {
                    in_bearer = scheme.eq_ignore_ascii_case("bearer");
                    if in_bearer {
                        found = Some(Self {
                            www_authenticate: Some(header.to_owned()),
                            ..Self::default()
                        });
                    }
                }
                ChallengeItem::Parameter(name, value) if in_bearer => {
                    found.get_or_insert_default().set(name, value);
                }
                ChallengeItem::Parameter(..) => {}
            }
        }
        found
    }

    /// Of a parameter that comes twice, the first counts.
    fn set(&mut self, name: &str, value: String) {
        if name.eq_ignore_ascii_case("resource_metadata") {
            self.resource_metadata.get_or_insert(value);
        } else if name.eq_ignore_ascii_case("error") {
            self.error.get_or_insert(value);
        } else if name.eq_ignore_ascii_case("scope") && self.scopes.is_empty() {
            let scopes = value.split_ascii_whitespace().filter(|scope| is_scope(scope));
            for scope in scopes {
                if !self.scopes.iter().any(|known| known == scope) {
                    self.scopes.push(scope.to_owned());
                }
            }
        }
    }
}

/// Whether a text has only the characters of a scope (RFC 6749 section 3.3).
fn is_scope(text: &str) -> bool {
    text.bytes()
        .all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
}

/// A part of a header with challenges: `Scheme name=value, name="value", Scheme …`.
enum ChallengeItem<'a> {
    Scheme(&'a str),
    Parameter(&'a str, String),
}

/// The unread rest of a header.
struct ChallengeItems<'a>(&'a str);

impl<'a> Iterator for ChallengeItems<'a> {
    type Item = ChallengeItem<'a>;

    fn next(&mut self) -> Option<ChallengeItem<'a>> {
        let rest = self.0.trim_start_matches([' ', '\t', ',', '=', '"']);
        if rest.is_empty() {
            return None;
        }
        let end = rest.find([' ', '\t', ',', '=', '"']).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        let Some(value) = behind.trim_start_matches([' ', '\t']).strip_prefix('=') else {
            self.0 = behind;
            return Some(ChallengeItem::Scheme(word));
        };
        let value = value.trim_start_matches([' ', '\t']);
        let (value, behind) = match value.strip_prefix('"') {
            Some(quoted) => unquote(quoted),
            None => {
                let end = value.find([',', ' ', '\t']).unwrap_or(value.len());
                (value[..end].to_owned(), &value[end..])
            }
        };
        self.0 = behind;
        Some(ChallengeItem::Parameter(word, value))
    }
}

/// The text up to the closing quote, and the rest of the header.
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
        let challenge = Challenge::parse(["Basic realm=\"x\"", header]);
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
            let challenge = Challenge::parse([header]);
            assert_eq!(challenge.www_authenticate.as_deref(), Some(header));
        }
        assert_eq!(Challenge::parse(["Bearer scope=\"a b"]).scopes, ["a", "b"]);
        assert_eq!(Challenge::parse([]), Challenge::default());
    }

    #[test]
    fn the_bearer_challenge_is_found_among_others() {
        let metadata = "https://x.example/.well-known/oauth-protected-resource";
        for header in [
            r#"Bearer resource_metadata="https://x.example/.well-known/oauth-protected-resource", scope="a b", error="invalid_token""#,
            r#"Basic realm="Bearer scope=\"no\"", bEARER Scope = "a  b a" , ERROR=invalid_token, resource_metadata="https://x.example/.well-known/oauth-protected-resource""#,
            r#"Negotiate abc==, Bearer resource_metadata="https:\/\/x.example/.well-known/oauth-protected-resource",scope="a b",error=invalid_token, Digest scope="c""#,
        ] {
            let challenge = Challenge::parse(["Basic realm=\"scope\"", header]);
            assert_eq!(challenge.resource_metadata.as_deref(), Some(metadata), "{header}");
            assert_eq!(challenge.scopes, ["a", "b"], "{header}");
            assert_eq!(challenge.error.as_deref(), Some("invalid_token"), "{header}");
        }
    }

    #[test]
    fn a_header_without_a_bearer_challenge_asks_for_nothing() {
        for header in [
            "",
            "Basic scope=\"a\"",
            "Bearerish scope=a",
            "scope=a",
            "===",
            "\"\"\"",
        ] {
            let asked = Challenge::parse([header]);
            assert_eq!(
                (asked.scopes, asked.error, asked.resource_metadata),
                (vec![], None, None),
                "{header}"
            );
        }
        assert_eq!(Challenge::parse([]), Challenge::default());
    }

    #[test]
    fn of_a_parameter_that_comes_twice_the_first_counts() {
        let challenge = Challenge::parse(["Bearer error=insufficient_scope, error=x, scope=a, scope=b"]);
        assert_eq!(challenge.error.as_deref(), Some("insufficient_scope"));
        assert_eq!(challenge.scopes, ["a"]);
        for headers in [
            &["Bearer scope=a", "Bearer scope=b"][..],
            &["Bearer scope=a, Bearer scope=b"],
        ] {
            assert_eq!(Challenge::parse(headers.iter().copied()).scopes, ["a"]);
        }
    }

    #[test]
    fn a_header_that_no_server_would_accept_is_not_read() {
        let header = format!("Bearer scope=a, realm=\"{}\"", "x".repeat(HEADER_LIMIT));
        assert_eq!(Challenge::parse([header.as_str()]).scopes, [""; 0]);
    }

    #[test]
    fn texts_that_are_no_scopes_are_dropped() {
        let challenge = Challenge::parse(["Bearer scope=\"a \\\"b\\\" é c\""]);
        assert_eq!(challenge.scopes, ["a", "c"]);
    }
}
