//! The state that a client carries from one round to the next: which call, until when, and that the gateway wrote it for this
//! client's request.
//!
//! Whether a state is the gateway's own is decided by its seal alone. Any other is the business of the server behind, which may
//! be another gateway.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mainstay::gateway::message::{RawJson, RpcError};
use ring::digest;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::Value;

use super::Request;
use crate::scope::Scope;

/// The name of a parked call: nobody guesses it.
pub(super) type Key = [u8; 16];

const EXPIRY: usize = 8;
const SIGNATURE: usize = 32;

/// Parameters up to this length are the same however they are spelt. A longer one is compared as it is written: it is not
/// taken apart.
const MAX_PARSED: usize = 64 * 1024;

/// Seals states with a key that lives as long as the gateway.
pub(super) struct Seal {
    key: hmac::Key,
    random: SystemRandom,
}

/// What a state is good for: the retry of one request, of one principal, at one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Purpose([u8; 32]);

/// What a state turns out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opened {
    /// The name of a parked call.
    Key(Key),
    /// The gateway wrote it for this purpose, too long ago.
    Expired,
    /// The gateway did not write it for this purpose.
    NotOurs,
}

impl Seal {
    pub(super) fn new() -> Self {
        let random = SystemRandom::new();
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &random).expect("the system has random numbers");
        Self { key, random }
    }

    /// A new key, and the state that names it for this long.
    pub(super) fn draw(&self, purpose: Purpose, lasts: Duration) -> Result<(Key, String), RpcError> {
        let mut key = Key::default();
        let none = |_| RpcError::new(RpcError::INTERNAL_ERROR, "the system has no random numbers");
        self.random.fill(&mut key).map_err(none)?;
        Ok((key, self.seal(key, now() + lasts, purpose)))
    }

    fn seal(&self, key: Key, expires: Duration, purpose: Purpose) -> String {
        let mut state = key.to_vec();
        state.extend_from_slice(&expires.as_secs().to_be_bytes());
        let signature = hmac::sign(&self.key, &signed(&state, purpose));
        state.extend_from_slice(signature.as_ref());
        URL_SAFE_NO_PAD.encode(state)
    }

    /// Opens a state. What it would be good for is asked for only where it has the form of the gateway's own.
    pub(super) fn open(&self, state: &str, purpose: impl FnOnce() -> Purpose) -> Opened {
        let state = URL_SAFE_NO_PAD.decode(state).unwrap_or_default();
        if state.len() != size_of::<Key>() + EXPIRY + SIGNATURE {
            return Opened::NotOurs;
        }
        let (named, signature) = state.split_at(size_of::<Key>() + EXPIRY);
        if hmac::verify(&self.key, &signed(named, purpose()), signature).is_err() {
            return Opened::NotOurs;
        }
        let (key, expires) = named.split_at(size_of::<Key>());
        let expires = expires.try_into().map_or(0, u64::from_be_bytes);
        match key.try_into() {
            Ok(key) if now().as_secs() < expires => Opened::Key(key),
            Ok(_) | Err(_) => Opened::Expired,
        }
    }
}

/// What the signature of a state covers.
fn signed(named: &[u8], purpose: Purpose) -> Vec<u8> {
    [named, &purpose.0].concat()
}

impl Purpose {
    /// The purpose of a state for the retry of this request, and of the state that such a retry brings.
    pub(super) fn of(request: &Request<'_>) -> Self {
        let mut text = Vec::new();
        request.client.principal.write_to(&mut text);
        match &request.client.scope {
            Scope::Union => text.push(b'u'),
            Scope::Server(name) => {
                text.push(b's');
                write_part(&mut text, name.as_bytes());
            }
        }
        write_part(&mut text, request.method.as_bytes());
        let mut hash = digest::Context::new(&digest::SHA256);
        hash.update(&text);
        let params = request.params.as_raw();
        match params.map(RawJson::parse::<BTreeMap<String, RawJson>>) {
            Some(Ok(members)) => {
                for (name, value) in members {
                    // The parts in which a retry differs.
                    if !matches!(name.as_str(), "requestState" | "inputResponses" | "_meta") {
                        hash.update(&member(&name, &value));
                    }
                }
            }
            // Parameters that cannot be taken apart are good for themselves alone.
            Some(Err(_)) => hash.update(params.map_or(b"", RawJson::as_bytes)),
            None => {}
        }
        let mut purpose = [0; 32];
        purpose.copy_from_slice(hash.finish().as_ref());
        Self(purpose)
    }
}

