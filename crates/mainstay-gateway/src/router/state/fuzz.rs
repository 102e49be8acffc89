//! Request states: none is opened but one that was sealed, for what it was sealed for.

use std::sync::OnceLock;
use std::time::Duration;

use mainstay::gateway::message::RawJson;
use serde_json::Value;

use super::{Opened, Purpose, Seal, member};

const LASTS: Duration = Duration::from_secs(3600);

/// Opens any text, and a sealed state after any edits; and tells requests apart whose members are the input.
pub fn request_state(input: &[u8]) {
    static SEAL: OnceLock<Seal> = OnceLock::new();
    let seal = SEAL.get_or_init(Seal::new);
    let purpose = || Purpose([7; 32]);
    let text = String::from_utf8_lossy(input);
    assert_eq!(seal.open(&text, purpose), Opened::NotOurs);

    let (key, state) = seal
        .draw(purpose(), LASTS)
        .expect("the system has random numbers");
    assert_eq!(seal.open(&state, purpose), Opened::Key(key));
    assert_eq!(seal.open(&state, || Purpose([8; 32])), Opened::NotOurs);
    let mut edited = state.clone().into_bytes();
    for edit in input.chunks_exact(2) {
        let at = usize::from(edit[0]) % edited.len();
        edited[at] = edit[1];
    }
    if let Ok(edited) = String::from_utf8(edited)
        && edited != state
    {
        assert_eq!(seal.open(&edited, purpose), Opened::NotOurs, "{edited:?}");
    }

    let mut lines = text.splitn(2, '\n');
    let mut value = || RawJson::from_text(lines.next()?).ok();
    if let (Some(one), Some(other)) = (value(), value())
        && member("a", &one) == member("a", &other)
    {
        let read = one.parse::<Value>().ok();
        let same = one == other || read.is_some() && read == other.parse().ok();
        assert!(same, "{one} is taken for {other}");
    }
}
