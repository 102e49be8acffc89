//! The hash by which catalogs are compared, and public names: `server__tool`, spelt so that every model API accepts them.
//!
//! The strictest rules in use are a letter or `_` first, then letters, digits, `_` and `-`, 64 characters in all. What
//! does not fit is replaced or cut; a cut name ends in a hash of the whole, so that long names with a common beginning
//! stay apart and keep their name from run to run. A short name is never given a hash: it stays readable, and should
//! two fall together, the one that comes later is set aside where the union is built.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// The longest name that every model API accepts.
pub(super) const MAX_NAME: usize = 64;
/// Hex digits of the hash at the end of a cut name: 40 bits, ample for the few thousand names of a fleet.
const HASH_DIGITS: usize = 10;
pub(super) const SEPARATOR: &str = "__";

/// The public name of what `server` calls `name`: `server__name`, spelt so that every model API accepts it. With an empty name,
/// how all names of the server begin that are not too long.
pub fn public_name(server: &str, name: &str) -> String {
    let mut public = [server, SEPARATOR, name].concat().replace(|c| !is_plain(c), "_");
    if !public.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
        public.insert(0, '_');
    }
    if public.len() > MAX_NAME {
        let mut hasher = Hasher::default();
        hasher.part(server.as_bytes()).part(name.as_bytes());
        let hash = hasher.finish().to_string();
        public.truncate(MAX_NAME - HASH_DIGITS - 1);
        public.push('_');
        public.push_str(&hash[..HASH_DIGITS]);
    }
    public
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// The SHA-256 of a catalog's content: equal content, equal hash, on every machine and in every run.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CatalogHash([u8; 32]);

impl fmt::Display for CatalogHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for CatalogHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CatalogHash({self})")
    }
}

impl CatalogHash {
    /// The hash of nothing at all.
    pub(super) const NOTHING: Self = Self([
        0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27,
        0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
    ]);

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Feeds a hash with parts, each prefixed with its length: no two different sequences of parts read the same.
#[derive(Default)]
pub(super) struct Hasher(Sha256);

impl Hasher {
    pub(super) fn part(&mut self, bytes: &[u8]) -> &mut Self {
        self.count(bytes.len());
        self.0.update(bytes);
        self
    }

    /// A part that may be absent; an absent part differs from an empty one.
    pub(super) fn optional(&mut self, bytes: Option<&[u8]>) -> &mut Self {
        self.count(usize::from(bytes.is_some()));
        self.part(bytes.unwrap_or_default())
    }

    pub(super) fn count(&mut self, n: usize) -> &mut Self {
        self.0.update((n as u64).to_be_bytes());
        self
    }

    pub(super) fn finish(self) -> CatalogHash {
        CatalogHash(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::{CatalogHash, Hasher, MAX_NAME, is_plain, public_name};

    fn assert_valid(name: &str) {
        assert!((1..=MAX_NAME).contains(&name.len()), "{name}");
        assert!(name.chars().all(is_plain), "{name}");
        assert!(
            name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'),
            "{name}"
        );
    }

    #[test]
    fn the_hash_of_nothing_is_known() {
        assert_eq!(CatalogHash::NOTHING, Hasher::default().finish());
    }

    #[test]
    fn a_name_that_fits_is_kept() {
        assert_eq!(public_name("git", "log-all_2"), "git__log-all_2");
        let longest = "x".repeat(MAX_NAME - 3);
        assert_eq!(public_name("s", &longest), format!("s__{longest}"));
    }

    #[test]
    fn characters_that_some_api_refuses_are_replaced_one_for_one() {
        assert_eq!(public_name("my server", "a.b/c"), "my_server__a_b_c");
        assert_eq!(public_name("git", "été🦀"), "git___t__");
        assert_eq!(public_name("7zip", "pack"), "_7zip__pack");
        assert_eq!(public_name("-x", "pack"), "_-x__pack");
        assert_eq!(public_name("", ""), "__");
    }

    #[test]
    fn an_overlong_name_is_cut_and_ends_in_a_hash_that_keeps_it_apart() {
        let long = "é".repeat(200);
        let (one, two) = (
            public_name("s", &format!("{long}1")),
            public_name("s", &format!("{long}2")),
        );
        assert_valid(&one);
        assert_valid(&two);
        assert_eq!(one.len(), MAX_NAME);
        assert_ne!(one, two);
        assert_eq!(one, public_name("s", &format!("{long}1")));
        assert_ne!(public_name(&long, "a"), public_name(&long, "b"));
    }

    #[test]
    fn a_cut_name_is_the_same_on_every_machine() {
        let name = public_name("server", &"tool".repeat(50));
        assert_eq!(
            name,
            "server__tooltooltooltooltooltooltooltooltooltooltoolt_e1d5b9f6d3"
        );
    }

    #[test]
    fn every_name_is_valid_whatever_it_is_made_of() {
        let long = "y".repeat(5_000);
        for part in [
            "",
            " ",
            "\0",
            "a\nb",
            "検索",
            "\u{10ffff}",
            "__",
            "-",
            "0",
            long.as_str(),
        ] {
            for other in ["", "é", "0", "-", long.as_str()] {
                assert_valid(&public_name(part, other));
            }
        }
    }
}
