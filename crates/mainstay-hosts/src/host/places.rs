//! Where each host keeps its files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::HostProgram;

/// The folders that a user's files lie in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UserFolders {
    /// The home directory.
    pub home: PathBuf,
    /// `XDG_CONFIG_HOME`, or `~/.config`.
    pub config: PathBuf,
    /// Where programs with windows keep their settings: `~/Library/Application Support` on macOS, else `config`.
    pub application: PathBuf,
    /// `CLAUDE_CONFIG_DIR`, where Claude Code keeps its file instead of the home directory.
    pub claude: Option<PathBuf>,
    /// `CODEX_HOME`, or `~/.codex`.
    pub codex: PathBuf,
}

impl UserFolders {
    /// The folders that these variables name; `None` without a home directory.
    pub fn of(env: impl Fn(&str) -> Option<OsString>) -> Option<Self> {
        let absolute = |name: &str| env(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = absolute("HOME")?;
        // The XDG specification wants a relative value ignored.
        let config = absolute("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
        let application = if cfg!(target_os = "macos") {
            home.join("Library/Application Support")
        } else {
            config.clone()
        };
        Some(Self {
            claude: absolute("CLAUDE_CONFIG_DIR"),
            codex: absolute("CODEX_HOME").unwrap_or_else(|| home.join(".codex")),
            home,
            config,
            application,
        })
    }
}

/// The editors that Cline runs in.
const EDITORS: [&str; 5] = ["Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf"];
/// Cline's file in the folder of an editor.
const CLINE: &str = "User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json";

/// A place where a host may keep a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostPlace {
    /// Whose file it is.
    pub host: HostProgram,
    /// The file.
    pub path: PathBuf,
    /// Whether it belongs to a project and not to the user.
    pub is_of_project: bool,
}

/// All places of a host: those of the user, and those of the project in this directory.
pub fn places(host: HostProgram, folders: &UserFolders, project: Option<&Path>) -> Vec<HostPlace> {
    let UserFolders {
        home,
        config,
        application,
        claude,
        codex,
    } = folders;
    let of_editor = |editor: &str| {
        let user = application.join(editor).join("User");
        vec![user.join("mcp.json"), user.join("settings.json")]
    };
    let of_user = match host {
        HostProgram::ClaudeDesktop => vec![application.join("Claude/claude_desktop_config.json")],
        HostProgram::ClaudeCode => vec![claude.as_ref().unwrap_or(home).join(".claude.json")],
        HostProgram::Cursor => vec![home.join(".cursor/mcp.json")],
        HostProgram::VsCode => of_editor("Code"),
        HostProgram::VsCodeInsiders => of_editor("Code - Insiders"),
        HostProgram::VsCodium => of_editor("VSCodium"),
        HostProgram::Cline => EDITORS
            .map(|editor| application.join(editor).join(CLINE))
            .to_vec(),
        HostProgram::Codex => vec![codex.join("config.toml")],
        // On macOS, too, Zed uses ~/.config, and so does Goose.
        HostProgram::Zed => vec![config.join("zed/settings.json")],
        HostProgram::Windsurf => vec![home.join(".codeium/windsurf/mcp_config.json")],
        HostProgram::Gemini => vec![home.join(".gemini/settings.json")],
        HostProgram::Goose => vec![config.join("goose/config.yaml")],
        HostProgram::OpenCode => ["opencode.json", "opencode.jsonc"]
            .map(|name| config.join("opencode").join(name))
            .to_vec(),
    };
    let of_project: &[&str] = match host {
        HostProgram::ClaudeCode => &[".mcp.json"],
        HostProgram::Cursor => &[".cursor/mcp.json"],
        HostProgram::VsCode => &[".vscode/mcp.json"],
        HostProgram::Codex => &[".codex/config.toml"],
        HostProgram::Zed => &[".zed/settings.json"],
        HostProgram::Gemini => &[".gemini/settings.json"],
        HostProgram::OpenCode => &["opencode.json", "opencode.jsonc"],
        HostProgram::ClaudeDesktop
        | HostProgram::VsCodeInsiders
        | HostProgram::VsCodium
        | HostProgram::Cline
        | HostProgram::Windsurf
        | HostProgram::Goose => &[],
    };
    let of_project = project
        .into_iter()
        .flat_map(|folder| of_project.iter().map(|name| folder.join(name)));
    // In the home directory, what would be the project's is the user's own.
    let of_project: Vec<PathBuf> = of_project.filter(|path| !of_user.contains(path)).collect();
    let place = |path: PathBuf, is_of_project| HostPlace {
        host,
        path,
        is_of_project,
    };
    let of_user = of_user.into_iter().map(|path| place(path, false));
    of_user
        .chain(of_project.into_iter().map(|path| place(path, true)))
        .collect()
}
