//! Adds, changes and removes a server of Mainstay's own configuration file.
//!
//! Comments and unknown keys stay, the previous version is kept beside the file, and a change that makes the server
//! invalid is refused. A program that uses the file refuses more before anything is written: see [`EditCheck`].

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mainstay::config::source::{Mapping, Node};
use mainstay::config::{ConfigError, ConfigText, Problem, Severity, Target, nearest};
use mainstay::{Configuration, ServerConfig};

use crate::file::{FileError, FileSnapshot, Keep, create};
use crate::import::{group_of, read};
use crate::text::{ConfigValue, EditError, EditableText};

/// How long an edit is made again while others change the file: of many runs at once, each attempt lets one finish.
const EDIT_TIMEOUT: Duration = Duration::from_secs(10);

/// What an empty configuration begins with.
const NEW_FILE: &str = "{}\n";

/// Why the program that uses the file would not apply it with the change. The configuration is read with the variables of this
/// process, so another process has no such check.
pub type EditCheck<'a> = &'a dyn Fn(&Configuration) -> Vec<Problem>;

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Written {
    /// The file.
    pub file: PathBuf,
    /// Where its previous version is; `None` if the file is new.
    pub previous: Option<PathBuf>,
    /// What is worth a look: problems of the server that do not keep it from running.
    pub warnings: Vec<String>,
}

/// Why a server was not added, changed or removed. The file is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerEditError {
    /// There is a server of this name.
    #[error("{}: there is a server {name:?} already; remove it first, or choose another name", file.display())]
    Exists {
        /// The file.
        file: PathBuf,
        /// The name.
        name: String,
    },
    /// There is no server of this name.
    #[error("{}: there is no server {name:?}{}", file.display(), meant.as_ref().map_or_else(String::new, |meant| format!("; did you mean {meant:?}?")))]
    Unknown {
        /// The file.
        file: PathBuf,
        /// The name.
        name: String,
        /// A name that is there and looks alike.
        meant: Option<String>,
    },
    /// The server would not be valid.
    #[error("the server {name:?} would not be valid: {problem}")]
    Invalid {
        /// The name.
        name: String,
        /// What is wrong, and what to do about it.
        problem: String,
    },
    /// The program that uses the file would not apply it.
    #[error("{}: the file would be refused with this change, and is as it was: {}", file.display(), in_words(problems))]
    Refused {
        /// The file.
        file: PathBuf,
        /// What is wrong. Positions count the lines of the text that was not written.
        problems: Vec<Problem>,
    },
    /// The text cannot be edited.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

impl From<ConfigError> for ServerEditError {
    fn from(error: ConfigError) -> Self {
        Self::Edit(error.into())
    }
}

/// Adds a server. Makes the file if there is none.
pub fn add_server(
    file: &Path,
    name: &str,
    entry: &ConfigValue,
    check: Option<EditCheck<'_>>,
) -> Result<Written, ServerEditError> {
    edit(file, Some(name), check, |opened| {
        if opened.find(name)?.is_some() {
            return Err(ServerEditError::Exists {
                file: file.to_owned(),
                name: name.to_owned(),
            });
        }
        let mut keys = group_of(&opened.text)?;
        keys.push(name.to_owned());
        Ok(opened.text.set(&borrowed(&keys), entry)?)
    })
}

/// Changes a server: sets each of these keys, or removes it if it has no value. All other keys stay.
pub fn change_server(
    file: &Path,
    name: &str,
    changes: &[(String, Option<ConfigValue>)],
    check: Option<EditCheck<'_>>,
) -> Result<Written, ServerEditError> {
    edit(file, Some(name), check, |opened| {
        let entry = opened.require(name)?;
        for (key, value) in changes {
            let mut keys = borrowed(&entry);
            keys.push(key);
            match value {
                Some(value) => opened.text.set(&keys, value)?,
                None => {
                    opened.text.remove(&keys)?;
                }
            }
        }
        Ok(())
    })
}

/// Removes a server.
pub fn remove_server(
    file: &Path,
    name: &str,
    check: Option<EditCheck<'_>>,
) -> Result<Written, ServerEditError> {
    edit(file, None, check, |opened| {
        let entry = opened.require(name)?;
        opened.text.remove(&borrowed(&entry))?;
        Ok(())
    })
}

