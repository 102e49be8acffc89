//! Each mistake in a file as a whole, and the exact words a person gets to read.

use std::path::Path;

use super::{assert_said, lookup, parse, read, rendered};
use crate::config::{ConfigError, Configuration, ServerConfig, Severity};

#[test]
fn a_bad_server_costs_no_other_one() {
    let configuration = read(
        r#"{
  "mcpServers": {
    "bad": { "command": 5 },
    "good": { "command": "x" },
    "remote": { "url": "ftp://example.org" },
    "list": []
  }
}"#,
    );
    assert_eq!(configuration.servers.len(), 1);
    assert_eq!(configuration.servers[0].name(), "good");
    assert!(configuration.refused.iter().eq(["bad", "list", "remote"]));
    assert_said(
        &configuration,
        &[
            "3:25: mcpServers.bad.command: expected a string, found a number",
            r#"5:24: mcpServers.remote.url: "ftp" is not a scheme of HTTP; use https:// or http://"#,
            "6:5: mcpServers.list: expected an object, found an array",
        ],
    );
    let problem = &configuration.problems[0];
    assert_eq!(
        (problem.severity, problem.server.as_deref()),
        (Severity::Error, Some("bad"))
    );
}

#[test]
fn a_name_written_twice_is_refused_and_both_lines_are_named() {
    let configuration = read(
        r#"{
  "mcpServers": {
    "a": { "command": "1" },
    "b": { "command": "1" }
  },
  "servers": { "a": { "command": "1" } }
}"#,
    );
    assert_eq!(configuration.servers.len(), 1);
    assert!(configuration.refused.iter().eq(["a"]));
    assert_said(
        &configuration,
        &[
            "6:16: servers.a: two servers have this name, on lines 3 and 6, so neither is used; rename or remove one",
        ],
    );
}

#[test]
fn servers_that_are_written_in_two_places_are_warned_of_with_both_lines() {
    let configuration = read(
        r#"{
  "mcpServers": { "a": { "command": "1" } },
  "mcpServers": { "b": { "command": "1" } }
}"#,
    );
    let names: Vec<_> = configuration.servers.iter().map(ServerConfig::name).collect();
    assert_eq!(names, ["a", "b"]);
    let both = "the servers of all are used here, and other programs use those of one";
    assert_said(
        &configuration,
        &[&format!(
            "3:3: mcpServers: this is written twice, on lines 2 and 3: {both}; put all servers into one \"mcpServers\""
        )],
    );
    let zed = read("{\"context_servers\": {},\n\"context_servers\": {}}");
    assert_said(
        &zed,
        &[
            "2:1: context_servers: this is written twice, on lines 1 and 2: only the first is used; put all servers into one \"context_servers\"",
        ],
    );
    for text in [
        "[mcp_servers.a]\ncommand = \"1\"\n[mcp_servers.a]\ncommand = \"2\"\n",
        "mcpServers:\n  a: {command: x}\nmcpServers:\n  b: {command: x}\n",
    ] {
        let said = match parse(text) {
            Ok(configuration) => rendered(&configuration).join("\n"),
            Err(error) => error.to_string(),
        };
        assert!(said.contains("3"), "the second line: {said}");
    }
}

