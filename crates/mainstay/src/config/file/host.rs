//! Whose format a file is in, and what differs from format to format.
//!
//! What a file holds decides. Most programs write the same `mcpServers`, so keys that only one of them writes are looked
//! for; where they name none, or several, the place where a program keeps its file counts.

use std::fmt;
use std::path::Path;

use super::syntax::{Mapping, Node, Syntax, Value};

/// The program whose format a file is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Host {
    /// The form that most programs share, and Mainstay's own.
    Common,
    /// Amazon Q Developer.
    AmazonQ,
    /// Claude Code: `.mcp.json` and `~/.claude.json`.
    ClaudeCode,
    /// Claude Desktop.
    ClaudeDesktop,
    /// Cline.
    Cline,
    /// OpenAI Codex: `config.toml`.
    Codex,
    /// Continue: `config.yaml`.
    Continue,
    /// GitHub Copilot CLI.
    CopilotCli,
    /// Cursor.
    Cursor,
    /// Gemini CLI: `settings.json`.
    Gemini,
    /// Goose: `config.yaml`.
    Goose,
    /// Kiro.
    Kiro,
    /// LM Studio.
    LmStudio,
    /// opencode: `opencode.json`.
    OpenCode,
    /// Roo Code and Kilo Code.
    Roo,
    /// VS Code: `mcp.json` and `settings.json`.
    VsCode,
    /// Windsurf.
    Windsurf,
    /// Zed: `settings.json`.
    Zed,
}

impl Host {
    /// The program's name; `None` for the form that most programs share.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::Common => return None,
            Self::AmazonQ => "Amazon Q",
            Self::ClaudeCode => "Claude Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::Cline => "Cline",
            Self::Codex => "Codex",
            Self::Continue => "Continue",
            Self::CopilotCli => "Copilot CLI",
            Self::Cursor => "Cursor",
            Self::Gemini => "Gemini CLI",
            Self::Goose => "Goose",
            Self::Kiro => "Kiro",
            Self::LmStudio => "LM Studio",
            Self::OpenCode => "opencode",
            Self::Roo => "Roo Code",
            Self::VsCode => "VS Code",
            Self::Windsurf => "Windsurf",
            Self::Zed => "Zed",
        })
    }

    /// How many seconds a plain number in `timeout` counts; `None` where the program has no such key, or is not known.
    pub(super) fn timeout_unit(self) -> Option<f64> {
        match self {
            Self::AmazonQ | Self::ClaudeCode | Self::CopilotCli | Self::Gemini | Self::OpenCode => {
                Some(0.001)
            }
            Self::Cline | Self::Goose | Self::Roo | Self::Zed => Some(1.0),
            Self::Common
            | Self::ClaudeDesktop
            | Self::Codex
            | Self::Continue
            | Self::Cursor
            | Self::Kiro
            | Self::LmStudio
            | Self::VsCode
            | Self::Windsurf => None,
        }
    }

    /// Whether `$NAME` stands for a variable everywhere.
    pub(super) fn expands_bare_names(self) -> bool {
        self == Self::Gemini
    }

    /// Whether `{env:NAME}` and `{file:PATH}` stand for something.
    pub(super) fn expands_braces(self) -> bool {
        self == Self::OpenCode
    }

    /// Whether the file holds settings of all kinds, so that an unknown key at its top is no mistake.
    pub(super) fn has_other_settings(self) -> bool {
        match self {
            Self::ClaudeCode
            | Self::Codex
            | Self::Continue
            | Self::Gemini
            | Self::Goose
            | Self::OpenCode
            | Self::Zed
            | Self::AmazonQ
            | Self::Kiro
            | Self::ClaudeDesktop => true,
            Self::Common
            | Self::Cline
            | Self::CopilotCli
            | Self::Cursor
            | Self::LmStudio
            | Self::Roo
            | Self::VsCode
            | Self::Windsurf => false,
        }
    }

    /// The folder, inside of a project, where the program keeps its file.
    pub(super) fn is_project_folder(name: &str) -> bool {
        PROJECT_FOLDERS.contains(&name)
    }

    /// Whose format a file with servers in `mcpServers` is in.
    pub(super) fn of_mcp_servers(root: &Mapping<'_>, servers: &Mapping<'_>, file: &Path) -> Self {
        if root.object("projects").is_some() {
            return Self::ClaudeCode;
        }
        let mut marked: Vec<Self> = TOP_MARKS
            .iter()
            .filter(|(key, _)| root.has(key))
            .map(|(_, host)| *host)
            .collect();
        for server in servers
            .properties
            .iter()
            .filter_map(|property| property.node.as_object())
        {
            marked.extend(marks(server));
        }
        marked.sort_unstable();
        marked.dedup();
        match marked.as_slice() {
            [host] => *host,
            several => match Self::by_place(file) {
                Some(host) if several.is_empty() || several.contains(&host) => host,
                Some(_) | None => Self::Common,
            },
        }
    }

    /// The program that keeps its file in such a place.
    fn by_place(file: &Path) -> Option<Self> {
        let name = file.file_name()?.to_str()?;
        let inside = |folder: &str| {
            let mut folders = file.parent().into_iter().flat_map(Path::components);
            folders.any(|component| component.as_os_str() == folder)
        };
        match name {
            "claude_desktop_config.json" => return Some(Self::ClaudeDesktop),
            "cline_mcp_settings.json" => return Some(Self::Cline),
            "mcp_settings.json" => return Some(Self::Roo),
            ".mcp.json" | ".claude.json" => return Some(Self::ClaudeCode),
            _ => {}
        }
        let found = FOLDERS.iter().find(|(folder, _)| inside(folder))?;
        Some(found.1)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name().unwrap_or("mcpServers"))
    }
}

