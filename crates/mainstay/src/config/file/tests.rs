//! Whole files, and the exact words people get to read.

mod bad_file;
mod bad_server;
mod good;
mod hosts;
mod http;
mod limits;
mod locating;
mod schema;
mod secrets;

use std::path::Path;

use super::{ConfigError, Configuration};

/// An environment with a few variables.
fn lookup(name: &str) -> Option<String> {
    match name {
        "HOME" => Some("/home/ann".into()),
        "TOKEN" => Some("hunter2-token".into()),
        "KEY" => Some("hunter2-sk:1234".into()),
        "EMPTY" => Some(String::new()),
        "PATH" => Some("/usr/bin".into()),
        _ => None,
    }
}

fn parse(text: &str) -> Result<Configuration, ConfigError> {
    Configuration::parse(text, Path::new("/etc/m/mcp.json"), lookup)
}

fn read(text: &str) -> Configuration {
    parse(text).expect("the file as a whole is readable")
}

/// A file with one server, its body starting on line 3, two columns in.
fn one(body: &str) -> Configuration {
    read(&format!("{{\n\"mcpServers\": {{ \"s\": {{\n  {body}\n}} }} }}"))
}

/// The problems as a person reads them.
fn rendered(configuration: &Configuration) -> Vec<String> {
    configuration
        .problems
        .iter()
        .map(|problem| problem.to_string().replace("/etc/m/", ""))
        .collect()
}

/// Each line begins with its place in `mcp.json`.
#[track_caller]
fn assert_said(configuration: &Configuration, expected: &[&str]) {
    let expected: Vec<String> = expected.iter().map(|line| format!("mcp.json:{line}")).collect();
    assert_eq!(rendered(configuration), expected);
}

/// What is wrong with a server, which is therefore not used. Each line begins with its place in `mcp.json`.
#[track_caller]
fn refused(body: &str, expected: &[&str]) {
    let configuration = one(body);
    assert_said(&configuration, expected);
    assert_eq!(configuration.servers, []);
    assert!(configuration.refused.contains("s"));
    assert!(configuration.errors().count() > 0);
}

/// What is worth a look about a server, which is used all the same.
#[track_caller]
fn warned(body: &str, expected: &[&str]) {
    let configuration = one(body);
    assert_said(&configuration, expected);
    assert_eq!(configuration.servers.len(), 1);
    assert!(configuration.refused.is_empty());
    assert_eq!(configuration.errors().count(), 0);
}
