//! Configurations in each syntax: none panics, and none shows what it must not.

use std::collections::BTreeSet;
use std::path::Path;

use super::Configuration;
use crate::config::{ServerConfig, Severity};

/// The value of every variable. It has no character that a message would escape, so it is found wherever it is shown.
const SECRET: &str = "xq7vK2secretZw9";

/// As much of the secret as may stand in a message by chance.
const BY_CHANCE: usize = 6;

const FILES: [&str; 6] = [
    "servers.json",
    "servers.toml",
    "servers.yaml",
    ".mcp.json",
    "claude_desktop_config.json",
    "mcp.json",
];

/// Reads a configuration, and holds that it is sound and shows no secret.
pub fn configuration(input: &[u8]) {
    let Some((&choice, text)) = input.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    // What a file names is read: the input must not choose which files of this machine that are.
    if text.contains(&SECRET[..BY_CHANCE]) || names_files(text) {
        return;
    }
    let file = Path::new("/nowhere").join(FILES[usize::from(choice) % FILES.len()]);
    let lookup = |_: &str| Some(SECRET.to_owned());
    let shown = match Configuration::parse(text, &file, lookup) {
        Ok(read) => {
            assert_sound(&read);
            let problems: Vec<String> = read.problems.iter().map(ToString::to_string).collect();
            format!("{read:?}{}", problems.join("\n"))
        }
        Err(error) => format!("{error:?}{error}"),
    };
    assert!(
        !shown.contains(&SECRET[..BY_CHANCE]),
        "a secret is shown: {shown}"
    );
}

fn names_files(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["file", "cert", "key", "ca"]
        .iter()
        .any(|word| text.contains(word))
}

fn assert_sound(read: &Configuration) {
    let names: BTreeSet<&str> = read.servers.iter().map(ServerConfig::name).collect();
    assert_eq!(names.len(), read.servers.len(), "each name once");
    assert!(
        !names.iter().any(|name| read.refused.contains(*name)),
        "a server that is refused is not used"
    );
    for problem in &read.problems {
        if let (Severity::Error, Some(server)) = (problem.severity, &problem.server) {
            assert!(
                read.refused.contains(server),
                "an error costs its server: {problem}"
            );
        }
        if let Some(position) = problem.position {
            assert!(position.line > 0 && position.column > 0, "{problem}");
        }
    }
}
