//! The attributes of spans, compared with OpenTelemetry's semantic conventions for MCP: for each attribute on which span it stands, and when.
//!
//! The conventions are in development. The table is that of `docs/gen-ai/mcp.md` in `open-telemetry/semantic-conventions`, as of its commit
//! 04f167230afe1a2244c4c860cea0e716fb6ee59e. docs/traces.md says what is not recorded, and why.

use mainstay_partner::traced_python;
use mainstay_testkit::http::{FaultyHttpServer, HttpScript};
use mainstay_testkit::{Script, Speaks};
use serde_json::{Value, json};

use crate::sandbox::{Sandbox, good};
use crate::serving::{Serving, Visitor};
use crate::traces::TraceReceiver;

/// How strongly the conventions ask for an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Requirement {
    Required,
    Conditional,
    Recommended,
}

/// The spans that an attribute is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Both,
    Client,
    Server,
}

/// What a span is about, as far as the conventions ask.
struct Traced {
    method: &'static str,
    /// The text of the JSON-RPC error that the server answered.
    code: Option<&'static str>,
    has_failed: bool,
    /// Whether the request belongs to a session with an id.
    has_session: bool,
    is_http: bool,
}

type Condition = fn(&Traced) -> bool;

const ALWAYS: Condition = |_| true;
const OF_TOOL: Condition = |traced| traced.method == "tools/call";
const OF_PROMPT: Condition = |traced| traced.method == "prompts/get";
const OF_RESOURCE: Condition = |traced| traced.method == "resources/read";
const OVER_HTTP: Condition = |traced| traced.is_http;
const NEVER: Condition = |_| false;

/// Each attribute of the conventions that a span of MCP may have, without those that hold arguments and results.
const CONVENTIONS: [(&str, On, Requirement, Condition); 18] = {
    use On::{Both, Client, Server};
    use Requirement::{Conditional, Recommended, Required};
    [
        ("mcp.method.name", Both, Required, ALWAYS),
        ("error.type", Both, Conditional, |traced| traced.has_failed),
        ("gen_ai.tool.name", Both, Conditional, OF_TOOL),
        ("gen_ai.prompt.name", Both, Conditional, OF_PROMPT),
        ("mcp.resource.uri", Both, Conditional, OF_RESOURCE),
        ("jsonrpc.request.id", Both, Conditional, ALWAYS),
        ("rpc.response.status_code", Both, Conditional, |traced| {
            traced.code.is_some()
        }),
        ("gen_ai.operation.name", Both, Recommended, OF_TOOL),
        ("mcp.protocol.version", Both, Recommended, ALWAYS),
        ("mcp.session.id", Both, Recommended, |traced| traced.has_session),
        ("network.transport", Both, Recommended, ALWAYS),
        ("network.protocol.name", Both, Recommended, OVER_HTTP),
        // Where it is not 2.0, and it always is.
        ("jsonrpc.protocol.version", Both, Recommended, NEVER),
        // Of both, and a request's is not known behind the door.
        ("network.protocol.version", Client, Recommended, OVER_HTTP),
        ("server.address", Client, Recommended, OVER_HTTP),
        ("server.port", Client, Recommended, OVER_HTTP),
        ("client.address", Server, Recommended, NEVER),
        ("client.port", Server, Recommended, NEVER),
    ]
};

/// Compares a span with the table.
fn check(span: &Value, traced: &Traced) {
    let attributes = span["attributes"].as_object().expect("attributes");
    let own = if span["kind"] == 2 { On::Server } else { On::Client };
    for (name, on, requirement, condition) in CONVENTIONS {
        let is_wanted = (on == On::Both || on == own) && condition(traced);
        assert_eq!(
            attributes.contains_key(name),
            is_wanted,
            "{name} ({requirement:?}) on a span of kind {}: {span}",
            span["kind"]
        );
    }
    for name in attributes.keys() {
        let is_known = CONVENTIONS.iter().any(|(known, ..)| known == name);
        assert!(is_known || name.starts_with("mainstay."), "{name}: {span}");
    }
    assert_eq!(attributes["mcp.method.name"], traced.method);
    assert_eq!(span["failed"], traced.has_failed, "{span}");
    if let Some(code) = traced.code {
        assert_eq!(attributes["rpc.response.status_code"], code, "{span}");
        assert_eq!(attributes["error.type"], code, "{span}");
    }
    let transport = if traced.is_http { "tcp" } else { "pipe" };
    assert_eq!(attributes["network.transport"], transport, "{span}");
    assert!(attributes["jsonrpc.request.id"].is_string(), "{span}");
}

