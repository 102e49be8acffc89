use std::time::{Duration, UNIX_EPOCH};

use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256,
    UnparsedPublicKey, VerificationAlgorithm,
};
use serde_json::Value;

use super::*;

const RSA_PEM: &str = include_str!("test-rsa.pem");
const RSA_PKCS1_PEM: &str = include_str!("test-rsa-pkcs1.pem");
const P256_PEM: &str = include_str!("test-p256.pem");
const ED25519_PEM: &str = include_str!("test-ed25519.pem");
const P384_PEM: &str = include_str!("test-p384.pem");
const SEC1_PEM: &str = include_str!("test-p256-sec1.pem");

fn from_pem(pem: &str, key_id: Option<&str>) -> Result<SigningKey, KeyError> {
    SigningKey::from_pem(pem, key_id.map(str::to_owned), &SystemRandom::new())
}

fn public_key(key: &SigningKey) -> Vec<u8> {
    match &key.pair {
        Pair::Rsa(pair) => pair.public_key().as_ref().to_vec(),
        Pair::P256(pair) => pair.public_key().as_ref().to_vec(),
        Pair::Ed25519(pair) => pair.public_key().as_ref().to_vec(),
    }
}

fn decode(part: &str) -> Value {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

#[test]
fn every_kind_of_key_signs_assertions_that_verify() {
    let random = SystemRandom::new();
    let context = Context::new(UNIX_EPOCH + Duration::from_secs(1000), &random);
    let cases: [(&str, SigningAlgorithm, &dyn VerificationAlgorithm); 5] = [
        (RSA_PEM, SigningAlgorithm::Rs256, &RSA_PKCS1_2048_8192_SHA256),
        (
            RSA_PKCS1_PEM,
            SigningAlgorithm::Rs256,
            &RSA_PKCS1_2048_8192_SHA256,
        ),
        (RSA_PEM, SigningAlgorithm::Ps256, &RSA_PSS_2048_8192_SHA256),
        (P256_PEM, SigningAlgorithm::Es256, &ECDSA_P256_SHA256_FIXED),
        (ED25519_PEM, SigningAlgorithm::EdDsa, &ED25519),
    ];
    for (pem, algorithm, verification) in cases {
        let key = from_pem(pem, Some("k1")).unwrap();
        let names = [algorithm.as_str().to_owned()];
        assert_eq!(key.choose_algorithm(Some(&names)), Ok(algorithm));
        let jwt = key
            .client_assertion(algorithm, "me", "https://a.example", &context)
            .unwrap();
        let (signed, signature) = jwt.rsplit_once('.').unwrap();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        let public = public_key(&key);
        let verified = verify(verification, &public, signed, &signature);
        assert!(verified, "{}", algorithm.as_str());
        let (header, claims) = signed.split_once('.').unwrap();
        assert_eq!(
            decode(header),
            serde_json::json!({"alg": algorithm.as_str(), "typ": "JWT", "kid": "k1"})
        );
        let claims = decode(claims);
        assert_eq!(claims["iss"], "me");
        assert_eq!(claims["sub"], "me");
        assert_eq!(claims["aud"], "https://a.example");
        assert_eq!(claims["iat"], 1000);
        assert_eq!(claims["exp"], 1000 + ASSERTION_LIFETIME_SECONDS);
        assert_eq!(claims["jti"].as_str().unwrap().len(), 22);
    }
}

fn verify(algorithm: &dyn VerificationAlgorithm, key: &[u8], message: &str, signature: &[u8]) -> bool {
    let (key, message) = (key.into(), message.as_bytes().into());
    algorithm.verify(key, message, signature.into()).is_ok()
}

#[test]
fn no_two_assertions_are_the_same() {
    let random = SystemRandom::new();
    let context = Context::new(UNIX_EPOCH, &random);
    let key = from_pem(ED25519_PEM, None).unwrap();
    let sign = || {
        key.client_assertion(SigningAlgorithm::EdDsa, "me", "a", &context)
            .unwrap()
    };
    assert_ne!(sign(), sign());
    let header = sign();
    assert_eq!(decode(header.split('.').next().unwrap()).get("kid"), None);
}

#[test]
fn the_example_of_rfc_7515_appendix_a3_verifies_and_our_signatures_have_its_form() {
    let x = URL_SAFE_NO_PAD
        .decode("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU")
        .unwrap();
    let y = URL_SAFE_NO_PAD
        .decode("x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0")
        .unwrap();
    let public = [&[4], &x[..], &y[..]].concat();
    let signed = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
    let signature = "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
    let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
    let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, public);
    key.verify(signed.as_bytes(), &signature).unwrap();
    let own = from_pem(P256_PEM, None).unwrap();
    let own = own
        .sign(SigningAlgorithm::Es256, b"x", &SystemRandom::new())
        .unwrap();
    assert_eq!(own.len(), signature.len());
}

#[test]
fn the_algorithm_is_one_that_the_server_accepts() {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let rsa = from_pem(RSA_PEM, None).unwrap();
    assert_eq!(rsa.choose_algorithm(None), Ok(SigningAlgorithm::Rs256));
    let accepted = names(&["ES256", "PS256"]);
    assert_eq!(rsa.choose_algorithm(Some(&accepted)), Ok(SigningAlgorithm::Ps256));
    let accepted = names(&["ES256", "none", "HS256"]);
    let error = rsa.choose_algorithm(Some(&accepted)).unwrap_err();
    assert_eq!(error, KeyError::NoCommonAlgorithm { accepted });
}

#[test]
fn keys_that_cannot_be_used_are_refused_with_a_remedy() {
    let refusal = |pem: &str| from_pem(pem, None).unwrap_err();
    assert_eq!(refusal(P384_PEM), KeyError::Unusable);
    assert_eq!(refusal(SEC1_PEM), KeyError::NotPem);
    assert_eq!(refusal(""), KeyError::NotPem);
    assert_eq!(refusal("-----BEGIN PRIVATE KEY-----\nAAAA"), KeyError::NotPem);
    assert_eq!(
        refusal("-----BEGIN PRIVATE KEY-----\n!!\n-----END PRIVATE KEY-----"),
        KeyError::NotPem
    );
    assert_eq!(
        refusal("-----BEGIN ENCRYPTED PRIVATE KEY-----"),
        KeyError::Encrypted
    );
    let key = from_pem(P256_PEM, None).unwrap();
    assert_eq!(format!("{key:?}"), "SigningKey { key_id: None, .. }");
}
