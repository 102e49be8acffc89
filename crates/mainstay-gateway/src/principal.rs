//! Who makes a request. A door finds it out, and the request carries it to the router.
//!
//! Tasks, request states and shares of a budget belong to a principal. It is small, and never holds a token itself.

use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::LazyLock;

use ring::hmac;
use ring::rand::SystemRandom;

use crate::door::HttpCaller;

/// Who makes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Principal {
    /// The client that shows this token, on any number of sessions and connections.
    Token(TokenDigest),
    /// The client of one session that was opened without a token from this address, or the one client on stdin and stdout.
    Session { number: u64, address: Option<IpAddr> },
    /// The client of one HTTP connection from this address, without a token and without a session. The connection counts for
    /// budgets alone: a client may use several, and none is an identity that a task or a state could belong to.
    Connection { number: u64, address: IpAddr },
}

/// What a token becomes under a key of this process: the same token has the same digest at every door.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TokenDigest([u8; 16]);

/// Every charge of a budget looks its principal up, several times in a call. One number tells nearly all principals apart.
impl Hash for Principal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Token(TokenDigest(digest)) => state.write_u128(u128::from_ne_bytes(*digest)),
            Self::Session { number, .. } | Self::Connection { number, .. } => state.write_u64(*number),
        }
    }
}

impl Principal {
    /// The client of the session of this number; the caller opened it, where there can be several.
    pub(crate) fn of_session(caller: Option<HttpCaller>, number: u64) -> Self {
        match caller {
            Some(HttpCaller::Token(token)) => Self::Token(token),
            Some(HttpCaller::Peer(address)) => Self::Session {
                number,
                address: Some(address),
            },
            None => Self::Session {
                number,
                address: None,
            },
        }
    }

    /// The client of a request that belongs to no session, on the HTTP connection of this number.
    pub(crate) fn of_connection(caller: HttpCaller, number: u64) -> Self {
        match caller {
            HttpCaller::Token(token) => Self::Token(token),
            HttpCaller::Peer(address) => Self::Connection { number, address },
        }
    }

    /// The client on stdin and stdout that has this number.
    #[cfg(test)]
    pub(crate) const fn session(number: u64) -> Self {
        Self::Session {
            number,
            address: None,
        }
    }

    /// The address whose clients share a part of each budget, for a client without a token.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Token(_) => None,
            Self::Session { address, .. } => *address,
            Self::Connection { address, .. } => Some(*address),
        }
    }

    /// Writes what a signature for this principal covers. Neither a connection nor an address is an identity: every client without a
    /// token and a session can use what was signed for one of them.
    pub(crate) fn write_to(&self, signed: &mut Vec<u8>) {
        match self {
            Self::Token(TokenDigest(digest)) => {
                signed.push(b't');
                signed.extend_from_slice(digest);
            }
            Self::Session { number, .. } => {
                signed.push(b's');
                signed.extend_from_slice(&number.to_be_bytes());
            }
            Self::Connection { .. } => signed.push(b'a'),
        }
    }
}

impl TokenDigest {
    pub(crate) fn of(token: &str) -> Self {
        static KEY: LazyLock<hmac::Key> = LazyLock::new(|| {
            let random = SystemRandom::new();
            hmac::Key::generate(hmac::HMAC_SHA256, &random).expect("the system has random numbers")
        });
        let tag = hmac::sign(&KEY, token.as_bytes());
        let mut digest = [0; 16];
        digest.copy_from_slice(&tag.as_ref()[..16]);
        Self(digest)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_token_is_one_principal_in_every_session_and_an_address_is_none() {
        let token = |token| HttpCaller::Token(TokenDigest::of(token));
        let here = HttpCaller::Peer(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let of_one = Principal::of_session(Some(token("a")), 1);
        assert_eq!(of_one, Principal::of_connection(token("a"), 7));
        assert_ne!(of_one, Principal::of_session(Some(token("b")), 1));
        let [one, other] = [1, 2].map(|session| Principal::of_session(Some(here), session));
        assert_ne!(one, other);
        let [first, second] = [1, 2].map(|connection| Principal::of_connection(here, connection));
        assert!(first != second && first != one);
        assert_eq!(one.address(), second.address());
        assert_eq!((of_one.address(), Principal::session(1).address()), (None, None));
        assert!(!format!("{:?}", token("secret")).contains("secret"));
    }

    #[test]
    fn what_is_signed_for_one_connection_is_good_on_another() {
        let here = HttpCaller::Peer(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let signed = |principal: Principal| {
            let mut signed = Vec::new();
            principal.write_to(&mut signed);
            signed
        };
        let [one, other] = [1, 2].map(|number| signed(Principal::of_connection(here, number)));
        assert_eq!(one, other);
        assert_ne!(one, signed(Principal::of_session(Some(here), 1)));
    }
}
