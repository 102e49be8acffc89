//! A file of a host: what servers it has, and its text with all of them behind `mainstay connect`, or with none.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mainstay::config::source::{Mapping, Node, SourceTree};
use mainstay::config::{ConfigError, Problem, Severity, Target};
use mainstay::{Configuration, ServerConfig};

use super::entry::{STAND_IN, Spelling, entry_of};
use super::variables::{Inputs, MarkedHome, as_variable, is_passable, needed};
use crate::bridge::{self, EntryOwner};
use crate::file::{FileError, FileSnapshot};
use crate::host::HostPlace;
use crate::text::{ConfigValue, EditableText};

/// A file of a host that exists.
pub struct HostFile {
    /// Whose it is, and where.
    pub place: HostPlace,
    /// The servers in it, in order.
    pub servers: Vec<HostServer>,
    snapshot: FileSnapshot,
    program: String,
}

/// A server in a host's file.
pub struct HostServer {
    /// Its name there.
    pub name: String,
    /// The project that it belongs to, where the host keeps those of all projects in one file.
    pub project: Option<PathBuf>,
    /// Whether its entry starts it directly or through Mainstay.
    pub owner: EntryOwner,
    /// What the library made of it.
    pub readable: Readable,
    /// Its command as it is written; `None` for an address.
    pub command: Option<String>,
    /// The keys that lead to its entry.
    pub(super) keys: Vec<String>,
    /// The variables that it gets from its host.
    variables: Vec<String>,
}

/// What the library made of an entry.
pub enum Readable {
    /// A server.
    Server {
        /// How it is reached. Variables stand in it in Mainstay's spelling, unexpanded.
        config: Box<ServerConfig>,
        /// Its entry in Mainstay's configuration, or why it can have none.
        entry: Result<ConfigValue, String>,
    },
    /// A part of the host itself.
    PartOfHost,
    /// Mainstay cannot use it, for this reason.
    Unusable(String),
}

