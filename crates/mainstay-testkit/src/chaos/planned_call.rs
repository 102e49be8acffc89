//! What callers want of the servers that are being harmed: a bit of everything, some of it harmful by itself.

use serde_json::{Value, json};

use super::dice::Dice;

/// A call of a built-in tool, known by its key wherever it turns up.
#[derive(Clone, Debug)]
pub struct PlannedCall {
    /// The key, which no other call of the run has.
    pub key: String,
    /// The tool, by the server's own name for it.
    pub tool: &'static str,
    /// Whether its server hints that it may be run twice.
    pub repeatable: bool,
    /// What it is called with.
    pub arguments: Value,
}

impl PlannedCall {
    /// Throws the dice for a call of this key.
    pub fn draw(key: String, dice: &mut Dice) -> Self {
        let (tool, repeatable, arguments) = match dice.below(1000) {
            0..150 => ("echo", true, json!({})),
            150..300 => ("pid", true, json!({})),
            300..400 => ("put", true, json!({})),
            400..650 => ("append", false, json!({})),
            650..700 => ("big", true, json!({ "bytes": 100_000 })),
            700..800 => ("sleep_ms", true, json!({ "ms": dice.below(60) })),
            800..805 => ("sleep_ms", true, json!({ "ms": 5000 })),
            805..810 => ("slow_then_answer", true, json!({ "ms": 1600 })),
            810..900 => ("progress", true, json!({ "steps": 5, "interval_ms": 4 })),
            900..940 => ("fail", true, json!({})),
            940..970 => ("refuse", true, json!({})),
            970..980 => ("emit", false, json!({ "times": 20 })),
            980..990 => ("crash", false, json!({})),
            _ => ("commit_then_die", false, json!({})),
        };
        Self::new(key, tool, repeatable, arguments)
    }

    /// A random call.
    #[must_use]
    pub fn new(key: String, tool: &'static str, repeatable: bool, mut arguments: Value) -> Self {
        arguments["key"] = json!(key);
        Self {
            key,
            tool,
            repeatable,
            arguments,
        }
    }

    /// Makes sure that a result is the answer to this very call.
    ///
    /// # Panics
    /// When it is not.
    pub fn check(&self, result: &Value) {
        let content = &result["structuredContent"];
        match self.tool {
            "echo" | "put" | "append" => {
                assert_eq!(content["key"], self.key, "the answer to another call: {result}");
            }
            "big" => assert_eq!(result["content"][0]["text"].as_str().map(str::len), Some(100_000)),
            "fail" => assert_eq!(result["isError"], true),
            _ => {}
        }
    }
}
