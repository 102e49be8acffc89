//! The built-in tools: each shows one thing a call can meet.
//!
//! Every call is in the ledger as `call NAME KEY` before the tool runs, where KEY is its argument `key` or `-`.

use std::time::Duration;

use serde_json::{Value, json};

use super::message::ScriptedAnswer;
use super::requests::log_line;
use super::{Handled, Incoming, Responder};
use crate::action::{Action, Signal};

/// The built-in tools, as listed.
pub(super) fn definitions() -> Vec<Value> {
    let reads = json!({ "readOnlyHint": true });
    let repeats = json!({ "readOnlyHint": false, "destructiveHint": false, "idempotentHint": true });
    let writes = json!({ "readOnlyHint": false, "destructiveHint": true, "idempotentHint": false });
    [
        ("echo", "Returns its arguments unchanged.", &reads),
        (
            "reflect",
            "Returns all params of the call unchanged, _meta included.",
            &reads,
        ),
        ("pid", "Returns the id of the server's process.", &reads),
        ("big", "Returns a text of `bytes` bytes.", &reads),
        (
            "sleep_ms",
            "Sleeps `ms` milliseconds; a cancelled call is not answered.",
            &reads,
        ),
        (
            "slow_then_answer",
            "Sleeps `ms` milliseconds and answers even when cancelled.",
            &reads,
        ),
        (
            "progress",
            "Reports `steps` steps, one each `interval_ms` milliseconds, with `message`.",
            &reads,
        ),
        ("put", "Notes `key`; doing it twice changes nothing.", &repeats),
        ("append", "Notes `key`; doing it twice notes it twice.", &writes),
        (
            "commit_then_die",
            "Notes `key`, then exits before it answers.",
            &writes,
        ),
        (
            "crash",
            "Exits with `code`, or is killed where `kill` is true.",
            &writes,
        ),
        ("fail", "Answers with isError.", &reads),
        ("refuse", "Answers with the JSON-RPC error `code`.", &reads),
        (
            "ask",
            "Asks the client: `kind` is sampling, elicitation (for `key`), roots or ping. `if_declined` is what then: fail or refuse.",
            &writes,
        ),
        (
            "emit",
            "Sends the notification `method` with `params`, `times` times, or the line `raw`.",
            &writes,
        ),
        (
            "touch",
            "Says that the resource `uri` was updated, if it is subscribed to.",
            &writes,
        ),
        ("log", "Logs `text` at `level`.", &writes),
    ]
    .into_iter()
    .map(|(name, description, annotations)| {
        json!({
            "name": name,
            "description": description,
            "inputSchema": { "type": "object", "properties": { "key": { "type": "string" } } },
            "annotations": annotations
        })
    })
    .collect()
}