/// Why a host's file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostReadError {
    /// The file itself.
    #[error(transparent)]
    File(#[from] FileError),
    /// What it holds.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// The text of a file after a rewriting, and what became of each server.
pub struct Rewritten {
    /// The whole text.
    pub text: String,
    /// Which servers' entries changed, by their place among the servers.
    pub changed: Vec<usize>,
    /// Which did not, and why.
    pub left: Vec<(usize, String)>,
}

impl HostFile {
    /// Reads the file in a place; `None` if there is none. `program` is the path of Mainstay.
    pub fn read(place: &HostPlace, home: &Path, program: &str) -> Result<Option<Self>, HostReadError> {
        let Some(snapshot) = FileSnapshot::read(&place.path)? else {
            return Ok(None);
        };
        let servers = match snapshot.text().trim_start_matches('\u{feff}').trim() {
            // Some hosts make an empty file before they write to it.
            "" => Vec::new(),
            _ => read_servers(
                &EditableText::new(&place.path, snapshot.text()),
                place,
                home,
                program,
            )?,
        };
        Ok(Some(Self {
            place: place.clone(),
            servers,
            snapshot,
            program: program.to_owned(),
        }))
    }

    /// The file as it was read.
    pub fn snapshot(&self) -> &FileSnapshot {
        &self.snapshot
    }

    /// The text with each server behind `mainstay connect`. Servers in different directories are not shared; so `cwd` is
    /// written for each that does not need the directory that its host starts it in.
    pub fn rewritten(&self, cwd: Option<&str>) -> Rewritten {
        self.edited(|server, text| {
            match server.owner {
                EntryOwner::Host => {}
                EntryOwner::Bridge => return Err("points at mainstay connect already".to_owned()),
                EntryOwner::Mainstay => return Err("starts Mainstay in another way".to_owned()),
            }
            match &server.readable {
                Readable::Server { config, .. } if matches!(config.target(), Target::Stdio(_)) => {}
                Readable::Server { .. } => return Err("reached by an address".to_owned()),
                Readable::PartOfHost => return Err("a part of the host itself".to_owned()),
                Readable::Unusable(reason) => return Err(reason.clone()),
            }
            if let Some(name) = server.variables.iter().find(|name| !is_passable(name)) {
                return Err(format!("the name of a variable cannot be passed on: {name:?}"));
            }
            let keys: Vec<&str> = server.keys.iter().map(String::as_str).collect();
            bridge::wrap(text, &keys, &self.program, &self.options(server, cwd))
                .map_err(|error| error.to_string())
        })
    }

    /// The options of `mainstay connect` for a server.
    pub fn options(&self, server: &HostServer, cwd: Option<&str>) -> Vec<String> {
        let variables = server.variables.iter().flat_map(|name| ["--env", name]);
        let cwd = cwd.filter(|_| !self.needs_directory(server));
        let cwd = cwd.into_iter().flat_map(|cwd| ["--cwd", cwd]);
        variables.chain(cwd).map(str::to_owned).collect()
    }

    /// Whether a server needs the directory that its host starts it in: it belongs to a project, has a directory of its own,
    /// or is told a relative path.
    fn needs_directory(&self, server: &HostServer) -> bool {
        let Readable::Server { config, .. } = &server.readable else {
            return true;
        };
        let Target::Stdio(program) = config.target() else {
            return true;
        };
        let is_relative = |word: &str| {
            let path = word.rsplit('=').next().unwrap_or(word);
            path == "." || path == ".." || path.starts_with("./") || path.starts_with("../")
        };
        let command = program.command().value();
        self.place.is_of_project
            || server.project.is_some()
            || program.cwd().is_some()
            || is_relative_path(command)
            || program.args().iter().any(|arg| is_relative(arg.value()))
    }

    /// The text with each server that is behind `mainstay connect` as it was before. `first` is the text of the file before it was
    /// first rewritten, if that is known: an entry that pointed at `mainstay connect` there stays.
    pub fn restored(&self, first: Option<&str>) -> Rewritten {
        let first = first.map(|text| EditableText::new(&self.place.path, text));
        let first = first.as_ref().and_then(|text| text.tree().ok());
        let was_bridge = |server: &HostServer| {
            let entry = first.as_ref().and_then(|tree| tree.at(&server.keys));
            entry.is_some_and(|entry| bridge::owner(entry, &self.program) == EntryOwner::Bridge)
        };
        self.edited(|server, text| {
            match server.owner {
                EntryOwner::Bridge if was_bridge(server) => {
                    return Err("pointed at mainstay connect before the rewriting".to_owned());
                }
                EntryOwner::Bridge => {}
                EntryOwner::Host | EntryOwner::Mainstay => {
                    return Err("does not point at mainstay connect".to_owned());
                }
            }
            let keys: Vec<&str> = server.keys.iter().map(String::as_str).collect();
            bridge::undo(text, &keys).map_err(|error| error.to_string())
        })
    }

    fn edited(&self, edit: impl Fn(&HostServer, &mut EditableText) -> Result<(), String>) -> Rewritten {
        let mut text = EditableText::new(&self.place.path, self.snapshot.text());
        let (mut changed, mut left) = (Vec::new(), Vec::new());
        for (n, server) in self.servers.iter().enumerate() {
            match edit(server, &mut text) {
                Ok(()) => changed.push(n),
                Err(reason) => left.push((n, reason)),
            }
        }
        Rewritten {
            text: text.whole(),
            changed,
            left,
        }
    }
}

impl HostServer {
    /// The variables that it gets from its host.
    pub fn variables(&self) -> &[String] {
        &self.variables
    }
}

fn read_servers(
    text: &EditableText,
    place: &HostPlace,
    home: &Path,
    program: &str,
) -> Result<Vec<HostServer>, HostReadError> {
    let tree = text.tree()?;
    let mut undone = text.clone();
    let mut servers = Vec::new();
    for group in &tree.groups {
        let Some(object) = tree.at(group).and_then(Node::as_object) else {
            continue;
        };
        for property in &object.properties {
            let mut keys = group.clone();
            keys.push(property.name.clone().into_owned());
            let owner = bridge::owner(&property.node, program);
            if owner == EntryOwner::Bridge {
                let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
                // One that cannot be turned back is read as it is, and left as it is.
                let _ = bridge::undo(&mut undone, &keys);
            }
            servers.push(HostServer {
                name: property.name.clone().into_owned(),
                project: project_of(group),
                owner,
                readable: Readable::PartOfHost,
                command: None,
                keys,
                variables: Vec::new(),
            });
        }
    }
    let tree = undone.tree()?;
    let reader = Reader {
        inputs: Inputs::of(&tree),
        tree,
        text: &undone,
        place,
        home,
        marked_home: MarkedHome::of(home),
    };
    reader.fill(&mut servers)?;
    Ok(servers)
}

/// The project that a group of Claude Code's file belongs to.
fn project_of(group: &[String]) -> Option<PathBuf> {
    match group {
        [projects, path, _] if projects == "projects" => Some(PathBuf::from(path)),
        _ => None,
    }
}

/// Reads the servers of a text in which none is behind `mainstay connect`.
struct Reader<'a> {
    tree: SourceTree<'a>,
    inputs: Inputs,
    text: &'a EditableText,
    place: &'a HostPlace,
    home: &'a Path,
    marked_home: MarkedHome,
}

/// The servers of a file, read in different ways.
struct Readings {
    /// With variables in Mainstay's spelling.
    read: Configuration,
    /// The same with the marked home directory.
    marked: Configuration,
    /// With a stand-in for every variable.
    stood_in: Configuration,
}

