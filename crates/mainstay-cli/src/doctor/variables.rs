//! Variables that the configuration names: those that this shell has and the daemon does not.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};
use std::{env, fs};

use mainstay::Configuration;
use mainstay_bridge::hello::DaemonStatus;
use mainstay_bridge::inherited_variables;
use mainstay_daemon::live::{DaemonOrigin, EnvironmentOwner};

use super::examination::Examination;
use crate::daemon::daemon_in_words;

/// The environment of a daemon.
pub(super) struct DaemonVariables {
    /// Whether the daemon runs. Otherwise it is the one that `mainstay connect` would start.
    runs: bool,
    origin: DaemonOrigin,
    values: HashMap<String, String>,
}

impl DaemonVariables {
    /// Of the daemon that uses this configuration, or would. `None` if the daemon uses another, or if the system does not say what it has.
    pub(super) fn of(daemon: Option<&DaemonStatus>, file: &Path) -> Option<Self> {
        let Some(daemon) = daemon else {
            let inherited = inherited_variables();
            let values = inherited.filter_map(|name| Some((name.to_owned(), env::var(name).ok()?)));
            return Some(Self {
                runs: false,
                origin: DaemonOrigin {
                    who: "a daemon that `mainstay connect` starts".into(),
                    is_managed: false,
                },
                values: values.collect(),
            });
        };
        let file = std::path::absolute(file).ok()?;
        if daemon.config.as_deref().map(Path::new) != Some(&file) {
            return None;
        }
        let environment = fs::read(format!("/proc/{}/environ", daemon.pid)).ok()?;
        let variables = environment.split(|byte| *byte == 0);
        let values = variables.filter_map(|variable| {
            let (name, value) = std::str::from_utf8(variable).ok()?.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        });
        let since = UNIX_EPOCH + Duration::from_secs(daemon.since);
        let starter = if daemon.inherited {
            " by a service manager"
        } else {
            ""
        };
        Some(Self {
            runs: true,
            origin: DaemonOrigin {
                who: daemon_in_words(daemon.pid, since, starter).into(),
                is_managed: daemon.inherited,
            },
            values: values.collect(),
        })
    }

    /// The value of this variable in a daemon that runs.
    pub(super) fn running(&self, name: &str) -> Option<String> {
        self.values.get(name).filter(|_| self.runs).cloned()
    }
}

/// Reads the file as the daemon does, and finds what this shell has and the daemon lacks.
pub(super) fn examine(file: Option<&Path>, variables: Option<&DaemonVariables>) -> Examination {
    let mut found = Examination::new(
        "daemon variables",
        "the daemon lacks none that the configuration names and your shell has",
    );
    let (Some(file), Some(variables)) = (file, variables) else {
        "not examined".clone_into(&mut found.summary);
        return found;
    };
    // A file that cannot be used is the finding of another check.
    let Ok(mut read) = Configuration::load_with(file, |name| variables.values.get(name).cloned()) else {
        return found;
    };
    EnvironmentOwner::Daemon(variables.origin.clone()).explain(&mut read.problems);
    for problem in read.errors() {
        let Some(variable) = &problem.unset_variable else {
            continue;
        };
        // One that this shell lacks too is the finding of another check.
        if env::var_os(variable).is_none() {
            continue;
        }
        "the configuration names variables that the daemon does not have".clone_into(&mut found.summary);
        let subject = problem.server.clone().unwrap_or_else(|| variable.clone());
        let remedy = problem.fix.clone().unwrap_or_default();
        match variables.runs {
            true => found.problem(
                subject,
                format!("the variable {variable} is set here, and not in the daemon"),
                remedy,
            ),
            false => found.hint(
                subject,
                format!("the variable {variable} is set here, and a daemon that `mainstay connect` starts does not have it"),
                remedy,
            ),
        }
    }
    found
}
