//! What a change of the configuration did.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a reload changed, by server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ReloadReport {
    /// The file that was read.
    pub file: Option<String>,
    /// New servers.
    pub added: Vec<String>,
    /// Servers that are no longer configured. They are being stopped.
    pub removed: Vec<String>,
    /// Servers that were restarted, because they are other servers now.
    pub replaced: Vec<String>,
    /// Servers whose settings changed without a restart.
    pub adjusted: Vec<String>,
    /// Servers that the file enabled.
    pub enabled: Vec<String>,
    /// Servers that the file disabled.
    pub disabled: Vec<String>,
    /// Changed servers that a person has disabled, and that stay disabled.
    pub still_disabled: Vec<String>,
    /// Servers with nothing changed.
    pub unchanged: Vec<String>,
    /// Warnings about the file.
    pub problems: Vec<ConfigProblem>,
}

impl ReloadReport {
    /// What the gateway changed.
    pub fn of(changes: mainstay::fleet::Changes) -> Self {
        Self {
            added: changes.added,
            removed: changes.removed,
            replaced: changes.replaced,
            adjusted: changes.adjusted,
            enabled: changes.enabled,
            disabled: changes.disabled,
            still_disabled: changes.still_disabled,
            unchanged: changes.unchanged,
            ..Self::default()
        }
    }

    /// Whether it changed anything.
    pub fn is_empty(&self) -> bool {
        let changed = [
            &self.added,
            &self.removed,
            &self.replaced,
            &self.adjusted,
            &self.enabled,
            &self.disabled,
        ];
        changed.into_iter().all(Vec::is_empty)
    }
}

/// One thing wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigProblem {
    /// `error` or `warning`.
    pub severity: String,
    /// The server that it concerns.
    pub server: Option<String>,
    /// The key that it concerns.
    pub key: Option<String>,
    /// The file.
    pub file: Option<String>,
    /// The line in the file, from 1.
    pub line: Option<usize>,
    /// The column in the line, from 1.
    pub column: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// What helps.
    pub fix: Option<String>,
}

impl From<&mainstay::config::Problem> for ConfigProblem {
    fn from(problem: &mainstay::config::Problem) -> Self {
        Self {
            severity: problem.severity.to_string(),
            server: problem.server.clone(),
            key: problem.key.clone(),
            file: problem.file.as_ref().map(|file| file.display().to_string()),
            line: problem.position.map(|position| position.line),
            column: problem.position.map(|position| position.column),
            message: problem.message.clone(),
            fix: problem.fix.clone(),
        }
    }
}

/// A server as the configuration file has it: the object under its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EntryDocument {
    /// The name; in the path when an entry is changed.
    pub name: String,
    /// The keys of the entry, such as `command`, `args`, `env`, `url`.
    #[schema(value_type = Object)]
    pub entry: serde_json::Map<String, serde_json::Value>,
}
