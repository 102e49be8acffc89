//! Bad input: the right error, and everybody else undisturbed.

use mainstay_gateway::Scope;
use mainstay_testkit::Speaks;
use serde_json::json;

use crate::client::Client;
use crate::{gateway, one, speaking};

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
    ] {
        client.write(line).await;
        let answer = client.message().await;
        assert_eq!(answer["error"]["code"], code, "{line}: {answer}");
    }
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
