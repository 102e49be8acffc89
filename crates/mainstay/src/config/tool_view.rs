//! How the tools of a server are shown: which of them, under which names, with which descriptions.
//!
//! A view changes what callers see, never what runs: applying another one reconnects nothing. All names in it are the
//! server's own.

use std::collections::BTreeMap;

use super::problem::{ProblemText, SettingProblem, dotted, quoted};

/// The longest tool name every model API accepts.
const MAX_TOOL_NAME: usize = 64;

/// How many patterns each list may hold. Every tool is held against all of them, and they against each other.
const MAX_PATTERNS: usize = 1000;

/// Which tools of a server are shown, and how. The default shows all of them as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolView {
    include: Option<Vec<Glob>>,
    exclude: Vec<Glob>,
    rename: BTreeMap<String, String>,
    describe: BTreeMap<String, String>,
}

impl ToolView {
    /// Shows only tools that match this pattern or another included one. `*` stands for any run of characters.
    #[must_use]
    pub fn include(mut self, pattern: impl Into<String>) -> Self {
        self.include.get_or_insert_default().push(Glob::new(pattern));
        self
    }

    /// Hides tools that match this pattern, included or not.
    #[must_use]
    pub fn exclude(mut self, pattern: impl Into<String>) -> Self {
        self.exclude.push(Glob::new(pattern));
        self
    }

    /// Shows `tool` under another name.
    #[must_use]
    pub fn rename(mut self, tool: impl Into<String>, name: impl Into<String>) -> Self {
        self.rename.insert(tool.into(), name.into());
        self
    }

    /// Shows `tool` with another description.
    #[must_use]
    pub fn describe_as(mut self, tool: impl Into<String>, description: impl Into<String>) -> Self {
        self.describe.insert(tool.into(), description.into());
        self
    }

    /// Whether any tool may be hidden.
    pub fn hides(&self) -> bool {
        self.include.is_some() || !self.exclude.is_empty()
    }

    /// Whether any tool is shown under another name.
    pub fn renames(&self) -> bool {
        !self.rename.is_empty()
    }