/// Edits the file as it is now: if another run or program changes it meanwhile, the edit is made again, on the new text. `changed` is
/// the server that must be valid.
fn edit(
    file: &Path,
    changed: Option<&str>,
    check: Option<EditCheck<'_>>,
    change: impl Fn(&mut ConfigFile) -> Result<(), ServerEditError>,
) -> Result<Written, ServerEditError> {
    let started = Instant::now();
    loop {
        let mut opened = ConfigFile::open(file)?;
        change(&mut opened)?;
        match opened.write(changed, check) {
            Err(ServerEditError::File(FileError::Changed { .. } | FileError::Vanished { .. }))
                if started.elapsed() < EDIT_TIMEOUT => {}
            done => return done,
        }
    }
}

/// The configuration file with its text, to be edited.
pub struct ConfigFile {
    file: PathBuf,
    snapshot: Option<FileSnapshot>,
    /// The text; an edit changes the file only when it is written.
    pub text: EditableText,
}

impl ConfigFile {
    /// Reads the file; one that does not exist, or is empty, begins with an empty object.
    pub fn open(file: &Path) -> Result<Self, ServerEditError> {
        let snapshot = FileSnapshot::read(file)?;
        let text = match &snapshot {
            Some(snapshot) if !snapshot.text().trim().is_empty() => snapshot.text(),
            Some(_) | None => NEW_FILE,
        };
        Ok(Self {
            file: file.to_owned(),
            text: EditableText::new(file, text),
            snapshot,
        })
    }

    /// Whether the file exists.
    pub fn exists(&self) -> bool {
        self.snapshot.is_some()
    }

    /// Whether the file may be written at all. What else may be wrong is found when it is written.
    pub fn check_writable(&self) -> Result<(), ServerEditError> {
        match &self.snapshot {
            Some(snapshot) => Ok(snapshot.check_writable()?),
            None => Ok(()),
        }
    }

    /// The servers with values that stand in the file itself and may be secrets: those of variables and headers, and what is not shown of
    /// arguments and addresses.
    pub fn with_values(&self) -> Result<Vec<String>, ServerEditError> {
        let tree = self.text.tree()?;
        let groups = tree.groups.iter().filter_map(|group| tree.at(group)?.as_object());
        let is_value = |node: &Node<'_>| node.as_text().is_some_and(|text| !text.contains("${"));
        let has_values = |entry: &Mapping<'_>| {
            let maps = ["env", "headers"].iter().filter_map(|key| entry.object(key));
            maps.flat_map(|map| &map.properties)
                .any(|property| is_value(&property.node))
                || hides_an_argument(entry)
                || hides_a_part_of_its_address(entry)
        };
        let servers = groups.flat_map(|group| &group.properties);
        let with_values = servers.filter(|server| server.node.as_object().is_some_and(has_values));
        Ok(with_values
            .map(|server| server.name.clone().into_owned())
            .collect())
    }

    /// Writes the text. `changed` is the server that must be valid.
    pub fn write(
        self,
        changed: Option<&str>,
        check: Option<EditCheck<'_>>,
    ) -> Result<Written, ServerEditError> {
        let mut warnings = Vec::new();
        if let Some(name) = changed {
            warnings = validated(&self.text, name)?;
        }
        let text = self.text.whole();
        if let Some(check) = check {
            let configuration = Configuration::parse(&text, &self.file, |name| std::env::var(name).ok())?;
            let problems = check(&configuration);
            if !problems.is_empty() {
                return Err(ServerEditError::Refused {
                    file: self.file,
                    problems,
                });
            }
        }
        let previous = match &self.snapshot {
            Some(snapshot) => snapshot.replace(&text, Keep::Previous)?,
            None => {
                create(&self.file, &text)?;
                None
            }
        };
        Ok(Written {
            file: self.file,
            previous,
            warnings,
        })
    }

    /// The keys that lead to a server.
    fn find(&self, name: &str) -> Result<Option<Vec<String>>, ServerEditError> {
        let tree = self.text.tree()?;
        let with_name = tree.groups.iter().map(|group| {
            let mut keys = group.clone();
            keys.push(name.to_owned());
            keys
        });
        Ok(with_name.into_iter().find(|keys| tree.at(keys).is_some()))
    }

    fn require(&self, name: &str) -> Result<Vec<String>, ServerEditError> {
        if let Some(keys) = self.find(name)? {
            return Ok(keys);
        }
        let tree = self.text.tree()?;
        let groups = tree.groups.iter().filter_map(|group| tree.at(group)?.as_object());
        let names: Vec<&str> = groups
            .flat_map(|group| group.properties.iter().map(|property| &*property.name))
            .collect();
        Err(ServerEditError::Unknown {
            file: self.file.clone(),
            name: name.to_owned(),
            meant: nearest(name, names).map(str::to_owned),
        })
    }
}

