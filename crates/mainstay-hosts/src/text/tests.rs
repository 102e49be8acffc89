use std::path::Path;

use super::{ConfigValue, EditableText};

fn server() -> ConfigValue {
    ConfigValue::Table(vec![
        ("command".to_owned(), "npx".into()),
        ("args".to_owned(), ConfigValue::texts(["-y", "it's \"x\""])),
    ])
}

#[track_caller]
fn added(name: &str, before: &str, keys: &[&str]) -> String {
    let mut text = EditableText::new(Path::new(name), before);
    text.set(keys, &server()).unwrap();
    let after = text.whole();
    text.remove(keys).unwrap();
    let removed = text.whole();
    let meaning =
        |text: &str| ConfigValue::of(&EditableText::new(Path::new(name), text).tree().unwrap().root);
    assert!(
        meaning(before).means(&meaning(&removed)) || !before.contains(keys[0]),
        "{removed}"
    );
    after
}

#[test]
fn a_server_is_added_behind_the_last_and_nothing_else_changes() {
    let before = "// mine\n{\n    \"mcpServers\": {\n        \"a\": { \"command\": \"x\" } // the first\n        /* end */\n    },\n    \"other\": [1,2]\n}";
    let after = "// mine\n{\n    \"mcpServers\": {\n        \"a\": { \"command\": \"x\" }, // the first\n        \"new\": {\n            \"command\": \"npx\",\n            \"args\": [\"-y\", \"it's \\\"x\\\"\"]\n        }\n        /* end */\n    },\n    \"other\": [1,2]\n}";
    assert_eq!(added("a.json", before, &["mcpServers", "new"]), after);
}

#[test]
fn a_trailing_comma_tabs_windows_line_breaks_and_a_byte_order_mark_stay() {
    let before = "\u{feff}{\r\n\t\"mcpServers\": {\r\n\t\t\"a\": {},\r\n\t},\r\n}\r\n";
    let after = "\u{feff}{\r\n\t\"mcpServers\": {\r\n\t\t\"a\": {},\r\n\t\t\"new\": {\r\n\t\t\t\"command\": \"npx\",\r\n\t\t\t\"args\": [\"-y\", \"it's \\\"x\\\"\"]\r\n\t\t},\r\n\t},\r\n}\r\n";
    assert_eq!(added("a.json", before, &["mcpServers", "new"]), after);
}

#[test]
fn objects_on_one_line_and_empty_ones_take_a_key() {
    for (before, after) in [
        (
            r#"{"mcpServers": {"a": {}}}"#,
            r#"{"mcpServers": {"a": {}, "new": {"command": "npx", "args": ["-y", "it's \"x\""]}}}"#,
        ),
        (
            r#"{"mcpServers": {}}"#,
            "{\"mcpServers\": {\n  \"new\": {\n    \"command\": \"npx\",\n    \"args\": [\"-y\", \"it's \\\"x\\\"\"]\n  }\n}}",
        ),
        (
            "{}",
            "{\n  \"mcpServers\": {\n    \"new\": {\n      \"command\": \"npx\",\n      \"args\": [\"-y\", \"it's \\\"x\\\"\"]\n    }\n  }\n}",
        ),
        (
            "{ // none\n}",
            "{\n  \"mcpServers\": {\n    \"new\": {\n      \"command\": \"npx\",\n      \"args\": [\"-y\", \"it's \\\"x\\\"\"]\n    }\n  } // none\n}",
        ),
    ] {
        assert_eq!(added("a.json", before, &["mcpServers", "new"]), after);
    }
}

#[test]
fn a_table_of_toml_goes_to_the_end_and_a_mapping_of_yaml_to_the_front() {
    let toml = "model = \"x\" # mine\n[mcp_servers.a]\ncommand = 'y'";
    assert_eq!(
        added("a.toml", toml, &["mcp_servers", "new one"]),
        format!(
            "{toml}\n\n[mcp_servers.\"new one\"]\ncommand = \"npx\"\nargs = [\"-y\", \"it's \\\"x\\\"\"]\n"
        )
    );
    let yaml = "# mine\nmcpServers:\n  # a server\n  a:\n    command: y\n";
    assert_eq!(
        added("a.yaml", yaml, &["mcpServers", "new"]),
        "# mine\nmcpServers:\n  # a server\n  new: {\"command\": \"npx\", \"args\": [\"-y\", \"it's \\\"x\\\"\"]}\n  a:\n    command: y\n"
    );
}