/// Folders inside of a project that hold its file for a program.
const PROJECT_FOLDERS: [&str; 10] = [
    ".amazonq",
    ".codex",
    ".cursor",
    ".gemini",
    ".kilocode",
    ".kiro",
    ".roo",
    ".vscode",
    ".windsurf",
    ".zed",
];

/// Folders that belong to a program.
const FOLDERS: [(&str, Host); 14] = [
    (".amazonq", Host::AmazonQ),
    ("amazonq", Host::AmazonQ),
    (".claude", Host::ClaudeCode),
    (".copilot", Host::CopilotCli),
    (".cursor", Host::Cursor),
    (".gemini", Host::Gemini),
    (".qwen", Host::Gemini),
    (".kilocode", Host::Roo),
    (".kiro", Host::Kiro),
    (".lmstudio", Host::LmStudio),
    (".roo", Host::Roo),
    (".codeium", Host::Windsurf),
    (".windsurf", Host::Windsurf),
    ("windsurf", Host::Windsurf),
];

/// Keys beside `mcpServers` that one program writes.
const TOP_MARKS: [(&str, Host); 11] = [
    ("allowMCPServers", Host::Gemini),
    ("excludeMCPServers", Host::Gemini),
    ("contextFileName", Host::Gemini),
    ("selectedAuthType", Host::Gemini),
    ("coreTools", Host::Gemini),
    ("security", Host::Gemini),
    ("general", Host::Gemini),
    ("globalShortcut", Host::ClaudeDesktop),
    ("preferences", Host::ClaudeDesktop),
    ("numStartups", Host::ClaudeCode),
    ("useLegacyMcpJson", Host::AmazonQ),
];

/// Keys of a server that one program writes.
const MARKS: [(&str, Host); 10] = [
    ("httpUrl", Host::Gemini),
    ("includeTools", Host::Gemini),
    ("excludeTools", Host::Gemini),
    ("trust", Host::Gemini),
    ("authProviderType", Host::Gemini),
    ("serverUrl", Host::Windsurf),
    ("alwaysAllow", Host::Roo),
    ("envFile", Host::Cursor),
    ("headersHelper", Host::ClaudeCode),
    ("transportType", Host::Cline),
];

/// Variables that one program knows.
const VARIABLES: [(&str, Host); 6] = [
    ("${file:", Host::Windsurf),
    ("${userHome}", Host::Cursor),
    ("${workspaceFolder}", Host::Cursor),
    ("${workspaceFolderBasename}", Host::Cursor),
    ("${pathSeparator}", Host::Cursor),
    ("${/}", Host::Cursor),
];

/// Every program that a server looks as if it were written for.
fn marks(server: &Mapping<'_>) -> Vec<Host> {
    let mut marked = Vec::new();
    for property in &server.properties {
        let by_key = MARKS.iter().find(|(key, _)| *key == property.name);
        marked.extend(by_key.map(|(_, host)| *host));
        // A list of all tools is Copilot's way to say "all of them".
        let is_all = |node: &Node<'_>| {
            let all = node.as_array().unwrap_or_default();
            matches!(all, [one] if one.as_text() == Some("*"))
        };
        if property.name == "tools" && is_all(&property.node) {
            marked.push(Host::CopilotCli);
        }
        marked.extend(texts(&property.node).into_iter().flat_map(|text| {
            let known = VARIABLES
                .iter()
                .filter(move |(variable, _)| text.contains(variable));
            known.map(|(_, host)| *host)
        }));
    }
    marked
}

/// The texts of a value and of the values right inside of it.
fn texts<'a>(node: &'a Node<'_>) -> Vec<&'a str> {
    match &node.value {
        Value::Text(text) => vec![text],
        Value::Array(items) => items.iter().filter_map(Node::as_text).collect(),
        Value::Object(object) => {
            let values = object.properties.iter();
            values.filter_map(|property| property.node.as_text()).collect()
        }
        Value::Null | Value::Flag(_) | Value::Number(_) => Vec::new(),
    }
}

/// Whether an object looks like the entry of a server.
pub(super) fn is_server(object: &Mapping<'_>) -> bool {
    ["command", "cmd", "url", "serverUrl", "httpUrl", "uri"]
        .iter()
        .any(|key| object.has(key))
}

/// The key that holds the servers of a file in this syntax, for messages.
pub(super) fn usual_key(syntax: Syntax) -> &'static str {
    match syntax {
        Syntax::Json | Syntax::Yaml => "mcpServers",
        Syntax::Toml => "mcp_servers",
    }
}
