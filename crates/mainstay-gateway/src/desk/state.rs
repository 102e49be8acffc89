//! The state that a client carries from one round to the next: which call, until when, and that the gateway wrote it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mainstay::message::RpcError;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

/// What tells the gateway's own states from those of the servers behind it.
const MARK: &str = "mainstay.";

/// The name of a parked call: nobody guesses it.
pub(super) type Key = [u8; 16];

const EXPIRY: usize = 8;
const SIGNATURE: usize = 32;

/// Seals states with a key that lives as long as the gateway.
pub(super) struct Seal {
    key: hmac::Key,
    random: SystemRandom,
}

impl Seal {
    pub(super) fn new() -> Self {
        let random = SystemRandom::new();
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &random).expect("the system has random numbers");
        Self { key, random }
    }

    pub(super) fn is_ours(state: &str) -> bool {
        state.starts_with(MARK)
    }

    /// A new key, and the state that names it for this long.
    pub(super) fn draw(&self, lasts: Duration) -> Result<(Key, String), RpcError> {
        let mut key = Key::default();
        let none = |_| RpcError::new(RpcError::INTERNAL_ERROR, "the system has no random numbers");
        self.random.fill(&mut key).map_err(none)?;
        Ok((key, self.seal(key, now() + lasts)))
    }

    fn seal(&self, key: Key, expires: Duration) -> String {
        let mut sealed = key.to_vec();
        sealed.extend_from_slice(&expires.as_secs().to_be_bytes());
        let signature = hmac::sign(&self.key, &sealed);
        sealed.extend_from_slice(signature.as_ref());
        format!("{MARK}{}", URL_SAFE_NO_PAD.encode(sealed))
    }

    /// The key that a state names, if this gateway wrote it and it has not expired.
    pub(super) fn open(&self, state: &str) -> Option<Key> {
        let sealed = URL_SAFE_NO_PAD.decode(state.strip_prefix(MARK)?).ok()?;
        if sealed.len() != size_of::<Key>() + EXPIRY + SIGNATURE {
            return None;
        }
        let (signed, signature) = sealed.split_at(size_of::<Key>() + EXPIRY);
        hmac::verify(&self.key, signed, signature).ok()?;
        let (key, expires) = signed.split_at(size_of::<Key>());
        let expires = u64::from_be_bytes(expires.try_into().ok()?);
        (now().as_secs() < expires).then(|| key.try_into().ok()).flatten()
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_opened_by_the_gateway_that_wrote_it_and_in_time() {
        let (seal, other) = (Seal::new(), Seal::new());
        let (key, state) = seal.draw(Duration::from_secs(60)).unwrap();
        assert!(Seal::is_ours(&state));
        assert_eq!(seal.open(&state), Some(key));
        assert_eq!(other.open(&state), None, "another gateway's");
        assert_eq!(seal.open(&seal.seal(key, Duration::ZERO)), None, "expired");
        assert_eq!(seal.open("mainstay.!!"), None);
        let mut forged = state.clone().into_bytes();
        let at = MARK.len() + 3;
        forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
        assert_eq!(seal.open(std::str::from_utf8(&forged).unwrap()), None, "forged");
    }
}
