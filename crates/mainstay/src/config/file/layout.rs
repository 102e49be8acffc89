//! Where the servers of a file are, and what the file says of them outside of their entries.

use std::path::Path;

use super::host::{self, Host};
use super::report::ProblemReport;
use super::source::SourceInput;
use super::syntax::{Mapping, Node, Syntax, Value};
use crate::config::nearest::nearest;
use crate::config::problem::{ProblemText, dotted, quoted};

/// The keys that hold servers: most programs write the first, VS Code the second, Codex the third.
pub(super) const GROUPS: [&str; 3] = ["mcpServers", "servers", "mcp_servers"];

/// Keys of Zed, VS Code and opencode that hold servers, too.
const OTHER_GROUPS: [&str; 2] = ["context_servers", "mcp"];

/// Where the servers of a file are.
pub(super) struct Layout<'a> {
    pub(super) host: Host,
    pub(super) groups: Vec<Group<'a>>,
    /// What `${input:…}` stands for.
    pub(super) inputs: Inputs<'a>,
    /// Lists of servers that are not to run, or are the only ones to run.
    switches: Vec<Switch<'a>>,
    /// Patterns of `SERVER_TOOL` that are switched off.
    pub(super) hidden: Vec<&'a str>,
    /// The only tools that an agent sees, as `@SERVER`, `@SERVER/TOOL` or `*`; `None` for all of them.
    pub(super) granted: Option<Vec<&'a str>>,
}

/// A collection of servers.
pub(super) struct Group<'a> {
    /// Its path in the file.
    pub(super) shown: String,
    /// The keys that lead to it.
    pub(super) keys: Vec<&'a str>,
    pub(super) node: &'a Node<'a>,
    /// Whether its servers take the place of those of the same name in other groups.
    pub(super) overrides: bool,
}

struct Switch<'a> {
    shown: String,
    names: Vec<&'a str>,
    /// Whether the servers in it are the only ones to run.
    allows: bool,
}

impl<'a> Layout<'a> {
    /// The servers of a file; `Err` says what to write where there are none.
    pub(super) fn of(
        root: &'a Mapping<'a>,
        syntax: Syntax,
        file: &Path,
        directory: &Path,
        report: &ProblemReport<'_>,
    ) -> Result<Self, String> {
        let mut layout = Self {
            host: Host::Common,
            groups: Vec::new(),
            inputs: Inputs::of(root.get("inputs")),
            switches: Vec::new(),
            hidden: Vec::new(),
            granted: None,
        };
        warn_of_repeated_groups(root, "", report);
        if let Some(node) = root.get("context_servers") {
            layout.host = Host::Zed;
            layout.add(vec!["context_servers"], node);
        } else if let (Syntax::Toml, Some(node)) = (syntax, root.get("mcp_servers")) {
            layout.host = Host::Codex;
            layout.add(vec!["mcp_servers"], node);
        } else if let Some(node) = root.get("extensions").filter(|node| is_goose(node)) {
            layout.host = Host::Goose;
            layout.add(vec!["extensions"], node);
        } else if let Some(settings) = root
            .object("mcp")
            .filter(|mcp| mcp.object("servers").is_some_and(|s| !host::is_server(s)))
        {
            layout.host = Host::VsCode;
            layout.inputs = Inputs::of(settings.get("inputs"));
            layout.add(
                vec!["mcp", "servers"],
                settings.get("servers").ok_or_else(String::new)?,
            );
        } else if let Some(node) = root.get("mcp").filter(|node| is_opencode(root, node)) {
            layout.host = Host::OpenCode;
            layout.add(vec!["mcp"], node);
            layout.hidden = switched_off_tools(root);
        } else {
            layout.shared_form(root, file, directory, report);
        }
        // Claude Code's file holds the servers of other projects, too.
        if layout.groups.is_empty() && layout.host != Host::ClaudeCode {
            return Err(mend_missing_servers(root, syntax));
        }
        Ok(layout)
    }

    fn add(&mut self, keys: Vec<&'a str>, node: &'a Node<'a>) {
        self.groups.push(Group {
            shown: keys.join("."),
            keys,
            node,
            overrides: false,
        });
    }

