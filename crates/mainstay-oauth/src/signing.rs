//! Signing keys of clients, and the JWTs they sign (RFC 7523).
//!
//! The claims are serialized here and `ring` signs them. A JWT is base64url of a header, of the claims and of a
//! signature; a JWT library would bring a choice of cryptography for the whole process with it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SecureRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256,
    RsaKeyPair,
};
use serde::Serialize;

use crate::context::{Context, NoRandomness, unix_seconds};

/// How long an assertion is valid. It is used at once; the rest allows for clocks that differ.
const ASSERTION_LIFETIME_SECONDS: u64 = 300;

/// A signature algorithm of JWTs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SigningAlgorithm {
    /// RSA with PKCS #1 padding and SHA-256.
    Rs256,
    /// RSA-PSS with SHA-256.
    Ps256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// Ed25519.
    EdDsa,
}

impl SigningAlgorithm {
    /// The name in the `alg` header.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Ps256 => "PS256",
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
        }
    }
}

/// A private key that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The text holds no private key in PEM.
    #[error(
        "the private key is not PEM with a `PRIVATE KEY` block; convert it with `openssl pkcs8 -topk8 -nocrypt`"
    )]
    NotPem,
    /// The key needs a password.
    #[error("the private key is encrypted; decrypt it with `openssl pkcs8 -topk8 -nocrypt`")]
    Encrypted,
    /// The key is of a kind that no accepted algorithm uses.
    #[error("the private key is neither RSA (2,048 bits or more), P-256 nor Ed25519 in PKCS #8 form")]
    Unusable,
    /// The authorization server accepts no algorithm of this key.
    #[error(
        "the authorization server accepts no signature algorithm of the private key; it accepts {accepted:?}"
    )]
    NoCommonAlgorithm {
        /// What the server accepts.
        accepted: Vec<String>,
    },
    /// The signature could not be made.
    #[error("the private key could not sign")]
    NotSigned,
    /// There are no random numbers.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

/// The private key of a client, for `private_key_jwt`.
pub struct SigningKey {
    pair: Pair,
    key_id: Option<String>,
}

enum Pair {
    Rsa(Box<RsaKeyPair>),
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

#[derive(Serialize)]
struct Header<'a> {
    alg: &'a str,
    typ: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kid: Option<&'a str>,
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    sub: &'a str,
    aud: &'a str,
    jti: &'a str,
    iat: u64,
    exp: u64,
}

impl SigningKey {
    /// Reads a key in PEM: PKCS #8, or PKCS #1 for RSA. `key_id` becomes the `kid` header. The check of an ECDSA key
    /// needs random numbers.
    pub fn from_pem(pem: &str, key_id: Option<String>, random: &dyn SecureRandom) -> Result<Self, KeyError> {
        if pem.contains("ENCRYPTED") {
            return Err(KeyError::Encrypted);
        }
        for label in ["PRIVATE KEY", "RSA PRIVATE KEY"] {
            let (begin, end) = (
                format!("-----BEGIN {label}-----"),
                format!("-----END {label}-----"),
            );
            let Some((_, behind)) = pem.split_once(&begin) else {
                continue;
            };
            let (text, _) = behind.split_once(&end).ok_or(KeyError::NotPem)?;
            let text: String = text.split_ascii_whitespace().collect();
            let der = STANDARD.decode(text).map_err(|_error| KeyError::NotPem)?;
            return Self::from_der(&der, key_id, random);
        }
        Err(KeyError::NotPem)
    }

    /// Reads a key in DER, like [`from_pem`](Self::from_pem).
    pub fn from_der(der: &[u8], key_id: Option<String>, random: &dyn SecureRandom) -> Result<Self, KeyError> {
        let ed25519 = || Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).map(Pair::Ed25519);
        let p256 = || EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, random).map(Pair::P256);
        let rsa = || {
            let pair = RsaKeyPair::from_pkcs8(der).or_else(|_rejected| RsaKeyPair::from_der(der));
            pair.map(|pair| Pair::Rsa(Box::new(pair)))
        };
        let pair = ed25519().or_else(|_rejected| p256()).or_else(|_rejected| rsa());
        let pair = pair.map_err(|_rejected| KeyError::Unusable)?;
        Ok(Self { pair, key_id })
    }

    /// The algorithm to sign with: the first of this key that the server accepts. A server without a list accepts all.
    pub fn choose_algorithm(&self, accepted: Option<&[String]>) -> Result<SigningAlgorithm, KeyError> {
        let own: &[SigningAlgorithm] = match self.pair {
            Pair::Rsa(_) => &[SigningAlgorithm::Rs256, SigningAlgorithm::Ps256],
            Pair::P256(_) => &[SigningAlgorithm::Es256],
            Pair::Ed25519(_) => &[SigningAlgorithm::EdDsa],
        };
        let Some(accepted) = accepted else {
            return Ok(own[0]);
        };
        let is_accepted = |own: &SigningAlgorithm| accepted.iter().any(|name| name == own.as_str());
        let found = own.iter().copied().find(is_accepted);
        found.ok_or_else(|| KeyError::NoCommonAlgorithm {
            accepted: accepted.to_vec(),
        })
    }

    /// The assertion that authenticates a client (RFC 7523 section 3). The audience is the issuer, so that another
    /// server cannot use the assertion.
    pub(crate) fn client_assertion(
        &self,
        algorithm: SigningAlgorithm,
        client_id: &str,
        issuer: &str,
        context: &Context<'_>,
    ) -> Result<String, KeyError> {
        let now = unix_seconds(context.now);
        let claims = Claims {
            iss: client_id,
            sub: client_id,
            aud: issuer,
            jti: &context.random_text::<16>()?,
            iat: now,
            exp: now + ASSERTION_LIFETIME_SECONDS,
        };
        let header = Header {
            alg: algorithm.as_str(),
            typ: "JWT",
            kid: self.key_id.as_deref(),
        };
        let signed = format!("{}.{}", encode(&header)?, encode(&claims)?);
        let signature = self.sign(algorithm, signed.as_bytes(), context.random)?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    fn sign(
        &self,
        algorithm: SigningAlgorithm,
        message: &[u8],
        random: &dyn SecureRandom,
    ) -> Result<Vec<u8>, KeyError> {
        match &self.pair {
            Pair::Rsa(pair) => {
                let padding: &dyn ring::signature::RsaEncoding = match algorithm {
                    SigningAlgorithm::Ps256 => &RSA_PSS_SHA256,
                    SigningAlgorithm::Rs256 | SigningAlgorithm::Es256 | SigningAlgorithm::EdDsa => {
                        &RSA_PKCS1_SHA256
                    }
                };
                let mut signature = vec![0; pair.public().modulus_len()];
                let signed = pair.sign(padding, random, message, &mut signature);
                signed.map_err(|_unspecified| KeyError::NotSigned)?;
                Ok(signature)
            }
            Pair::P256(pair) => {
                let signature = pair.sign(random, message);
                Ok(signature
                    .map_err(|_unspecified| KeyError::NotSigned)?
                    .as_ref()
                    .to_vec())
            }
            Pair::Ed25519(pair) => Ok(pair.sign(message).as_ref().to_vec()),
        }
    }
}

fn encode(part: &impl Serialize) -> Result<String, KeyError> {
    let json = serde_json::to_vec(part).map_err(|_error| KeyError::NotSigned)?;
    Ok(URL_SAFE_NO_PAD.encode(json))
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey")
            .field("key_id", &self.key_id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
