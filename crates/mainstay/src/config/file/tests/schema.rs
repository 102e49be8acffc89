//! The schema and the reader agree on every key: on its name, and on what its value may be.

use std::fmt::Write as _;

use jsonschema::Validator;
use serde_json::{Value, json};

use super::read;
use crate::config::Severity;
use crate::config::file::keys::{Keys, SERVER, Shape, camel_case};
use crate::config::file::schema::{json_schema, schema};

/// Values of every type, and texts and numbers that mean something to some key.
fn values() -> Vec<Value> {
    let texts = [
        "",
        "x",
        "30s",
        "1.5 h",
        "0.5d",
        "5",
        "s",
        "30 parsecs",
        "-3s",
        "stdio",
        "local",
        "legacy",
        "modern",
        "shared",
        "session",
        "safe",
        "never",
        "probe",
        "give_up",
        "giveUp",
        "true",
    ];
    let mut values: Vec<Value> = texts.iter().map(|text| json!(text)).collect();
    values.extend([
        json!(null),
        json!(true),
        json!(false),
        json!(1),
        json!(1.5),
        json!(-1),
        json!(4_294_967_296_u64),
        json!([]),
        json!(["a"]),
        json!(["a", 1, true]),
        json!([null]),
        json!([["a"]]),
        json!({ "a": "b" }),
        json!({ "a": 1 }),
        json!({ "a": null }),
        json!({ "a": ["b"] }),
    ]);
    values
}

/// Each key of a table and of the tables inside of it, as the keys that lead to it.
fn paths(keys: &'static Keys, above: &[&'static str], found: &mut Vec<Vec<&'static str>>) {
    fn inside(shape: Shape, above: &[&'static str], found: &mut Vec<Vec<&'static str>>) {
        match shape {
            Shape::Object(keys) => paths(keys, above, found),
            Shape::AnyOf(shapes) => shapes.iter().for_each(|shape| inside(*shape, above, found)),
            _ => {}
        }
    }
    for key in keys.known {
        let path = [above, &[key.name]].concat();
        inside(key.shape, &path, found);
        found.push(path);
    }
}

fn all_paths() -> Vec<Vec<&'static str>> {
    let mut found = Vec::new();
    paths(&SERVER, &[], &mut found);
    found
}

/// The keys that only servers with an address have.
fn is_of_address(key: &str) -> bool {
    let keys = [
        "url",
        "headers",
        "bearer_token_env",
        "tls",
        "unix_socket",
        "connect_timeout",
        "first_byte_timeout",
        "oauth",
    ];
    keys.contains(&key)
}

/// A file with one server that has this value at this place.
fn file(path: &[&str], value: &Value) -> Value {
    let mut value = value.clone();
    for key in path.iter().skip(1).rev() {
        value = json!({ *key: value });
    }
    let mut server = json!({ path[0]: value });
    match path[0] {
        "command" | "url" => {}
        "type"
            if value
                .as_str()
                .is_some_and(|kind| kind != "stdio" && kind != "local") =>
        {
            server["url"] = json!("https://example.com/mcp");
        }
        key if is_of_address(key) => server["url"] = json!("https://example.com/mcp"),
        _ => server["command"] = json!("true"),
    }
    json!({ "mcpServers": { "s": server } })
}

/// Why the reader refuses the value, or why it is no use: an error or an unknown key.
fn refusal(path: &[&str], value: &Value) -> Option<String> {
    let configuration = read(&file(path, value).to_string());
    let problems = configuration.problems.iter();
    problems
        .filter(|problem| problem.severity == Severity::Error || problem.message.starts_with("unknown key"))
        .map(ToString::to_string)
        .next()
}

fn validator() -> Validator {
    jsonschema::validator_for(&schema()).expect("the schema is a schema")
}

/// What a schema cannot say, and the reader checks.
fn is_beyond_a_schema(path: &[&str], value: &Value) -> bool {
    match (path, value) {
        // An address, a program and a variable must be one; a new name has an alphabet.
        (["command" | "url" | "bearer_token_env" | "cwd" | "unix_socket"], Value::String(_)) => true,
        (["tls" | "oauth", ..], Value::String(_)) => true,
        (["tools", "rename"], Value::Object(_)) => true,
        // A table with nothing but unknown keys is compared key by key.
        (_, Value::Object(_)) => false,
        // Longer than a year.
        (_, Value::Number(number)) => number.as_u64() == Some(4_294_967_296),
        // `null` leaves the key out, and a server without a command is none.
        (["command" | "url"], Value::Null) => true,
        _ => false,
    }
}

#[test]
fn the_reader_and_the_schema_take_the_same_values_of_every_key() {
    let validator = validator();
    let mut differences = String::new();
    let mut compared = 0;
    for path in all_paths() {
        for value in values() {
            let refused = refusal(&path, &value);
            let valid = validator.is_valid(&file(&path, &value));
            compared += 1;
            let agree = match (&refused, valid) {
                (None, true) | (Some(_), false) => true,
                (Some(_), true) => is_beyond_a_schema(&path, &value),
                (None, false) => false,
            };
            if !agree {
                writeln!(
                    differences,
                    "{path:?}: {value}: the schema says {valid}, the reader {refused:?}"
                )
                .unwrap();
            }
        }
    }
    assert!(compared > 1_000);
    assert_eq!(differences, "");
}

