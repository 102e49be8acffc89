//! The Inspector's command line: one run for each request.

use std::time::{Duration, Instant};

use mainstay_partner::Clients;
use serde_json::{Value, json};

use super::child;
use super::client::Era;
use super::server::{Step, Thing};
use super::way::Home;

/// One run; Node takes seconds to start when the machine is busy.
const WITHIN: Duration = Duration::from_secs(60);

/// A server that is not up yet has no tools.
const LISTED_WITHIN: Duration = Duration::from_secs(30);

pub(crate) fn perform(
    era: Era,
    home: &Home,
    clients: &Clients,
    target: &Value,
    steps: &[Step],
) -> Vec<Result<Value, String>> {
    let mut target = target.clone();
    if target.get("url").is_some() {
        target["type"] = json!("streamable-http");
    }
    let configuration = json!({ "mcpServers": { "target": target } }).to_string();
    let inspector = Inspector {
        era,
        home,
        clients,
        configuration: home.write("inspector.json", &configuration),
    };
    steps.iter().map(|step| inspector.step(step)).collect()
}

struct Inspector<'a> {
    era: Era,
    home: &'a Home,
    clients: &'a Clients,
    configuration: std::path::PathBuf,
}

impl Inspector<'_> {
    /// What a script would tell of the step.
    fn step(&self, step: &Step) -> Result<Value, String> {
        let Step { name, arguments, .. } = step;
        match step.thing {
            Thing::List => self.list(name),
            Thing::Call => {
                let arguments = arguments.to_string();
                let call = ["tools/call", "--tool-name", name, "--tool-args-json", &arguments];
                let result = self.ask(&call)?;
                Ok(json!({ "text": result["content"][0]["text"], "is_error": result["isError"] == true }))
            }
            Thing::Prompts => {
                let pairs = arguments.as_object().into_iter().flatten();
                let pairs = pairs.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
                let pairs: Vec<_> = pairs.collect();
                let mut get = vec!["prompts/get", "--prompt-name", name, "--prompt-args"];
                get.extend(pairs.iter().map(String::as_str));
                let listed = self.ask(&["prompts/list"])?;
                let result = self.ask(&get)?;
                let text = &result["messages"][0]["content"]["text"];
                Ok(json!({ "listed": members(&listed["prompts"], "name"), "text": text }))
            }
            Thing::Resources => {
                let listed = self.ask(&["resources/list"])?;
                let result = self.ask(&["resources/read", "--uri", name])?;
                let text = &result["contents"][0]["text"];
                Ok(json!({ "listed": members(&listed["resources"], "uri"), "text": text }))
            }
            Thing::Progress | Thing::Elicitation | Thing::Sampling => {
                Err("it has no option for it".to_owned())
            }
        }
    }

    fn list(&self, until: &str) -> Result<Value, String> {
        let deadline = Instant::now() + LISTED_WITHIN;
        loop {
            let tools = members(&self.ask(&["tools/list"])?["tools"], "name");
            if tools.contains(&json!(until)) || Instant::now() > deadline {
                return Ok(json!({ "tools": tools }));
            }
        }
    }

    fn ask(&self, request: &[&str]) -> Result<Value, String> {
        let program = self.clients.packages.join(".bin/mcp-inspector");
        let mut node = self.home.command(&self.clients.node);
        node.arg(program)
            .args(["--cli", "--quiet", "--format", "json", "--server", "target"])
            .args(["--protocol-era", self.era.name(), "--config"])
            .arg(&self.configuration)
            .arg("--method")
            .args(request);
        let said = child::run(&mut node, WITHIN);
        let answer: Value =
            serde_json::from_str(&said.stdout).map_err(|_| format!("{} {}", said.stdout, said.stderr))?;
        Ok(answer.get("result").cloned().unwrap_or(answer))
    }
}

/// This member of each.
fn members(list: &Value, member: &str) -> Vec<Value> {
    let items = list.as_array().into_iter().flatten();
    items.map(|item| item[member].clone()).collect()
}
