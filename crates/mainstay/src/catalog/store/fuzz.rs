//! Stored catalogs: one that is not as it was written is refused, and one that is read is written the same.

use super::Stored;
use super::file::{Unusable, decode, encode, first_line};

/// What every file of the fuzzer says that it is of.
const IDENTITY: &str = "c0ffee";

/// Reads any file, and one whose first line fits the input.
pub fn stored_catalog(input: &[u8]) {
    if let Ok(stored) = decode(input, IDENTITY) {
        assert_written_the_same(&stored);
    }
    let mut whole = first_line(input).into_bytes();
    whole.extend_from_slice(input);
    match decode(&whole, IDENTITY) {
        Ok(stored) => {
            assert_written_the_same(&stored);
            for damaged in [whole.len() - 1, whole.len() / 2, 3] {
                let mut file = whole.clone();
                file[damaged] ^= 1;
                assert!(decode(&file, IDENTITY).is_err(), "a flipped bit is noticed");
            }
        }
        Err(why) => assert!(matches!(why, Unusable::Damaged | Unusable::Identity), "{why}"),
    }
}

fn assert_written_the_same(stored: &Stored) {
    let written = encode(stored);
    let again = decode(&written, IDENTITY).expect("what was written can be read");
    assert_eq!(encode(&again), written);
    assert_eq!(again.catalog, stored.catalog);
    assert_eq!(again.listed_at, stored.listed_at);
    assert_eq!(
        (again.server, again.era),
        (stored.server.clone(), stored.era.clone())
    );
}
