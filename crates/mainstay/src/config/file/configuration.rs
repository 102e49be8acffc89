//! A whole configuration, read from a file or a text.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use super::bounded::{FilesRead, read_at_most};
use super::host::Host;
use super::locate::ConfigOrigin;
use super::parse::{self, FileContext};
use super::report::{LineIndex, ValuesOwner};
use crate::config::problem::{Position, Problem, Severity};
use crate::config::server::ServerConfig;

/// The largest file that is read. Hundreds of servers fit in a tenth of it; anything larger is not a configuration.
pub(super) const MAX_FILE_BYTES: usize = 4 * 1024 * 1024;

/// What a file says: the servers that can be used, and what is wrong with it.
///
/// A server with an error is not among `servers`, but in `refused`; no other server suffers from it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Configuration {
    /// The servers, in the order of the file, each name once.
    pub servers: Vec<ServerConfig>,
    /// What is wrong, in the order of the file. The first couple of hundred; `refused` is complete.
    pub problems: Vec<Problem>,
    /// The names of the servers with errors.
    pub refused: BTreeSet<String>,
    /// Whose format the file is in.
    pub host: Host,
    /// Where it came from.
    pub source: PathBuf,
    /// The other files whose text it holds, through `${file:…}` and `envFile`, or would hold if they could be read. The first
    /// couple of hundred.
    pub other_files: BTreeSet<PathBuf>,
}

impl Configuration {
    /// Reads a file, with variables from the environment of this process.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        Self::load_with(file, |name| std::env::var(name).ok())
    }

    /// Reads a file, with variables from `lookup`.
    pub fn load_with(file: &Path, lookup: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        Self::load_from(file, lookup, ValuesOwner::Reader)
    }

    /// Reads a file whose values another process has, such as a daemon: what is missing in the environment of this process is
    /// no problem. A server that lacks a value is [unusable](crate::config::Target::Unusable) here, and has all its settings.
    pub fn load_for_another(file: &Path) -> Result<Self, ConfigError> {
        Self::load_from(file, |name| std::env::var(name).ok(), ValuesOwner::Another)
    }

    fn load_from(
        file: &Path,
        lookup: impl Fn(&str) -> Option<String>,
        values: ValuesOwner,
    ) -> Result<Self, ConfigError> {
        let bytes = read_bounded(file)?;
        match std::str::from_utf8(&bytes) {
            Ok(text) => Self::parse_for(text, file, &working_directory(), lookup, values),
            Err(error) => {
                let (valid, _) = bytes.split_at(error.valid_up_to());
                let valid = String::from_utf8_lossy(valid);
                Err(ConfigError::NotText {
                    path: file.to_owned(),
                    position: LineIndex::new(&valid).position(valid.len()),
                })
            }
        }
    }

    /// Reads a text. `file` is what problems call it, and relative paths in it start from the folder of `file`.
    pub fn parse(
        text: &str,
        file: &Path,
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        Self::parse_in(text, file, &working_directory(), lookup)
    }

    /// Reads a text as if this were the working directory, which says whose project's servers of Claude Code's file are
    /// read.
    pub fn parse_in(
        text: &str,
        file: &Path,
        directory: &Path,
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        Self::parse_for(text, file, directory, lookup, ValuesOwner::Reader)
    }

    fn parse_for(
        text: &str,
        file: &Path,
        directory: &Path,
        lookup: impl Fn(&str) -> Option<String>,
        values: ValuesOwner,
    ) -> Result<Self, ConfigError> {
        if text.len() > MAX_FILE_BYTES {
            return Err(ConfigError::TooLarge {
                path: file.to_owned(),
            });
        }
        // Where even the working directory is unknown, relative paths stay relative.
        let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let files = FilesRead::default();
        let context = FileContext {
            lookup: &lookup,
            files: &files,
            folder: absolute.parent().unwrap_or(Path::new("")),
            directory,
            values,
        };
        parse::parse(text, file, &context)
    }

    /// The server of this name.
    pub fn server(&self, name: &str) -> Option<&ServerConfig> {
        self.servers.iter().find(|server| server.name() == name)
    }

    /// The problems that cost a server.
    pub fn errors(&self) -> impl Iterator<Item = &Problem> {
        self.problems
            .iter()
            .filter(|problem| problem.severity == Severity::Error)
    }

    /// What was made of the file where that is not plain from the file itself.
    pub fn notes(&self) -> impl Iterator<Item = &Problem> {
        self.problems
            .iter()
            .filter(|problem| problem.severity == Severity::Note)
    }

    /// The problems that cost nothing but a look.
    pub fn warnings(&self) -> impl Iterator<Item = &Problem> {
        self.problems
            .iter()
            .filter(|problem| problem.severity == Severity::Warning)
    }
}

/// The working directory. Where it is unknown, it is in no project.
fn working_directory() -> PathBuf {
    std::env::current_dir().unwrap_or_default()
}

fn read_bounded(file: &Path) -> Result<Vec<u8>, ConfigError> {
    let unreadable = |source: io::Error| {
        let path = file.to_owned();
        if source.kind() == io::ErrorKind::NotFound {
            ConfigError::Missing { path, origin: None }
        } else {
            ConfigError::Unreadable { path, source }
        }
    };
    let bytes = read_at_most(file, MAX_FILE_BYTES as u64 + 1).map_err(unreadable)?;
    if bytes.len() > MAX_FILE_BYTES {
        return Err(ConfigError::TooLarge {
            path: file.to_owned(),
        });
    }
    Ok(bytes)
}

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
