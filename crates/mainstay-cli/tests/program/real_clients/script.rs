//! A client that is driven by a script of ours in `tests/clients`.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::child;
use super::client::Era;
use super::server::{Step, Thing};

/// All steps with one server; the scripts have deadlines of their own, which are shorter.
const WITHIN: Duration = Duration::from_secs(90);

pub(crate) fn perform(
    mut script: Command,
    era: Era,
    target: &Value,
    steps: &[Step],
) -> Vec<Result<Value, String>> {
    let wanted: Vec<_> = steps.iter().map(written).collect();
    script.args([era.name(), &target.to_string(), &json!(wanted).to_string()]);
    let said = child::run(&mut script, WITHIN);
    let mut lines = said.stdout.lines().map(serde_json::from_str::<Value>);
    let connected = lines.next().and_then(Result::ok).unwrap_or_default();
    if connected["protocol"] != era.version() {
        let problem = format!("not connected: {connected} {}", said.stderr);
        return vec![Err(problem); steps.len()];
    }
    let mut told = || match lines.next() {
        Some(Ok(told)) => Ok(told),
        Some(Err(error)) => Err(format!("not understood: {error}")),
        None => Err(format!("nothing was told: {}", said.stderr)),
    };
    steps.iter().map(|_| told()).collect()
}

/// A step as the scripts read it.
fn written(step: &Step) -> Value {
    let Step { name, arguments, .. } = step;
    match step.thing {
        Thing::List => json!({ "do": "list", "until": name }),
        Thing::Call => json!({ "do": "call", "tool": name, "arguments": arguments }),
        Thing::Progress => json!({ "do": "progress", "tool": name, "arguments": arguments }),
        Thing::Elicitation | Thing::Sampling => json!({ "do": "ask", "tool": name, "arguments": arguments }),
        Thing::Prompts => json!({ "do": "prompt", "name": name, "arguments": arguments }),
        Thing::Resources => json!({ "do": "resource", "uri": name }),
    }
}
