//! Finds the configuration file.
//!
//! Only files a person chose are used: by flag, by variable, or in their own configuration directory. A file that merely
//! lies in the working directory can run any command, and came perhaps with a cloned repository; it is mentioned, never
//! used unasked.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use super::configuration::ConfigError;

/// The variable that names a configuration file.
const VARIABLE: &str = "MAINSTAY_CONFIG";

/// Where other programs keep configurations, below the working directory.
const OF_PROJECTS: [&str; 4] = [".mcp.json", "mcp.json", ".vscode/mcp.json", ".cursor/mcp.json"];

/// The configuration file to use, and what else was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Located {
    /// The file to use; `None` when there is none.
    pub path: Option<PathBuf>,
    /// How it was found.
    pub origin: ConfigOrigin,
    /// Where the user's own file is, or would be; `None` when there is no home directory.
    pub user_path: Option<PathBuf>,
    /// Files in the working directory that look like configurations. They are not used unless asked for by name.
    pub mentioned: Vec<PathBuf>,
}

/// How a configuration file was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConfigOrigin {
    /// Named by `--config`, or by the embedding program.
    Flag,
    /// Named by `MAINSTAY_CONFIG`.
    Env,
    /// `mainstay/mcp.json` in the user's configuration directory.
    User,
    /// There is none.
    None,
}

/// Finds the configuration file: `explicit`, then `MAINSTAY_CONFIG`, then `mainstay/mcp.json` in `XDG_CONFIG_HOME` or
/// `~/.config`, on every system. A file that was named must exist. Relative names start from `cwd`.
pub fn locate(
    explicit: Option<&Path>,
    env: impl Fn(&str) -> Option<OsString>,
    cwd: &Path,
) -> Result<Located, ConfigError> {
    let set = |name: &str| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let user_path = user_path(set("XDG_CONFIG_HOME"), set("HOME"));
    let named = match (explicit, set(VARIABLE)) {
        (Some(path), _) => Some((cwd.join(path), ConfigOrigin::Flag)),
        (None, Some(path)) => Some((cwd.join(path), ConfigOrigin::Env)),
        (None, None) => None,
    };
    let (path, origin) = match named {
        Some((path, origin)) if !path.exists() => {
            let origin = Some(origin);
            return Err(ConfigError::Missing { path, origin });
        }
        Some((path, origin)) => (Some(path), origin),
        None => match user_path.clone().filter(|path| path.exists()) {
            Some(path) => (Some(path), ConfigOrigin::User),
            None => (None, ConfigOrigin::None),
        },
    };
    let candidates = OF_PROJECTS.iter().map(|name| cwd.join(name));
    let mentioned = candidates
        .filter(|candidate| candidate.is_file() && path.as_ref() != Some(candidate))
        .collect();
    Ok(Located {
        path,
        origin,
        user_path,
        mentioned,
    })
}

fn user_path(xdg: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    // The XDG specification wants a relative value ignored.
    let folder = xdg
        .filter(|xdg| xdg.is_absolute())
        .or_else(|| home.map(|home| home.join(".config")))?;
    Some(folder.join("mainstay").join("mcp.json"))
}

impl fmt::Display for ConfigOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flag => "--config",
            Self::Env => VARIABLE,
            Self::User => "the user's configuration directory",
            Self::None => "nothing",
        })
    }
}
