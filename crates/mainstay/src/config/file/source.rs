//! A configuration's text as a tree, with the place of each value: for programs that edit the file.
//!
//! [`SourceTree::read`] reads JSON, TOML or YAML and finds the groups of servers in it, in the format of any host that
//! [`Configuration`](super::Configuration) reads. All places are bytes of the text, without its byte order mark.

use std::path::Path;

use super::configuration::ConfigError;
use super::host::Host;
use super::layout::Layout;
use super::parse;
use super::report::{ProblemReport, ValuesOwner};

pub use super::syntax::{Mapping, Node, Property, Syntax, Value};

/// A text as a tree.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SourceTree<'t> {
    /// The syntax that it is written in.
    pub syntax: Syntax,
    /// Whose format it is in.
    pub host: Host,
    /// The whole value, an object.
    pub root: Node<'t>,
    /// The keys that lead to each group of servers. Those of all projects are among them. Empty if there is none.
    pub groups: Vec<Vec<String>>,
    /// The inputs that it declares: what VS Code asks a person for.
    pub inputs: Vec<SourceInput>,
}

/// An input that a file declares, for `${input:ID}`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceInput {
    /// Its name in the file.
    pub id: String,
    /// The variable that answers for a person.
    pub variable: String,
    /// Its default. `None` for an input without one, and for a password: a password must not be copied.
    pub default: Option<String>,
}

impl<'t> SourceTree<'t> {
    /// Reads a text that does not begin with a byte order mark. `file` says what its name tells of the syntax and the host.
    pub fn read(text: &'t str, file: &Path) -> Result<Self, ConfigError> {
        let (syntax, root) = parse::tree(text, file)?;
        let object = root
            .as_object()
            .ok_or_else(|| parse::not_an_object(text, file, &root))?;
        let report = ProblemReport::new(text, file, ValuesOwner::Reader);
        // In no project: the groups of all projects are found below.
        let layout = Layout::of(object, syntax, file, Path::new(""), &report);
        let (host, mut groups, inputs) = match layout {
            Ok(layout) => {
                let groups = layout.groups.iter().map(|group| owned(&group.keys)).collect();
                (layout.host, groups, layout.inputs.to_sources())
            }
            Err(_) => (Host::Common, Vec::new(), Vec::new()),
        };
        if host == Host::ClaudeCode
            && let Some(projects) = object.object("projects")
        {
            let with_servers = projects.properties.iter().filter(|project| {
                let settings = project.node.as_object();
                settings.is_some_and(|settings| settings.object("mcpServers").is_some())
            });
            groups.extend(with_servers.map(|project| owned(&["projects", &project.name, "mcpServers"])));
        }
        Ok(Self {
            syntax,
            host,
            root,
            groups,
            inputs,
        })
    }

    /// The value that these keys lead to. The first of keys that are written twice counts.
    pub fn at(&self, keys: &[impl AsRef<str>]) -> Option<&Node<'t>> {
        keys.iter()
            .try_fold(&self.root, |node, key| node.as_object()?.get(key.as_ref()))
    }
}

fn owned(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|&key| key.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Host, SourceTree, Syntax};

    #[test]
    fn the_groups_of_all_projects_are_found() {
        let text = r#"{"mcpServers": {}, "projects": {"/a": {"mcpServers": {"x": {}}}, "/b": {}, "/c.d": {"mcpServers": {}}}}"#;
        let tree = SourceTree::read(text, Path::new(".claude.json")).unwrap();
        assert_eq!((tree.host, tree.syntax), (Host::ClaudeCode, Syntax::Json));
        let groups: Vec<_> = tree.groups.iter().map(|keys| keys.join(" ")).collect();
        assert_eq!(
            groups,
            ["mcpServers", "projects /a mcpServers", "projects /c.d mcpServers"]
        );
        let entry = tree.at(&["projects", "/a", "mcpServers", "x"]).unwrap();
        assert_eq!(&text[entry.start..entry.end], "{}");
    }

    #[test]
    fn a_file_of_settings_without_servers_has_no_group() {
        for (text, name) in [
            ("{\"theme\": 1}", "settings.json"),
            ("model = \"x\"\n", "config.toml"),
        ] {
            let tree = SourceTree::read(text, Path::new(name)).unwrap();
            assert!(tree.groups.is_empty(), "{text}");
        }
        assert!(SourceTree::read("[]", Path::new("a.json")).is_err());
        assert!(SourceTree::read("", Path::new("a.json")).is_err());
    }
}
