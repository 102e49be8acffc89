//! A server whose every word tries to drive the terminal, to hide, or to pass for something else.

use serde_json::json;

use crate::faulty_server::FaultyServer;
use crate::script::Script;
use crate::{Fault, Rule, Step};

/// Sets the title, clears the screen (with ESC and with the C1 character), turns text around, hides a character,
/// returns the carriage; with a word on each side that should be seen.
pub const HOSTILE_TEXT: &str = "before\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}2J\u{1b}Pq\u{1b}\\\u{202e}\u{2066}\u{200b}\u{e0041}\u{7f}\r\u{8}after";

/// What is left of [`HOSTILE_TEXT`] on one line.
pub const HARMLESS_TEXT: &str = "before after";

/// A server that puts [`HOSTILE_TEXT`] into its name, version, instructions, names, descriptions, schemas, results,
/// errors, log and progress. Its tools:
/// - `say` answers with it, `fail` answers with it as an error of the tool, `refuse` as an error of the protocol;
/// - `progress` and `log` of every server take it as their argument.
///
/// What it writes to stderr before it starts is a matter of its command: see [`hostile_on_stderr`].
#[must_use]
pub fn hostile() -> FaultyServer {
    let text = |is_error: bool| {
        json!({
            "content": [
                { "type": "text", "text": HOSTILE_TEXT },
                { "type": "resource_link", "uri": format!("x://{HOSTILE_TEXT}"), "name": HOSTILE_TEXT },
                { "type": HOSTILE_TEXT },
            ],
            "isError": is_error,
        })
    };
    let tool = |name: &str| {
        json!({
            "name": name,
            "title": HOSTILE_TEXT,
            "description": format!("{HOSTILE_TEXT}\n{HOSTILE_TEXT}"),
            "inputSchema": {
                "type": "object",
                "properties": { HOSTILE_TEXT: {
                    "type": "string", "description": HOSTILE_TEXT, "enum": [HOSTILE_TEXT], "default": HOSTILE_TEXT,
                } },
                "required": [HOSTILE_TEXT],
            },
        })
    };
    let mut script = Script::new()
        .tool_json(tool("say"))
        .tool_json(tool("fails"))
        .tool_json(tool("refuses"))
        .tool_json(tool(&format!("named {HOSTILE_TEXT}")))
        .rule(Rule::new(Step::Call, Fault::Result(text(false))).named("say"))
        .rule(Rule::new(Step::Call, Fault::Result(text(true))).named("fails"))
        .rule(
            Rule::new(
                Step::Call,
                Fault::Error {
                    code: -32000,
                    message: HOSTILE_TEXT.to_owned(),
                },
            )
            .named("refuses"),
        );
    script.prompts = vec![json!({
        "name": format!("greet{HOSTILE_TEXT}"),
        "description": HOSTILE_TEXT,
        "arguments": [{ "name": HOSTILE_TEXT, "description": HOSTILE_TEXT }],
    })];
    script.resources = vec![
        json!({ "uri": "mem://one", "name": HOSTILE_TEXT, "description": HOSTILE_TEXT }),
        json!({ "uri": format!("mem://{HOSTILE_TEXT}"), "name": HOSTILE_TEXT }),
    ];
    script.templates =
        vec![json!({ "uriTemplate": format!("mem://{{x}}{HOSTILE_TEXT}"), "name": HOSTILE_TEXT })];
    script.rules.push(Rule::new(
        Step::Initialize,
        Fault::Result(json!({
            "protocolVersion": "2025-06-18",
            "capabilities": { "tools": {}, "prompts": {}, "resources": {}, "logging": {} },
            "serverInfo": { "name": HOSTILE_TEXT, "version": HOSTILE_TEXT },
            "instructions": HOSTILE_TEXT,
        })),
    ));
    FaultyServer::from(script)
}

/// A server that writes [`HOSTILE_TEXT`] to stderr and exits: its command and arguments.
#[must_use]
pub fn hostile_on_stderr() -> (String, Vec<String>) {
    let script = r#"printf '%s\n' "$0" >&2; exit 3"#;
    let args = ["-c", script, HOSTILE_TEXT].map(str::to_owned);
    ("sh".to_owned(), args.to_vec())
}