/// Whether an argument of this entry holds a secret in plain text.
fn hides_an_argument(entry: &Mapping<'_>) -> bool {
    let words = entry.get("args").and_then(Node::as_array).unwrap_or_default();
    let words = words.iter().filter_map(Node::as_text);
    let server = ServerConfig::stdio("entry", "program").args(words).build();
    server.is_ok_and(|server| match server.target() {
        Target::Stdio(program) => program.args().iter().any(is_hidden),
        _other => false,
    })
}

/// Whether the address of this entry has parameters. One with a user or a password is refused.
fn hides_a_part_of_its_address(entry: &Mapping<'_>) -> bool {
    let address = entry.text("url").filter(|url| !url.contains("${"));
    let server = address.map(|url| ServerConfig::http("entry", url).build());
    server.is_some_and(|server| {
        server.is_ok_and(|server| match server.target() {
            Target::Http(target) => is_hidden(target.url()),
            _other => false,
        })
    })
}

fn is_hidden(text: &ConfigText) -> bool {
    text.shown() != text.value()
}

/// Reads the new text as the daemon will, variables aside, and holds that the server is valid in it.
fn validated(text: &EditableText, name: &str) -> Result<Vec<String>, ServerEditError> {
    let home = std::env::var_os("HOME").unwrap_or_default();
    let configuration = read(text, Path::new(&home))?;
    let of_server = || {
        let problems = configuration.problems.iter();
        problems.filter(|problem| problem.server.as_deref() == Some(name))
    };
    if configuration.server(name).is_none() {
        let errors = of_server().filter(|problem| problem.severity == Severity::Error);
        return Err(ServerEditError::Invalid {
            name: name.to_owned(),
            problem: in_words(errors),
        });
    }
    Ok(of_server()
        .filter(|problem| problem.severity == Severity::Warning)
        .map(keyed)
        .collect())
}

fn in_words<'p>(problems: impl IntoIterator<Item = &'p Problem>) -> String {
    let said: Vec<String> = problems.into_iter().map(keyed).collect();
    said.join("; ")
}

/// A problem without its position: the text is not in a file yet.
fn keyed(problem: &Problem) -> String {
    let key = problem
        .key
        .as_deref()
        .map_or_else(String::new, |key| format!("{key}: "));
    match &problem.fix {
        Some(fix) => format!("{key}{}; {fix}", problem.message),
        None => format!("{key}{}", problem.message),
    }
}

fn borrowed(keys: &[String]) -> Vec<&str> {
    keys.iter().map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::thread;

    use super::*;

    #[test]
    fn of_many_edits_at_once_each_is_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mainstay/mcp.json");
        let entry = ConfigValue::Table(vec![("command".to_owned(), "x".into())]);
        let names: Vec<String> = (0..16).map(|n| format!("s{n}")).collect();
        let at_once = |edit: &(dyn Fn(&str) -> Result<Written, ServerEditError> + Sync)| {
            thread::scope(|scope| {
                let edits: Vec<_> = names.iter().map(|name| scope.spawn(|| edit(name))).collect();
                for edit in edits {
                    edit.join().unwrap().unwrap();
                }
            });
        };
        at_once(&|name| add_server(&file, name, &entry, None));
        let text = fs::read_to_string(&file).unwrap();
        for name in &names {
            assert!(text.contains(&format!("\"{name}\"")), "{name} is lost: {text}");
        }
        at_once(&|name| remove_server(&file, name, None));
        let text = fs::read_to_string(&file).unwrap();
        assert!(!text.contains("command"), "{text}");
    }
}
