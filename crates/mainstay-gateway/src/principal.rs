//! Who makes a request. A door finds it out, and the request carries it to the router.
//!
//! Tasks, request state, and what a client may take of a shared bound belong to a principal. It is small, and never holds
//! a token itself.

use std::net::IpAddr;
use std::sync::LazyLock;

use ring::hmac;
use ring::rand::SystemRandom;

use crate::door::Caller;

/// Who makes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Principal {
    /// The client that shows this token, on any number of sessions and connections.
    Token(TokenDigest),
    /// The client of one session that was opened without a token, or the one client on stdin and stdout.
    Session(u64),
    /// A client that has neither a token nor a session: only the address is known that its connection comes from. Several
    /// clients may share it.
    Address(IpAddr),
}

/// What a token becomes under a key of this process: the same token has the same digest at every door.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TokenDigest([u8; 16]);

impl Principal {
    /// The client of the session of this number; the caller opened it, where there can be several.
    pub(crate) fn of_session(caller: Option<Caller>, session: u64) -> Self {
        match caller {
            Some(Caller::Token(token)) => Self::Token(token),
            Some(Caller::Peer(_)) | None => Self::Session(session),
        }
    }

    /// Writes what is sealed for this principal. An address is no identity, as clients share it and change it: what is
    /// sealed for one is for whoever shows it.
    pub(crate) fn write_to(&self, sealed: &mut Vec<u8>) {
        match self {
            Self::Token(TokenDigest(digest)) => {
                sealed.push(b't');
                sealed.extend_from_slice(digest);
            }
            Self::Session(number) => {
                sealed.push(b's');
                sealed.extend_from_slice(&number.to_be_bytes());
            }
            Self::Address(_) => sealed.push(b'a'),
        }
    }
}

impl From<Caller> for Principal {
    /// The client of a request that belongs to no session.
    fn from(caller: Caller) -> Self {
        match caller {
            Caller::Token(token) => Self::Token(token),
            Caller::Peer(address) => Self::Address(address),
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
    fn a_token_is_one_principal_in_every_session_and_an_address_is_one_in_none() {
        let token = |token| Caller::Token(TokenDigest::of(token));
        let here = Caller::Peer(IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert_eq!(
            Principal::of_session(Some(token("a")), 1),
            Principal::from(token("a"))
        );
        assert_ne!(Principal::from(token("a")), Principal::from(token("b")));
        let [one, other] = [1, 2].map(|session| Principal::of_session(Some(here), session));
        assert_ne!(one, other);
        assert_ne!(one, Principal::from(here));
        assert_eq!(Principal::of_session(None, 1), one);
        assert!(!format!("{:?}", token("secret")).contains("secret"));
    }
}
