//! The programs whose configuration files Mainstay edits, and where each keeps them.

mod places;

use std::fmt;
use std::str::FromStr;

use mainstay::config::nearest;

pub use places::{HostPlace, UserFolders, places};

/// A program that starts MCP servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum HostProgram {
    /// Claude Desktop.
    ClaudeDesktop,
    /// Claude Code.
    ClaudeCode,
    /// Cursor.
    Cursor,
    /// VS Code.
    VsCode,
    /// The Insiders build of VS Code.
    VsCodeInsiders,
    /// VSCodium.
    VsCodium,
    /// Cline, in any of these editors.
    Cline,
    /// OpenAI Codex.
    Codex,
    /// Zed.
    Zed,
    /// Windsurf.
    Windsurf,
    /// Gemini CLI.
    Gemini,
    /// Goose.
    Goose,
    /// opencode.
    OpenCode,
}

impl HostProgram {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::ClaudeDesktop,
        Self::ClaudeCode,
        Self::Cursor,
        Self::VsCode,
        Self::VsCodeInsiders,
        Self::VsCodium,
        Self::Cline,
        Self::Codex,
        Self::Zed,
        Self::Windsurf,
        Self::Gemini,
        Self::Goose,
        Self::OpenCode,
    ];

    /// The name on the command line.
    pub fn key(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "claude-desktop",
            Self::ClaudeCode => "claude-code",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
            Self::VsCodeInsiders => "vscode-insiders",
            Self::VsCodium => "vscodium",
            Self::Cline => "cline",
            Self::Codex => "codex",
            Self::Zed => "zed",
            Self::Windsurf => "windsurf",
            Self::Gemini => "gemini",
            Self::Goose => "goose",
            Self::OpenCode => "opencode",
        }
    }

    /// The program's own name.
    pub fn title(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "Claude Desktop",
            Self::ClaudeCode => "Claude Code",
            Self::Cursor => "Cursor",
            Self::VsCode => "VS Code",
            Self::VsCodeInsiders => "VS Code Insiders",
            Self::VsCodium => "VSCodium",
            Self::Cline => "Cline",
            Self::Codex => "Codex",
            Self::Zed => "Zed",
            Self::Windsurf => "Windsurf",
            Self::Gemini => "Gemini CLI",
            Self::Goose => "Goose",
            Self::OpenCode => "opencode",
        }
    }
}

impl fmt::Display for HostProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}

/// A name that is no host's.
#[derive(Debug, thiserror::Error)]
#[error("{name:?} is no host that mainstay knows; {}", meant(name))]
pub struct UnknownHost {
    name: String,
}

fn meant(name: &str) -> String {
    let keys = HostProgram::ALL.map(HostProgram::key);
    match nearest(name, keys) {
        Some(meant) => format!("did you mean {meant:?}?"),
        None => format!("there is: {}", keys.join(", ")),
    }
}

impl FromStr for HostProgram {
    type Err = UnknownHost;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|host| host.key() == name);
        found.ok_or_else(|| UnknownHost {
            name: name.to_owned(),
        })
    }
}
