//! One request, by its method: the handshakes of both eras and everything that is not a tool or a listing.

use serde_json::{Value, json};

use super::listing::ListedKind;
use super::message::{ScriptedAnswer, with_members};
use super::{Handled, Incoming, Responder};
use crate::action::Action;
use crate::script::{LEGACY_VERSIONS, MODERN_VERSION};

/// Written out by hand: a round trip through a number type would change each of these.
const EXACT: &str = r#"{"float":1.0,"exponent":1e2,"big":123456789012345678901234567890,"escaped":"\u00e9"}"#;

/// The ledger's line for a request.
pub(super) fn note(request: &Incoming) -> String {
    let params = request.params();
    let text = |key: &str| params[key].as_str().unwrap_or("-").to_owned();
    let cursor = params["cursor"].as_str();
    match request.method() {
        "server/discover" => "discover".to_owned(),
        "initialize" => format!("initialize {}", text("protocolVersion")),
        "tools/list" => list_note("tools", cursor),
        "prompts/list" => list_note("prompts", cursor),
        "resources/list" => list_note("resources", cursor),
        "resources/templates/list" => list_note("templates", cursor),
        "tools/call" => {
            format!(
                "call {} {}",
                text("name"),
                params["arguments"]["key"].as_str().unwrap_or("-")
            )
        }
        "prompts/get" => format!("get {}", text("name")),
        "resources/read" => format!("read {}", text("uri")),
        "resources/subscribe" => format!("subscribe {}", text("uri")),
        "resources/unsubscribe" => format!("unsubscribe {}", text("uri")),
        "completion/complete" => "complete".to_owned(),
        "logging/setLevel" => format!("setLevel {}", text("level")),
        "subscriptions/listen" => "listen".to_owned(),
        "ping" => "ping".to_owned(),
        other => format!("request {other}"),
    }
}

/// The extension by which tasks are offered.
const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Whether a `subscriptions/listen` filter asks for this notification.
pub(super) fn filter_accepts(filter: &Value, method: &str, params: &Value) -> bool {
    match method {
        "notifications/tools/list_changed" => filter["toolsListChanged"] == true,
        "notifications/prompts/list_changed" => filter["promptsListChanged"] == true,
        "notifications/resources/list_changed" => filter["resourcesListChanged"] == true,
        "notifications/resources/updated" => filter["resourceSubscriptions"]
            .as_array()
            .is_some_and(|uris| uris.contains(&params["uri"])),
        "notifications/tasks" => filter["taskIds"]
            .as_array()
            .is_some_and(|ids| ids.contains(&params["taskId"])),
        _ => false,
    }
}

impl Responder {
    /// Whether this request is served the modern way.
    pub(super) fn is_modern(&self, request: &Incoming) -> bool {
        let tagged = request.protocol_meta("protocolVersion").is_some();
        self.script.speaks.modern() && (tagged || request.method() == "server/discover")
    }

    pub(super) fn handle(&mut self, request: &Incoming) -> Handled {
        if let Some(refusal) = self.refuse(request) {
            return refusal.into();
        }
        let modern = self.is_modern(request);
        match request.method() {
            "server/discover" if modern => self.discover(request).into(),
            "initialize" if !modern => self.initialize(request).into(),
            "ping" if !modern => ScriptedAnswer::Result("{}".to_owned()).into(),
            "tools/list" => self.list(ListedKind::Tools, request).into(),
            "prompts/list" => self.list(ListedKind::Prompts, request).into(),
            "resources/list" => self.list(ListedKind::Resources, request).into(),
            "resources/templates/list" => self.list(ListedKind::Templates, request).into(),
            "tools/call" => self.call(request),
            "prompts/get" => self.get_prompt(request).into(),
            "resources/read" => self.read_resource(request).into(),
            "resources/subscribe" if !modern => self.subscribe(request, true).into(),
            "resources/unsubscribe" if !modern => self.subscribe(request, false).into(),
            "completion/complete" => self.complete(request).into(),
            "logging/setLevel" if !modern => Handled {
                actions: vec![log_line(
                    &json!({ "level": request.params()["level"], "data": "level set" }),
                )],
                answer: Some(ScriptedAnswer::Result("{}".to_owned())),
            },
            "subscriptions/listen" if modern => self.listen(request),
            other => ScriptedAnswer::error(-32601, format!("method not found: {other}")).into(),
        }
    }