    /// `mcpServers`, `servers`, or both: a person who pastes a second one means both.
    fn shared_form(
        &mut self,
        root: &'a Mapping<'a>,
        file: &Path,
        directory: &Path,
        report: &ProblemReport<'_>,
    ) {
        for property in root.properties.iter().filter(|property| is_group(&property.name)) {
            self.add(vec![&*property.name], &property.node);
        }
        let servers = root.object("mcpServers");
        self.host = match servers {
            Some(servers) => Host::of_mcp_servers(root, servers, file),
            None if root.object("projects").is_some_and(has_servers) => Host::ClaudeCode,
            None if root
                .get("mcpServers")
                .is_some_and(|node| node.as_array().is_some()) =>
            {
                Host::Continue
            }
            None if root.has("servers") => Host::VsCode,
            None => Host::Common,
        };
        match self.host {
            Host::ClaudeCode => self.projects(root, directory, report),
            Host::Gemini => self.gemini(root),
            Host::AmazonQ | Host::Kiro => {
                let tools = root.get("tools").and_then(Node::as_array);
                self.granted = tools.map(|tools| tools.iter().filter_map(Node::as_text).collect());
            }
            _ => {}
        }
    }

    /// The servers of the project that `directory` is in. Claude Code keeps those of all projects in one file.
    fn projects(&mut self, root: &'a Mapping<'a>, directory: &Path, report: &ProblemReport<'_>) {
        let Some(property) = root
            .properties
            .iter()
            .find(|property| property.name == "projects")
        else {
            return;
        };
        let Some(projects) = property.node.as_object() else {
            return;
        };
        let here = projects
            .properties
            .iter()
            .filter(|project| directory.starts_with(Path::new(&*project.name)))
            .max_by_key(|project| Path::new(&*project.name).components().count());
        let mut others = 0;
        for project in &projects.properties {
            let Some(settings) = project.node.as_object() else {
                continue;
            };
            let servers = settings.get("mcpServers");
            let count = servers
                .and_then(Node::as_object)
                .map_or(0, |servers| servers.properties.len());
            if here.is_none_or(|here| here.name != project.name) {
                others += count;
                continue;
            }
            let shown = dotted("projects", &project.name);
            warn_of_repeated_groups(settings, &shown, report);
            if let Some(servers) = servers {
                self.groups.push(Group {
                    shown: format!("{shown}.mcpServers"),
                    keys: vec!["projects", &project.name, "mcpServers"],
                    node: servers,
                    overrides: true,
                });
            }
            self.switch(settings, &shown, "disabledMcpServers", false);
        }
        if others > 0 {
            let are = if others == 1 {
                "server of other projects is"
            } else {
                "servers of other projects are"
            };
            let problem = ProblemText::new(
                format!("{others} {are} not used"),
                "run mainstay in the directory of a project to use its servers",
            );
            report.note("projects", property.name_at, problem);
        }
    }

    /// The lists of servers that may run, and of those that may not.
    fn gemini(&mut self, root: &'a Mapping<'a>) {
        self.switch(root, "", "allowMCPServers", true);
        self.switch(root, "", "excludeMCPServers", false);
        if let Some(mcp) = root.object("mcp") {
            self.switch(mcp, "mcp", "allowed", true);
            self.switch(mcp, "mcp", "excluded", false);
        }
    }

    fn switch(&mut self, object: &'a Mapping<'a>, parent: &str, key: &str, allows: bool) {
        if let Some(names) = object.get(key).and_then(Node::as_array) {
            self.switches.push(Switch {
                shown: dotted(parent, key),
                names: names.iter().filter_map(Node::as_text).collect(),
                allows,
            });
        }
    }

    /// The list that keeps a server from running.
    pub(super) fn switched_off(&self, server: &str) -> Option<String> {
        let switch = self
            .switches
            .iter()
            .find(|switch| switch.allows != switch.names.contains(&server))?;
        Some(if switch.allows {
            format!("{} does not name it", switch.shown)
        } else {
            format!("{} names it", switch.shown)
        })
    }
}

/// Says where a key with servers is written twice. Other programs use one of the two, or neither.
fn warn_of_repeated_groups(parent: &Mapping<'_>, shown: &str, report: &ProblemReport<'_>) {
    let holds_servers = |key: &str| is_group(key) || OTHER_GROUPS.contains(&key);
    for (n, property) in parent.properties.iter().enumerate() {
        let key = &*property.name;
        let first = parent.properties[..n].iter().find(|earlier| earlier.name == key);
        let Some(first) = first.filter(|_| holds_servers(key)) else {
            continue;
        };
        let used = match shown.is_empty() && is_group(key) {
            true => "the servers of all are used here, and other programs use those of one",
            false => "only the first is used",
        };
        let (first, second) = (report.line(first.name_at), report.line(property.name_at));
        let problem = ProblemText::new(
            format!("this is written twice, on lines {first} and {second}: {used}"),
            format!("put all servers into one {}", quoted(key)),
        );
        report.warning(&dotted(shown, key), property.name_at, problem);
    }
}