impl Responder {
    pub(super) fn call(&mut self, request: &Incoming) -> Handled {
        let arguments = &request.params()["arguments"];
        let number = |key: &str, default: u64| arguments[key].as_u64().unwrap_or(default);
        match request.name().unwrap_or_default() {
            "" => ScriptedAnswer::error(-32602, "a call needs the name of a tool").into(),
            "reflect" => self.done(request, "see structuredContent", request.raw_params()),
            "pid" => {
                let pid = std::process::id().to_string();
                self.done(request, &pid, &format!(r#"{{"pid":{pid}}}"#))
            }
            "big" => {
                let bytes = usize::try_from(number("bytes", 1024)).unwrap_or(usize::MAX);
                self.done(request, &"x".repeat(bytes), "{}")
            }
            "sleep_ms" => {
                let nap = [
                    wait(number("ms", 10)),
                    Action::StopIfCancelled(request.id().to_string()),
                ];
                self.done(request, "slept", "{}").after(nap)
            }
            "slow_then_answer" => self.done(request, "late", "{}").after([wait(number("ms", 10))]),
            "progress" => {
                let steps = progress(request, number("steps", 3), number("interval_ms", 1));
                self.done(request, "finished", "{}").after(steps)
            }
            "commit_then_die" => Handled::over([Action::Exit(9)]),
            "crash" => {
                let code = arguments["code"]
                    .as_i64()
                    .and_then(|code| i32::try_from(code).ok())
                    .unwrap_or(1);
                let end = if arguments["kill"] == true {
                    Action::Signal(Signal::Kill)
                } else {
                    Action::Exit(code)
                };
                Handled::over([Action::Stderr(b"fatal: asked to crash\n".to_vec()), end])
            }
            "fail" => self.failed(request).into(),
            "refuse" => {
                ScriptedAnswer::error(arguments["code"].as_i64().unwrap_or(-32000), "refused, as asked")
                    .into()
            }
            "ask" => self.ask(request),
            "emit" => self.done(request, "sent", "{}").after(self.emit(arguments)),
            "touch" => {
                let subscribed = arguments["uri"]
                    .as_str()
                    .is_some_and(|uri| self.subscriptions.contains(uri));
                let notifications = if subscribed || !self.listens.is_empty() {
                    self.notify(
                        "notifications/resources/updated",
                        &json!({ "uri": arguments["uri"] }),
                    )
                } else {
                    Vec::new()
                };
                self.done(request, "touched", "{}").after(notifications)
            }
            "log" => {
                let wanted = !self.is_modern(request) || request.protocol_meta("logLevel").is_some();
                let level = arguments["level"].as_str().unwrap_or("info");
                let line =
                    log_line(&json!({ "level": level, "logger": "faulty", "data": arguments["text"] }));
                self.done(request, "logged", "{}").after(wanted.then_some(line))
            }
            // `echo`, `put`, `append`, and every tool a script or its tools file adds.
            _ => {
                let arguments = request.raw_arguments();
                self.done(request, &arguments, &arguments)
            }
        }
    }

    /// The text of a call's result: one text block, and structured content given as JSON text.
    pub(super) fn text_result(&self, text: &str, structured: &str) -> String {
        let block = self.text_block(text);
        format!(r#"{{"content":[{block}],"structuredContent":{structured}}}"#)
    }

    fn done(&self, request: &Incoming, text: &str, structured: &str) -> Handled {
        ScriptedAnswer::Result(self.dress(request, self.text_result(text, structured), false)).into()
    }

    fn failed(&self, request: &Incoming) -> ScriptedAnswer {
        let result = json!({ "content": [self.text_block("it failed")], "isError": true }).to_string();
        ScriptedAnswer::Result(self.dress(request, result, false))
    }

    fn text_block(&self, text: &str) -> Value {
        let mut block = json!({ "type": "text", "text": text });
        if self.script.fidelity {
            block["x-content"] = json!({ "kept": true });
            block["annotations"] = json!({ "priority": 0.5, "x-annotation": "kept" });
        }
        block
    }

    /// Legacy: a request of our own, and the call is answered when the client has. Modern: `input_required`.
    fn ask(&mut self, request: &Incoming) -> Handled {
        let (method, params) = question(&request.params()["arguments"]);
        if self.is_modern(request) {
            let responses = &request.params()["inputResponses"];
            if responses.is_object() {
                let state = &request.params()["requestState"];
                let answered = json!({ "inputResponses": responses, "requestState": state }).to_string();
                return self.done(request, &answered, &answered);
            }
            let input = json!({ "question": { "method": method, "params": params } });
            let members = format!(
                r#"{{"inputRequests":{input},"requestState":"state-1","resultType":"input_required"}}"#
            );
            return ScriptedAnswer::Result(self.dress(request, members, false)).into();
        }
        self.asks += 1;
        let id = format!("ask-{}", self.asks);
        self.asked.insert(id.clone(), request.clone());
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        Handled::over([Action::message(&line)])
    }

    /// What a call is answered with once the client has answered a legacy server's question.
    pub(super) fn after_asking(&self, call: &Incoming, outcome: &Value) -> ScriptedAnswer {
        let if_declined = call.params()["arguments"]["if_declined"].as_str();
        match if_declined.filter(|_| outcome.get("error").is_some()) {
            Some("fail") => self.failed(call),
            Some(_refuse) => ScriptedAnswer::error(-32603, "nobody answered"),
            None => {
                let answered = self.text_result(&outcome.to_string(), &outcome.to_string());
                ScriptedAnswer::Result(self.dress(call, answered, false))
            }
        }
    }

    fn emit(&self, arguments: &Value) -> Vec<Action> {
        if let Some(raw) = arguments["raw"].as_str() {
            return vec![Action::line(raw)];
        }
        let method = arguments["method"]
            .as_str()
            .unwrap_or("notifications/tools/list_changed");
        let params = if arguments["params"].is_object() {
            arguments["params"].clone()
        } else {
            json!({})
        };
        let times = arguments["times"].as_u64().unwrap_or(1);
        let once = self.notify(method, &params).into_iter();
        once.map(|action| match action {
            Action::Write(line) => Action::Repeat { line, count: times },
            other => other,
        })
        .collect()
    }
}

impl Handled {
    /// Actions only: no answer now.
    fn over(actions: impl IntoIterator<Item = Action>) -> Self {
        Self {
            actions: actions.into_iter().collect(),
            answer: None,
        }
    }

    /// The same answer, after these actions.
    fn after(mut self, actions: impl IntoIterator<Item = Action>) -> Self {
        self.actions.extend(actions);
        self
    }
}

fn question(arguments: &Value) -> (&'static str, Value) {
    match arguments["kind"].as_str().unwrap_or("roots") {
        "sampling" => {
            let content = json!({ "type": "text", "text": "What is the answer?" });
            let messages = json!([{ "role": "user", "content": content }]);
            (
                "sampling/createMessage",
                json!({ "messages": messages, "maxTokens": 16 }),
            )
        }
        "elicitation" => {
            let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
            let message = match arguments["key"].as_str() {
                Some(key) => format!("Your name for {key}?"),
                None => "Your name?".to_owned(),
            };
            (
                "elicitation/create",
                json!({ "message": message, "requestedSchema": schema }),
            )
        }
        "ping" => ("ping", json!({})),
        _ => ("roots/list", json!({})),
    }
}

fn progress(request: &Incoming, steps: u64, interval_ms: u64) -> Vec<Action> {
    let token = &request.params()["_meta"]["progressToken"];
    let mut actions = Vec::new();
    for step in 1..=steps {
        actions.push(wait(interval_ms));
        actions.push(Action::StopIfCancelled(request.id().to_string()));
        if !token.is_null() {
            let mut params = json!({ "progressToken": token, "progress": step, "total": steps });
            if let Some(message) = request.params()["arguments"].get("message") {
                params["message"] = message.clone();
            }
            let method = "notifications/progress";
            actions.push(Action::message(
                &json!({ "jsonrpc": "2.0", "method": method, "params": params }),
            ));
        }
    }
    actions
}

fn wait(ms: u64) -> Action {
    Action::Wait(Duration::from_millis(ms))
}
