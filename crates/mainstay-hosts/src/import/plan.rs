//! Which servers of the hosts Mainstay's configuration takes over, and under which names.

use std::path::{Path, PathBuf};

use mainstay::config::source::Syntax;
use mainstay::config::{ConfigError, Problem, Severity, StdioTarget, Target};
use mainstay::{Configuration, ServerConfig};

use super::entry::STAND_IN;
use super::host_file::{HostFile, HostServer, Readable};
use super::variables::{Defaults, as_variable};
use crate::host::HostProgram;
use crate::text::{ConfigValue, EditError, EditableText};

/// What an import adds to Mainstay's configuration.
pub struct ImportPlan {
    /// The servers, in the order of the hosts.
    pub servers: Vec<PlannedServer>,
    /// What cannot be taken over.
    pub left: Vec<LeftServer>,
}

/// A server of a host that cannot be taken over.
#[derive(Debug)]
#[non_exhaustive]
pub struct LeftServer {
    /// Why.
    pub reason: String,
    /// The file of its host.
    file: PathBuf,
    /// The keys that lead to it there.
    keys: Vec<String>,
}

/// One server of an import.
pub struct PlannedServer {
    /// Its name in Mainstay's configuration.
    pub name: String,
    /// Where it was found, and under which name.
    pub found: Vec<(HostProgram, String)>,
    /// How it is reached.
    pub config: ServerConfig,
    /// Whether it is enabled here, or in one of the hosts that it comes from.
    pub is_enabled: bool,
    /// Its entry; `None` if Mainstay's configuration has it already.
    pub entry: Option<ConfigValue>,
}

impl PlannedServer {
    /// The text of a key of its new entry.
    pub fn written(&self, key: &str) -> Option<&str> {
        let Some(ConfigValue::Table(keys)) = &self.entry else {
            return None;
        };
        keys.iter().find_map(|(name, value)| match value {
            ConfigValue::Text(text) if name == key => Some(text.as_str()),
            _ => None,
        })
    }
}

impl ImportPlan {
    /// Plans an import of these files into this configuration.
    pub fn of(files: &[HostFile], into: &EditableText, home: &Path) -> Result<Self, ConfigError> {
        let mut plan = Self {
            servers: existing(into, home)?,
            left: Vec::new(),
        };
        for file in files {
            for server in &file.servers {
                let (config, entry) = match &server.readable {
                    Readable::Server { config, entry } => (config, entry),
                    Readable::PartOfHost => continue,
                    Readable::Unusable(reason) => {
                        plan.leave(file, server, reason);
                        continue;
                    }
                };
                let checked = entry.as_ref().map_err(String::clone).and_then(|entry| {
                    let config = checked(config, entry, home)?;
                    Ok((config, entry))
                });
                match checked {
                    Ok((config, entry)) => plan.add(file.place.host, &server.name, &config, entry),
                    Err(reason) => plan.leave(file, server, &reason),
                }
            }
        }
        plan.servers.retain(|server| !server.found.is_empty());
        Ok(plan)
    }

    /// Writes the new servers into the configuration.
    pub fn apply(&self, into: &mut EditableText) -> Result<(), EditError> {
        let group = group_of(into)?;
        for server in &self.servers {
            if let Some(entry) = &server.entry {
                let mut keys: Vec<&str> = group.iter().map(String::as_str).collect();
                keys.push(&server.name);
                into.set(&keys, entry)?;
            }
        }
        Ok(())
    }