/// A member of the parameters as text that no other member has. What cannot be read as a value, such as a number beyond all
/// measure, is told apart by its spelling.
fn member(name: &str, value: &RawJson) -> Vec<u8> {
    let mut text = Vec::new();
    write_part(&mut text, name.as_bytes());
    let short = Some(value).filter(|value| value.as_bytes().len() <= MAX_PARSED);
    match short.and_then(|value| value.parse().ok()) {
        Some(value) => write_value(&mut text, &value),
        None => {
            text.push(b'r');
            write_part(&mut text, value.as_bytes());
        }
    }
    text
}

/// Writes a value so that equal ones are written alike, whatever the order of their members.
fn write_value(text: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Object(members) => {
            let members: BTreeMap<_, _> = members.iter().collect();
            text.push(b'{');
            for (name, value) in members {
                write_part(text, name.as_bytes());
                write_value(text, value);
            }
            text.push(b'}');
        }
        Value::Array(items) => {
            text.push(b'[');
            items.iter().for_each(|item| write_value(text, item));
            text.push(b']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            write_part(text, value.to_string().as_bytes());
        }
    }
}

/// Writes a part after its length, so that no two sequences of parts are the same text.
fn write_part(text: &mut Vec<u8>, part: &[u8]) {
    text.extend_from_slice(&(part.len() as u64).to_be_bytes());
    text.extend_from_slice(part);
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_opened_by_the_gateway_that_wrote_it_for_its_purpose_and_in_time() {
        let (seal, other) = (Seal::new(), Seal::new());
        let purpose = Purpose([1; 32]);
        let (key, state) = seal.draw(purpose, Duration::from_secs(60)).unwrap();
        assert_eq!(seal.open(&state, || purpose), Opened::Key(key));
        assert_eq!(seal.open(&state, || Purpose([2; 32])), Opened::NotOurs);
        assert_eq!(other.open(&state, || purpose), Opened::NotOurs);
        let late = seal.seal(key, Duration::ZERO, purpose);
        assert_eq!(seal.open(&late, || purpose), Opened::Expired);
        for foreign in ["", "!!", "mainstay.AAAA", &state[1..], &format!("{state}AA")] {
            assert_eq!(seal.open(foreign, || purpose), Opened::NotOurs, "{foreign}");
        }
        let mut forged = state.clone().into_bytes();
        forged[3] = if forged[3] == b'A' { b'B' } else { b'A' };
        let forged = String::from_utf8(forged).unwrap();
        assert_eq!(seal.open(&forged, || purpose), Opened::NotOurs);
    }

    #[test]
    fn values_that_cannot_be_read_are_told_apart_by_their_spelling() {
        let written = |text: &str| member("a", &RawJson::from_text(text).unwrap());
        assert_ne!(written("1e998"), written("1e999"));
        assert_ne!(written(r#""\ud800""#), written(r#""\ud801""#));
        assert_ne!(written("1e999"), written("null"));
        assert_eq!(written(r#"{"b":1,"a":[]}"#), written(r#"{ "a":[ ], "b":1}"#));
    }

    #[test]
    fn the_order_of_members_makes_no_other_request_and_anything_else_does() {
        let written = |text: &str| {
            let mut written = Vec::new();
            write_value(&mut written, &serde_json::from_str(text).unwrap());
            written
        };
        let one = written(r#"{"a":{"x":1,"y":[1,2]},"b":"t"}"#);
        assert_eq!(one, written(r#"{ "b": "\u0074", "a": { "y": [1, 2], "x": 1 } }"#));
        for other in [
            r#"{"a":{"x":1,"y":[2,1]},"b":"t"}"#,
            r#"{"a":{"x":1,"y":[1,2]},"b":"u"}"#,
            r#"{"a":{"x":1},"y":[1,2],"b":"t"}"#,
            r#"{"a":{"x":"1","y":[1,2]},"b":"t"}"#,
        ] {
            assert_ne!(one, written(other), "{other}");
        }
    }
}
