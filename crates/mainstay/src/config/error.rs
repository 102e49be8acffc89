//! Why a configuration cannot be used at all. What concerns one server is a `Problem` instead.

use std::io;
use std::path::PathBuf;

use super::configuration::MAX_FILE_BYTES;
use super::locate::Origin;
use super::problem::Place;

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
        origin: Option<Origin>,
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
    #[error("{}:{place}: the file is not UTF-8 text; save it as UTF-8", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// The first byte that is no text.
        place: Place,
    },
    /// The file holds nothing.
    #[error("{}: the file is empty; write {EXAMPLE}", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The text is not JSON, comments and trailing commas allowed.
    #[error("{}:{place}: not JSON: {reason}", path.display())]
    NotJson {
        /// The file.
        path: PathBuf,
        /// Where it stops being JSON.
        place: Place,
        /// What is wrong there.
        reason: String,
    },
    /// The text looks like TOML, and is none.
    #[error("{}:{place}: not TOML: {reason}", path.display())]
    NotToml {
        /// The file.
        path: PathBuf,
        /// Where it stops being TOML.
        place: Place,
        /// What is wrong there.
        reason: String,
    },
    /// The text looks like YAML, and is none.
    #[error("{}:{place}: not YAML: {reason}", path.display())]
    NotYaml {
        /// The file.
        path: PathBuf,
        /// Where it stops being YAML.
        place: Place,
        /// What is wrong there.
        reason: String,
    },
    /// The file holds no object.
    #[error("{}:{place}: expected an object, found {found}; write {EXAMPLE}", path.display())]
    NotAnObject {
        /// The file.
        path: PathBuf,
        /// Where the value begins.
        place: Place,
        /// What it is.
        found: &'static str,
    },
    /// There is no object of servers.
    #[error("{}:{place}: there is no `{key}`; {mend}", path.display())]
    NoServers {
        /// The file.
        path: PathBuf,
        /// Where it was looked for.
        place: Place,
        /// The key that was looked for.
        key: &'static str,
        /// What to do about it.
        mend: String,
    },
    /// What should hold the servers is no object.
    #[error("{}:{place}: {key}: expected an object, found {found}; write {EXAMPLE}", path.display())]
    ServersNotAnObject {
        /// The file.
        path: PathBuf,
        /// Where the value begins.
        place: Place,
        /// The key.
        key: String,
        /// What it is.
        found: &'static str,
    },
}

fn the_file(origin: Option<Origin>) -> String {
    origin.map_or_else(
        || "the file".to_owned(),
        |origin| format!("the file named by {origin}"),
    )
}

/// The smallest useful configuration, for messages.
const EXAMPLE: &str = r#"{"mcpServers": {"name": {"command": "program"}}}"#;
