//! What a person enabled and disabled at run time, kept for the next start.
//!
//! A switch counts more than `enabled` in the file, until the file says the same; then it is forgotten. There is one state
//! file for each configuration file, so a server of the same name in another configuration is not meant. A state file that
//! cannot be used is ignored, and the next switch replaces it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use mainstay::server::CommandError;
use mainstay::{Configuration, ServerConfig};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Grows when an older Mainstay could misread a newer file.
const VERSION: u32 = 1;

/// How many switches one file holds. More than anyone sets by hand.
const MAX_SWITCHES: usize = 1024;

/// The largest state file that is read: as many switches as there may be, with the longest names.
const MAX_FILE_BYTES: u64 = 512 * 1024;

/// `mainstay` in `XDG_STATE_HOME`, or in `~/.local/state`; `None` when there is no home directory.
pub fn state_directory(env: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name: &str| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // The XDG specification wants a relative value ignored.
    let base = set("XDG_STATE_HOME").filter(|path| path.is_absolute());
    let base = base.or_else(|| set("HOME").map(|home| home.join(".local/state")))?;
    Some(base.join("mainstay"))
}

/// A server was enabled or disabled.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Switched {
    /// The server.
    pub server: String,
    /// What is wanted of it now.
    pub enabled: bool,
    /// Why the next start will not know of it, if it will not.
    pub not_kept: Option<String>,
}

/// A server was not enabled or disabled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SwitchError {
    /// The configuration in force has no such server.
    #[error("there is no server {0:?}")]
    Unknown(String),
    /// The server did not take it.
    #[error(transparent)]
    NotTaken(CommandError),
    /// The program ends.
    #[error("the program is ending")]
    Ending,
}

/// A state file is not used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SwitchesError {
    /// It cannot be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Unreadable {
        /// The state file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It holds something else.
    #[error("{}: is no state file of Mainstay, or is damaged", path.display())]
    Damaged {
        /// The state file.
        path: PathBuf,
    },
    /// Another version of Mainstay wrote it.
    #[error("{}: was written by another version of Mainstay", path.display())]
    Version {
        /// The state file.
        path: PathBuf,
    },
    /// It belongs to another configuration.
    #[error("{}: belongs to another configuration", path.display())]
    Foreign {
        /// The state file.
        path: PathBuf,
    },
}

/// The switches of one configuration file.
#[derive(Debug, Default)]
pub(super) struct Switches {
    /// Where they are kept; `None`: nowhere.
    file: Option<StateFile>,
    /// Servers of which something else is wanted than the configuration says.
    wanted: BTreeMap<String, bool>,
}

/// Where switches are kept.
#[derive(Clone, Debug)]
pub(super) struct StateFile {
    pub(super) path: PathBuf,
    /// The configuration file, as it was named: a link may lead elsewhere tomorrow.
    configuration: String,
}

/// The content of a state file.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct StoredSwitches {
    version: u32,
    configuration: String,
    enabled: BTreeMap<String, bool>,
}

/// The one field that every version has.
#[derive(Deserialize)]
struct StoredVersion {
    version: u32,
}

impl Switches {
    /// Reads what is kept in this directory for a configuration file. May block.
    pub(super) fn load(directory: Option<&Path>, configuration: &Path) -> (Self, Option<SwitchesError>) {
        let Some(directory) = directory else {
            return (Self::default(), None);
        };
        let file = StateFile::new(directory, configuration);
        let (wanted, error) = match file.read() {
            Ok(wanted) => (wanted, None),
            Err(error) => (BTreeMap::new(), Some(error)),
        };
        let file = Some(file);
        (Self { file, wanted }, error)
    }

    /// The servers as they are wanted.
    pub(super) fn applied_to(&self, servers: &[ServerConfig]) -> Vec<ServerConfig> {
        let servers = servers.iter().map(|server| match self.wanted.get(server.name()) {
            Some(&enabled) => server.clone().switched(enabled),
            None => server.clone(),
        });
        servers.collect()
    }

