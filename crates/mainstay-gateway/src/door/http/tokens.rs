//! The bearer tokens that a door accepts, which may change while it is open.

use std::fmt;
use std::sync::Arc;

use mainstay::config::Secret;
use tokio::sync::watch;

use super::guard::HttpCaller;
use super::options::DoorError;
use crate::principal::{Principal, TokenDigest};

/// The tokens of a door. Clones are handles of the same set.
#[derive(Clone, Default)]
pub struct DoorTokens {
    /// Digests: how long their comparison takes tells an attacker nothing.
    digests: watch::Sender<Arc<[TokenDigest]>>,
}

/// What a new set of tokens changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenChanges {
    /// How many tokens were not accepted before.
    pub added: usize,
    /// How many tokens are no longer accepted.
    pub removed: usize,
}

impl DoorTokens {
    /// Accepts exactly these tokens from now on. The door ends the sessions and streams of all others; a token that stays keeps
    /// its own. Fails without a token, as a door without tokens admits every client.
    pub fn replace<T: Into<Secret>>(
        &self,
        tokens: impl IntoIterator<Item = T>,
    ) -> Result<TokenChanges, DoorError> {
        let mut wanted: Vec<TokenDigest> = Vec::new();
        for token in tokens {
            let digest = TokenDigest::of(token.into().expose());
            if !wanted.contains(&digest) {
                wanted.push(digest);
            }
        }
        if wanted.is_empty() {
            return Err(DoorError::NoTokens);
        }
        let before = self.digests.send_replace(wanted.as_slice().into());
        let missing = |of: &[TokenDigest], from: &[TokenDigest]| {
            of.iter().filter(|digest| !from.contains(digest)).count()
        };
        Ok(TokenChanges {
            added: missing(&wanted, &before),
            removed: missing(&before, &wanted),
        })
    }

    pub(super) fn add(&self, token: &Secret) {
        let digest = TokenDigest::of(token.expose());
        self.digests.send_modify(|digests| {
            if !digests.contains(&digest) {
                *digests = digests.iter().copied().chain([digest]).collect();
            }
        });
    }

    pub(super) fn len(&self) -> usize {
        self.digests.borrow().len()
    }

    /// Whether the door needs no token.
    pub(super) fn is_empty(&self) -> bool {
        self.digests.borrow().is_empty()
    }

    /// Whether this caller may use the door now.
    pub(super) fn admits(&self, caller: HttpCaller) -> bool {
        let digests = self.digests.borrow();
        match caller {
            HttpCaller::Token(digest) => digests.contains(&digest),
            HttpCaller::Peer(_) => digests.is_empty(),
        }
    }

    /// Waits until the token of this principal is no longer accepted; for ever if it has none.
    pub(super) async fn revoked(&self, principal: Principal) {
        let Principal::Token(digest) = principal else {
            return std::future::pending().await;
        };
        let mut digests = self.digests.subscribe();
        // The sender is in `self`, so the wait cannot fail.
        let _ = digests.wait_for(|digests| !digests.contains(&digest)).await;
    }

    /// Reports every change, and once what is accepted now.
    pub(super) fn changes(&self) -> watch::Receiver<Arc<[TokenDigest]>> {
        let mut changes = self.digests.subscribe();
        changes.mark_changed();
        changes
    }
}

impl fmt::Debug for DoorTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DoorTokens").field("count", &self.len()).finish()
    }
}
