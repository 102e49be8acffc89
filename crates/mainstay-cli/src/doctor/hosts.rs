//! The configuration files of hosts: whether the Mainstay that they start is there, and of which version it is.
//!
//! A file of a project may have come with a cloned repository. No program that such a file names is run.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};

use mainstay::Configuration;
use mainstay_hosts::host::{HostPlace, HostProgram, UserFolders, places};

use super::commands::{path_of, programs};
use super::examination::Examination;
use super::program;

/// The version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(super) fn examine() -> Examination {
    let mut found = Examination::new("hosts", "none has a configuration here");
    let Some(folders) = UserFolders::of(|name| env::var_os(name)) else {
        return found;
    };
    let project = env::current_dir().ok();
    let places = HostProgram::ALL
        .into_iter()
        .flat_map(|host| places(host, &folders, project.as_deref()));
    let mut versions = BTreeMap::new();
    let mut seen = Vec::new();
    for place in places.filter(|place| place.path.is_file()) {
        if !seen.contains(&place.host.title()) {
            seen.push(place.host.title());
        }
        examine_file(&place, &mut versions, &mut found);
    }
    if !seen.is_empty() {
        found.summary = seen.join(", ");
    }
    found
}

/// What each program says to be, so that each is asked once.
type Versions = BTreeMap<PathBuf, Option<Vec<u64>>>;

fn examine_file(place: &HostPlace, versions: &mut Versions, found: &mut Examination) {
    let file = place.path.display().to_string();
    // A variable that only the host has is no mistake of its file.
    let lookup = |name: &str| Some(env::var(name).unwrap_or_default());
    let configuration = match Configuration::load_with(&place.path, lookup) {
        Ok(configuration) => configuration,
        // Settings without any server.
        Err(mainstay::config::ConfigError::NoServers { .. }) => return,
        Err(error) => {
            let remedy = format!("correct the file; {} cannot read it either", place.host);
            found.hint(file, error.to_string(), remedy);
            return;
        }
    };
    for (server, target) in programs(&configuration.servers) {
        let command = target.command().value();
        if Path::new(command)
            .file_name()
            .is_none_or(|name| name != "mainstay")
        {
            continue;
        }
        let subject = format!("{} ({server})", place.host);
        let at = match command.contains('/') {
            true => Some(PathBuf::from(command)).filter(|path| program::is_runnable(path)),
            false => program::in_path(command, &path_of(target)),
        };
        let Some(at) = at else {
            found.problem(
                subject,
                format!("{file} starts {:?}, which is not there", target.command().shown()),
                format!("write the path of this program: {}", this_program()),
            );
            continue;
        };
        if env::current_exe().is_ok_and(|this| this == at) {
            continue;
        }
        // The meaning of a relative path depends on the working directory, so that a project decides about it.
        if place.is_of_project || !at.is_absolute() {
            found.hint(
                subject,
                format!(
                    "{file} starts {}, whose version is not known: doctor runs no program of a project",
                    at.display()
                ),
                format!("if you trust the project, run `{} --version`", at.display()),
            );
            continue;
        }
        let asked = versions.entry(at.clone()).or_insert_with(|| {
            let text = program::version_text(&at, &path_of(target))?;
            Some(program::numbers(&text))
        });
        match asked {
            Some(version) if *version < program::numbers(VERSION) => found.problem(
                subject,
                format!(
                    "{file} starts {}, which is older than this program ({VERSION})",
                    at.display()
                ),
                format!(
                    "replace that program, or write the path of this one: {}",
                    this_program()
                ),
            ),
            Some(_) => {}
            None => found.problem(
                subject,
                format!("{file} starts {}, which does not say its version", at.display()),
                format!("write the path of this program: {}", this_program()),
            ),
        }
    }
}

fn this_program() -> String {
    match env::current_exe() {
        Ok(program) => program.display().to_string(),
        Err(_) => "mainstay".to_owned(),
    }
}