    /// Whether a tool is shown at all.
    pub fn admits(&self, tool: &str) -> bool {
        let matched = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(tool));
        self.include.as_deref().is_none_or(matched) && !matched(&self.exclude)
    }

    /// The name a tool is shown under, before the server's name is put in front of it.
    pub fn public_name<'a>(&'a self, tool: &'a str) -> &'a str {
        self.rename.get(tool).map_or(tool, String::as_str)
    }

    /// The server's own name of the tool that is shown, or named by its server, as `name`.
    pub fn original_name<'a>(&'a self, name: &'a str) -> &'a str {
        let renamed = self.rename.iter().find(|(_, shown)| *shown == name);
        renamed.map_or(name, |(tool, _)| tool.as_str())
    }

    /// The description a tool is shown with, if it is not the server's own.
    pub fn describe(&self, tool: &str) -> Option<&str> {
        self.describe.get(tool).map(String::as_str)
    }

    /// Shows no tool, unless one is included afterwards.
    #[cfg(feature = "config-file")]
    pub(super) fn include_none(mut self) -> Self {
        self.include.get_or_insert_default();
        self
    }

    /// What is wrong with the view, under `tools`.
    pub(super) fn check(&self, problems: &mut Vec<SettingProblem>) {
        let include = self.include.as_deref().unwrap_or_default();
        for (list, globs) in [("include", include), ("exclude", &self.exclude)] {
            if globs.len() > MAX_PATTERNS {
                let problem = ProblemText::new(
                    format!("holds more than {MAX_PATTERNS} patterns"),
                    "use `*` to name many at once",
                );
                problems.push(SettingProblem::error(format!("tools.{list}"), problem));
                return;
            }
        }
        self.check_patterns(include, problems);
        self.check_renames(problems);
        self.check_effects(problems);
    }

    fn check_patterns(&self, include: &[Glob], problems: &mut Vec<SettingProblem>) {
        if self.include.is_some() && include.is_empty() {
            let problem = ProblemText::new(
                "an empty list shows no tool at all",
                "name some, or remove the list",
            );
            problems.push(SettingProblem::error("tools.include", problem));
        }
        for (list, globs) in [("include", include), ("exclude", &self.exclude)] {
            for (n, _) in globs
                .iter()
                .enumerate()
                .filter(|(_, glob)| glob.as_str().is_empty())
            {
                problems.push(SettingProblem::error(
                    format!("tools.{list}[{n}]"),
                    "an empty pattern matches no tool",
                ));
            }
        }
        for (n, included) in include.iter().enumerate() {
            if let Some(excluded) = self.exclude.iter().find(|excluded| excluded.covers(included)) {
                let problem = ProblemText::new(
                    format!(
                        "everything it names is hidden by the exclude {}",
                        quoted(excluded.as_str())
                    ),
                    "remove one of the two",
                );
                problems.push(SettingProblem::error(format!("tools.include[{n}]"), problem));
            }
        }
    }

    fn check_renames(&self, problems: &mut Vec<SettingProblem>) {
        let mut taken: BTreeMap<&str, &str> = BTreeMap::new();
        for (tool, name) in &self.rename {
            let key = dotted("tools.rename", tool);
            if tool.contains('*') {
                problems.push(SettingProblem::error(
                    &*key,
                    ProblemText::new("a tool is renamed by its whole name", "write it without `*`"),
                ));
            }
            if !is_public(name) {
                let problem = ProblemText::new(
                    format!("{} is not a name every model accepts", quoted(name)),
                    format!("use letters, digits, `_` and `-`, at most {MAX_TOOL_NAME}"),
                );
                problems.push(SettingProblem::error(&*key, problem));
            }
            if let Some(other) = taken.insert(name, tool) {
                let problem = ProblemText::new(
                    format!(
                        "{} and {} would both be called {}",
                        quoted(other),
                        quoted(tool),
                        quoted(name)
                    ),
                    "choose another name for one",
                );
                problems.push(SettingProblem::error(key, problem));
            }
        }
    }

    /// Renames and descriptions that reach no tool.
    fn check_effects(&self, problems: &mut Vec<SettingProblem>) {
        let own_names: BTreeMap<&String, &String> =
            self.rename.iter().map(|(tool, name)| (name, tool)).collect();
        let renamed = self.rename.keys().map(|tool| ("tools.rename", tool));
        let described = self.describe.keys().map(|tool| ("tools.describe", tool));
        for (list, tool) in renamed.chain(described) {
            let problem = match own_names.get(tool) {
                Some(own) if !self.rename.contains_key(tool) => ProblemText::new(
                    "this is the new name of a tool",
                    format!("use its own name, {}", quoted(own)),
                ),
                Some(_) | None if !self.admits(tool) => ProblemText::new(
                    "has no effect, since the tool is not shown",
                    r#"change "include" or "exclude", or remove it"#,
                ),
                Some(_) | None => continue,
            };
            problems.push(SettingProblem::warning(dotted(list, tool), problem));
        }
    }
}

fn is_public(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    (1..=MAX_TOOL_NAME).contains(&name.len()) && name.chars().all(plain)
}

/// A pattern of tool names: `*` stands for any run of characters, everything else for itself. Case counts.
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
    #[cfg(feature = "config-file")]
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
    use super::{Glob, ToolView};

    #[test]
    fn the_default_view_shows_everything_as_it_is() {
        let view = ToolView::default();
        assert!(view.admits("anything"));
        assert_eq!(view.public_name("anything"), "anything");
        assert_eq!(view.describe("anything"), None);
    }

    #[test]
    fn a_tool_is_shown_when_it_is_included_and_not_excluded() {
        let view = ToolView::default()
            .include("read_*")
            .include("stat")
            .exclude("*_secret");
        assert!(view.admits("read_file") && view.admits("stat"));
        assert!(!view.admits("write_file") && !view.admits("read_secret"));
        let hide_only = ToolView::default().exclude("rm");
        assert!(hide_only.admits("ls") && !hide_only.admits("rm"));
    }

    #[test]
    fn renames_and_descriptions_go_by_the_servers_own_names() {
        let view = ToolView::default()
            .rename("a", "b")
            .rename("b", "a")
            .describe_as("a", "first");
        assert_eq!((view.public_name("a"), view.public_name("b")), ("b", "a"));
        assert_eq!(view.describe("a"), Some("first"));
        assert_eq!(view.describe("b"), None);
    }

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

    #[cfg(feature = "config-file")]
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
