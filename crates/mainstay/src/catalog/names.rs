//! Public names: `server__tool`, spelt so that every model API accepts them.
//!
//! The strictest rules in use are a letter or `_` first, then letters, digits, `_` and `-`, 64 characters in all. What
//! does not fit is replaced or cut; a cut name ends in a hash of the whole, so that long names with a common beginning
//! stay apart and keep their name from run to run. A short name is never given a hash: it stays readable, and should
//! two fall together, the one that comes later is set aside where the union is built.

use super::hash::Hasher;

/// The longest name that every model API accepts.
pub(super) const MAX_NAME: usize = 64;
/// Hex digits of the hash at the end of a cut name: 40 bits, ample for the few thousand names of a fleet.
const HASH_DIGITS: usize = 10;
const SEPARATOR: &str = "__";

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

#[cfg(test)]
mod tests {
    use super::{MAX_NAME, is_plain, public_name};

    fn assert_valid(name: &str) {
        assert!((1..=MAX_NAME).contains(&name.len()), "{name}");
        assert!(name.chars().all(is_plain), "{name}");
        assert!(
            name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'),
            "{name}"
        );
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
