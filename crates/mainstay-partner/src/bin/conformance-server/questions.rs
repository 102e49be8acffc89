//! What the tools and prompts that need their client ask it, and what they make of the answers.

use rmcp::ErrorData;
use rmcp::model::{InputRequests, InputResponses, JsonObject};
use serde_json::{Value, json};

use crate::fixtures::typed;

/// What must be asked, round after round.
pub(crate) struct Questions {
    pub(crate) rounds: Vec<InputRequests>,
    /// Whether the client carries a state from round to round, which it must not change.
    pub(crate) keeps_state: bool,
    /// Whether a client that cannot answer everything is asked what it can, and not refused.
    pub(crate) is_lenient: bool,
}

impl Questions {
    /// What this tool or prompt asks; `None` when it asks nothing.
    pub(crate) fn of(name: &str, arguments: &JsonObject) -> Result<Option<Self>, ErrorData> {
        let argument = |name: &str| arguments.get(name).cloned().unwrap_or_default();
        let rounds = match name {
            "test_sampling" => json!([{ "answer": sampling(&argument("prompt"), 100) }]),
            "test_missing_capability" => json!([{ "answer": sampling(&json!("Are you there?"), 100) }]),
            "test_elicitation" => {
                let described = |description: &str| json!({ "type": "string", "description": description });
                let properties = json!({
                    "username": described("User's response"),
                    "email": described("User's email address"),
                });
                json!([{ "answer": elicitation(&argument("message"), &properties, &["username", "email"]) }])
            }
            "test_elicitation_sep1034_defaults" => {
                json!([{ "answer": elicitation(&json!("Please check the defaults"), &defaults(), &[]) }])
            }
            "test_elicitation_sep1330_enums" => {
                json!([{ "answer": elicitation(&json!("Please choose"), &choices(), &[]) }])
            }
            "test_input_required_result_elicitation" | "test_streaming_elicitation" => {
                json!([{ "user_name": named("What is your name?", "name") }])
            }
            "test_input_required_result_sampling" => {
                json!([{ "capital_question": sampling(&json!("What is the capital of France?"), 100) }])
            }
            "test_input_required_result_list_roots" => json!([{ "client_roots": roots() }]),
            "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
                json!([{ "confirm": confirmation() }])
            }
            "test_input_required_result_multiple_inputs" => json!([{
                "user_name": named("What is your name?", "name"),
                "greeting": sampling(&json!("Generate a greeting"), 50),
                "client_roots": roots(),
            }]),
            "test_input_required_result_multi_round" => json!([
                { "step1": named("Step 1: What is your name?", "name") },
                { "step2": named("Step 2: What is your favorite color?", "color") },
            ]),
            "test_input_required_result_capabilities" => json!([{
                "user_name": named("What is your name?", "name"),
                "capital_question": sampling(&json!("What is the capital of France?"), 100),
            }]),
            "test_input_required_result_prompt" => {
                json!([{ "user_context": named("What context should the prompt use?", "context") }])
            }
            _ => return Ok(None),
        };
        Ok(Some(Self {
            rounds: typed(rounds)?,
            keeps_state: matches!(
                name,
                "test_input_required_result_request_state"
                    | "test_input_required_result_tampered_state"
                    | "test_input_required_result_multiple_inputs"
                    | "test_input_required_result_multi_round"
            ),
            is_lenient: name == "test_input_required_result_capabilities",
        }))
    }
}

/// What a tool or prompt says once everything is answered.
pub(crate) fn conclusion(name: &str, answers: &InputResponses) -> String {
    let answer = |key: &str| answers.get(key).cloned().unwrap_or_default();
    let content = |key: &str, field: &str| plain(&answer(key)["content"][field]);
    let sampled = |key: &str| {
        let answer = answer(key);
        let said = [answer.pointer("/content/text"), answer.pointer("/content/0/text")];
        said.into_iter().flatten().map(plain).collect::<String>()
    };
    let chosen = || {
        let answer = answer("answer");
        let content = answer.get("content").cloned().unwrap_or_else(|| json!({}));
        format!("action={}, content={content}", plain(&answer["action"]))
    };
    match name {
        "test_sampling" | "test_missing_capability" => format!("LLM response: {}", sampled("answer")),
        "test_elicitation" => format!("User response: {}", chosen()),
        "test_elicitation_sep1034_defaults" | "test_elicitation_sep1330_enums" => {
            format!("Elicitation completed: {}", chosen())
        }
        "test_input_required_result_sampling" => sampled("capital_question"),
        "test_input_required_result_list_roots" => format!("Roots: {}", answer("client_roots")["roots"]),
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            "state-ok".to_owned()
        }
        "test_input_required_result_multi_round" => {
            format!("The favorite color is {}", content("step2", "color"))
        }
        "test_input_required_result_prompt" => {
            format!("Use this context: {}", content("user_context", "context"))
        }
        _ => format!("Hello, {}!", content("user_name", "name")),
    }
}

fn sampling(prompt: &Value, max_tokens: u32) -> Value {
    let message = json!({ "role": "user", "content": { "type": "text", "text": prompt } });
    json!({ "method": "sampling/createMessage", "params": { "messages": [message], "maxTokens": max_tokens } })
}

fn elicitation(message: &Value, properties: &Value, required: &[&str]) -> Value {
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    json!({ "method": "elicitation/create", "params": { "mode": "form", "message": message, "requestedSchema": schema } })
}

fn named(question: &str, field: &str) -> Value {
    elicitation(
        &json!(question),
        &json!({ field: { "type": "string" } }),
        &[field],
    )
}

fn confirmation() -> Value {
    elicitation(
        &json!("Please confirm"),
        &json!({ "ok": { "type": "boolean" } }),
        &["ok"],
    )
}

fn roots() -> Value {
    json!({ "method": "roots/list" })
}

fn defaults() -> Value {
    json!({
        "name": { "type": "string", "default": "John Doe" },
        "age": { "type": "integer", "default": 30 },
        "score": { "type": "number", "default": 95.5 },
        "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
        "verified": { "type": "boolean", "default": true },
    })
}

fn choices() -> Value {
    let titled = |noun: &str| {
        let titles = ["First", "Second", "Third"].into_iter().zip(1..);
        let choice =
            |(nth, n): (&str, u32)| json!({ "const": format!("value{n}"), "title": format!("{nth} {noun}") });
        titles.map(choice).collect::<Vec<_>>()
    };
    let options = ["option1", "option2", "option3"];
    json!({
        "untitledSingle": { "type": "string", "enum": options },
        "titledSingle": { "type": "string", "oneOf": titled("Option") },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": { "type": "array", "items": { "type": "string", "enum": options } },
        "titledMulti": { "type": "array", "items": { "anyOf": titled("Choice") } },
    })
}

/// A text without its quotes, and anything else as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
