//! What a scripted server is: the protocol versions it speaks, what it offers, how it pages, where it fails.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::fault::Fault;
use crate::rule::{Rule, Step};

/// Protocol versions with an `initialize` handshake, oldest first.
pub const LEGACY_VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The protocol version without a handshake.
pub const MODERN_VERSION: &str = "2026-07-28";

/// Which eras of the protocol a server knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaks {
    /// `initialize` only; `server/discover` is an unknown method.
    #[default]
    Legacy,
    /// Per-request metadata only; `initialize` is refused with the versions supported.
    Modern,
    /// Both eras.
    Both,
}

impl Speaks {
    pub(crate) fn legacy(self) -> bool {
        matches!(self, Self::Legacy | Self::Both)
    }

    pub(crate) fn modern(self) -> bool {
        matches!(self, Self::Modern | Self::Both)
    }
}

/// How a server hands out cursors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cursors {
    /// To the end, then none.
    #[default]
    Honest,
    /// The same page with the same cursor, without end.
    Repeating,
    /// A new page with a new cursor, without end.
    Endless,
}

/// A server's part. Every field may be left out of its JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Script {
    /// What the server calls itself.
    pub name: String,
    /// The eras it knows.
    pub speaks: Speaks,
    /// The version `initialize` is answered with. `None`: the one requested, if it is a known legacy one.
    pub version: Option<String>,
    /// Its capabilities. `None`: everything the responder can do.
    pub capabilities: Option<Value>,
    /// Whether the built-in tools are offered.
    pub builtin_tools: bool,
    /// Further tools, as listed. They answer as `echo` does.
    pub tools: Vec<Value>,
    /// A file with a JSON array of tools, read again for each listing, in place of all other tools.
    pub tools_file: Option<PathBuf>,
    /// Its prompts, as listed.
    pub prompts: Vec<Value>,
    /// Its resources, as listed.
    pub resources: Vec<Value>,
    /// Its resource templates, as listed.
    pub templates: Vec<Value>,
    /// The ids of the tasks that it tells listeners of.
    pub tasks: Vec<String>,
    /// How many items a page holds. `None`: all.
    pub page_size: Option<usize>,
    /// How cursors behave.
    pub cursors: Cursors,
    /// How many of the first tool listings are empty.
    pub warm_up: u64,
    /// Whether modern results are marked `private`.
    pub private: bool,
    /// How long modern results may be kept, in milliseconds.
    pub ttl_ms: u64,
    /// Whether fields no protocol version knows are everywhere.
    pub fidelity: bool,
    /// Whether legacy requests before `initialize` are refused.
    pub strict: bool,
    /// Whether the ledger has the params of each request too, as they came: `params METHOD …`.
    pub verbatim: bool,
    /// The file the ledger is kept in.
    pub ledger: Option<PathBuf>,
    /// Where it fails.
    pub rules: Vec<Rule>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            name: "faulty".to_owned(),
            speaks: Speaks::Legacy,
            version: None,
            capabilities: None,
            builtin_tools: true,
            tools: Vec::new(),
            tools_file: None,
            prompts: vec![json!({
                "name": "greet",
                "description": "A greeting.",
                "arguments": [{ "name": "who", "required": true }]
            })],
            resources: vec![json!({ "uri": "mem://one", "name": "one", "mimeType": "text/plain" })],
            templates: vec![json!({ "uriTemplate": "mem://{name}", "name": "any" })],
            tasks: Vec::new(),
            page_size: None,
            cursors: Cursors::Honest,
            warm_up: 0,
            private: false,
            ttl_ms: 0,
            fidelity: false,
            strict: false,
            verbatim: false,
            ledger: None,
            rules: Vec::new(),
        }
    }
}

impl Script {
    /// A well-behaved legacy server with the built-in tools, one prompt, one resource and one template.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the eras it knows.
    #[must_use]
    pub fn speaks(mut self, speaks: Speaks) -> Self {
        self.speaks = speaks;
        self
    }

    /// Answers `initialize` with this version, whatever was requested.
    #[must_use]
    pub fn version(mut self, version: &str) -> Self {
        self.version = Some(version.to_owned());
        self
    }

    /// Adds a tool of this name. It answers as `echo` does.
    #[must_use]
    pub fn tool(self, name: &str) -> Self {
        self.tool_json(json!({ "name": name, "description": name, "inputSchema": { "type": "object" } }))
    }

    /// Adds a tool exactly as given, well-formed or not.
    #[must_use]
    pub fn tool_json(mut self, tool: Value) -> Self {
        self.tools.push(tool);
        self
    }

    /// Leaves out the built-in tools.
    #[must_use]
    pub fn without_builtin_tools(mut self) -> Self {
        self.builtin_tools = false;
        self
    }

    /// Takes the tools from this file (a JSON array), read again for each listing.
    #[must_use]
    pub fn tools_file(mut self, path: impl AsRef<Path>) -> Self {
        self.tools_file = Some(path.as_ref().to_owned());
        self
    }

    /// Offers no tools, prompts, resources or templates at all.
    #[must_use]
    pub fn bare(mut self) -> Self {
        self.builtin_tools = false;
        self.tools.clear();
        self.prompts.clear();
        self.resources.clear();
        self.templates.clear();
        self
    }

    /// Lists so many items per page.
    #[must_use]
    pub fn page_size(mut self, items: usize) -> Self {
        self.page_size = Some(items);
        self
    }

    /// Sets how cursors behave.
    #[must_use]
    pub fn cursors(mut self, cursors: Cursors) -> Self {
        self.cursors = cursors;
        self
    }

    /// Lists no tools the first so many times.
    #[must_use]
    pub fn warm_up(mut self, listings: u64) -> Self {
        self.warm_up = listings;
        self
    }

    /// Adds fields no protocol version knows, everywhere.
    #[must_use]
    pub fn fidelity(mut self) -> Self {
        self.fidelity = true;
        self
    }

    /// Refuses legacy requests before `initialize`.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Notes the params of each request as they came.
    #[must_use]
    pub fn verbatim(mut self) -> Self {
        self.verbatim = true;
        self
    }

    /// Fails with `fault` whenever `step` is reached.
    #[must_use]
    pub fn on(self, step: Step, fault: Fault) -> Self {
        self.rule(Rule::new(step, fault))
    }

    /// Fails as the rule says.
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }
}