    /// Whether a person disabled this server.
    pub(super) fn disables(&self, server: &str) -> bool {
        self.wanted.get(server) == Some(&false)
    }

    /// Notes what is wanted of a server.
    pub(super) fn set(&mut self, server: &ServerConfig, enabled: bool) {
        if server.enabled() == enabled {
            self.wanted.remove(server.name());
        } else {
            self.wanted.insert(server.name().to_owned(), enabled);
        }
    }

    /// Forgets the switches that a configuration has made needless: it says the same, or no longer has the server. Returns
    /// whether there were any.
    pub(super) fn forget_needless(&mut self, configuration: &Configuration) -> bool {
        let before = self.wanted.len();
        self.wanted
            .retain(|name, enabled| match configuration.server(name) {
                Some(server) => server.enabled() != *enabled,
                // One with an error comes back when the error is fixed.
                None => configuration.refused.contains(name),
            });
        self.wanted.len() < before
    }

    /// What to write, and where. Without a place it is lost, and that is said.
    pub(super) fn to_save(&self) -> Result<SwitchesToSave, String> {
        let Some(file) = self.file.clone() else {
            return Err("no home directory is known to keep it in".to_owned());
        };
        let wanted = self.wanted.clone();
        Ok(SwitchesToSave { file, wanted })
    }
}

/// Switches on their way to the disk.
pub(super) struct SwitchesToSave {
    pub(super) file: StateFile,
    pub(super) wanted: BTreeMap<String, bool>,
}

impl SwitchesToSave {
    /// Writes them, or removes the file if there are none. Afterwards the file is the old one or the new one, whatever
    /// happens. May block.
    pub(super) fn save(self) -> Result<(), String> {
        let Self { file, wanted } = self;
        let said = |error: io::Error| format!("{} cannot be written: {error}", file.path.display());
        if wanted.is_empty() {
            return match fs::remove_file(&file.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(said(error)),
                Ok(()) | Err(_) => Ok(()),
            };
        }
        if wanted.len() > MAX_SWITCHES {
            return Err(format!(
                "more than {MAX_SWITCHES} servers are switched at run time"
            ));
        }
        let stored = StoredSwitches {
            version: VERSION,
            configuration: file.configuration.clone(),
            enabled: wanted,
        };
        let json = serde_json::to_vec_pretty(&stored).expect("texts and booleans can be written as JSON");
        file.replace(&json).map_err(said)
    }
}

impl StateFile {
    fn new(directory: &Path, configuration: &Path) -> Self {
        let hash = Sha256::digest(configuration.as_os_str().as_encoded_bytes());
        let hash: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        Self {
            path: directory.join(format!("switches-{hash}.json")),
            configuration: configuration.display().to_string(),
        }
    }

    /// The file for the servers that hosts bring.
    pub(super) fn of_hosts(directory: &Path) -> Self {
        Self {
            path: directory.join("switches-of-hosts.json"),
            configuration: "servers that hosts bring".to_owned(),
        }
    }

    pub(super) fn read(&self) -> Result<BTreeMap<String, bool>, SwitchesError> {
        let path = || self.path.clone();
        let mut bytes = Vec::new();
        let read = OpenOptions::new()
            .read(true)
            // A pipe in its place would never be opened.
            .custom_flags(flags(OFlags::NONBLOCK))
            .open(&self.path)
            // What is cut off is no JSON, or was nothing but space.
            .and_then(|file: File| file.take(MAX_FILE_BYTES).read_to_end(&mut bytes));
        match read {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(source) => return Err(SwitchesError::Unreadable { path: path(), source }),
        }
        let damaged = || SwitchesError::Damaged { path: path() };
        let StoredVersion { version } = serde_json::from_slice(&bytes).map_err(|_| damaged())?;
        if version != VERSION {
            return Err(SwitchesError::Version { path: path() });
        }
        let stored: StoredSwitches = serde_json::from_slice(&bytes).map_err(|_| damaged())?;
        if stored.configuration != self.configuration {
            return Err(SwitchesError::Foreign { path: path() });
        }
        if stored.enabled.len() > MAX_SWITCHES {
            return Err(damaged());
        }
        Ok(stored.enabled)
    }

