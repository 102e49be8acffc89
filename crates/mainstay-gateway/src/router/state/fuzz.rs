//! Request states: the gateway accepts only a state that it signed, and only for the purpose that it signed it for.

use std::sync::OnceLock;

use mainstay::gateway::message::RawJson;
use serde_json::Value;

use super::{StateSigner, canonical_member, decoded};

/// Checks any text, and a signed state after any edits; and compares requests whose members are the input.
pub fn request_state(input: &[u8]) {
    static SIGNER: OnceLock<StateSigner> = OnceLock::new();
    let signer = SIGNER.get_or_init(StateSigner::new);
    let (call, purpose) = ([3; 16], &[7; 32]);
    let check = |state: &str, purpose| signer.verify(&decoded(state)?, purpose);
    let text = String::from_utf8_lossy(input);
    let state = signer.sign(call, purpose);
    // A fuzzer that watches comparisons finds the state itself.
    assert_eq!(check(&text, purpose), (*text == *state).then_some(call));

    assert_eq!(check(&state, purpose), Some(call));
    assert_eq!(check(&state, &[8; 32]), None);
    let mut edited = state.clone().into_bytes();
    for edit in input.chunks_exact(2) {
        let at = usize::from(edit[0]) % edited.len();
        edited[at] = edit[1];
    }
    if let Ok(edited) = String::from_utf8(edited)
        && edited != state
    {
        assert_eq!(check(&edited, purpose), None, "{edited:?}");
    }

    let mut lines = text.splitn(2, '\n');
    let mut value = || RawJson::from_text(lines.next()?).ok();
    if let (Some(one), Some(other)) = (value(), value())
        && canonical_member("a", one.as_str()) == canonical_member("a", other.as_str())
    {
        let read = one.parse::<Value>().ok();
        let same = one == other || read.is_some() && read == other.parse().ok();
        assert!(same, "{one} is taken for {other}");
    }
}
