//! Why a configuration cannot be used at all. What concerns one server is a `Problem` instead.

use std::io;
use std::path::PathBuf;

use super::configuration::MAX_FILE_BYTES;
use super::locate::ConfigOrigin;
use crate::config::problem::Position;

/// A configuration that cannot be used at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file that was asked for does not exist.
    #[error("{}: {} does not exist; create it, or name another", path.display(), the_file(*origin))]
    Missing {
        /// The file.
        path: PathBuf,
        /// How it was named, if by something a person can change.
        origin: Option<ConfigOrigin>,
    },
    /// The file cannot be read.
    #[error("{}: the file cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is larger than a configuration can sensibly be.
    #[error("{}: the file is larger than {MAX_FILE_BYTES} bytes; is it a configuration?", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The file is not text.
    #[error("{}:{position}: the file is not UTF-8 text; save it as UTF-8", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// The first byte that is no text.
        position: Position,
    },
    /// The file holds nothing.
    #[error("{}: the file is empty; write {EXAMPLE}", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The text is not JSON, comments and trailing commas allowed.
    #[error("{}:{position}: not JSON: {reason}", path.display())]
    NotJson {
        /// The file.
        path: PathBuf,
        /// Where it stops being JSON.
        position: Position,
        /// What is wrong there.
        reason: String,
    },
    /// The text looks like TOML, and is none.
    #[error("{}:{position}: not TOML: {reason}", path.display())]
    NotToml {
        /// The file.
        path: PathBuf,
        /// Where it stops being TOML.
        position: Position,
        /// What is wrong there.
        reason: String,
    },
    /// The text looks like YAML, and is none.
    #[error("{}:{position}: not YAML: {reason}", path.display())]
    NotYaml {
        /// The file.
        path: PathBuf,
        /// Where it stops being YAML.
        position: Position,
        /// What is wrong there.
        reason: String,
    },
    /// The file holds no object.
    #[error("{}:{position}: expected an object, found {found}; write {EXAMPLE}", path.display())]
    NotAnObject {
        /// The file.
        path: PathBuf,
        /// Where the value begins.
        position: Position,
        /// What it is.
        found: &'static str,
    },
    /// There is no object of servers.
    #[error("{}:{position}: there is no `{key}`; {fix}", path.display())]
    NoServers {
        /// The file.
        path: PathBuf,
        /// Where it was looked for.
        position: Position,
        /// The key that was looked for.
        key: &'static str,
        /// What to do about it.
        fix: String,
    },
    /// What should hold the servers is no object.
    #[error("{}:{position}: {key}: expected an object, found {found}; write {EXAMPLE}", path.display())]
    ServersNotAnObject {
        /// The file.
        path: PathBuf,
        /// Where the value begins.
        position: Position,
        /// The key.
        key: String,
        /// What it is.
        found: &'static str,
    },
}

fn the_file(origin: Option<ConfigOrigin>) -> String {
    origin.map_or_else(
        || "the file".to_owned(),
        |origin| format!("the file named by {origin}"),
    )
}

/// The smallest useful configuration, for messages.
const EXAMPLE: &str = r#"{"mcpServers": {"name": {"command": "program"}}}"#;