    /// Writes another file beside it, which only this user can read, and renames that.
    fn replace(&self, content: &[u8]) -> io::Result<()> {
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let beside = self.path.with_extension(format!("{}.tmp", std::process::id()));
        let written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(flags(OFlags::NOFOLLOW))
            .open(&beside)
            .and_then(|mut file| {
                file.write_all(content)?;
                file.sync_all()
            })
            .and_then(|()| fs::rename(&beside, &self.path));
        if written.is_err() {
            // A partial file is useless.
            let _ = fs::remove_file(&beside);
        }
        written
    }
}

/// The flags for opening a file, as the standard library takes them.
fn flags(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn config(text: &str) -> Configuration {
        Configuration::parse(text, Path::new("/etc/m/mcp.json"), |_| None).unwrap()
    }

    const TWO: &str =
        r#"{ "mcpServers": { "a": { "command": "a" }, "b": { "command": "b", "enabled": false } } }"#;

    fn load(directory: &Path, configuration: &str) -> (Switches, Option<SwitchesError>) {
        Switches::load(Some(directory), Path::new(configuration))
    }

    /// Keeps a disabled `a` and an enabled `b`.
    fn kept(directory: &Path) -> PathBuf {
        let (mut switches, error) = load(directory, "/etc/m/mcp.json");
        assert!(error.is_none());
        let two = config(TWO);
        switches.set(two.server("a").unwrap(), false);
        switches.set(two.server("b").unwrap(), true);
        let to_save = switches.to_save().unwrap();
        let path = to_save.file.path.clone();
        to_save.save().unwrap();
        path
    }

    fn enabled(switches: &Switches, configuration: &Configuration) -> Vec<(String, bool)> {
        let servers = switches.applied_to(&configuration.servers);
        let servers = servers
            .iter()
            .map(|server| (server.name().to_owned(), server.enabled()));
        servers.collect()
    }

    #[test]
    fn switches_are_read_back_for_their_configuration_and_for_no_other() {
        let state = tempfile::tempdir().unwrap();
        let directory = state.path().join("deep/mainstay");
        let path = kept(&directory);
        let (switches, error) = load(&directory, "/etc/m/mcp.json");
        assert!(error.is_none());
        let two = config(TWO);
        assert_eq!(
            enabled(&switches, &two),
            [("a".into(), false), ("b".into(), true)]
        );
        let (other, error) = load(&directory, "/etc/other/mcp.json");
        assert!(error.is_none());
        assert_eq!(enabled(&other, &two), [("a".into(), true), ("b".into(), false)]);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&directory)), (0o600, 0o700));
    }

    #[test]
    fn a_switch_is_forgotten_when_the_file_says_the_same_or_the_server_is_gone() {
        let state = tempfile::tempdir().unwrap();
        let path = kept(state.path());
        let (mut switches, _) = load(state.path(), "/etc/m/mcp.json");
        assert!(!switches.forget_needless(&config(TWO)));
        let refused = r#"{ "mcpServers": { "a": { "comand": "a" }, "b": { "command": "b" } } }"#;
        assert!(
            switches.forget_needless(&config(refused)),
            "b is enabled by the file now"
        );
        assert!(switches.disables("a"), "a server with an error may come back");
        assert!(switches.forget_needless(&config(r#"{ "mcpServers": {} }"#)));
        switches.to_save().unwrap().save().unwrap();
        assert!(!path.exists(), "nothing is left to keep");
    }

    #[test]
    fn a_file_that_is_damaged_foreign_or_of_another_version_is_ignored_and_replaced() {
        let state = tempfile::tempdir().unwrap();
        let path = kept(state.path());
        let sound = fs::read_to_string(&path).unwrap();
        let too_large = [
            vec![b' '; usize::try_from(MAX_FILE_BYTES).unwrap()],
            sound.clone().into_bytes(),
        ]
        .concat();
        let damaged = |error: &SwitchesError| matches!(error, SwitchesError::Damaged { .. });
        for bytes in [
            &b""[..],
            b"\xff\0",
            &sound.as_bytes()[..40],
            &too_large,
            b"[]",
            b"{\"version\":1}",
        ] {
            fs::write(&path, bytes).unwrap();
            let (switches, error) = load(state.path(), "/etc/m/mcp.json");
            assert!(switches.wanted.is_empty());
            assert!(damaged(&error.expect("said")));
        }
        fs::write(&path, sound.replace("\"version\": 1", "\"version\": 2")).unwrap();
        let (_, error) = load(state.path(), "/etc/m/mcp.json");
        assert!(matches!(error, Some(SwitchesError::Version { .. })));
        fs::write(&path, sound.replace("/etc/m/", "/etc/n/")).unwrap();
        let (_, error) = load(state.path(), "/etc/m/mcp.json");
        assert!(matches!(error, Some(SwitchesError::Foreign { .. })));
        kept_again(state.path(), &sound);
    }

    #[test]
    fn more_switches_than_the_limit_are_neither_kept_nor_read() {
        let state = tempfile::tempdir().unwrap();
        let file = StateFile::new(state.path(), Path::new("/etc/m/mcp.json"));
        let switches = |count: usize| (0..count).map(|number| (number.to_string(), false)).collect();
        let save = |count: usize| {
            let to_save = SwitchesToSave {
                file: file.clone(),
                wanted: switches(count),
            };
            to_save.save()
        };
        save(MAX_SWITCHES).unwrap();
        assert_eq!(file.read().unwrap(), switches(MAX_SWITCHES));
        let error = save(MAX_SWITCHES + 1).unwrap_err();
        assert!(error.contains("1024"), "{error}");
        assert_eq!(file.read().unwrap().len(), MAX_SWITCHES, "the file is as it was");

        let stored = StoredSwitches {
            version: VERSION,
            configuration: file.configuration.clone(),
            enabled: switches(MAX_SWITCHES + 1),
        };
        fs::write(&file.path, serde_json::to_vec(&stored).unwrap()).unwrap();
        assert!(matches!(file.read(), Err(SwitchesError::Damaged { .. })));
    }

    fn kept_again(directory: &Path, sound: &str) {
        let (mut switches, _) = load(directory, "/etc/m/mcp.json");
        let two = config(TWO);
        switches.set(two.server("a").unwrap(), false);
        switches.set(two.server("b").unwrap(), true);
        let to_save = switches.to_save().unwrap();
        let path = to_save.file.path.clone();
        to_save.save().unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), sound);
    }

    #[test]
    fn a_place_that_cannot_be_written_is_said() {
        let state = tempfile::tempdir().unwrap();
        let file = state.path().join("file");
        fs::write(&file, "").unwrap();
        let (mut switches, _) = load(&file, "/etc/m/mcp.json");
        switches.set(config(TWO).server("a").unwrap(), false);
        let error = switches.to_save().unwrap().save().unwrap_err();
        assert!(error.contains("cannot be written"), "{error}");
    }

    #[test]
    fn the_state_directory_is_where_the_xdg_specification_says() {
        let directory = |xdg: &str, home: &str| {
            let env = |name: &str| match name {
                "XDG_STATE_HOME" => Some(xdg.into()),
                "HOME" => Some(home.into()),
                _ => None,
            };
            state_directory(env)
        };
        assert_eq!(directory("/state", "/home/a"), Some("/state/mainstay".into()));
        assert_eq!(
            directory("relative", "/home/a"),
            Some("/home/a/.local/state/mainstay".into())
        );
        assert_eq!(directory("", ""), None);
    }
}