impl Reader<'_> {
    fn fill(&self, servers: &mut [HostServer]) -> Result<(), HostReadError> {
        let projects: BTreeSet<Option<PathBuf>> =
            servers.iter().map(|server| server.project.clone()).collect();
        for project in projects {
            let directory = project.clone().unwrap_or_default();
            let parse = |home: Option<&str>, lookup: &dyn Fn(&str) -> String| {
                let lookup = |name: &str| match name {
                    "HOME" => home.map(str::to_owned),
                    _ => Some(lookup(name)),
                };
                Configuration::parse_in(self.text.text(), self.text.file(), &directory, lookup)
            };
            let home = self.home.to_str();
            let readings = Readings {
                read: parse(home, &as_variable)?,
                marked: parse(Some(self.marked_home.path()), &as_variable)?,
                stood_in: parse(home, &|_| STAND_IN.to_owned())?,
            };
            for server in servers.iter_mut().filter(|server| server.project == project) {
                self.read(server, &readings);
            }
        }
        Ok(())
    }

    fn read(&self, server: &mut HostServer, readings: &Readings) {
        let Readings {
            read,
            marked,
            stood_in,
        } = readings;
        let Some(node) = self.tree.at(&server.keys) else {
            return;
        };
        server.command = node.as_object().and_then(written_command).map(str::to_owned);
        let config = read
            .server(&server.name)
            .or_else(|| stood_in.server(&server.name));
        let Some(config) = config else {
            if read.refused.contains(&server.name) {
                server.readable = Readable::Unusable(match self.depends_on_open_project(node, server) {
                    true => OPEN_PROJECT.to_owned(),
                    false => refusal(&read.problems, &server.name),
                });
            }
            return;
        };
        let mut variables = needed(node);
        match config.target() {
            Target::Stdio(program) => variables.extend(program.env().keys().cloned()),
            Target::Http(_) => {}
            // A value that the server needs is missing.
            _ => {
                server.readable = Readable::Unusable(refusal(&read.problems, &server.name));
                return;
            }
        }
        let mut seen = BTreeSet::new();
        variables.retain(|name| seen.insert(name.clone()));
        server.variables = variables;
        server.readable = Readable::Server {
            config: Box::new(config.clone()),
            entry: self.entry(marked.server(&server.name).unwrap_or(config), node, server),
        };
    }

    /// Whether a server of the user means something else in each project that its host opens.
    fn depends_on_open_project(&self, node: &Node<'_>, server: &HostServer) -> bool {
        let written = &self.text.text()[node.start..node.end];
        let is_of_one = self.place.is_of_project || server.project.is_some();
        !is_of_one && (written.contains("${workspaceFolder") || written.contains("${workspaceRoot"))
    }

    fn entry(
        &self,
        config: &ServerConfig,
        node: &Node<'_>,
        server: &HostServer,
    ) -> Result<ConfigValue, String> {
        if self.depends_on_open_project(node, server) {
            return Err(OPEN_PROJECT.to_owned());
        }
        let file = std::path::absolute(&self.place.path).unwrap_or_else(|_| self.place.path.clone());
        let folder = file.parent().unwrap_or(Path::new("/"));
        // A project's file lies in a folder of it, except for those of Claude Code and opencode.
        let around = match folder.parent() {
            Some(around) if !is_in_project_itself(&file) => around,
            Some(_) | None => folder,
        };
        let project = server.project.as_deref();
        let project = project.or_else(|| self.place.is_of_project.then_some(around));
        let spelling = Spelling {
            host: self.tree.host,
            folder: project.unwrap_or(folder),
            home: &self.marked_home,
            inputs: &self.inputs,
        };
        let mut entry = entry_of(config, node, spelling);
        // Hosts run the servers of a project in its directory.
        if let (Target::Stdio(program), Some(project)) = (config.target(), project.and_then(Path::to_str))
            && program.cwd().is_none()
        {
            entry.set(&["cwd"], project.into());
        } else if let Target::Stdio(program) = config.target()
            && program.cwd().is_none()
            && is_relative_path(program.command().value())
        {
            return Err(RELATIVE_COMMAND.to_owned());
        }
        Ok(entry)
    }
}

/// Why a server of the user that is written for the open project is not taken over.
const OPEN_PROJECT: &str = "depends on the project that is open in the host";
/// Why a server is not taken over whose command is found only from its host's directory.
const RELATIVE_COMMAND: &str = "its command is a relative path, and the directory that the host starts it in is not known; write an absolute \
     path, or its `cwd`, in the host's file";

fn is_in_project_itself(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str());
    matches!(name, Some(".mcp.json" | "opencode.json" | "opencode.jsonc"))
}

/// Whether a command is neither a name to be looked up nor an absolute path.
fn is_relative_path(command: &str) -> bool {
    command.contains('/') && !command.starts_with(['/', '~', '$'])
}

/// The command of an entry as it is written.
fn written_command<'a>(entry: &'a Mapping<'_>) -> Option<&'a str> {
    let nested = entry.object("command").unwrap_or(entry);
    let listed = nested.get("command").and_then(Node::as_array);
    let first = listed.and_then(|words| words.first()?.as_text());
    first.or_else(|| ["command", "cmd", "path"].iter().find_map(|key| nested.text(key)))
}

fn refusal(problems: &[Problem], server: &str) -> String {
    let of_server = |problem: &&Problem| problem.server.as_deref() == Some(server);
    let error = problems
        .iter()
        .filter(of_server)
        .find(|problem| problem.severity == Severity::Error)
        .or_else(|| problems.iter().find(of_server));
    match error {
        Some(problem) => match &problem.fix {
            Some(fix) => format!("{}; {fix}", problem.message),
            None => problem.message.clone(),
        },
        None => "cannot be used".to_owned(),
    }
}
