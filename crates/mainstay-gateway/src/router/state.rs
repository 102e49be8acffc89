//! The request state that a client sends back with its retry: it names a parked call, and only this gateway can write it.
//!
//! The signature alone decides whether a state is the gateway's own. The server behind gets every other state, as it may be
//! another gateway.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mainstay::gateway::message::{RawJson, RpcError, process_payload};
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac};
use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::client::Client;
use crate::scope::Scope;

/// The name of a parked call, drawn at random.
pub(super) type CallKey = [u8; 16];

const SIGNATURE_LENGTH: usize = 32;

/// A member up to this length counts as the same however it is spelt. A longer one is compared byte for byte, without parsing.
const PARSED_MEMBER_LIMIT: usize = 64 * 1024;

/// Where the key comes from that states are signed with. Gateways that have the same key accept each other's states.
trait StateKeySource: Send + Sync {
    /// The key to sign with and to check with.
    fn key(&self) -> &hmac::Key;
}

/// A key of this gateway alone, which lives as long as the gateway.
impl StateKeySource for hmac::Key {
    fn key(&self) -> &hmac::Key {
        self
    }
}

/// Signs states and checks them.
pub(super) struct StateSigner {
    keys: Box<dyn StateKeySource>,
    random: SystemRandom,
}

/// What a state is good for: the retry of one request, by one principal, at one address. A digest of all of these.
type StatePurpose = [u8; 32];

impl StateSigner {
    pub(super) fn new() -> Self {
        let random = SystemRandom::new();
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &random);
        Self {
            keys: Box::new(key.expect("the system has random numbers")),
            random,
        }
    }

    /// Names a call, and writes the state that a retry of this request finds it with.
    ///
    /// Cancel safety: dropping it changes nothing.
    pub(super) async fn name_call(
        &self,
        client: &Client,
        method: &str,
        params: Option<RawJson>,
    ) -> Result<(CallKey, String), RpcError> {
        let mut call = CallKey::default();
        let none = |_| RpcError::new(RpcError::INTERNAL_ERROR, "the system has no random numbers");
        self.random.fill(&mut call).map_err(none)?;
        let purpose = self.purpose_of(client, method, params).await;
        Ok((call, self.sign(call, &purpose)))
    }

    /// The call that a state names for a retry of this request; `None` when the gateway did not write the state for that.
    ///
    /// Cancel safety: dropping it changes nothing.
    pub(super) async fn find_call(
        &self,
        state: &str,
        client: &Client,
        method: &str,
        params: Option<RawJson>,
    ) -> Option<CallKey> {
        let state = decoded(state)?;
        let purpose = self.purpose_of(client, method, params).await;
        self.verify(&state, &purpose)
    }

    fn sign(&self, call: CallKey, purpose: &StatePurpose) -> String {
        let signature = hmac::sign(self.keys.key(), &[&call[..], purpose].concat());
        URL_SAFE_NO_PAD.encode([&call[..], signature.as_ref()].concat())
    }

    fn verify(&self, state: &[u8], purpose: &StatePurpose) -> Option<CallKey> {
        let (call, signature) = state.split_first_chunk::<{ size_of::<CallKey>() }>()?;
        hmac::verify(self.keys.key(), &[&call[..], purpose].concat(), signature).ok()?;
        Some(*call)
    }

    /// The purpose of a state for the retry of this request, and of the state that such a retry brings. A thread that may block
    /// digests large parameters.
    async fn purpose_of(&self, client: &Client, method: &str, params: Option<RawJson>) -> StatePurpose {
        let mut digest = digest::Context::new(&digest::SHA256);
        let mut text = Vec::new();
        client.principal.write_to(&mut text);
        match &client.scope {
            Scope::Union => text.push(b'u'),
            Scope::Server(name) => {
                text.push(b's');
                write_part(&mut text, name.as_bytes());
            }
        }
        write_part(&mut text, method.as_bytes());
        digest.update(&text);
        let key = self.keys.key().clone();
        let length = params.as_ref().map_or(0, |params| params.as_bytes().len());
        let finish = move || {
            digest.update(&digest_of_params(&key, params.as_ref()));
            let mut purpose = StatePurpose::default();
            purpose.copy_from_slice(digest.finish().as_ref());
            purpose
        };
        process_payload(length, finish).await
    }
}

/// The bytes of a state; `None` when the gateway cannot have written it.
fn decoded(state: &str) -> Option<Vec<u8>> {
    let state = URL_SAFE_NO_PAD.decode(state).ok()?;
    (state.len() == size_of::<CallKey>() + SIGNATURE_LENGTH).then_some(state)
}

/// A digest of the parameters that leaves out what a retry changes, and does not depend on the order of the members.
///
/// It is the sum of a keyed digest of each member. So it takes no memory for each member, and a client that does not know the key
/// cannot construct other members with the same sum.
fn digest_of_params(key: &hmac::Key, params: Option<&RawJson>) -> Vec<u8> {
    let Some(params) = params else {
        return vec![b'n'];
    };
    let mut reader = serde_json::Deserializer::from_str(params.as_str());
    match reader.deserialize_map(MemberSum(key)) {
        Ok(sum) => [b"m", &sum[..]].concat(),
        // Parameters that are no object are compared as they are written.
        Err(_) => [b"r", hmac::sign(key, params.as_bytes()).as_ref()].concat(),
    }
}

/// Adds up the digests of the members of an object.
struct MemberSum<'k>(&'k hmac::Key);

impl<'de> Visitor<'de> for MemberSum<'_> {
    type Value = [u8; 32];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut sum = [0; 32];
        while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
            if !matches!(name.as_str(), "requestState" | "inputResponses" | "_meta") {
                let member = hmac::sign(self.0, &canonical_member(&name, value.get()));
                add(&mut sum, member.as_ref());
            }
        }
        Ok(sum)
    }
}

