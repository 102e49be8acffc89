//! Bad input: the right error, and no other client affected.

use mainstay::gateway::message::MAX_MEMBERS;
use mainstay_gateway::Scope;
use mainstay_testkit::Speaks;
use serde_json::json;

use crate::router::client::{Client, modern};
use crate::router::{gateway, one, speaking};

#[tokio::test]
async fn each_mistake_gets_its_error_and_the_client_goes_on() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let (mut client, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    for (line, code) in [
        ("{nonsense", -32700),
        ("not json", -32700),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
        (r#"{"jsonrpc":"2.0","id":"x","method":"no/such"}"#, -32601),
        (r#"{"jsonrpc":"2.0","id":"x","method":"tools/call"}"#, -32602),
        (
            r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":7}}"#,
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"a__none"}}"#,
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":"x","method":"prompts/get","params":{"name":"none"}}"#,
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":"x","method":"resources/read","params":{"uri":"no:where"}}"#,
            -32002,
        ),
        (r#"{"jsonrpc":"2.0","id":"x","method":"initialize"}"#, -32602),
        (
            r#"{"jsonrpc":"2.0","id":"x","method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01","io.modelcontextprotocol/clientCapabilities":{}}}}"#,
            -32022,
        ),
        (
            r#"{"jsonrpc":"2.0","id":"x","method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
            -32602,
        ),
    ] {
        client.write(line).await;
        let answer = client.message().await;
        assert_eq!(answer["error"]["code"], code, "{line}: {answer}");
    }
    let many = vec![r#""":0"#; MAX_MEMBERS].join(",");
    for params in [
        format!(r#"{{{many},"name":"a__echo"}}"#),
        format!(r#"{{"name":"a__echo","_meta":{{{many},"progressToken":1}}}}"#),
    ] {
        for method in ["tools/call", "tools/list", "ping", "initialize"] {
            client
                .write(&format!(
                    r#"{{"jsonrpc":"2.0","id":"x","method":"{method}","params":{params}}}"#
                ))
                .await;
            let error = client.message().await["error"].take();
            assert_eq!(error["code"], -32602, "{error}");
            let message = error["message"].as_str().unwrap();
            assert!(message.contains("more than 4096 members"), "{message}");
        }
    }
    client
        .write_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\xfe\",\"method\":\"ping\"}\n")
        .await;
    assert_eq!(client.message().await["error"]["code"], -32700, "no UTF-8");
    // Blank lines, and answers to nothing, are nothing.
    client.write("").await;
    client.write(r#"{"jsonrpc":"2.0","id":99,"result":{}}"#).await;
    let next = client.begin("ping", json!({})).await;
    assert_eq!(client.message().await["id"], next);
}

#[tokio::test]
async fn an_id_that_is_in_use_is_refused_and_the_first_request_goes_on() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let side = a.side(1).await;
    let (mut client, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    let call = |ms: u64| {
        format!(
            r#"{{"jsonrpc":"2.0","id":"same","method":"tools/call","params":{{"name":"slow_then_answer","arguments":{{"ms":{ms}}}}}}}"#
        )
    };
    client.write(&call(200)).await;
    side.wait_for("tools/call", 1).await;
    client.write(&call(1)).await;
    let refused = client.message().await;
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    let answer = client.message().await;
    assert_eq!(answer["id"], "same");
    assert!(answer["result"].is_object(), "{answer}");
    assert_eq!(side.count("tools/call"), 1);
}

#[tokio::test]
async fn a_version_that_is_not_spoken_is_refused_with_those_that_are() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let mut client = Client::connect(&gateway, Scope::Union);
    let mut meta = modern(&json!({}));
    meta["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    let refused = client.ask("server/discover", json!({ "_meta": meta })).await;
    let data = &refused["error"]["data"];
    assert_eq!(
        (&data["requested"], &data["supported"][0]),
        (&json!("2099-01-01"), &json!("2026-07-28"))
    );
    // A version with sessions is negotiated, not refused.
    let params = json!({ "protocolVersion": "1999-01-01", "capabilities": {}, "clientInfo": {} });
    let opened = client.ask("initialize", params).await;
    assert_eq!(opened["result"]["protocolVersion"], "2025-11-25");
    client.leave().await;
}

#[tokio::test]
async fn a_flood_of_requests_is_refused_beyond_a_bound_and_its_client_can_still_cancel() {
    const BOUND: usize = 512;
    // One client has no room for so many calls at one server.
    let servers = [(); 4].map(|()| speaking(Speaks::Legacy));
    let [a, b, c, d] = &servers;
    let gateway = gateway(&[("a", a), ("b", b), ("c", c), ("d", d)]).await;
    let side = a.side(1).await;
    let (mut flooding, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let (mut other, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    let call = |n: usize| {
        let server = ["a", "b", "c", "d"][n % 4];
        json!({ "name": format!("{server}__sleep_ms"), "arguments": { "ms": 600_000 } })
    };
    let first = flooding.begin("tools/call", call(0)).await;
    for n in 1..BOUND {
        flooding.begin("tools/call", call(n)).await;
    }
    for server in &servers {
        server.side(1).await.wait_for("tools/call", BOUND / 4).await;
    }
    let refused = flooding.ask("ping", json!({})).await;
    assert_eq!(refused["error"]["code"], -32000, "{refused}");
    let called = json!({ "name": "echo", "arguments": { "x": 1 } });
    let answer = other.ask("tools/call", called).await;
    assert_eq!(
        answer["result"]["structuredContent"]["x"], 1,
        "no other client is refused"
    );
    // It can cancel, which makes room, and leave, which ends all of it.
    flooding
        .notify("notifications/cancelled", json!({ "requestId": first }))
        .await;
    side.wait_for("notifications/cancelled", 1).await;
    assert_eq!(flooding.ask("ping", json!({})).await["result"], json!({}));
    flooding.leave().await;
    for server in &servers {
        server
            .side(1)
            .await
            .wait_for("notifications/cancelled", BOUND / 4)
            .await;
    }
    other.leave().await;
}

#[tokio::test]
async fn a_cancel_in_the_same_write_as_its_request_keeps_it_from_the_server() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let side = a.side(1).await;
    let (mut client, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    let gone = json!({ "requestId": "gone" });
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": gone });
    for (n, meta) in [json!({}), modern(&json!({}))].into_iter().enumerate() {
        let params = json!({ "name": "echo", "arguments": {}, "_meta": meta });
        let call = |id: &str| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        let lines = format!("{}\n{cancel}\n{}\n", call("gone"), call("kept"));
        client.write_bytes(lines.as_bytes()).await;
        // The server answers in turn: an answer to the first would come first.
        assert_eq!(client.message().await["id"], "kept");
        assert_eq!(side.count("tools/call"), 2 * n + 1);
        client.write(&call("gone").to_string()).await;
        assert_eq!(client.message().await["id"], "gone", "the id is free again");
    }
}

#[tokio::test]
async fn a_batch_on_stdin_is_answered_in_the_one_version_that_has_them() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let side = a.side(1).await;
    let mut client = Client::connect(&gateway, one("a"));
    let info = json!({ "name": "test", "version": "1" });
    let hello = |version: &str| json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": info });
    let echo = |id: &str| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "echo", "arguments": {} } });
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "gone" } });
    let batch = json!([echo("one"), echo("gone"), cancel, 7, echo("two")]).to_string();
    client.write(&batch).await;
    let refused = client.message().await;
    assert_eq!(
        (&refused["error"]["code"], refused.get("id")),
        (&json!(-32600), None),
        "before a version is negotiated"
    );
    for version in ["2024-11-05", "2025-06-18", "2025-11-25", "2025-03-26"] {
        assert!(client.ask("initialize", hello(version)).await["result"].is_object());
        client.write(&batch).await;
        let answer = client.message().await;
        if version != "2025-03-26" {
            assert_eq!(answer["error"]["code"], -32600, "{version}: {answer}");
            let has_id = version < "2025-11-25";
            assert_eq!(
                answer.get("id"),
                has_id.then_some(&serde_json::Value::Null),
                "{version}"
            );
            continue;
        }
        let ids: Vec<_> = answer
            .as_array()
            .expect("an array")
            .iter()
            .map(|answer| &answer["id"])
            .collect();
        assert_eq!(ids, [&json!("one"), &serde_json::Value::Null, &json!("two")]);
        assert_eq!(side.count("tools/call"), 2, "one was cancelled");
    }
    let alone = json!([
        { "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello("2025-03-26") },
        { "jsonrpc": "2.0", "id": 2, "method": "subscriptions/listen", "params": {} },
        { "jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": { "_meta": modern(&json!({})) } },
    ]);
    client.write(&alone.to_string()).await;
    let refused = client.message().await;
    for (n, answer) in refused.as_array().expect("an array").iter().enumerate() {
        let refused = (&answer["id"], &answer["error"]["code"]);
        assert_eq!(refused, (&json!(n + 1), &json!(-32600)), "{answer}");
    }
    client.write("[]").await;
    assert_eq!(client.message().await["error"]["code"], -32600);
    client.write(&json!([cancel]).to_string()).await;
    let next = client.begin("ping", json!({})).await;
    assert_eq!(
        client.message().await["id"],
        next,
        "a batch that asks for nothing is not answered"
    );
}

#[tokio::test]
async fn a_method_that_is_too_long_reaches_no_server() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let side = a.side(1).await;
    let (mut client, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    for (length, code, asked) in [(1024, -32601, 1), (1025, -32600, 0)] {
        let method = "x".repeat(length);
        let answer = client.ask(&method, json!({})).await;
        assert_eq!(answer["error"]["code"], code, "{answer}");
        assert_eq!(side.count(&method), asked);
    }
}
