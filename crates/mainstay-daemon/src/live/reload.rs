//! What became of a file that was read again.

use std::collections::BTreeSet;
use std::path::PathBuf;

use mainstay::config::{ConfigError, Problem, Severity};
use mainstay::fleet::Changes;
use mainstay::{Configuration, ServerConfig};

/// A configuration was read and applied.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reloaded {
    /// The file.
    pub file: PathBuf,
    /// What it changed.
    pub changes: Changes,
    /// Of the servers that were added, replaced or adjusted, those that stay disabled because a person disabled them.
    pub still_disabled: Vec<String>,
    /// What is worth a look in the file and was not before: warnings, notes, and errors of servers that were not used before
    /// either.
    pub problems: Vec<Problem>,
}

impl Reloaded {
    /// Whether no server was touched.
    pub fn is_unchanged(&self) -> bool {
        let Changes {
            added,
            removed,
            replaced,
            adjusted,
            enabled,
            disabled,
            ..
        } = &self.changes;
        [added, removed, replaced, adjusted, enabled, disabled]
            .into_iter()
            .all(Vec::is_empty)
    }
}

/// A configuration was not applied. The one before it stays in force.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// The program has no configuration file.
    #[error("there is no configuration file to read")]
    NoFile,
    /// The file cannot be used as a whole.
    #[error(transparent)]
    Unusable(ConfigError),
    /// Servers have errors that they did not have before.
    #[error("{}", in_lines(problems))]
    Refused {
        /// The file.
        file: PathBuf,
        /// What is wrong, with its place and the remedy.
        problems: Vec<Problem>,
    },
    /// The file cannot be read in time.
    #[error("{}: reading it takes too long; is its file system reachable?", file.display())]
    TimedOut {
        /// The file.
        file: PathBuf,
    },
    /// The program ends.
    #[error("the program is ending")]
    Ending,
}

fn in_lines(problems: &[Problem]) -> String {
    let lines: Vec<_> = problems.iter().map(Problem::to_string).collect();
    lines.join("\n")
}

/// The configuration in force, as its file has it.
#[derive(Clone, Debug, Default)]
pub(super) struct InForce {
    pub(super) servers: Vec<ServerConfig>,
    pub(super) refused: BTreeSet<String>,
    pub(super) problems: Vec<Problem>,
}

impl InForce {
    /// Whether a file says the same.
    pub(super) fn is(&self, configuration: &Configuration) -> bool {
        self.servers == configuration.servers
            && self.refused == configuration.refused
            && self.problems == configuration.problems
    }

    /// Whether a file may take the place of this one.
    pub(super) fn check(&self, configuration: &Configuration) -> Result<(), ReloadError> {
        let problems = new_errors(&self.refused, configuration);
        if problems.is_empty() {
            return Ok(());
        }
        Err(ReloadError::Refused {
            file: configuration.source.clone(),
            problems,
        })
    }

    /// The problems of a file that are not known yet. One that has only moved to another line is known.
    pub(super) fn new_problems(&self, configuration: &Configuration) -> Vec<Problem> {
        let same =
            |a: &Problem, b: &Problem| (&a.severity, &a.key, &a.message) == (&b.severity, &b.key, &b.message);
        let is_new = |problem: &&Problem| !self.problems.iter().any(|known| same(known, problem));
        configuration.problems.iter().filter(is_new).cloned().collect()
    }

    /// All servers. One with errors is among them as [unusable](ServerConfig::unusable), so that requests to it return the
    /// reason.
    pub(super) fn all_servers(&self) -> Vec<ServerConfig> {
        // A server whose very name is wrong cannot be asked for.
        let unusable = self.refused.iter().filter_map(|name| {
            let reason = self.errors_of(name);
            ServerConfig::unusable(name, reason).build().ok()
        });
        self.servers.iter().cloned().chain(unusable).collect()
    }

    /// The first error of a server, and how many more there are.
    fn errors_of(&self, name: &str) -> String {
        let is_its_own = |problem: &&Problem| {
            problem.severity == Severity::Error && problem.server.as_deref() == Some(name)
        };
        let mut errors = self.problems.iter().filter(is_its_own);
        match (errors.next(), errors.count()) {
            (Some(first), 0) => first.to_string(),
            (Some(first), more) => format!("{first} ({more} more: `mainstay check --no-start` shows all)"),
            (None, _) => "it has errors: `mainstay check --no-start` shows them".to_owned(),
        }
    }
}

/// Why a configuration may not take the place of the one in force, whose servers of these names have errors. An error in a server
/// that is used now, or is new, would cost more than the mistake is worth; one that was there before costs nothing more.
pub(super) fn new_errors(refused: &BTreeSet<String>, configuration: &Configuration) -> Vec<Problem> {
    let is_new = |name: &&String| !refused.contains(*name);
    if !configuration.refused.iter().any(|name| is_new(&name)) {
        return Vec::new();
    }
    let errors = configuration.problems.iter().filter(|problem| {
        let server = problem.server.as_ref();
        problem.severity == Severity::Error && server.is_none_or(|name| is_new(&name))
    });
    errors.cloned().collect()
}

impl From<Configuration> for InForce {
    fn from(configuration: Configuration) -> Self {
        Self {
            servers: configuration.servers,
            refused: configuration.refused,
            problems: configuration.problems,
        }
    }
}
