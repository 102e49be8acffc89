//! Payloads pass as they are, both ways, whatever is in them; and can be read as the SDK's types.

use mainstay::{CallOptions, RawJson, Server};
use mainstay_testkit::memory::MemoryServer;
use mainstay_testkit::{Script, Speaks};
use serde_json::{Value, json};

use mainstay_testkit::fleet::{Memory, connected, fleet_of, raw};

/// A round trip through a number type or a map would change each of these.
const EXACT: &str =
    r#"{"z":1.0,"a":1e2,"big":123456789012345678901234567890,"escaped":"\u00e9","nested":{"b":[],"a":null}}"#;

async fn stage(script: Script) -> (mainstay::Fleet, Server, MemoryServer) {
    let memory = Memory::new(script);
    let (fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    (fleet, server, memory.side(1).await)
}

/// The params of the last message of this method, as they were written.
fn written(side: &MemoryServer, method: &str) -> String {
    let received = side.received();
    let message = received.iter().rev().find(|message| message.method() == method);
    message.expect(method).raw_params().to_owned()
}

#[tokio::test(start_paused = true)]
async fn arguments_reach_the_server_byte_for_byte() {
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        let (_fleet, server, side) = stage(Script::new().speaks(speaks)).await;
        let options = CallOptions::default;
        let exact: RawJson = raw(EXACT);
        server.call("echo", &exact).options(options()).await.unwrap();
        server.prompt("greet", &exact).options(options()).await.unwrap();
        let reference = raw(r#"{"type":"ref/prompt","name":"greet","x-new":1.0}"#);
        server
            .complete(&reference, &exact)
            .options(options())
            .await
            .unwrap();
        let params = raw(&format!(r#"{{"uri":"mem://one","x-new":{EXACT}}}"#));
        server
            .request("resources/read", Some(params))
            .options(options())
            .await
            .unwrap();
        for method in [
            "tools/call",
            "prompts/get",
            "completion/complete",
            "resources/read",
        ] {
            let params = written(&side, method);
            assert!(params.contains(EXACT), "{method}: {params}");
        }
        let params = written(&side, "completion/complete");
        assert!(params.contains(reference.as_str()), "{params}");
    }
}

#[tokio::test(start_paused = true)]
async fn results_reach_the_caller_with_every_field_as_it_was_sent() {
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        let (fleet, server, _) = stage(Script::new().speaks(speaks).fidelity()).await;
        let reply = server.call("echo", &raw(EXACT)).await.unwrap();
        let text = reply.result.as_str();
        for kept in [
            EXACT,
            r#""x-result":{"float":1.0,"exponent":1e2,"big":123456789012345678901234567890,"escaped":"\u00e9"}"#,
            r#""example.org/trace":"t-1""#,
            r#""x-content":{"kept":true}"#,
            r#""x-annotation":"kept""#,
        ] {
            assert!(text.contains(kept), "{kept} in {text}");
        }
        let catalog = fleet.catalog();
        let tool = catalog.tool("s__echo").unwrap();
        let published: Value = tool.published().parse().unwrap();
        assert_eq!(published["name"], "s__echo");
        assert_eq!(published["x-item"]["nested"][2]["deep"], "é");
        assert_eq!(published["_meta"]["example.org/item"], 1);
        assert_eq!(published["inputSchema"]["x-schema"]["kept"], true);
    }
}

#[tokio::test(start_paused = true)]
async fn the_callers_own_meta_passes_beside_that_of_the_protocol() {
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        let (_fleet, server, side) = stage(Script::new().speaks(speaks)).await;
        let options = CallOptions::default()
            .meta("example.org/trace", raw(r#"{"id":1.0}"#))
            .meta("example.org/other", raw("null"));
        let params = raw(r#"{"name":"reflect","arguments":{},"_meta":{"example.org/own":[1]},"x-new":true}"#);
        let reply = server
            .request("tools/call", Some(params))
            .options(options)
            .await
            .unwrap();
        let seen = reply.tool_result().unwrap().structured_content.unwrap();
        assert_eq!(seen["x-new"], true);
        assert_eq!(seen["_meta"]["example.org/own"], json!([1]));
        assert_eq!(seen["_meta"]["example.org/other"], Value::Null);
        assert!(written(&side, "tools/call").contains(r#""example.org/trace":{"id":1.0}"#));
        let version = &seen["_meta"]["io.modelcontextprotocol/protocolVersion"];
        assert_eq!(version.is_string(), speaks == Speaks::Modern);
    }
}

#[tokio::test(start_paused = true)]
async fn errors_reach_the_caller_with_code_and_message() {
    let (_fleet, server, _) = stage(Script::new()).await;
    let error = server
        .call("refuse", &json!({ "code": -31234 }))
        .await
        .expect_err("refused");
    let mainstay::CallErrorKind::Rpc(error) = error.kind else {
        panic!("{error}")
    };
    assert_eq!((error.code(), error.message()), (-31234, "refused, as asked"));
}

#[tokio::test(start_paused = true)]
async fn replies_can_be_read_as_the_types_of_the_sdk() {
    let (fleet, server, _) = stage(Script::new()).await;
    let options = CallOptions::default;
    let called = server
        .call("echo", &json!({ "n": 1 }))
        .options(options())
        .await
        .unwrap();
    let result = called.tool_result().unwrap();
    assert_eq!(result.structured_content, Some(json!({ "n": 1 })));
    assert_ne!(result.is_error, Some(true));
    let prompt = server
        .prompt("greet", &json!({ "who": "Ada" }))
        .options(options())
        .await;
    assert_eq!(prompt.unwrap().prompt().unwrap().messages.len(), 1);
    let read = server.read_resource("mem://one").options(options()).await;
    assert_eq!(read.unwrap().resource().unwrap().contents.len(), 1);
    let completed = server
        .complete(
            &json!({ "type": "ref/prompt", "name": "greet" }),
            &json!({ "name": "who", "value": "A" }),
        )
        .options(options())
        .await;
    let completion = completed.unwrap().completion().unwrap().completion;
    assert_eq!(completion.values, ["A-one", "A-two"]);
    let tool = fleet.catalog().tool("s__echo").unwrap().typed().unwrap();
    assert_eq!(tool.name, "s__echo");
    let own: Value = called.typed().unwrap();
    assert_eq!(own["structuredContent"]["n"], 1);
}