    /// What keeps the new servers from starting with these variables, such as one that is not set. `into` has the new servers.
    pub fn problems(
        &self,
        into: &EditableText,
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Vec<Problem>, ConfigError> {
        let is_new = |name: &str| {
            let mut new = self.servers.iter().filter(|server| server.entry.is_some());
            new.any(|server| server.name == name)
        };
        let mut problems = Configuration::parse(into.text(), into.file(), lookup)?.problems;
        problems.retain(|problem| {
            problem.severity == Severity::Error && problem.server.as_deref().is_some_and(is_new)
        });
        Ok(problems)
    }

    /// Whether there is anything to write.
    pub fn is_empty(&self) -> bool {
        self.servers.iter().all(|server| server.entry.is_none())
    }

    /// Why a server of a host's file is not taken over, if it is not.
    pub fn reason_left(&self, file: &HostFile, server: &HostServer) -> Option<&str> {
        let mut left = self.left.iter();
        let left = left.find(|left| left.file == file.place.path && left.keys == server.keys)?;
        Some(&left.reason)
    }

    fn leave(&mut self, file: &HostFile, server: &HostServer, reason: &str) {
        self.left.push(LeftServer {
            reason: reason.to_owned(),
            file: file.place.path.clone(),
            keys: server.keys.clone(),
        });
    }

    fn add(&mut self, host: HostProgram, name: &str, config: &ServerConfig, entry: &ConfigValue) {
        let found = (host, name.to_owned());
        if let Some(same) = self
            .servers
            .iter_mut()
            .find(|server| is_same(&server.config, config))
        {
            same.found.push(found);
            same.is_enabled |= config.enabled() && same.entry.is_some();
            // Enabled in one host is enabled.
            if config.enabled()
                && let Some(planned) = &mut same.entry
            {
                planned.remove(&["enabled"]);
            }
            return;
        }
        let taken = |name: &str| self.servers.iter().any(|server| server.name == name);
        let name = match taken(name) {
            false => name.to_owned(),
            true => {
                let with_host = format!("{name}-{}", host.key());
                let numbered = (2_u32..).map(|n| format!("{with_host}-{n}"));
                let mut names = std::iter::once(with_host.clone()).chain(numbered);
                names.find(|name| !taken(name)).unwrap_or(with_host)
            }
        };
        self.servers.push(PlannedServer {
            name,
            found: vec![found],
            is_enabled: config.enabled(),
            config: config.clone(),
            entry: Some(entry.clone()),
        });
    }
}

/// Whether two servers are one: the same program or address, and the same tools shown.
fn is_same(one: &ServerConfig, two: &ServerConfig) -> bool {
    one.identity() == two.identity() && one.tools() == two.tools()
}

/// The servers that the configuration has.
fn existing(into: &EditableText, home: &Path) -> Result<Vec<PlannedServer>, ConfigError> {
    let tree = into.tree()?;
    if tree.groups.is_empty() {
        return Ok(Vec::new());
    }
    let configuration = read(into, home)?;
    // The default of a variable may not be valid where it stands, as in the host of an address.
    let without_defaults = read_with(into, home, as_variable)?;
    let refused = configuration.refused.iter().filter_map(|name| {
        let found = without_defaults.server(name).cloned();
        // Its name is taken, whatever is wrong with it.
        found.or_else(|| ServerConfig::stdio(name, "refused").build().ok())
    });
    let all = configuration.servers.iter().cloned().chain(refused);
    Ok(all
        .map(|config| PlannedServer {
            name: config.name().to_owned(),
            found: Vec::new(),
            is_enabled: config.enabled(),
            config,
            entry: None,
        })
        .collect())
}

/// Reads a text with variables and their defaults as they are written: servers with other defaults are other servers.
pub(crate) fn read(text: &EditableText, home: &Path) -> Result<Configuration, ConfigError> {
    let defaults = Defaults::of(&text.tree()?.root);
    read_with(text, home, |name| defaults.written(name))
}

fn read_with(
    text: &EditableText,
    home: &Path,
    written: impl Fn(&str) -> String,
) -> Result<Configuration, ConfigError> {
    Configuration::parse(text.text(), text.file(), |name| match name {
        "HOME" => home.to_str().map(str::to_owned),
        _ => Some(written(name)),
    })
}

/// The keys that lead to the servers of Mainstay's configuration.
pub(crate) fn group_of(text: &EditableText) -> Result<Vec<String>, ConfigError> {
    let tree = text.tree()?;
    let usual = match tree.syntax {
        Syntax::Json | Syntax::Yaml => "mcpServers",
        Syntax::Toml => "mcp_servers",
    };
    Ok(tree
        .groups
        .into_iter()
        .next()
        .unwrap_or_else(|| vec![usual.to_owned()]))
}

/// The server that an entry means in Mainstay's configuration, if it is the one that it was made from.
fn checked(config: &ServerConfig, entry: &ConfigValue, home: &Path) -> Result<ServerConfig, String> {
    let mut text = EditableText::new(Path::new("/mcp.json"), "{}");
    let written = text.set(&["mcpServers", config.name()], entry);
    written.map_err(|error| error.to_string())?;
    let configuration = read_with(&text, home, as_variable).map_err(|error| error.to_string())?;
    match configuration.server(config.name()) {
        Some(found) if is_faithful(found, config) || is_stood_in(config) => {
            let with_defaults = read(&text, home).map_err(|error| error.to_string())?;
            Ok(with_defaults.server(config.name()).unwrap_or(found).clone())
        }
        Some(_) => Err("means something in its host that Mainstay's configuration cannot say".to_owned()),
        // A variable in the host of an address: the entry is right, and only here the variable has no value.
        None if is_stood_in(config) => Ok(config.clone()),
        None => {
            let error = configuration
                .problems
                .iter()
                .find(|problem| problem.severity == Severity::Error);
            Err(error.map_or_else(|| "cannot be used".to_owned(), |problem| problem.message.clone()))
        }
    }
}

/// Whether a server does what the host's does. It may have a directory and variables that the host gives without writing
/// them down.
fn is_faithful(read: &ServerConfig, config: &ServerConfig) -> bool {
    match (read.target(), config.target()) {
        (Target::Stdio(read_program), Target::Stdio(program)) => {
            let words = |program: &StdioTarget| {
                let words = program.args().iter();
                words.map(|word| word.value().to_owned()).collect::<Vec<_>>()
            };
            let env = read_program.env();
            is_command(read_program, program)
                && words(read_program) == words(program)
                && program
                    .env()
                    .iter()
                    .all(|(name, value)| env.get(name) == Some(value))
                && program.cwd().is_none_or(|cwd| {
                    read_program
                        .cwd()
                        .is_some_and(|read| is_path(read.value(), cwd.value()))
                })
                && read.tools() == config.tools()
        }
        _ => is_same(read, config),
    }
}

/// Whether the command that was read is the host's. A relative one starts from the directory that the host gives its server.
fn is_command(read: &StdioTarget, of_host: &StdioTarget) -> bool {
    let (found, wanted) = (read.command().value(), of_host.command().value());
    let below = read
        .cwd()
        .filter(|_| of_host.cwd().is_none() && wanted.contains('/'));
    is_path(found, wanted) || below.is_some_and(|cwd| Path::new(cwd.value()).join(wanted) == Path::new(found))
}

/// Whether a path that was read is the host's. The reader takes one that begins with a variable for a path below the file's folder,
/// which differs.
fn is_path(read: &str, of_host: &str) -> bool {
    let variable = read.strip_prefix('/').filter(|below| below.starts_with("${"));
    read == of_host || variable.is_some_and(|variable| of_host.ends_with(&format!("/{variable}")))
}

/// Whether a variable of an address had to be stood in for, so that its values cannot be compared.
fn is_stood_in(config: &ServerConfig) -> bool {
    match config.target() {
        Target::Http(address) => address.url().value().contains(STAND_IN),
        _ => false,
    }
}