/// Adds a number to another of the same length, without the last carry.
fn add(sum: &mut [u8], other: &[u8]) {
    let mut carry = 0;
    for (digit, other) in sum.iter_mut().zip(other).rev() {
        let [high, low] = (u16::from(*digit) + u16::from(*other) + carry).to_be_bytes();
        *digit = low;
        carry = u16::from(high);
    }
}

/// A member of the parameters as bytes that no other member has. A value that cannot be parsed, such as a
/// number out of range, is compared by its spelling.
fn canonical_member(name: &str, value: &str) -> Vec<u8> {
    let mut text = Vec::new();
    write_part(&mut text, name.as_bytes());
    let short = Some(value).filter(|value| value.len() <= PARSED_MEMBER_LIMIT);
    match short.and_then(|value| serde_json::from_str(value).ok()) {
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

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::task::Poll;

    use super::*;
    use crate::principal::Principal;
    use crate::protocol::ClientMeta;
    use crate::router::tasks::ClientTasks;
    use crate::sessions::{DoorKind, SessionNotes};

    #[test]
    fn a_state_is_valid_for_the_gateway_that_wrote_it_and_for_its_purpose() {
        let (signer, other) = (StateSigner::new(), StateSigner::new());
        let check = |signer: &StateSigner, state: &str, purpose| signer.verify(&decoded(state)?, purpose);
        let (call, purpose) = ([3; 16], &[1; 32]);
        let state = signer.sign(call, purpose);
        assert_eq!(check(&signer, &state, purpose), Some(call));
        assert_eq!(check(&signer, &state, &[2; 32]), None);
        assert_eq!(check(&other, &state, purpose), None);
        for foreign in ["", "!!", "mainstay.AAAA", &state[1..], &format!("{state}AA")] {
            assert_eq!(check(&signer, foreign, purpose), None, "{foreign}");
        }
        let mut forged = state.clone().into_bytes();
        forged[3] = if forged[3] == b'A' { b'B' } else { b'A' };
        let forged = String::from_utf8(forged).unwrap();
        assert_eq!(check(&signer, &forged, purpose), None);
    }

    #[test]
    fn values_that_cannot_be_parsed_are_told_apart_by_their_spelling() {
        let written = |text: &str| canonical_member("a", text);
        assert_ne!(written("1e998"), written("1e999"));
        assert_ne!(written(r#""\ud800""#), written(r#""\ud801""#));
        assert_ne!(written("1e999"), written("null"));
        assert_eq!(written(r#"{"b":1,"a":[]}"#), written(r#"{ "a":[ ], "b":1}"#));
    }

    #[test]
    fn the_order_of_members_makes_no_other_request_and_anything_else_does() {
        let signer = StateSigner::new();
        let digest =
            |text: &str| digest_of_params(signer.keys.key(), Some(&RawJson::from_text(text).unwrap()));
        let one = digest(r#"{"a":{"x":1,"y":[1,2]},"b":"t"}"#);
        assert_eq!(
            one,
            digest(r#"{ "b": "\u0074", "_meta":{}, "a": { "y": [1, 2], "x": 1 },"requestState":"s" }"#)
        );
        for other in [
            r#"{"a":{"x":1,"y":[2,1]},"b":"t"}"#,
            r#"{"a":{"x":1,"y":[1,2]},"b":"u"}"#,
            r#"{"a":{"x":1},"y":[1,2],"b":"t"}"#,
            r#"{"a":{"x":"1","y":[1,2]},"b":"t"}"#,
            r#"{"a":{"x":1,"y":[1,2]},"b":"t","b":"t"}"#,
            r#"{"b":{"x":1,"y":[1,2]},"a":"t"}"#,
            r#"{"a":{"x":1,"y":[1,2]}}"#,
            "{}",
            "[]",
        ] {
            assert_ne!(one, digest(other), "{other}");
        }
        assert_ne!(digest("{}"), digest_of_params(signer.keys.key(), None));
    }

    #[test]
    fn sums_carry_from_one_digit_to_the_next() {
        let mut sum = [0, 255, 255];
        add(&mut sum, &[0, 0, 1]);
        assert_eq!(sum, [1, 0, 0]);
        add(&mut sum, &[255, 1, 2]);
        assert_eq!(sum, [0, 1, 2]);
    }

    /// A million members once took some hundred megabytes and a second of the runtime's thread.
    #[test]
    fn a_thread_that_may_block_digests_large_parameters() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .max_blocking_threads(1)
            .build()
            .unwrap();
        runtime.block_on(async {
            let (release, released) = mpsc::channel::<()>();
            tokio::task::spawn_blocking(move || released.recv().is_err());
            let principal = Principal::Token(crate::principal::TokenDigest::of("t"));
            let tasks = ClientTasks::new(false).of(principal, Scope::Union);
            let notes = SessionNotes::new(DoorKind::Http, std::sync::Arc::default());
            let client = Client::of_request(principal, Scope::Union, tasks, &ClientMeta::default(), notes);
            let signer = StateSigner::new();
            let members = |count: usize| {
                let members: Vec<_> = (0..count).map(|n| format!("\"{n}\":1")).collect();
                RawJson::from_text(format!("{{{}}}", members.join(","))).ok()
            };
            signer.purpose_of(&client, "tools/call", members(10)).await;
            let large = signer.purpose_of(&client, "tools/call", members(200_000));
            let mut large = std::pin::pin!(large);
            let early = std::future::poll_fn(|context| Poll::Ready(large.as_mut().poll(context)));
            assert!(early.await.is_pending(), "digested on the runtime's own thread");
            drop(release);
            large.await;
        });
    }
}