    /// A result in its final dress: what the modern era requires, and in fidelity mode what no era knows.
    pub(super) fn dress(&self, request: &Incoming, result: String, cacheable: bool) -> String {
        let modern = self.is_modern(request);
        let mut members = Vec::new();
        if modern && !result.starts_with(r#"{"inputRequests""#) {
            members.push(("resultType", r#""complete""#.to_owned()));
        }
        if modern && cacheable {
            let scope = if self.script.private { "private" } else { "public" };
            members.push(("cacheScope", format!("{scope:?}")));
            members.push(("ttlMs", self.script.ttl_ms.to_string()));
        }
        let mut meta = json!({});
        if modern {
            meta["io.modelcontextprotocol/serverInfo"] = self.server_info();
        }
        if self.script.fidelity {
            meta["example.org/trace"] = json!("t-1");
            members.push(("x-result", EXACT.to_owned()));
        }
        if meta != json!({}) {
            members.push(("_meta", meta.to_string()));
        }
        if members.is_empty() {
            result
        } else {
            with_members(&result, &members)
        }
    }

    /// Why this request cannot be served at all, by the rules of its era.
    fn refuse(&self, request: &Incoming) -> Option<ScriptedAnswer> {
        let speaks = self.script.speaks;
        if !self.is_modern(request) {
            return match request.method() {
                "initialize" if !speaks.legacy() => {
                    Some(unsupported_version(&request.params()["protocolVersion"]))
                }
                _ if !speaks.legacy() => Some(ScriptedAnswer::error(
                    -32602,
                    "missing _meta with the protocol version",
                )),
                "initialize" | "ping" | "server/discover" => None,
                _ if self.script.strict && !self.initialized => {
                    Some(ScriptedAnswer::error(-32600, "request before initialize"))
                }
                _ => None,
            };
        }
        match request.protocol_meta("protocolVersion") {
            None => Some(ScriptedAnswer::error(
                -32602,
                "missing _meta with the protocol version",
            )),
            Some(version) if version != MODERN_VERSION => Some(unsupported_version(version)),
            Some(_) if request.protocol_meta("clientCapabilities").is_none() => Some(ScriptedAnswer::error(
                -32602,
                "missing _meta with the client's capabilities",
            )),
            Some(_) => None,
        }
    }

    fn initialize(&mut self, request: &Incoming) -> ScriptedAnswer {
        self.initialized = true;
        let requested = request.params()["protocolVersion"].as_str().unwrap_or_default();
        let known = LEGACY_VERSIONS.contains(&requested).then_some(requested);
        let version = self
            .script
            .version
            .as_deref()
            .or(known)
            .unwrap_or(LEGACY_VERSIONS[3]);
        let result = json!({
            "protocolVersion": version,
            "capabilities": self.capabilities(),
            "serverInfo": self.server_info(),
            "instructions": "Handle with care."
        });
        ScriptedAnswer::Result(self.dress(request, result.to_string(), false))
    }

    fn discover(&self, request: &Incoming) -> ScriptedAnswer {
        let mut versions = vec![MODERN_VERSION];
        if self.script.speaks.legacy() {
            versions.extend(LEGACY_VERSIONS.iter().rev());
        }
        let result = json!({
            "supportedVersions": versions,
            "capabilities": self.capabilities(),
            "instructions": "Handle with care."
        });
        ScriptedAnswer::Result(self.dress(request, result.to_string(), true))
    }

    fn get_prompt(&self, request: &Incoming) -> ScriptedAnswer {
        let name = request.name().unwrap_or_default();
        if !self.script.prompts.iter().any(|prompt| prompt["name"] == name) {
            return ScriptedAnswer::error(-32602, format!("no such prompt: {name}"));
        }
        let who = request.params()["arguments"]["who"].as_str().unwrap_or("you");
        let content = json!({ "type": "text", "text": format!("Greet {who}.") });
        let result = json!({ "messages": [{ "role": "user", "content": content }] });
        ScriptedAnswer::Result(self.dress(request, result.to_string(), false))
    }

    fn read_resource(&self, request: &Incoming) -> ScriptedAnswer {
        let uri = request.name().unwrap_or_default();
        if !uri.starts_with("mem://") {
            let code = if self.is_modern(request) { -32602 } else { -32002 };
            return ScriptedAnswer::error(code, format!("no such resource: {uri}"));
        }
        let text = format!("contents of {uri}");
        let result = json!({ "contents": [{ "uri": uri, "mimeType": "text/plain", "text": text }] });
        ScriptedAnswer::Result(self.dress(request, result.to_string(), true))
    }

    fn subscribe(&mut self, request: &Incoming, on: bool) -> ScriptedAnswer {
        let uri = request.name().unwrap_or_default().to_owned();
        if on {
            self.subscriptions.insert(uri);
        } else {
            self.subscriptions.remove(&uri);
        }
        ScriptedAnswer::Result("{}".to_owned())
    }

    fn complete(&self, request: &Incoming) -> ScriptedAnswer {
        let typed = request.params()["argument"]["value"].as_str().unwrap_or_default();
        let values = [format!("{typed}-one"), format!("{typed}-two")];
        let result = json!({ "completion": { "values": values, "total": 2, "hasMore": false } });
        ScriptedAnswer::Result(self.dress(request, result.to_string(), false))
    }

    /// Acknowledged at once; the request itself stays open until it is cancelled. Of the tasks that it asks for, only those
    /// of the script are agreed to, and none without the extension.
    fn listen(&mut self, request: &Incoming) -> Handled {
        let mut filter = request.params()["notifications"].clone();
        if let Some(ids) = filter.get_mut("taskIds").and_then(Value::as_array_mut) {
            let declared = request.protocol_meta("clientCapabilities");
            let extensions = declared.and_then(|declared| declared.get("extensions"));
            if extensions.is_none_or(|extensions| extensions.get(TASKS).is_none()) {
                return ScriptedAnswer::error(-32021, format!("{TASKS} is not declared")).into();
            }
            let pushed = &self.script.tasks;
            ids.retain(|id| pushed.iter().any(|task| id == task));
        }
        self.listens.insert(request.id().to_string(), filter.clone());
        let acknowledged = Action::message(&json!({
            "jsonrpc": "2.0",
            "method": "notifications/subscriptions/acknowledged",
            "params": {
                "_meta": { "io.modelcontextprotocol/subscriptionId": request.id() },
                "notifications": filter
            }
        }));
        Handled {
            actions: vec![acknowledged],
            answer: None,
        }
    }

    fn server_info(&self) -> Value {
        json!({ "name": self.script.name, "version": "1.0.0" })
    }

    fn capabilities(&self) -> Value {
        self.script.capabilities.clone().unwrap_or_else(|| {
            json!({
                "tools": { "listChanged": true },
                "prompts": { "listChanged": true },
                "resources": { "subscribe": true, "listChanged": true },
                "logging": {},
                "completions": {}
            })
        })
    }
}

pub(super) fn log_line(params: &Value) -> Action {
    Action::message(&json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": params }))
}

/// The first page is the listing; the others belong to it.
fn list_note(what: &str, cursor: Option<&str>) -> String {
    cursor.map_or_else(
        || format!("list {what}"),
        |cursor| format!("page {what} {cursor}"),
    )
}

fn unsupported_version(requested: &Value) -> ScriptedAnswer {
    ScriptedAnswer::Error {
        code: -32022,
        message: "unsupported protocol version".to_owned(),
        data: Some(json!({ "requested": requested, "supported": [MODERN_VERSION] })),
    }
}
