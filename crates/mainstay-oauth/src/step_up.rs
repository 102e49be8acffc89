//! How often the client authorizes again because a scope was missing.

use crate::challenge::AuthChallenge;

/// The most authorizations for one operation, the first included. A server that still refuses then will refuse for ever.
pub const AUTHORIZATION_LIMIT: u8 = 3;

/// Counts the authorizations of one MCP server since the last request that succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepUp {
    authorizations: u8,
}

/// The client does not authorize again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StepUpError {
    /// The 403 does not say that a scope is missing, so a new token would be refused as well.
    #[error(
        "the server refused the request with 403 but names no missing scope; another login would not help"
    )]
    NotAScope,
    /// The server refused every token.
    #[error(
        "the server still asks for the scopes {scopes:?} after {AUTHORIZATION_LIMIT} authorizations; ask its operator which scopes the account may have"
    )]
    LimitReached {
        /// The scopes that the last challenge named.
        scopes: Vec<String>,
    },
}

impl StepUp {
    /// Records that a login was completed.
    pub fn note_authorization(&mut self) {
        self.authorizations = self.authorizations.saturating_add(1);
    }

    /// Records that the server accepted a request: the next missing scope belongs to another operation.
    pub fn note_success(&mut self) {
        self.authorizations = 0;
    }

    /// Decides about a 403. If it is `Ok`, the caller starts a login with this challenge and with the scopes asked before.
    pub fn check(&self, challenge: &AuthChallenge) -> Result<(), StepUpError> {
        if !challenge.is_insufficient_scope() {
            return Err(StepUpError::NotAScope);
        }
        if self.authorizations >= AUTHORIZATION_LIMIT {
            let scopes = challenge.scopes.clone();
            return Err(StepUpError::LimitReached { scopes });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_three_authorizations_follow_each_other_without_success() {
        let challenge = AuthChallenge {
            scopes: vec!["a".to_owned()],
            error: Some("insufficient_scope".to_owned()),
            ..AuthChallenge::default()
        };
        let mut step_up = StepUp::default();
        for _ in 0..AUTHORIZATION_LIMIT {
            assert_eq!(step_up.check(&challenge), Ok(()));
            step_up.note_authorization();
        }
        let scopes = vec!["a".to_owned()];
        assert_eq!(
            step_up.check(&challenge),
            Err(StepUpError::LimitReached { scopes })
        );
        step_up.note_success();
        assert_eq!(step_up.check(&challenge), Ok(()));
    }

    #[test]
    fn a_403_for_another_reason_leads_to_no_login() {
        for error in [None, Some("invalid_token".to_owned())] {
            let challenge = AuthChallenge {
                error,
                ..AuthChallenge::default()
            };
            assert_eq!(StepUp::default().check(&challenge), Err(StepUpError::NotAScope));
        }
    }
}