/// Whether a key holds servers.
pub(super) fn is_group(key: &str) -> bool {
    GROUPS.contains(&key)
}

fn has_servers(projects: &Mapping<'_>) -> bool {
    let mut projects = projects
        .properties
        .iter()
        .filter_map(|project| project.node.as_object());
    projects.any(|project| project.has("mcpServers"))
}

/// Whether the extensions are those of Goose: each says of which type it is.
fn is_goose(node: &Node<'_>) -> bool {
    let Some(extensions) = node.as_object() else {
        return false;
    };
    let mut extensions = extensions
        .properties
        .iter()
        .map(|property| property.node.as_object());
    extensions.len() > 0
        && extensions.all(|extension| extension.is_some_and(|extension| extension.has("type")))
}

fn is_opencode(root: &Mapping<'_>, node: &Node<'_>) -> bool {
    if root.has("mcpServers") || root.has("servers") {
        return false;
    }
    let says_so = root
        .text("$schema")
        .is_some_and(|schema| schema.contains("opencode"));
    let is_entry = |node: &Node<'_>| {
        let object = node.as_object();
        object.is_some_and(|object| {
            host::is_server(object) || matches!(object.text("type"), Some("local" | "remote"))
        })
    };
    let entries = node
        .as_object()
        .map(|object| &*object.properties)
        .unwrap_or_default();
    says_so || entries.iter().any(|property| is_entry(&property.node))
}

/// The patterns of opencode's `tools` that are off.
fn switched_off_tools<'a>(root: &'a Mapping<'a>) -> Vec<&'a str> {
    let tools = root
        .object("tools")
        .map(|tools| &*tools.properties)
        .unwrap_or_default();
    let off = tools
        .iter()
        .filter(|tool| matches!(tool.node.value, Value::Flag(false)));
    off.map(|tool| &*tool.name).collect()
}

fn mend_missing_servers(root: &Mapping<'_>, syntax: Syntax) -> String {
    let key = host::usual_key(syntax);
    let misspelt = root
        .properties
        .iter()
        .find(|property| nearest(&property.name, GROUPS).is_some());
    if let Some(property) = misspelt {
        return format!("rename {} to {key:?}", quoted(&property.name));
    }
    match syntax {
        Syntax::Toml => return format!("write [{key}.name] and, below it, command = \"program\""),
        Syntax::Yaml => {
            return r#"write mcpServers: with "- name: …" and "command: program" below it"#.to_owned();
        }
        Syntax::Json => {}
    }
    let mut objects = root
        .properties
        .iter()
        .filter_map(|property| property.node.as_object());
    if objects.any(host::is_server) {
        return r#"put the servers inside of it: {"mcpServers": {…}}"#.to_owned();
    }
    r#"write {"mcpServers": {"name": {"command": "program"}}}"#.to_owned()
}

/// The inputs that a file declares.
pub(super) struct Inputs<'a>(Vec<DeclaredInput<'a>>);

struct DeclaredInput<'a> {
    id: &'a str,
    default: Option<&'a str>,
    is_password: bool,
}

impl<'a> Inputs<'a> {
    /// The inputs of an array. A server that uses an input without an `id` or a default is refused.
    pub(super) fn of(node: Option<&'a Node<'a>>) -> Self {
        let inputs = node.and_then(Node::as_array).unwrap_or_default();
        let inputs = inputs.iter().filter_map(Node::as_object).filter_map(|input| {
            let password = input.get("password").map(|node| &node.value);
            Some(DeclaredInput {
                id: input.text("id")?,
                default: input.text("default"),
                is_password: matches!(password, Some(Value::Flag(true))),
            })
        });
        Self(inputs.collect())
    }

    /// Whether an input of this name is declared.
    pub(super) fn declares(&self, id: &str) -> bool {
        self.0.iter().any(|input| input.id == id)
    }

    /// The inputs for a program that writes the file's servers elsewhere.
    pub(super) fn to_sources(&self) -> Vec<SourceInput> {
        let inputs = self.0.iter().map(|input| SourceInput {
            id: input.id.to_owned(),
            variable: input_variable(input.id),
            default: input.default.filter(|_| !input.is_password).map(str::to_owned),
        });
        inputs.collect()
    }

    /// The default of an input.
    pub(super) fn default(&self, id: &str) -> Option<&'a str> {
        self.0.iter().find(|input| input.id == id)?.default
    }
}

/// The variable that answers for a person: `MAINSTAY_INPUT_API_KEY` for the input `api-key`.
pub(super) fn input_variable(id: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_uppercase()
        } else {
            '_'
        }
    };
    format!("MAINSTAY_INPUT_{}", id.chars().map(plain).collect::<String>())
}
