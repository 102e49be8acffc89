use std::path::Path;

use super::{EntryOwner, owner, undo, wrap};
use crate::text::EditableText;

const PROGRAM: &str = "/opt/bin/mainstay";

/// Wraps an entry and turns it back; returns the wrapped text.
#[track_caller]
fn there_and_back(file: &str, before: &str, keys: &[&str], variables: &[&str]) -> String {
    let mut text = EditableText::new(Path::new(file), before);
    let options = variables
        .iter()
        .flat_map(|&name| ["--env".to_owned(), name.to_owned()]);
    let options: Vec<String> = options.collect();
    let is = |text: &EditableText| owner(text.tree().unwrap().at(keys).unwrap(), PROGRAM);
    assert_eq!(is(&text), EntryOwner::Host);
    wrap(&mut text, keys, PROGRAM, &options).unwrap_or_else(|error| panic!("{error}: {before}"));
    assert_eq!(is(&text), EntryOwner::Bridge);
    let wrapped = text.whole();
    undo(&mut text, keys).unwrap_or_else(|error| panic!("{error}: {wrapped}"));
    assert_eq!(text.whole(), before, "{wrapped}");
    wrapped
}

#[test]
fn an_entry_of_json_is_wrapped_and_turned_back_to_the_same_bytes() {
    let keys = ["mcpServers", "a"];
    for (before, after) in [
        (
            r#"{"mcpServers": {"a": {"command": "npx", "args": ["-y", "x"], "env": {"K": "v"}}}}"#,
            r#"{"mcpServers": {"a": {"command": "/opt/bin/mainstay", "args": ["connect", "--env", "K", "--", "npx","-y", "x"], "env": {"K": "v"}}}}"#,
        ),
        (
            r#"{"mcpServers": {"a": {"command": "npx", "args": []}}}"#,
            r#"{"mcpServers": {"a": {"command": "/opt/bin/mainstay", "args": ["connect", "--env", "K", "--", "npx" ]}}}"#,
        ),
        (
            r#"{"mcpServers": {"a": {"command": "npx"}}}"#,
            r#"{"mcpServers": {"a": {"command": "/opt/bin/mainstay", "args": ["connect", "--env", "K", "--", "npx"]}}}"#,
        ),
        (
            "{\"mcpServers\": {\n\t\"a\": {\r\n\t\t\"command\" : \"n\\u0070x\" // c\r\n\t}\n}}",
            "{\"mcpServers\": {\n\t\"a\": {\r\n\t\t\"command\" : \"/opt/bin/mainstay\",\n\t\t\"args\": [\"connect\", \"--env\", \"K\", \"--\", \"n\\u0070x\"] // c\r\n\t}\n}}",
        ),
        (
            "{\"mcpServers\": {\"a\": {\"args\": [ // first\n  \"-y\", /* x */\n ], \"command\": \"npx\",}}}",
            "{\"mcpServers\": {\"a\": {\"args\": [\"connect\", \"--env\", \"K\", \"--\", \"npx\", // first\n  \"-y\", /* x */\n ], \"command\": \"/opt/bin/mainstay\",}}}",
        ),
        (
            r#"{"mcpServers": {"a": {"args": [ ], "type": "stdio", "command": "npx"}}}"#,
            r#"{"mcpServers": {"a": {"args": ["connect", "--env", "K", "--", "npx"  ], "type": "stdio", "command": "/opt/bin/mainstay"}}}"#,
        ),
    ] {
        assert_eq!(there_and_back("mcp.json", before, &keys, &["K"]), after);
    }
}

#[test]
fn an_older_entry_of_zed_is_wrapped_inside_of_its_command() {
    let before = r#"{"context_servers": {"a": {"command": {"path": "npx", "args": ["x"], "env": {}}, "settings": {}}}}"#;
    let after = r#"{"context_servers": {"a": {"command": {"path": "/opt/bin/mainstay", "args": ["connect", "--", "npx","x"], "env": {}}, "settings": {}}}}"#;
    assert_eq!(
        there_and_back("settings.json", before, &["context_servers", "a"], &[]),
        after
    );
}

#[test]
fn an_entry_of_toml_is_wrapped_and_turned_back_to_the_same_bytes() {
    for (before, after) in [
        (
            "[mcp_servers.a]\ncommand = 'npx' # c\nargs = [\n  \"-y\", # y\n]\n\n[mcp_servers.a.env]\nK = \"v\"\n",
            "[mcp_servers.a]\ncommand = \"/opt/bin/mainstay\" # c\nargs = [\"connect\", \"--\", 'npx',\n  \"-y\", # y\n]\n\n[mcp_servers.a.env]\nK = \"v\"\n",
        ),
        (
            "[mcp_servers.a]\n  command = \"npx\" # c\n[x]\n",
            "[mcp_servers.a]\n  command = \"/opt/bin/mainstay\" # c\n  args = [\"connect\", \"--\", \"npx\"]\n[x]\n",
        ),
        (
            "[mcp_servers.a]\r\ncommand = \"npx\"",
            "[mcp_servers.a]\r\ncommand = \"/opt/bin/mainstay\"\r\nargs = [\"connect\", \"--\", \"npx\"]",
        ),
        (
            "mcp_servers.a.command = \"npx\"\nx = 1\n",
            "mcp_servers.a.command = \"/opt/bin/mainstay\"\nmcp_servers.a.args = [\"connect\", \"--\", \"npx\"]\nx = 1\n",
        ),
        (
            "mcp_servers = { a = { command = \"npx\" } }\n",
            "mcp_servers = { a = { command = \"/opt/bin/mainstay\", args = [\"connect\", \"--\", \"npx\"] } }\n",
        ),
        (
            "[mcp_servers]\na = { args = [], command = \"npx\" }\n",
            "[mcp_servers]\na = { args = [\"connect\", \"--\", \"npx\" ], command = \"/opt/bin/mainstay\" }\n",
        ),
    ] {
        assert_eq!(
            there_and_back("config.toml", before, &["mcp_servers", "a"], &[]),
            after
        );
    }
}

