//! Proof key for code exchange (RFC 7636), always with S256.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::{digest, hmac};

use crate::context::{Context, NoRandomness};
use crate::secret::SecretText;

/// The secret that proves that the client which redeems a code is the one that asked for it.
#[derive(Clone, Debug)]
pub(crate) struct Verifier(SecretText);

impl Verifier {
    /// A verifier of 32 random bytes, the length that RFC 7636 recommends.
    pub(crate) fn draw(context: &Context<'_>) -> Result<Self, NoRandomness> {
        Ok(Self(SecretText::new(context.random_text::<32>()?)))
    }

    pub(crate) fn expose(&self) -> &str {
        self.0.expose()
    }

    /// The S256 challenge.
    pub(crate) fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, self.expose().as_bytes()))
    }
}

/// Compares two texts in a time that does not depend on where they differ.
pub(crate) fn is_same_secret(expected: &str, received: &str) -> bool {
    // `ring` compares tags in constant time, and offers no comparison of its own.
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"mainstay-oauth state");
    let tag = hmac::sign(&key, expected.as_bytes());
    hmac::verify(&key, received.as_bytes(), tag.as_ref()).is_ok()
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use ring::rand::SystemRandom;

    use super::*;

    #[test]
    fn the_challenge_is_that_of_rfc_7636_appendix_b() {
        let verifier = Verifier(SecretText::new("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"));
        assert_eq!(
            verifier.challenge(),
            "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
        );
    }

    #[test]
    fn verifiers_have_the_specified_form_and_differ() {
        let random = SystemRandom::new();
        let context = Context::new(UNIX_EPOCH, &random);
        let [one, other] = [(); 2].map(|()| Verifier::draw(&context).unwrap());
        assert_eq!(one.expose().len(), 43);
        assert!(
            one.expose()
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        );
        assert_ne!(one.expose(), other.expose());
        assert!(!format!("{one:?}").contains(one.expose()));
    }

    #[test]
    fn only_the_same_text_is_the_same_secret() {
        assert!(is_same_secret("abc", "abc"));
        for other in ["", "ab", "abd", "abcd", "ABC"] {
            assert!(!is_same_secret("abc", other), "{other}");
        }
    }
}