#[test]
fn a_name_that_cannot_be_used_says_why() {
    let long = "x".repeat(65);
    let holds = "the name of a server holds";
    for (name, shown, why) in [
        (
            "",
            r#""""#,
            "the name of a server is empty; give it a name".to_owned(),
        ),
        (
            "a__b",
            "a__b",
            format!(
                "{holds} `__`, which stands between server and tool in `server__tool`; use a single `_`, or `-`"
            ),
        ),
        (
            r"a\nb",
            r#""a\nb""#,
            format!("{holds} a character that is not seen (U+000A); remove it"),
        ),
        (
            "a\u{202e}b",
            r#""a\u{202e}b""#,
            format!("{holds} a character that is not seen (U+202E); remove it"),
        ),
        (
            "pay\u{200b}pal",
            r#""pay\u{200b}pal""#,
            format!("{holds} a character that is not seen (U+200B); remove it"),
        ),
        (
            " a",
            r#"" a""#,
            "the name of a server begins or ends with a space; remove it".to_owned(),
        ),
        (
            &long,
            &long,
            "the name of a server has 65 characters; use at most 64".to_owned(),
        ),
    ] {
        let configuration = read(&format!(r#"{{"mcpServers": {{"{name}": {{"command": "x"}}}}}}"#));
        assert_said(&configuration, &[&format!("1:17: mcpServers.{shown}: {why}")]);
        assert_eq!(configuration.servers, []);
    }
    let good = read(r#"{"mcpServers": {"My server_1.x-y é ❤️": {"command": "x"}}}"#);
    assert_eq!(rendered(&good), Vec::<String>::new());
}

#[test]
fn an_unknown_key_at_the_top_is_a_warning() {
    let configuration = read("{\n  \"mcpServers\": {},\n  \"mcpServer\": {},\n  \"zebra.x\": 1\n}");
    assert_said(
        &configuration,
        &[
            "3:3: mcpServer: unknown key; did you mean \"mcpServers\"?",
            "4:3: \"zebra.x\": unknown key",
        ],
    );
}

#[test]
fn without_a_home_a_tilde_is_refused() {
    let text = r#"{"mcpServers": {"s": {"command": "~/x"}}}"#;
    let configuration = Configuration::parse(text, Path::new("mcp.json"), |_| None).unwrap();
    assert_said(
        &configuration,
        &[
            "1:34: mcpServers.s.command: `~` stands for HOME, which is not set; set it, or write the whole path",
        ],
    );
}

#[test]
fn a_file_that_is_no_configuration_says_where_and_how_to_mend_it() {
    const WRITE: &str = r#"write {"mcpServers": {"name": {"command": "program"}}}"#;
    for (text, expected) in [
        ("", format!(": the file is empty; {WRITE}")),
        (" // only a comment", format!(": the file is empty; {WRITE}")),
        (
            "\n [1]",
            format!(":2:2: expected an object, found an array; {WRITE}"),
        ),
        ("{}", format!(":1:1: there is no `mcpServers`; {WRITE}")),
        (
            r#"{"mcpServers": []}"#,
            format!(":1:16: mcpServers: expected an object, found an array; {WRITE}"),
        ),
        (
            r#"{"servers": null}"#,
            format!(":1:13: servers: expected an object, found null; {WRITE}"),
        ),
        (
            r#"{"mcpservers": {}}"#,
            r#":1:1: there is no `mcpServers`; rename "mcpservers" to "mcpServers""#.to_owned(),
        ),
        (
            r#"{"files": {"command": "x"}}"#,
            r#":1:1: there is no `mcpServers`; put the servers inside of it: {"mcpServers": {…}}"#.to_owned(),
        ),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert_eq!(error, format!("/etc/m/mcp.json{expected}"), "{text}");
    }
}

#[test]
fn what_is_not_json_says_where_and_why() {
    for (text, expected) in [
        (
            "nonsense",
            "1:1: not JSON: expected a value; a string must be in double quotes",
        ),
        ("{\n  \"a\": {", "2:8: not JSON: this object has no closing `}`"),
        ("{\"a\": [1", "1:7: not JSON: this array has no closing `]`"),
        ("{\"a\" 1}", "1:6: not JSON: a key must be followed by a colon"),
        ("{\"a\":", "1:6: not JSON: a key has no value"),
        ("{\"a\": 1 \"b\": 2}", "1:8: not JSON: a comma is missing here"),
        ("{'a': 1}", "1:2: not JSON: a string must be in double quotes"),
        ("{a: 1}", "1:2: not JSON: a key must be in double quotes"),
        (
            "{} {}",
            "1:4: not JSON: there is more after the end of the object; remove it",
        ),
        ("{\"a\": \"x", "1:7: not JSON: this string has no closing quote"),
        (
            r#"{"a": "C:\q"}"#,
            r"1:10: not JSON: this escape is unknown to JSON; write `\\` for `\`",
        ),
        ("/* x", "1:1: not JSON: this comment has no closing `*/`"),
        (
            "{\"a\": 0x1F}",
            "1:7: not JSON: something here is not allowed in JSON",
        ),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert_eq!(error, format!("/etc/m/mcp.json:{expected}"), "{text}");
    }
}

#[test]
fn a_file_that_cannot_be_read_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mcp.json");
    let error = Configuration::load_with(&file, lookup).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "{}: the file does not exist; create it, or name another",
            file.display()
        )
    );
    let error = Configuration::load_with(folder.path(), lookup).unwrap_err();
    assert!(matches!(error, ConfigError::Unreadable { .. }));
    std::fs::write(&file, b"{\n  \"caf\xe9\": 1 }").unwrap();
    let error = Configuration::load_with(&file, lookup).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "{}:2:7: the file is not UTF-8 text; save it as UTF-8",
            file.display()
        )
    );
}