#[test]
fn an_entry_of_yaml_is_wrapped_and_turned_back_to_the_same_bytes() {
    for (before, after) in [
        (
            "extensions:\n  a:\n    args:\n    - -y # y\n    - x\n    cmd: npx # c\n    type: stdio\n",
            "extensions:\n  a:\n    args:\n    - \"connect\"\n    - \"--\"\n    - npx\n    - -y # y\n    - x\n    cmd: \"/opt/bin/mainstay\" # c\n    type: stdio\n",
        ),
        (
            "extensions:\n  a:\n    cmd: npx\n    args: []\n    type: stdio\n",
            "extensions:\n  a:\n    cmd: \"/opt/bin/mainstay\"\n    args: [\"connect\", \"--\", npx ]\n    type: stdio\n",
        ),
        (
            "extensions:\n  a:\n    type: stdio\n    cmd: 'it''s'",
            "extensions:\n  a:\n    type: stdio\n    cmd: \"/opt/bin/mainstay\"\n    args: [\"connect\", \"--\", 'it''s']",
        ),
        (
            "extensions: {a: {cmd: npx, type: stdio}}\n",
            "extensions: {a: {cmd: \"/opt/bin/mainstay\", args: [\"connect\", \"--\", npx], type: stdio}}\n",
        ),
    ] {
        assert_eq!(
            there_and_back("config.yaml", before, &["extensions", "a"], &[]),
            after
        );
    }
}

#[test]
fn an_entry_that_a_host_formatted_anew_is_turned_back_by_what_it_says() {
    let before = "{\"mcpServers\": {\"a\": {\n  \"command\": \"/usr/bin/mainstay\",\n  \"args\": [\n    \"connect\",\n    \"--env\",\n    \"K\",\n    \"--\",\n    \"npx\",\n    \"x\"\n  ]\n}}}";
    let mut text = EditableText::new(Path::new("mcp.json"), before);
    undo(&mut text, &["mcpServers", "a"]).unwrap();
    assert_eq!(
        text.whole(),
        "{\"mcpServers\": {\"a\": {\n  \"command\": \"npx\",\n  \"args\": [\n    \"x\"\n  ]\n}}}"
    );
    let before = "{\"mcpServers\": {\"a\": {\n  \"command\": \"mainstay\", // c\n  \"args\": [\n    \"connect\",\n    \"--\",\n    \"npx\"\n  ]\n}}}";
    let mut text = EditableText::new(Path::new("mcp.json"), before);
    undo(&mut text, &["mcpServers", "a"]).unwrap();
    assert_eq!(
        text.whole(),
        "{\"mcpServers\": {\"a\": {\n  \"command\": \"npx\", // c\n  \"args\": []\n}}}"
    );
}

#[test]
fn what_mainstay_does_not_start_or_cannot_move_is_left() {
    for (file, entry, is) in [
        (
            "a.json",
            r#"{"command": "mainstay", "args": ["wrap", "npx"]}"#,
            EntryOwner::Mainstay,
        ),
        (
            "a.json",
            r#"{"command": "/x/mainstay", "args": ["connect", "files"]}"#,
            EntryOwner::Mainstay,
        ),
        (
            "a.json",
            r#"{"command": "npx", "args": ["connect", "--", "x"]}"#,
            EntryOwner::Host,
        ),
        (
            "a.json",
            r#"{"command": "mainstay", "args": ["connect", "--env", "A", "--", "x"]}"#,
            EntryOwner::Bridge,
        ),
        ("a.json", r#"{"url": "https://example.com"}"#, EntryOwner::Host),
    ] {
        let text = EditableText::new(
            Path::new(file),
            &format!("{{\"mcpServers\": {{\"a\": {entry}}}}}"),
        );
        assert_eq!(
            owner(text.tree().unwrap().at(&["mcpServers", "a"]).unwrap(), PROGRAM),
            is,
            "{entry}"
        );
    }
    for (file, before) in [
        (
            "a.json",
            r#"{"mcpServers": {"a": {"url": "https://example.com"}}}"#,
        ),
        (
            "a.json",
            r#"{"mcpServers": {"a": {"command": "x", "args": null}}}"#,
        ),
        (
            "a.json",
            r#"{"mcpServers": {"a": {"command": "x", "command": "y"}}}"#,
        ),
        ("a.json", r#"{"mcpServers": {"a": {"command": ["x"]}}}"#),
        ("a.yaml", "mcpServers:\n  a:\n    command: |\n      x\n"),
        ("a.yaml", "mcpServers:\n  a: &a\n    command: &c x\n  b: *a\n"),
        ("a.yaml", "mcpServers:\n  a:\n    command: x y z\n"),
    ] {
        let mut text = EditableText::new(Path::new(file), before);
        assert!(
            wrap(&mut text, &["mcpServers", "a"], PROGRAM, &[]).is_err(),
            "{before}: {}",
            text.whole()
        );
        assert_eq!(text.whole(), before);
    }
}
