//! Which scopes to ask for.

use crate::challenge::AuthChallenge;
use crate::document::LIST_LIMIT;
use crate::revision::Revision;

/// Asks the authorization server for a refresh token (OpenID Connect Core section 11).
pub(crate) const OFFLINE_ACCESS: &str = "offline_access";

/// Everything that determines the scopes of an authorization.
#[derive(Clone, Copy, Debug)]
pub struct ScopeSources<'a> {
    /// The revision whose rules apply.
    pub revision: Revision,
    /// The scopes that a person configured. They win over what the server suggests.
    pub configured: Option<&'a [String]>,
    /// The challenge that led to this authorization.
    pub challenge: &'a AuthChallenge,
    /// `scopes_supported` of the protected resource metadata.
    pub published: Option<&'a [String]>,
    /// The scopes of earlier authorizations for this MCP server.
    pub asked_before: &'a [String],
    /// `scopes_supported` of the authorization server.
    pub listed: Option<&'a [String]>,
    /// Whether the grant can yield a refresh token.
    pub wants_refresh: bool,
}

/// Chooses the scopes to ask for. An empty list means that the request has no `scope` parameter.
///
/// A challenge for an insufficient scope is authoritative, since anything else would fail again. Otherwise the configured
/// scopes count, else the challenge's, else the published ones. No set is compared with another.
pub fn choose_scopes(sources: &ScopeSources<'_>) -> Vec<String> {
    let ScopeSources {
        revision, challenge, ..
    } = *sources;
    let steps_up = challenge.is_insufficient_scope() && !challenge.scopes.is_empty();
    let wanted = match sources.configured {
        Some(configured) if !steps_up => configured,
        _ if !challenge.scopes.is_empty() => &challenge.scopes,
        _ => sources.published.unwrap_or_default(),
    };
    let before = if revision.joins_scopes() {
        sources.asked_before
    } else {
        &[]
    };
    let all = before.iter().chain(wanted);
    let mut scopes = join(all.filter(|scope| is_scope(scope)).cloned());
    if revision.adds_offline_access() {
        let contains = |list: Option<&[String]>| list.unwrap_or_default().iter().any(|s| s == OFFLINE_ACCESS);
        if !contains(sources.listed) && !contains(sources.configured) {
            scopes.retain(|scope| scope != OFFLINE_ACCESS);
        }
        // Alone it would replace the default scopes, which the server chooses when the parameter is left out.
        if sources.wants_refresh && contains(sources.listed) && !scopes.is_empty() {
            scopes = join(scopes.into_iter().chain([OFFLINE_ACCESS.to_owned()]));
        }
    }
    scopes
}

/// Every scope once, in the order of the first mention, at most [`LIST_LIMIT`].
pub(crate) fn join(scopes: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut joined: Vec<String> = Vec::new();
    for scope in scopes {
        if joined.len() < LIST_LIMIT && !joined.contains(&scope) {
            joined.push(scope);
        }
    }
    joined
}

/// Whether a text is one scope (RFC 6749 section 3.3).
pub(crate) fn is_scope(text: &str) -> bool {
    let allowed = |byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    !text.is_empty() && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn challenge(scopes: &str, error: &str) -> AuthChallenge {
        AuthChallenge {
            scopes: list(scopes),
            error: Some(error.to_owned()),
            ..AuthChallenge::default()
        }
    }

    fn sources(challenge: &AuthChallenge, revision: Revision) -> ScopeSources<'_> {
        ScopeSources {
            revision,
            configured: None,
            challenge,
            published: None,
            asked_before: &[],
            listed: None,
            wants_refresh: true,
        }
    }

    #[test]
    fn the_challenge_comes_before_the_published_scopes_and_without_either_the_parameter_is_left_out() {
        let (asked, none) = (challenge("a b", "invalid_token"), AuthChallenge::default());
        let published = list("c d");
        for revision in Revision::ALL {
            let mut both = sources(&asked, revision);
            both.published = Some(&published);
            assert_eq!(choose_scopes(&both), ["a", "b"]);
            both.challenge = &none;
            assert_eq!(choose_scopes(&both), ["c", "d"]);
            both.published = None;
            assert!(choose_scopes(&both).is_empty());
        }
    }

    #[test]
    fn configured_scopes_win_but_not_over_a_step_up() {
        let configured = list("mine");
        let asked = challenge("a", "invalid_token");
        let more = challenge("b", "insufficient_scope");
        for revision in Revision::ALL {
            let mut from = sources(&asked, revision);
            from.configured = Some(&configured);
            assert_eq!(choose_scopes(&from), ["mine"]);
            from.challenge = &more;
            assert_eq!(choose_scopes(&from), ["b"]);
        }
    }

    #[test]
    fn a_step_up_keeps_the_scopes_asked_before_since_2026() {
        let more = challenge("b a", "insufficient_scope");
        let before = list("a c");
        for revision in Revision::ALL {
            let mut from = sources(&more, revision);
            from.asked_before = &before;
            let expected = if revision == Revision::V2026_07_28 {
                list("a c b")
            } else {
                list("b a")
            };
            assert_eq!(choose_scopes(&from), expected, "{revision}");
        }
    }

    #[test]
    fn offline_access_is_added_since_2026_and_only_where_the_server_lists_it() {
        let asked = challenge("a", "invalid_token");
        let listed = list("a offline_access");
        for revision in Revision::ALL {
            let mut from = sources(&asked, revision);
            assert_eq!(choose_scopes(&from), ["a"]);
            from.listed = Some(&listed);
            let expected = if revision == Revision::V2026_07_28 {
                list("a offline_access")
            } else {
                list("a")
            };
            assert_eq!(choose_scopes(&from), expected, "{revision}");
            from.wants_refresh = false;
            assert_eq!(choose_scopes(&from), ["a"]);
        }
        let none = AuthChallenge::default();
        let mut from = sources(&none, Revision::V2026_07_28);
        from.listed = Some(&listed);
        assert!(
            choose_scopes(&from).is_empty(),
            "alone it would replace the default scopes"
        );
    }

    #[test]
    fn offline_access_that_the_server_does_not_list_is_asked_for_only_if_a_person_configured_it() {
        let asked = challenge("a offline_access", "invalid_token");
        let (before, listed) = (list("offline_access b"), list("a b"));
        let mut from = sources(&asked, Revision::V2026_07_28);
        from.asked_before = &before;
        from.listed = Some(&listed);
        assert_eq!(choose_scopes(&from), ["b", "a"]);
        let configured = list("offline_access");
        from.configured = Some(&configured);
        assert_eq!(choose_scopes(&from), ["offline_access", "b"]);
    }

    #[test]
    fn texts_that_are_no_scopes_are_left_out_and_the_number_is_bounded() {
        let none = AuthChallenge::default();
        let mut published = vec!["a b".to_owned(), "\"".to_owned(), String::new(), "c\\".to_owned()];
        published.extend((0..2 * LIST_LIMIT).map(|n| format!("s{n}")));
        let mut from = sources(&none, Revision::V2025_11_25);
        from.published = Some(&published);
        let scopes = choose_scopes(&from);
        assert_eq!(scopes.len(), LIST_LIMIT);
        assert_eq!(scopes[0], "s0");
    }
}