/// The span of the request and that of the attempt.
fn pair(receiver: &TraceReceiver, name: &str) -> [Value; 2] {
    let [one, other] = receiver.spans([("mainstay", name), ("mainstay", name)]);
    match one["kind"].as_u64() {
        Some(2) => [one, other],
        _attempt => [other, one],
    }
}

#[test]
fn the_table_has_each_attribute_once_and_requires_the_method_alone() {
    for (at, (name, ..)) in CONVENTIONS.iter().enumerate() {
        let first = CONVENTIONS.iter().position(|(other, ..)| other == name);
        assert_eq!(first, Some(at), "{name}");
    }
    let required = CONVENTIONS
        .iter()
        .filter(|(_, _, requirement, _)| *requirement == Requirement::Required);
    assert_eq!(
        required.map(|(name, ..)| *name).collect::<Vec<_>>(),
        ["mcp.method.name"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_spans_of_requests_have_the_attributes_that_the_conventions_ask_for() {
    let Some(python) = traced_python() else { return };
    let receiver = TraceReceiver::start(&python, &[]);
    let http = HttpScript::new();
    let server = FaultyHttpServer::start(Script::new().speaks(Speaks::Legacy), http)
        .await
        .expect("it listens");
    let sandbox = Sandbox::with(&json!({ "remote": { "url": server.url("/mcp") }, "local": good() }));
    let serving = Serving::start(&sandbox, &["--otlp-endpoint", &receiver.url]);
    serving.hears("connected");
    serving.hears("connected");
    let remote = Visitor::legacy(serving.address, "/mcp/remote").await;
    let local = Visitor::modern(serving.address, "/mcp/local");
    let succeeded = |method| Traced {
        method,
        code: None,
        has_failed: false,
        has_session: true,
        is_http: true,
    };
    let failed = |method, code| Traced {
        has_failed: true,
        code,
        ..succeeded(method)
    };
    for (params, name, expected) in [
        (
            json!({ "name": "echo", "arguments": {} }),
            "tools/call echo",
            succeeded("tools/call"),
        ),
        (
            json!({ "name": "fail", "arguments": {} }),
            "tools/call fail",
            failed("tools/call", None),
        ),
        (
            json!({ "name": "refuse", "arguments": { "code": -5 } }),
            "tools/call refuse",
            failed("tools/call", Some("-5")),
        ),
    ] {
        remote.ask("tools/call", params).await;
        let [request, attempt] = pair(&receiver, name);
        check(&request, &expected);
        check(&attempt, &expected);
        let [of_request, of_attempt] = [&request, &attempt].map(|span| span["attributes"].clone());
        assert_eq!(of_request["gen_ai.operation.name"], "execute_tool");
        assert_eq!(of_attempt["network.protocol.version"], "1.1");
        assert_eq!(
            (&of_attempt["server.address"], &of_attempt["server.port"]),
            (&json!("127.0.0.1"), &json!(server.port()))
        );
        if name == "tools/call fail" {
            assert_eq!(
                (&of_request["error.type"], &of_attempt["error.type"]),
                (&json!("tool_error"), &json!("tool_error"))
            );
        }
        // Two sessions, each with its ids.
        assert_ne!(of_request["mcp.session.id"], of_attempt["mcp.session.id"]);
    }
    // An address is in no name of a span.
    for (method, params, name) in [
        (
            "prompts/get",
            json!({ "name": "greet", "arguments": { "who": "x" } }),
            "prompts/get greet",
        ),
        ("resources/read", json!({ "uri": "mem://one" }), "resources/read"),
    ] {
        remote.ask(method, params).await;
        for span in pair(&receiver, name) {
            check(&span, &succeeded(method));
        }
    }
    // A modern client without a session, at a server on stdio.
    local
        .ask(
            "tools/call",
            json!({ "name": "echo", "arguments": { "text": "x" } }),
        )
        .await;
    let [request, attempt] = pair(&receiver, "tools/call echo");
    let expected = Traced {
        has_session: false,
        ..succeeded("tools/call")
    };
    check(&request, &expected);
    check(
        &attempt,
        &Traced {
            is_http: false,
            ..expected
        },
    );
    assert_eq!(request["attributes"]["mcp.protocol.version"], "2026-07-28");
    // Chosen at random by each process.
    let instance = request["resource"]["service.instance.id"]
        .as_str()
        .expect("an id");
    let parts: Vec<_> = instance.split('-').map(str::len).collect();
    assert_eq!(parts, [8, 4, 4, 4, 12], "{instance}");
    assert_eq!(attempt["resource"]["service.instance.id"], instance);
    assert!(
        instance.as_bytes()[14] == b'4' && b"89ab".contains(&instance.as_bytes()[19]),
        "{instance}"
    );
}
