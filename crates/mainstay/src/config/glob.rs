//! Patterns of tool names: `*` stands for any run of characters, everything else for itself.

/// One pattern. Case counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Glob(String);

impl Glob {
    pub(super) fn new(pattern: impl Into<String>) -> Self {
        Self(pattern.into())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the pattern matches the whole of `name`.
    ///
    /// Each piece between stars is taken at its first place: the pieces left over then have the most room, so nothing
    /// is ever tried twice.
    pub(super) fn matches(&self, name: &str) -> bool {
        let Some((head, rest)) = self.0.split_once('*') else {
            return self.0 == name;
        };
        let Some(mut name) = name.strip_prefix(head) else {
            return false;
        };
        let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
        for piece in middle.split('*') {
            let Some(at) = name.find(piece) else {
                return false;
            };
            name = &name[at + piece.len()..];
        }
        name.ends_with(tail)
    }

    /// The patterns of what may follow `prefix` in a name that this pattern matches. A star may end anywhere in it, so
    /// there may be several.
    pub(super) fn after(&self, prefix: &str) -> Vec<Glob> {
        let mut rests = vec![self.0.as_str()];
        for c in prefix.chars() {
            let mut next: Vec<&str> = Vec::new();
            for rest in rests {
                let literal = rest.trim_start_matches('*');
                let star = (literal.len() < rest.len()).then(|| &rest[rest.len() - literal.len() - 1..]);
                let consumed = literal.strip_prefix(c);
                for candidate in star.into_iter().chain(consumed) {
                    if !next.contains(&candidate) {
                        next.push(candidate);
                    }
                }
            }
            rests = next;
        }
        rests.into_iter().map(Glob::new).collect()
    }

    /// Whether everything `other` matches is matched here too.
    ///
    /// The letters of `other` match letters here, and its stars can only be covered by stars here; so it is enough to
    /// match the pattern as if it were a name.
    pub(super) fn covers(&self, other: &Glob) -> bool {
        self.matches(&other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Glob;

    #[test]
    fn a_star_stands_for_any_run_of_characters() {
        for (pattern, name, expected) in [
            ("read", "read", true),
            ("read", "reader", false),
            ("read*", "read", true),
            ("read*", "read_file", true),
            ("*_file", "read_file", true),
            ("*_file", "_file", true),
            ("r*d", "rd", true),
            ("r*d", "r", false),
            ("a*a", "a", false),
            ("*", "", true),
            ("**", "x", true),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "ba", false),
            ("a*b*c", "abbc", true),
            ("a*bc*c", "abc", false),
            ("Read", "read", false),
        ] {
            assert_eq!(Glob::new(pattern).matches(name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn what_follows_a_prefix_is_matched_as_the_whole_was() {
        for pattern in [
            "*",
            "fs_*",
            "fs*",
            "fs_read",
            "f*s_*d",
            "git_*",
            "*_read",
            "fs",
            "*s_read_*",
            "**a",
        ] {
            let pattern = Glob::new(pattern);
            let after = pattern.after("fs_");
            for tool in ["read", "read_file", "", "a", "fs_read", "s_read"] {
                let whole = pattern.matches(&format!("fs_{tool}"));
                let rest = after.iter().any(|rest| rest.matches(tool));
                assert_eq!(whole, rest, "{pattern:?} {tool:?}");
            }
        }
    }

    #[test]
    fn one_pattern_covers_another_only_when_it_matches_all_of_it() {
        assert!(Glob::new("*").covers(&Glob::new("read_*")));
        assert!(Glob::new("*_x").covers(&Glob::new("a*_x")));
        assert!(!Glob::new("read_*").covers(&Glob::new("*")));
        assert!(!Glob::new("read_file").covers(&Glob::new("read_*")));
    }
}
