//! How the tools of a server are shown: which of them, under which names, with which descriptions.
//!
//! A view changes what callers see, never what runs: applying another one reconnects nothing. All names in it are the
//! server's own.

use std::collections::BTreeMap;

use super::check::Flaw;
use super::glob::Glob;
use super::problem::{dotted, quoted};
use super::report::Fault;

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
    pub(super) fn include_none(mut self) -> Self {
        self.include.get_or_insert_default();
        self
    }

    /// What is wrong with the view, under `tools`.
    pub(super) fn check(&self, flaws: &mut Vec<Flaw>) {
        let include = self.include.as_deref().unwrap_or_default();
        for (list, globs) in [("include", include), ("exclude", &self.exclude)] {
            if globs.len() > MAX_PATTERNS {
                let fault = Fault::new(
                    format!("holds more than {MAX_PATTERNS} patterns"),
                    "use `*` to name many at once",
                );
                flaws.push(Flaw::error(format!("tools.{list}"), fault));
                return;
            }
        }
        self.check_patterns(include, flaws);
        self.check_renames(flaws);
        self.check_effects(flaws);
    }

    fn check_patterns(&self, include: &[Glob], flaws: &mut Vec<Flaw>) {
        if self.include.is_some() && include.is_empty() {
            let fault = Fault::new(
                "an empty list shows no tool at all",
                "name some, or remove the list",
            );
            flaws.push(Flaw::error("tools.include", fault));
        }
        for (list, globs) in [("include", include), ("exclude", &self.exclude)] {
            for (n, _) in globs
                .iter()
                .enumerate()
                .filter(|(_, glob)| glob.as_str().is_empty())
            {
                flaws.push(Flaw::error(
                    format!("tools.{list}[{n}]"),
                    "an empty pattern matches no tool",
                ));
            }
        }
        for (n, included) in include.iter().enumerate() {
            if let Some(excluded) = self.exclude.iter().find(|excluded| excluded.covers(included)) {
                let fault = Fault::new(
                    format!(
                        "everything it names is hidden by the exclude {}",
                        quoted(excluded.as_str())
                    ),
                    "remove one of the two",
                );
                flaws.push(Flaw::error(format!("tools.include[{n}]"), fault));
            }
        }
    }

    fn check_renames(&self, flaws: &mut Vec<Flaw>) {
        let mut taken: BTreeMap<&str, &str> = BTreeMap::new();
        for (tool, name) in &self.rename {
            let key = dotted("tools.rename", tool);
            if tool.contains('*') {
                flaws.push(Flaw::error(
                    &*key,
                    Fault::new("a tool is renamed by its whole name", "write it without `*`"),
                ));
            }
            if !is_public(name) {
                let fault = Fault::new(
                    format!("{} is not a name every model accepts", quoted(name)),
                    format!("use letters, digits, `_` and `-`, at most {MAX_TOOL_NAME}"),
                );
                flaws.push(Flaw::error(&*key, fault));
            }
            if let Some(other) = taken.insert(name, tool) {
                let fault = Fault::new(
                    format!(
                        "{} and {} would both be called {}",
                        quoted(other),
                        quoted(tool),
                        quoted(name)
                    ),
                    "choose another name for one",
                );
                flaws.push(Flaw::error(key, fault));
            }
        }
    }

    /// Renames and descriptions that reach no tool.
    fn check_effects(&self, flaws: &mut Vec<Flaw>) {
        let own_names: BTreeMap<&String, &String> =
            self.rename.iter().map(|(tool, name)| (name, tool)).collect();
        let renamed = self.rename.keys().map(|tool| ("tools.rename", tool));
        let described = self.describe.keys().map(|tool| ("tools.describe", tool));
        for (list, tool) in renamed.chain(described) {
            let fault = match own_names.get(tool) {
                Some(own) if !self.rename.contains_key(tool) => Fault::new(
                    "this is the new name of a tool",
                    format!("use its own name, {}", quoted(own)),
                ),
                Some(_) | None if !self.admits(tool) => Fault::new(
                    "has no effect, since the tool is not shown",
                    r#"change "include" or "exclude", or remove it"#,
                ),
                Some(_) | None => continue,
            };
            flaws.push(Flaw::warning(dotted(list, tool), fault));
        }
    }
}

fn is_public(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    (1..=MAX_TOOL_NAME).contains(&name.len()) && name.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::ToolView;

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
}
