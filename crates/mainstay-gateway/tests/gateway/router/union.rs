//! All servers as one.

use mainstay_gateway::Scope;
use mainstay_testkit::fleet::Memory;
use mainstay_testkit::{Script, Speaks};
use serde_json::{Value, json};

use crate::router::client::{Client, modern};
use crate::router::{gateway, one, speaking};

fn names(answer: &Value, list: &str) -> Vec<String> {
    let items = answer["result"][list].as_array().expect("a list").iter();
    items
        .map(|item| item["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn tools_and_prompts_of_all_servers_are_there_under_their_server_s_name_and_work() {
    let (a, b) = (speaking(Speaks::Legacy), speaking(Speaks::Modern));
    let gateway = gateway(&[("a", &a), ("b", &b)]).await;
    let (mut client, about) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    assert_eq!(about["serverInfo"]["name"], "mainstay");
    assert_eq!(about["capabilities"]["tools"]["listChanged"], true);

    let tools = names(&client.ask("tools/list", json!({})).await, "tools");
    assert!(
        tools.contains(&"a__echo".to_owned()) && tools.contains(&"b__echo".to_owned()),
        "{tools:?}"
    );
    for server in ["a", "b"] {
        let params = json!({ "name": format!("{server}__reflect"), "arguments": { "x": 1 } });
        let answer = client.ask("tools/call", params).await;
        assert_eq!(
            answer["result"]["structuredContent"]["name"], "reflect",
            "by its own name"
        );
    }
    let prompts = names(&client.ask("prompts/list", json!({})).await, "prompts");
    assert_eq!(prompts, ["a__greet", "b__greet"]);
    let prompt = client
        .ask(
            "prompts/get",
            json!({ "name": "b__greet", "arguments": { "who": "you" } }),
        )
        .await;
    assert!(prompt["result"]["messages"].is_array(), "{prompt}");
    let resource = client.ask("resources/read", json!({ "uri": "mem://one" })).await;
    assert!(resource["result"]["contents"].is_array(), "{resource}");
    let by_template = client
        .ask("resources/read", json!({ "uri": "mem://other" }))
        .await;
    assert!(by_template["result"]["contents"].is_array(), "{by_template}");
    let completed = client
        .ask(
            "completion/complete",
            json!({ "ref": { "type": "ref/prompt", "name": "a__greet" }, "argument": { "name": "who", "value": "y" } }),
        )
        .await;
    assert!(completed["result"]["completion"].is_object(), "{completed}");
    client.leave().await;
}

#[tokio::test]
async fn a_modern_client_discovers_lists_and_calls_in_its_own_way() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let mut client = Client::connect(&gateway, Scope::Union);
    let meta = modern(&json!({}));
    let about = client.ask("server/discover", json!({ "_meta": meta })).await;
    assert_eq!(about["result"]["resultType"], "complete");
    assert_eq!(about["result"]["supportedVersions"][0], "2026-07-28");
    let tools = client.ask("tools/list", json!({ "_meta": meta })).await;
    assert_eq!(tools["result"]["resultType"], "complete");
    assert_eq!(tools["result"]["cacheScope"], "private");
    assert!(tools["result"]["ttlMs"].is_number());
    let params = json!({ "name": "a__reflect", "arguments": {}, "_meta": meta });
    let answer = client.ask("tools/call", params).await;
    assert_eq!(answer["result"]["resultType"], "complete");
    let sent = &answer["result"]["structuredContent"]["_meta"];
    assert!(
        sent.get("io.modelcontextprotocol/protocolVersion").is_none(),
        "a legacy server received {sent}"
    );
    client.leave().await;
}

#[tokio::test]
async fn one_server_is_seen_as_if_there_were_no_gateway() {
    let a = Memory::new(Script {
        name: "itself".to_owned(),
        fidelity: true,
        ..Script::default()
    });
    let gateway = gateway(&[("a", &a)]).await;
    let (mut client, about) = Client::initialized(&gateway, one("a"), json!({})).await;
    assert_eq!(about["serverInfo"]["name"], "itself");
    let tools = names(&client.ask("tools/list", json!({})).await, "tools");
    assert!(tools.contains(&"echo".to_owned()), "{tools:?}");

    // What no version of the protocol knows, numbers that no float holds, and an odd order of keys.
    let arguments = r#"{"z":1.0e+2,"a":"\u0041é😀","big":123456789012345678901234567890, "x-new":[ 1 ,2]}"#;
    client
        .write(&format!(
            r#"{{"jsonrpc":"2.0","id":"odd","method":"tools/call","params":{{"name":"echo","arguments":{arguments}}}}}"#
        ))
        .await;
    let answer = client.line().await;
    assert!(
        answer.contains(&format!(r#""structuredContent":{arguments}"#)),
        "{answer}"
    );
    assert!(answer.contains(r#""x-content":{"kept":true}"#), "{answer}");

    let error = client
        .ask(
            "tools/call",
            json!({ "name": "refuse", "arguments": { "code": -31999 } }),
        )
        .await;
    assert_eq!(error["error"]["code"], -31999, "the server's own error");
    let unknown = client.ask("x-vendor/method", json!({ "a": 1 })).await;
    assert_eq!(
        unknown["error"]["code"], -32601,
        "the server was asked, and does not know it"
    );
    assert_eq!(a.side(1).await.count("x-vendor/method"), 1);
    client.leave().await;
}

#[tokio::test]
async fn long_lists_are_turned_over_page_by_page() {
    let tools: Vec<Value> = (0..2500)
        .map(|n| json!({ "name": format!("t{n:04}"), "inputSchema": { "type": "object" } }))
        .collect();
    let a = Memory::new(Script {
        builtin_tools: false,
        tools,
        ..Script::default()
    });
    let gateway = gateway(&[("a", &a)]).await;
    let (mut client, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let mut seen = Vec::new();
    let mut params = json!({});
    loop {
        let page = client.ask("tools/list", params).await;
        seen.extend(names(&page, "tools"));
        match page["result"].get("nextCursor") {
            Some(cursor) => params = json!({ "cursor": cursor }),
            None => break,
        }
    }
    assert_eq!(seen.len(), 2500);
    assert_eq!(seen[2499], "a__t2499");
    let wrong = client.ask("tools/list", json!({ "cursor": "nonsense" })).await;
    assert_eq!(wrong["error"]["code"], -32602);
    client.leave().await;
}

#[tokio::test]
async fn an_unknown_name_is_refused_with_the_nearest_known_one() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let (mut client, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    for (method, name, message) in [
        (
            "tools/call",
            "a__ecoh",
            "there is no tool a__ecoh; did you mean a__echo?",
        ),
        ("tools/call", "quite_another", "there is no tool quite_another"),
        (
            "prompts/get",
            "a__gret",
            "there is no prompt a__gret; did you mean a__greet?",
        ),
    ] {
        let refused = client.ask(method, json!({ "name": name })).await;
        assert_eq!(
            (&refused["error"]["code"], &refused["error"]["message"]),
            (&json!(-32602), &json!(message))
        );
    }
}

#[tokio::test]
async fn a_call_to_a_server_of_which_nothing_is_published_says_how_that_server_is() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    gateway.fleet().server("a").unwrap().disable().await.unwrap();
    let (mut client, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let tools = client.ask("tools/list", json!({})).await;
    assert_eq!(tools["result"]["tools"], json!([]));
    let failed = client
        .ask("tools/call", json!({ "name": "a__echo", "arguments": {} }))
        .await;
    let text = failed["result"]["content"][0]["text"].as_str().unwrap();
    assert!(
        text.starts_with("Server a is disabled. The call did not run."),
        "{text}"
    );
    gateway.fleet().server("a").unwrap().enable().await.unwrap();
    let done = client
        .ask(
            "tools/call",
            json!({ "name": "a__echo", "arguments": { "n": 1 } }),
        )
        .await;
    assert_eq!(
        done["result"]["structuredContent"],
        json!({ "n": 1 }),
        "it waits for the server"
    );
}