#[test]
fn every_key_of_a_table_is_read_by_the_reader() {
    // No key takes a list of lists. A key that is in a table and not read would be passed over in silence.
    for path in all_paths() {
        let refused = refusal(&path, &json!([["x"]]));
        let named = refused.is_some_and(|said| said.contains(&format!("s.{}", path.join("."))));
        assert!(named, "{path:?} is not read");
    }
}

#[test]
fn a_key_may_be_written_in_camel_case_and_its_value_is_checked_all_the_same() {
    let validator = validator();
    for key in SERVER.known {
        let twin = camel_case(key.name);
        let name: &'static str = Box::leak(twin.into_boxed_str());
        let mut wrong = file(&[name], &json!([["x"]]));
        if name != "command" && name != "url" {
            wrong["mcpServers"]["s"]["command"] = json!("true");
        }
        assert!(!validator.is_valid(&wrong), "{name}");
    }
    let right = json!({ "mcpServers": { "s": { "command": "true", "callTimeout": "30s" } } });
    assert!(validator.is_valid(&right));
}

#[test]
fn a_misspelt_key_a_server_of_nothing_and_one_of_both_kinds_are_invalid() {
    let validator = validator();
    for server in [
        json!({ "comand": "x" }),
        json!({ "command": "x", "retsart": "never" }),
        json!({ "command": "x", "restart": { "bugdet": 3 } }),
        json!({}),
        json!({ "command": "x", "url": "https://example.com/mcp" }),
        json!({ "command": "x", "serverUrl": "https://example.com/mcp" }),
        json!("x"),
    ] {
        let file = json!({ "mcpServers": { "s": server } });
        assert!(!validator.is_valid(&file), "{server}");
    }
    for file in [
        json!({}),
        json!([]),
        json!({ "mcpServers": 3 }),
        json!({ "mcpservers": {} }),
    ] {
        assert!(!validator.is_valid(&file), "{file}");
    }
}

#[test]
fn files_of_programs_that_share_the_form_and_the_documents_examples_are_valid() {
    let validator = validator();
    let samples = [
        include_str!("hosts/claude_code.json"),
        include_str!("hosts/cline.json"),
        include_str!("hosts/copilot.json"),
        include_str!("hosts/cursor.json"),
        include_str!("hosts/roo.json"),
        include_str!("hosts/vscode.json"),
        include_str!("hosts/windsurf.json"),
    ];
    let document = include_str!("../../../../../../docs/configuration.md");
    let blocks = document.split("```jsonc\n").skip(1);
    let blocks: Vec<String> = blocks
        .filter_map(|block| Some(block.split_once("```")?.0.trim().to_owned()))
        .map(|block| match block.starts_with('{') {
            true => block,
            // A server by its name, or settings of one.
            false if block.contains("\"url\"") => format!("{{\"mcpServers\": {{{block}}}}}"),
            false => format!("{{\"mcpServers\": {{\"s\": {{\"command\": \"x\", {block}}}}}}}"),
        })
        .collect();
    assert!(blocks.len() >= 4, "the document has examples");
    for text in samples.into_iter().chain(blocks.iter().map(String::as_str)) {
        let options = jsonc_parser::ParseOptions::default();
        let file: Value = plain(jsonc_parser::parse_to_value(text, &options).unwrap().unwrap());
        let errors: Vec<_> = validator
            .iter_errors(&file)
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{errors:?} in\n{text}");
    }
}

fn plain(value: jsonc_parser::JsonValue<'_>) -> Value {
    use jsonc_parser::JsonValue;
    match value {
        JsonValue::Null => Value::Null,
        JsonValue::Boolean(flag) => json!(flag),
        JsonValue::Number(number) => number.parse::<serde_json::Number>().unwrap().into(),
        JsonValue::String(text) => json!(text),
        JsonValue::Array(items) => items.into_iter().map(plain).collect(),
        JsonValue::Object(object) => {
            let entries = object
                .into_iter()
                .map(|(key, value)| (key.into_owned(), plain(value)));
            Value::Object(entries.collect())
        }
    }
}

#[test]
fn the_place_of_the_schema_is_an_accepted_key_and_each_key_has_a_description() {
    let text = r#"{"$schema": "./mainstay.schema.json", "mcpServers": {"s": {"command": "true"}}}"#;
    assert_eq!(read(text).problems, []);
    assert!(validator().is_valid(&serde_json::from_str(text).unwrap()));
    let schema: Value = serde_json::from_str(&json_schema()).unwrap();
    for path in all_paths().into_iter().filter(|path| path.len() == 1) {
        let property = &schema["definitions"]["server"]["properties"][path[0]];
        assert!(
            property["description"]
                .as_str()
                .is_some_and(|text| text.len() > 10),
            "{path:?}"
        );
    }
}
