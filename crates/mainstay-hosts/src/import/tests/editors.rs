//! What editors put in the place of variables: inputs, and the project that is open.

use std::fs;
use std::path::Path;

use mainstay::Configuration;
use mainstay::config::Target;
use tempfile::TempDir;

use super::files;
use crate::import::ImportPlan;
use crate::text::{ConfigValue, EditableText};

#[test]
fn what_only_editors_expand_is_resolved_in_the_path_of_a_file_of_variables() {
    let root = TempDir::new().unwrap();
    let (home, work) = (root.path().join("home"), root.path().join("work"));
    fs::create_dir_all(work.join(".vscode")).unwrap();
    fs::write(work.join(".env"), "K=v\n").unwrap();
    fs::write(work.join("work.env"), "K=v\n").unwrap();
    fs::create_dir_all(&home).unwrap();
    fs::write(home.join("home.env"), "K=v\n").unwrap();
    let servers = r#"{"servers": {
        "a": {"command": "a", "envFile": "${workspaceFolder}/.env"},
        "b": {"command": "b", "envFile": "${workspaceFolderBasename}.env"},
        "c": {"command": "c", "envFile": "${workspaceRoot}${/}.env"},
        "d": {"command": "d", "envFile": "${workspaceFolder}${pathSeparator}.env"},
        "e": {"command": "e", "envFile": "${userHome}/home.env"}}}"#;
    fs::write(work.join(".vscode/mcp.json"), servers).unwrap();
    let mut text = EditableText::new(Path::new("/mcp.json"), "{}");
    let plan = ImportPlan::of(&files(root.path()), &text, &home).unwrap();
    plan.apply(&mut text).unwrap();
    let value = ConfigValue::of(&text.tree().unwrap().root);
    let expected = serde_json::json!({"mcpServers": {
        "a": {"command": "a", "env_file": work.join(".env"), "cwd": work},
        "b": {"command": "b", "env_file": work.join("work.env"), "cwd": work},
        "c": {"command": "c", "env_file": work.join(".env"), "cwd": work},
        "d": {"command": "d", "env_file": work.join(".env"), "cwd": work},
        "e": {"command": "e", "env_file": "~/home.env", "cwd": work},
    }});
    assert!(value.means(&expected.into()), "{}", text.whole());
}

#[test]
fn the_default_of_an_input_comes_along_unless_it_is_a_password() {
    let root = TempDir::new().unwrap();
    let (home, work) = (root.path().join("home"), root.path().join("work"));
    fs::create_dir_all(&home).unwrap();
    fs::create_dir_all(work.join(".vscode")).unwrap();
    let servers = r#"{
        "inputs": [
            {"type": "pickString", "id": "region", "options": ["eu", "us"], "default": "eu"},
            {"type": "promptString", "id": "shape", "default": "{a}-${B}$"},
            {"type": "promptString", "id": "odd", "default": "1$$"},
            {"type": "promptString", "id": "key", "password": true, "default": "s3cret"},
            {"type": "promptString", "id": "host", "default": "eu.example"}
        ],
        "servers": {
            "a": {"command": "a", "args": ["--region", "${input:region}", "${input:shape}", "${input:odd}"],
                  "env": {"KEY": "${input:key}", "R": "in-${input:region}"}},
            "b": {"url": "https://${input:host}/mcp"},
            "c": {"command": "c", "args": ["${LEVEL:-low} ${input:region}"]}
        }}"#;
    fs::write(work.join(".vscode/mcp.json"), servers).unwrap();
    let mut text = EditableText::new(Path::new("/mcp.json"), "{}");
    let plan = ImportPlan::of(&files(root.path()), &text, &home).unwrap();
    assert!(plan.left.is_empty(), "{:?}", plan.left);
    plan.apply(&mut text).unwrap();
    let value = ConfigValue::of(&text.tree().unwrap().root);
    let expected = serde_json::json!({"mcpServers": {
        "a": {
            "command": "a",
            "args": ["--region", "${MAINSTAY_INPUT_REGION:-eu}", "${MAINSTAY_INPUT_SHAPE:-{a$$}-$${B$$}$}", "${MAINSTAY_INPUT_ODD}"],
            "env": {"KEY": "${MAINSTAY_INPUT_KEY}", "R": "in-${MAINSTAY_INPUT_REGION:-eu}"},
            "cwd": work,
        },
        "b": {"url": "https://${MAINSTAY_INPUT_HOST:-eu.example}/mcp"},
        "c": {"command": "c", "args": ["${LEVEL:-low} ${MAINSTAY_INPUT_REGION:-eu}"], "cwd": work},
    }});
    assert!(value.means(&expected.into()), "{}", text.whole());
    let read = Configuration::parse(text.text(), Path::new("/mcp.json"), |name| {
        name.ends_with("_ODD").then(|| "1$$".to_owned())
    });
    let Target::Http(address) = read.as_ref().unwrap().server("b").unwrap().target() else {
        panic!("an address");
    };
    assert_eq!(address.url().value(), "https://eu.example/mcp");
    let again = ImportPlan::of(&files(root.path()), &text, &home).unwrap();
    assert!(again.is_empty(), "all is there already");
}

#[test]
fn a_server_that_depends_on_its_hosts_directory_is_left_with_that_reason() {
    let root = TempDir::new().unwrap();
    let (home, work) = (root.path().join("home"), root.path().join("work"));
    fs::create_dir_all(home.join(".cursor")).unwrap();
    fs::create_dir_all(work.join(".cursor")).unwrap();
    let servers = r#"{"mcpServers": {
        "relative": {"command": "./bin/server"},
        "open": {"command": "npx", "cwd": "${workspaceFolder}"}}}"#;
    fs::write(home.join(".cursor/mcp.json"), servers).unwrap();
    fs::write(work.join(".cursor/mcp.json"), servers).unwrap();
    let files = files(root.path());
    let mut text = EditableText::new(Path::new("/mcp.json"), "{}");
    let plan = ImportPlan::of(&files, &text, &home).unwrap();
    let reasons: Vec<&str> = plan.left.iter().map(|left| left.reason.as_str()).collect();
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    assert!(
        reasons[0].starts_with("its command is a relative path"),
        "{reasons:?}"
    );
    assert!(reasons[1].contains("the project that is open"), "{reasons:?}");
    for (n, server) in files[0].servers.iter().enumerate() {
        assert_eq!(plan.reason_left(&files[0], server), Some(reasons[n]));
        assert_eq!(
            plan.reason_left(&files[1], &files[1].servers[n]),
            None,
            "of the project"
        );
    }
    plan.apply(&mut text).unwrap();
    let value = ConfigValue::of(&text.tree().unwrap().root);
    let expected = serde_json::json!({"mcpServers": {
        "relative": {"command": "./bin/server", "cwd": work},
        "open": {"command": "npx", "cwd": work},
    }});
    assert!(value.means(&expected.into()), "{}", text.whole());
}