#[test]
fn a_removed_key_takes_its_comma_and_its_lines_and_leaves_comments() {
    for (name, before, keys, after) in [
        (
            "a.json",
            "{\"s\": {\n  \"a\": {\n    \"x\": 1\n  },\n  // about b\n  \"b\": {}\n}}",
            &["s", "a"][..],
            "{\"s\": {\n  // about b\n  \"b\": {}\n}}",
        ),
        (
            "a.json",
            "{\"s\": {\n  \"a\": {}, // about a\n  \"b\": {}\n}}",
            &["s", "b"],
            "{\"s\": {\n  \"a\": {} // about a\n}}",
        ),
        (
            "a.json",
            r#"{"a": 1, "b": 2, "c": 3}"#,
            &["b"],
            r#"{"a": 1, "c": 3}"#,
        ),
        ("a.json", r#"{"a": 1, "b": 2}"#, &["b"], r#"{"a": 1}"#),
        ("a.json", "{\"a\": 1, \"b\": 2,\n}", &["b"], "{\"a\": 1, \n}"),
        ("a.json", r#"{"a": 1}"#, &["a"], "{}"),
        (
            "a.toml",
            "x = 1\n[s.a]\nc = [\n 1,\n]\n[s.a.env]\nK = 'v'\n\n# b\n[s.b]\nc = 2\n",
            &["s", "a"],
            "x = 1\n\n# b\n[s.b]\nc = 2\n",
        ),
        ("a.toml", "[s]\na = 1\nb = 2", &["s", "b"], "[s]\na = 1"),
        ("a.toml", "s = { a = 1, b = 2 }\n", &["s", "a"], "s = { b = 2 }\n"),
        (
            "a.yaml",
            "s:\n  a:\n    c:\n    - 1\n    d: [\n      2\n    ]\n\n  # b\n  b: {}\n",
            &["s", "a"],
            "s:\n\n  # b\n  b: {}\n",
        ),
        (
            "a.yaml",
            "s: {a: 1, b: 2}\nt: 1\n",
            &["s", "b"],
            "s: {a: 1}\nt: 1\n",
        ),
        ("a.toml", "[s.a]\nc = 1\n[t]\n", &["s", "a"], "[t]\n"),
        (
            "a.yaml",
            "s: # c\n  a: 1\nt: 1\n",
            &["s", "a"],
            "s: {} # c\nt: 1\n",
        ),
        (
            "a.yaml",
            "s:\n  a: 1\n  b:\n    c: 2\n# end\nt: 1",
            &["s", "b"],
            "s:\n  a: 1\n# end\nt: 1",
        ),
    ] {
        let mut text = EditableText::new(Path::new(name), before);
        assert!(text.remove(keys).unwrap(), "{before}");
        assert_eq!(text.whole(), after);
        assert!(!text.remove(keys).unwrap(), "it is gone");
    }
}

#[test]
fn a_value_is_replaced_where_it_stands() {
    for (name, before, keys, after) in [
        (
            "a.json",
            "{\"a\": /* one */ 1 /* 1 */}",
            &["a"][..],
            "{\"a\": /* one */ \"npx\" /* 1 */}",
        ),
        (
            "a.toml",
            "[s.a]\ncommand = 'x' # c\n",
            &["s", "a", "command"],
            "[s.a]\ncommand = \"npx\" # c\n",
        ),
        (
            "a.toml",
            "[s.a] # c\n[s.b]\n",
            &["s", "a", "command"],
            "[s.a] # c\ncommand = \"npx\"\n[s.b]\n",
        ),
        (
            "a.yaml",
            "s:\n  cmd: x # c\n",
            &["s", "cmd"],
            "s:\n  cmd: \"npx\" # c\n",
        ),
    ] {
        let mut text = EditableText::new(Path::new(name), before);
        text.set(keys, &"npx".into()).unwrap();
        assert_eq!(text.whole(), after);
    }
}

#[test]
fn what_cannot_be_edited_safely_is_refused_and_stays() {
    for (name, before, keys) in [
        ("a.json", r#"{"s": {"a": 1, "a": 2}}"#, &["s", "a"][..]),
        ("a.json", r#"{"s": [1]}"#, &["s", "a"]),
        ("a.toml", "s = 1\n", &["s", "a"]),
        (
            "a.toml",
            "[s.a]\nx = 1\n[t]\ny = 1\n[s.a.env]\nz = 1\n",
            &["s", "a", "env"],
        ),
        ("a.yaml", "s: *x\n", &["s", "a"]),
        ("a.yaml", "s: &x\n  a: 1\nt: *x\n", &["t", "b"]),
        ("a.yaml", "s:\nt: 1\n", &["s", "a"]),
    ] {
        let mut text = EditableText::new(Path::new(name), before);
        let refused = text.set(keys, &server());
        assert!(refused.is_err(), "{before}: {}", text.whole());
        assert_eq!(text.whole(), before);
    }
}
